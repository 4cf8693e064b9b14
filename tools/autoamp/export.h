// `autoamp export`: traces in other people's formats, streamed. Main thread. docs/export.md has what is in each.
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

// One format: what it is given goes into the file or folder that it was made for. What it cannot do, it says (Failure).
class Sink
{
public:
	virtual ~Sink() = default;
	virtual void add(const Item &item) = 0;
	virtual void finish() = 0; // all of it is written
};
std::unique_ptr<Sink> makeTextSink(const Runs &runs, const std::string &path, const std::string &type);
std::unique_ptr<Sink> makePerfettoSink(const Runs &runs, const std::string &path);
std::unique_ptr<Sink> makeSqliteSink(const Runs &runs, const std::string &path);
std::unique_ptr<Sink> makeParquetSink(const Runs &runs, const std::string &path);

std::string callName(const trace::RowInfo *row);                   // mm 512x512x64 float16
std::string streamName(const Item &item, const trace::Trace &run); // of a kernel

// A file that is written to its end or fails with its name.
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
