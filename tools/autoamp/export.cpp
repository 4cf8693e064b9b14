// The export command and the text formats: CSV, JSON Lines and Chrome.
#include "tools/autoamp/export.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"

#include "tools/autoamp/output.h"
#include "tools/autoamp/timeline.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>

namespace autoamp::tool {

SinkFile::SinkFile(const std::string &path) : path_(path), file_(std::fopen(path.c_str(), "wxe"))
{
	if (!file_)
		fail(Status::failed, "{}: {}", path_, std::strerror(errno));
	std::setvbuf(file_, nullptr, _IOFBF, 1 << 18);
}

SinkFile::~SinkFile()
{
	if (file_)
		std::fclose(file_);
}

void SinkFile::write(std::string_view bytes)
{
	if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
		fail(Status::failed, "{}: {}", path_, std::strerror(errno));
}

void SinkFile::close()
{
	if (std::fclose(std::exchange(file_, nullptr)) != 0)
		fail(Status::failed, "{}: {}", path_, std::strerror(errno));
}

namespace {

constexpr const char *kinds[] = {"call", "kernel", "scale"};

// Writes one row per item, then the events of the gradient scalers. Text that all items of a signature share is
// formatted once.
class TextSink : public Sink
{
public:
	TextSink(const Runs &runs, const std::string &path, bool isCsv) : runs_(runs), file_(path), isCsv_(isCsv)
	{
		for (const auto &run : runs)
			ofRun_.push_back(words({{"host", orNull(run.host)}, {"pid", run.pid}, {"rank", orNull(run.rank)}}));
		if (isCsv)
			file_.write("type,run,host,pid,rank,thread,device,stream,start_ns,duration_ns,call,captured,entry,op,shape,"
			            "decision,reason,precision,site,name,operand,scale_before,scale_after,amax,excess,lost_rows,"
			            "lost_columns,scaler,step\r\n");
	}
	void add(const Item &item) override
	{
		const bool isCall = item.kind == Item::call, isKernel = item.kind == Item::kernel;
		const bool isTimed = !isKernel || !runs_[item.run].emulated;
		beginLine(kinds[item.kind], item.run);
		optional("thread", item.thread, isCall), optional("device", item.device, isKernel);
		optional("stream", item.stream, isKernel), optional("start_ns", item.startNs, isTimed);
		optional("duration_ns", item.durationNs, isTimed && item.kind != Item::scale);
		optional("call", item.number, item.number != 0);
		optional("captured", item.captured, item.kind != Item::scale);
		raw(ofRow(item));
		if (isKernel)
			raw(words({{"name", item.isOurs ? "autoamp cast" : *item.name}}));
		else if (item.scaler)
			raw(words({{"name", item.scaler->kind},
			           {"operand", std::string(1, item.scaler->operand)},
			           {"scale_before", orNull(item.scaler->scaleBefore)},
			           {"scale_after", orNull(item.scaler->scaleAfter)},
			           {"amax", orNull(item.scaler->amax)},
			           {"excess", orNull(item.scaler->excess)},
			           {"lost_rows", wholeOrNull(item.scaler->lostRows)},
			           {"lost_columns", wholeOrNull(item.scaler->lostColumns)}}));
		else if (isCsv_)
			raw(",");
		if (isCsv_)
			raw(item.scaler ? ",," : ",,,,,,,,,");
		endLine();
	}
	void finish() override
	{
		for (const auto &gradient : gradientsOf(runs_))
			for (const auto &step : gradient.steps)
				add(gradient, *step.event);
		file_.close();
	}

private:
	void beginLine(const char *type, size_t run)
	{
		buffer_.clear();
		raw(isCsv_ ? "" : "{\"type\":\""), raw(type), raw(isCsv_ ? "" : "\"");
		field("run", run);
		raw(ofRun_[run]);
	}
	void endLine()
	{
		file_.write({buffer_.data(), buffer_.size()});
		file_.write(isCsv_ ? "\r\n" : "}\n");
	}
	void add(const Gradient &gradient, const trace::GradientEvent &event)
	{
		static const Json none;
		beginLine("gradient", gradient.run);
		raw(words({{"thread", none},
		           {"device", gradient.info->device},
		           {"stream", none},
		           {"start_ns", nanoseconds(event.timeNs + static_cast<double>(starts_[gradient.run]))},
		           {"duration_ns", none},
		           {"call", none},
		           {"captured", none},
		           {"entry", none},
		           {"op", none},
		           {"shape", none},
		           {"decision", none},
		           {"reason", none},
		           {"precision", none},
		           {"site", none},
		           {"name", event.kind},
		           {"operand", none},
		           {"scale_before", scaleOrNull(event.scaleBefore)},
		           {"scale_after", scaleOrNull(event.scaleAfter)},
		           {"amax", none},
		           {"excess", none},
		           {"lost_rows", none},
		           {"lost_columns", none},
		           {"scaler", gradient.info->name},
		           {"step", event.step}}));
		endLine();
	}
	// `,a,b` for a CSV line; `,"x":a,"y":b` for a JSON object, without unknown values.
	std::string words(const Json &object) const
	{
		std::string text;
		for (const auto &[name, value] : object.items())
			text += isCsv_ ? "," + csvCell(value) : value.is_null() ? "" : fmt::format(",\"{}\":{}", name, dump(value));
		return text;
	}
	const std::string &ofRow(const Item &item)
	{
		auto &text = ofRow_[{item.run, item.row ? item.row->id : 0}];
		if (text.empty()) {
			static const trace::RowInfo none = {};
			const auto &row = item.row ? *item.row : none;
			text = words({{"entry", orNull(row.entry)},
			              {"op", orNull(row.op)},
			              {"shape", item.row ? Json(shapeOf(row)) : Json()},
			              {"decision", orNull(row.decision)},
			              {"reason", orNull(row.reason)},
			              {"precision", orNull(row.dtypeCompute)},
			              {"site", orNull(row.site)}});
		}
		return text;
	}
	void raw(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
	template <typename Value>
	void field(const char *name, const Value &value)
	{
		if (!isCsv_)
			fmt::format_to(std::back_inserter(buffer_), ",\"{}\":{}", name, value);
		else
			fmt::format_to(std::back_inserter(buffer_), ",{}", value);
	}
	template <typename Value>
	void optional(const char *name, const Value &value, bool isKnown)
	{
		if (isKnown)
			field(name, value);
		else if (isCsv_)
			raw(",");
	}

	const Runs &runs_;
	const std::vector<int64_t> starts_ = startsOf(runs_);
	SinkFile file_;
	bool isCsv_;
	fmt::memory_buffer buffer_;
	std::vector<std::string> ofRun_;
	std::map<std::pair<size_t, uint32_t>, std::string> ofRow_;
};

// The JSON of chrome://tracing. Each run is a process; each GPU stream is a thread.
class ChromeSink : public Sink
{
public:
	ChromeSink(const Runs &runs, const std::string &path) : runs_(runs), file_(path)
	{
		file_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"autoamp\",\"pid\":0}");
		for (size_t id = 0; id < runs.size(); id++) {
			meta("process_name", id, 0, nameOf(runs[id]) + " " + runs[id].program);
			for (const auto &lane : runs[id].lanes)
				meta("thread_name", id, lane.tid, fmt::format("thread {}", lane.tid));
		}
	}
	void add(const Item &item) override
	{
		buffer_.clear();
		const auto out = std::back_inserter(buffer_);
		const double us = static_cast<double>(item.startNs) / 1e3;
		const size_t pid = item.run + 1;
		const uint64_t flow = item.run << 48 ^ item.number;
		if (item.kind == Item::scale) {
			if (const double log2 = std::log2(item.scaler->scaleAfter); std::isfinite(log2))
				fmt::format_to(out, ",\n{{\"ph\":\"C\",\"name\":{},\"pid\":{},\"ts\":{:.3f},\"args\":{{\"log2\":{}}}}}",
				               dump(Json(fmt::format("scale {} {}", item.scaler->site, item.scaler->operand))), pid, us,
				               log2);
		} else {
			const bool isCall = item.kind == Item::call;
			const auto thread = isCall ? item.thread : streamOf(item);
			fmt::format_to(
			    out,
			    ",\n{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}",
			    isCall ? ofRow(item) : dump(*item.name),
			    isCall        ? "call"
			    : item.isOurs ? "cast"
			                  : "kernel",
			    pid, thread, us, static_cast<double>(item.durationNs) / 1e3);
			if (item.number && runs_[item.run].hasKernels)
				fmt::format_to(out,
				               ",\n{{\"ph\":\"{}\",\"bp\":\"e\",\"name\":\"launch\",\"cat\":\"launch\",\"id\":{},"
				               "\"pid\":{},\"tid\":{},\"ts\":{:.3f}}}",
				               isCall ? "s" : "f", flow, pid, thread, us);
		}
		file_.write({buffer_.data(), buffer_.size()});
	}
	void finish() override
	{
		for (const auto &gradient : gradientsOf(runs_))
			addGradient(gradient);
		file_.write("\n]}\n");
		file_.close();
	}

private:
	void meta(const char *what, size_t run, uint32_t thread, const std::string &name)
	{
		file_.write(fmt::format(",\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
		                        what, run + 1, thread, dump(Json(name))));
	}
	void addGradient(const Gradient &gradient)
	{
		const auto us = [&](double ns) { return (ns + static_cast<double>(starts_[gradient.run])) / 1e3; };
		for (const auto &[ns, scale] : curveOf(gradient))
			file_.write(
			    fmt::format(",\n{{\"ph\":\"C\",\"name\":{},\"pid\":{},\"ts\":{:.3f},\"args\":{{\"scale\":{}}}}}",
			                dump(Json(gradient.info->name + " scale")), gradient.run + 1, us(ns), scale));
		for (const auto &step : gradient.steps)
			if (step.isSkipped())
				file_.write(
				    fmt::format(",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":{},\"pid\":{},\"tid\":0,\"ts\":{:.3f}}}",
				                dump(Json(gradient.info->name + ": " + describeSkip(step))), gradient.run + 1,
				                us(step.event->timeNs)));
	}
	uint32_t streamOf(const Item &item)
	{
		const auto [found, isNew] = streams_.emplace(std::tuple(item.run, item.device, item.stream),
		                                             0x40000000 + static_cast<uint32_t>(streams_.size()));
		if (isNew)
			meta("thread_name", item.run, found->second, streamName(item, runs_[item.run]));
		return found->second;
	}
	const std::string &ofRow(const Item &item)
	{
		auto &name = ofRow_[{item.run, item.row ? item.row->id : 0}];
		if (name.empty())
			name = dump(Json(callName(item.row)));
		return name;
	}
	const Runs &runs_;
	const std::vector<int64_t> starts_ = startsOf(runs_);
	SinkFile file_;
	fmt::memory_buffer buffer_;
	std::map<std::tuple<size_t, uint32_t, uint32_t>, uint32_t> streams_;
	std::map<std::pair<size_t, uint32_t>, std::string> ofRow_;
};

} // namespace

std::string callName(const trace::RowInfo *row)
{
	if (!row)
		return "unknown call";
	return fmt::format("{} {} {}", row->op.empty() ? row->entry : row->op, shapeOf(*row), row->dtypeCompute);
}

std::string streamName(const Item &item, const trace::Trace &run)
{
	return fmt::format("GPU {} stream {}{}", item.device, item.stream,
	                   run.emulated ? " (emulated: times have no meaning)" : "");
}

std::unique_ptr<Sink> makeTextSink(const Runs &runs, const std::string &path, const std::string &type)
{
	if (type == "chrome")
		return std::make_unique<ChromeSink>(runs, path);
	return std::make_unique<TextSink>(runs, path, type == "csv");
}

const std::vector<std::string> exportTypes = {"sqlite", "perfetto", "chrome", "csv", "jsonl", "parquet"};

Status exportTraces(const ExportOptions &options, const policy::Options &configuration)
{
	const bool isParquet = options.type == "parquet";
	Output output(options.out, options.force, isParquet ? "runs.parquet" : "");
	Status status = Status::done;
	const auto runs = gather(options.places, configuration, status);
	if (runs.empty())
		return Status::wrong;
	for (const auto &run : runs)
		if (std::error_code ignored; std::filesystem::equivalent(run.path, options.out, ignored))
			fail(Status::wrong, "{} is one of the traces; not overwritten", options.out);
	for (const auto &run : runs)
		if (!run.hasEvents)
			complain(message("autoamp: {} contains only totals; AUTOAMP_TRACE=ops records single calls\n", run.path));
	const auto sink = options.type == "sqlite"     ? makeSqliteSink(runs, output.part())
	                  : options.type == "perfetto" ? makePerfettoSink(runs, output.part())
	                  : isParquet                  ? makeParquetSink(runs, output.part())
	                                               : makeTextSink(runs, output.part(), options.type);
	forEachItem(runs, "export", [&](const Item &item) { sink->add(item); });
	sink->finish();
	output.finish();
	return status;
}

} // namespace autoamp::tool
