// `autoamp export`: converts traces to formats of other programs, as a stream. Main thread. docs/export.md describes
// the formats.
#pragma once

#include "tools/autoamp/timeline.h"

#include <memory>
#include <string>
#include <vector>

namespace autoamp::tool {

struct ExportOptions {
	std::string type, out; // one of exportTypes
	bool force = false;
	std::vector<std::string> places;
};
extern const std::vector<std::string> exportTypes;
Status exportTraces(const ExportOptions &options, const policy::Options &configuration);

// Writes one format to a file or folder. Throws Failure if the output cannot be written.
class Sink
{
public:
	virtual ~Sink() = default;
	virtual void add(const Item &item) = 0;
	virtual void finish() = 0; // writes the rest
};
std::unique_ptr<Sink> makeTextSink(const Runs &runs, const std::string &path, const std::string &type);
std::unique_ptr<Sink> makePerfettoSink(const Runs &runs, const std::string &path);
std::unique_ptr<Sink> makeSqliteSink(const Runs &runs, const std::string &path);
std::unique_ptr<Sink> makeParquetSink(const Runs &runs, const std::string &path);

std::string callName(const trace::RowInfo *row);                   // mm 512x512x64 float16
std::string streamName(const Item &item, const trace::Trace &run); // the stream that ran a kernel

// A file that is written completely, or a Failure that names it.
class SinkFile
{
public:
	explicit SinkFile(const std::string &path);
	~SinkFile();
	void write(std::string_view bytes);
	void close();

private:
	std::string path_;
	std::FILE *file_;
};

} // namespace autoamp::tool
