// Perfetto's protobuf: one track per thread and per stream, flows from calls to their kernels, scales as
// counters, and skipped steps.
// Field numbers are those of protos/perfetto/trace/*.proto.
#include "tools/autoamp/escape.h"
#include "tools/autoamp/export.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/traces.h"

#include <cmath>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <unordered_map>

namespace autoamp::tool {

namespace {

using protozero::pbf_writer;

enum Trace : uint32_t { packet = 1 };
enum Packet : uint32_t { timestamp = 8, sequence = 10, trackEvent = 11, interned = 12, flags = 13, descriptor = 60 };
enum Track : uint32_t { uuid = 1, trackName = 2, process = 3, thread = 4, parent = 5, counter = 8 };
enum Process : uint32_t { processPid = 1, processName = 6 };
enum Thread : uint32_t { threadPid = 1, threadTid = 2 };
enum Event : uint32_t { category = 22, type = 9, nameId = 10, onTrack = 11, eventName = 23, flows = 47, value = 44 };
enum Type : int32_t { begin = 1, end = 2, instant = 3, count = 4 };
enum Interned : uint32_t { eventNames = 2 };
enum Name : uint32_t { iid = 1, text = 2 };
constexpr uint32_t stateCleared = 1, needsState = 2;

class PerfettoSink : public Sink
{
public:
	PerfettoSink(const Runs &runs, const std::string &path) : runs_(runs), file_(path), names_(runs.size())
	{
		for (size_t run = 0; run < runs.size(); run++) {
			write([&](pbf_writer &out) {
				out.add_uint32(Packet::sequence, sequenceOf(run));
				out.add_uint32(Packet::flags, stateCleared);
				pbf_writer track(out, Packet::descriptor);
				track.add_uint64(Track::uuid, processTrack(run));
				pbf_writer process(track, Track::process);
				process.add_int32(Process::processPid, pidOf(run));
				process.add_string(Process::processName, utf8(nameOf(runs[run]) + " " + runs[run].program));
			});
			std::set<uint32_t> threads;
			for (const auto &lane : runs[run].lanes)
				if (threads.insert(lane.tid).second)
					write([&](pbf_writer &out) {
						pbf_writer track(out, Packet::descriptor);
						track.add_uint64(Track::uuid, threadTrack(run, lane.tid));
						track.add_uint64(Track::parent, processTrack(run));
						pbf_writer thread(track, Track::thread);
						thread.add_int32(Thread::threadPid, pidOf(run));
						thread.add_int32(Thread::threadTid, static_cast<int32_t>(lane.tid));
					});
		}
	}
	void add(const Item &item) override
	{
		if (item.kind == Item::scale)
			return addScale(item);
		const bool isCall = item.kind == Item::call;
		const auto track = isCall ? threadTrack(item.run, item.thread) : streamTrack(item);
		const auto name = nameId(item);
		event(item.run, track, item.startNs, Type::begin, [&](pbf_writer &out) {
			out.add_uint64(Event::nameId, name);
			out.add_string(Event::category, isCall ? item.row && item.row->decision == "lowered" ? "lowered" : "call"
			                                : item.isOurs ? "cast"
			                                              : "kernel");
			if (item.number && runs_[item.run].hasKernels)
				out.add_fixed64(Event::flows, item.run << 48 ^ item.number);
		});
		event(item.run, track, item.startNs + item.durationNs, Type::end, [](pbf_writer &) {});
	}
	void finish() override
	{
		for (const auto &gradient : gradientsOf(runs_))
			addGradient(gradient);
		file_.write(buffer_);
		file_.close();
	}

private:
	// 16 bits for the run, 8 for the kind, 40 for the object.
	static uint64_t id(size_t run, uint64_t kind, uint64_t thing) { return (run + 1) << 48 | kind << 40 | thing; }
	static uint64_t processTrack(size_t run) { return id(run, 1, 0); }
	static uint64_t threadTrack(size_t run, uint32_t thread) { return id(run, 2, thread); }
	static uint32_t sequenceOf(size_t run) { return static_cast<uint32_t>(run + 1); }
	// Pids of several hosts or of a long job may be equal; then the run's number is used.
	int32_t pidOf(size_t run) const
	{
		for (size_t other = 0; other < run; other++)
			if (runs_[other].pid == runs_[run].pid)
				return static_cast<int32_t>(0x40000000 + run);
		return static_cast<int32_t>(runs_[run].pid);
	}

	template <typename Fill>
	void write(Fill fill)
	{
		{
			pbf_writer trace(buffer_);
			pbf_writer out(trace, Trace::packet);
			fill(out);
		}
		if (buffer_.size() > 1 << 18) {
			file_.write(buffer_);
			buffer_.clear();
		}
	}
	template <typename Fill>
	void event(size_t run, uint64_t track, int64_t ns, Type type, Fill fill)
	{
		write([&](pbf_writer &out) {
			out.add_uint64(Packet::timestamp, static_cast<uint64_t>(std::max<int64_t>(0, ns)));
			out.add_uint32(Packet::sequence, sequenceOf(run));
			out.add_uint32(Packet::flags, needsState);
			pbf_writer event(out, Packet::trackEvent);
			event.add_enum(Event::type, type);
			event.add_uint64(Event::onTrack, track);
			fill(event);
		});
	}
	void makeTrack(size_t run, uint64_t track, const std::string &name, bool isCounter)
	{
		write([&](pbf_writer &out) {
			pbf_writer descriptor(out, Packet::descriptor);
			descriptor.add_uint64(Track::uuid, track);
			descriptor.add_string(Track::trackName, utf8(name));
			descriptor.add_uint64(Track::parent, processTrack(run));
			if (isCounter)
				descriptor.add_message(Track::counter, std::string());
		});
	}
	uint64_t streamTrack(const Item &item)
	{
		const auto track = id(item.run, 3 + item.device % 200, item.stream);
		if (tracks_.insert(track).second)
			makeTrack(item.run, track, streamName(item, runs_[item.run]), false);
		return track;
	}
	void addScale(const Item &item)
	{
		const auto &scaler = *item.scaler;
		if (!std::isfinite(scaler.scaleAfter))
			return;
		const auto track = id(item.run, 255, uint64_t{scaler.row} << 8 | static_cast<unsigned char>(scaler.operand));
		if (tracks_.insert(track).second)
			makeTrack(item.run, track, fmt::format("log2 of scale: site {} operand {}", scaler.site, scaler.operand),
			          true);
		event(item.run, track, item.startNs, Type::count,
		      [&](pbf_writer &out) { out.add_double(Event::value, std::log2(scaler.scaleAfter)); });
	}
	void addGradient(const Gradient &gradient)
	{
		const auto scale = id(gradient.run, 254, gradient.info->id), skips = id(gradient.run, 253, gradient.info->id);
		const auto at = [&](double ns) { return starts_[gradient.run] + std::llround(ns); };
		makeTrack(gradient.run, scale, gradient.info->name + " scale", true);
		makeTrack(gradient.run, skips, gradient.info->name + " skipped steps", false);
		for (const auto &[ns, value] : curveOf(gradient))
			event(gradient.run, scale, at(ns), Type::count,
			      [value = value](pbf_writer &out) { out.add_double(Event::value, value); });
		for (const auto &step : gradient.steps)
			if (step.isSkipped())
				event(gradient.run, skips, at(step.event->timeNs), Type::instant,
				      [&](pbf_writer &out) { out.add_string(Event::eventName, utf8(describeSkip(step))); });
	}
	// A name is written once per run, before its first use.
	uint64_t nameId(const Item &item)
	{
		const void *key = item.kind == Item::kernel ? static_cast<const void *>(item.name) : item.row;
		const auto [found, isNew] = names_[item.run].emplace(key, names_[item.run].size() + 1);
		if (isNew)
			write([&](pbf_writer &out) {
				out.add_uint32(Packet::sequence, sequenceOf(item.run));
				out.add_uint32(Packet::flags, needsState);
				pbf_writer data(out, Packet::interned);
				pbf_writer name(data, Interned::eventNames);
				name.add_uint64(Name::iid, found->second);
				name.add_string(Name::text, utf8(item.kind == Item::kernel ? *item.name : callName(item.row)));
			});
		return found->second;
	}

	const Runs &runs_;
	const std::vector<int64_t> starts_ = startsOf(runs_);
	SinkFile file_;
	std::string buffer_;
	std::set<uint64_t> tracks_;
	std::vector<std::unordered_map<const void *, uint64_t>> names_;
};

} // namespace

std::unique_ptr<Sink> makePerfettoSink(const Runs &runs, const std::string &path)
{
	return std::make_unique<PerfettoSink>(runs, path);
}

} // namespace autoamp::tool
