// Reads a trace file into a Trace.
#include "src/trace/file_lock.h"
#include "src/trace/read/chunks.h"
#include "src/trace/read/since.h"
#include "src/trace/read/trace.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <map>
#include <sys/stat.h>

namespace autoamp::trace {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double orUnknown(float value)
{
	return value >= 0 && std::isfinite(value) ? value : kUnknown;
}

} // namespace

// Reads everything except the single events, in one pass over the file.
struct Trace::Loader {
	explicit Loader(Trace &which) : trace(which) {}
	Trace &trace;
	int file() const { return trace.file_.descriptor; }
	Buffer buffer;
	Header header = {};
	uint64_t fileSize = 0;
	Tail tail;
	struct Total {
		uint64_t calls = 0, captured = 0;
		double ticks = 0;
	};
	std::unordered_map<uint32_t, std::map<uint32_t, Total>> totals; // by row and lane
	std::unordered_map<uint32_t, AuditInfo> audits;                 // by row
	std::unordered_map<uint32_t, std::vector<WeightsInfo>> weights; // by row

	const std::string &text(uint32_t id) const { return trace.text(id); }

	// The header of the tail is newer than that of the trace.
	bool readHeader(std::string &error)
	{
		const size_t got = readAt(file(), static_cast<void *>(&header), sizeof header, 0);
		error = problemOf(header, got);
		if (!needsTail(header, got))
			return error.empty();
		if (tail.open(trace.path, header, got)) {
			memcpy(static_cast<void *>(&header), static_cast<void *>(&tail.header), sizeof header);
			header.flags &= ~headerIsTail;
			error.clear();
		}
		return error.empty();
	}

	// If a chunk is in both files, the longer version counts.
	void readChunks()
	{
		std::map<uint32_t, FoundChunk> inTail;
		if (tail.file >= 0)
			forEachChunk(tail.file, tail.header.headerSize, tail.size, [&](const FoundChunk &chunk) {
				inTail[chunk.sequence] = chunk;
				std::string &content = tail.content[chunk.sequence] = readWhole(tail.file, chunk);
				inTail[chunk.sequence].committed = inTail[chunk.sequence].bytes = static_cast<uint32_t>(content.size());
			});
		std::vector<Place> records;
		const auto add = [&](const FoundChunk &chunk, std::string content) {
			auto &places = chunk.kind == ChunkKind::events    ? trace.chunks_
			               : chunk.kind == ChunkKind::kernels ? trace.kernelChunks_
			                                                  : records;
			if (chunk.kind <= ChunkKind::kernels && chunk.kind >= ChunkKind::records)
				places.push_back({chunk.sequence, chunk.number, chunk.offset, chunk.committed, chunk.bytes, chunk.lane,
				                  std::move(content)});
		};
		forEachChunk(file(), header.headerSize, fileSize, [&](const FoundChunk &chunk) {
			trace.loss.truncated |= chunk.bytes < chunk.committed;
			const auto newer = inTail.find(chunk.sequence);
			if (newer != inTail.end() && newer->second.bytes >= chunk.bytes)
				return;
			if (newer != inTail.end())
				inTail.erase(newer);
			add(chunk, {});
		});
		for (const auto &[sequence, chunk] : inTail)
			add(chunk, std::move(tail.content[sequence]));
		for (std::vector<Place> *places : {&records, &trace.chunks_, &trace.kernelChunks_})
			std::stable_sort(places->begin(), places->end(),
			                 [](const Place &x, const Place &y) { return x.sequence < y.sequence; });
		trace.loss.eventsMissing = missing(trace.chunks_, sizeof(Event), kEventsInChunk);
		trace.loss.singleKernelsMissing = missing(trace.kernelChunks_, sizeof(Kernel), kKernelsInChunk);
		trace.loss.truncated |=
		    missing(records, 1, 1) > 0 || trace.loss.eventsMissing > 0 || trace.loss.singleKernelsMissing > 0;
		for (const Place &chunk : records)
			readRecords(trace.read(chunk, buffer.data()));
	}

	// Number of missing items of `size` bytes in the chunks up to the highest number of each lane. Those below were
	// full: they had `most` items.
	static uint64_t missing(const std::vector<Place> &places, size_t size, uint64_t most)
	{
		struct Found {
			uint64_t highest = 0, inHighest = 0, items = 0; // inHighest: committed
		};
		std::map<uint32_t, Found> lanes;
		for (const Place &place : places) {
			if (place.number == 0) // written by an older version
				continue;
			Found &lane = lanes[place.lane];
			const auto itemsIn = [&](uint64_t bytes) {
				return std::min((bytes - std::min<uint64_t>(bytes, sizeof(Chunk))) / size, most);
			};
			lane.items += itemsIn(place.bytes);
			if (place.number >= lane.highest)
				lane.highest = place.number, lane.inHighest = itemsIn(place.committed);
		}
		uint64_t sum = 0;
		for (const auto &[lane, found] : lanes) {
			const uint64_t expected = (found.highest - 1) * most + found.inHighest;
			sum += expected - std::min(expected, found.items);
		}
		return sum;
	}

	void readRecords(size_t size)
	{
		for (size_t at = sizeof(Chunk); at + sizeof(Record) <= size;) {
			const char *bytes = buffer.data() + at;
			auto *record = reinterpret_cast<const Record *>(bytes);
			if (record->size < sizeof(Record) || record->size % 8 || record->size > size - at)
				break;
			if (!readRecord(*record, at))
				trace.loss.truncated = true;
			at += record->size;
		}
	}

	// Reads the record as a T. False: it is damaged, which includes one that is too short or not aligned for a T.
	template <class T>
	bool readAs(const Record &record, size_t at)
	{
		return record.size >= sizeof(T) && at % alignof(T) == 0 && read(static_cast<const T &>(record));
	}

	// Returns false if a record of a known type is damaged.
	bool readRecord(const Record &record, size_t at)
	{
		switch (record.type) {
		case RecordType::string:
			return readAs<StringRecord>(record, at);
		case RecordType::property:
			return readAs<PropertyRecord>(record, at);
		case RecordType::row:
			return readAs<RowRecord>(record, at);
		case RecordType::lane:
			return readAs<LaneRecord>(record, at);
		case RecordType::cells:
			return readAs<CellsRecord>(record, at);
		case RecordType::scaler: // from LossRecord on, the event of a loss
			return readAs<LossRecord>(record, at) || readAs<ScalerRecord>(record, at);
		case RecordType::scalerTotal:
			return readAs<ScalerTotalRecord>(record, at);
		case RecordType::note:
			return readAs<NoteRecord>(record, at);
		case RecordType::kernelTotal:
			return readAs<KernelTotalRecord>(record, at);
		case RecordType::kernelLaunches:
			return readAs<LaunchRecord>(record, at);
		case RecordType::kernelLoss:
			return readAs<KernelLossRecord>(record, at);
		case RecordType::cuptiOverhead:
			return readAs<CuptiOverheadRecord>(record, at);
		case RecordType::clock:
			return readAs<ClockRecord>(record, at);
		case RecordType::capture:
			return readAs<CaptureRecord>(record, at);
		case RecordType::gradientScaler:
			return readAs<GradientScalerRecord>(record, at);
		case RecordType::gradientEvent:
			return readAs<GradientEventRecord>(record, at);
		case RecordType::audit:
			return readAs<AuditRecord>(record, at);
		case RecordType::weights:
			return readAs<ComparedWeightsRecord>(record, at) || readAs<WeightsRecord>(record, at);
		case RecordType::gradientCause:
			return readAs<GradientCauseRecord>(record, at);
		case RecordType::padding:
			break;
		}
		return true; // a record type of a later minor version
	}

	bool read(const StringRecord &string)
	{
		if (string.length > string.size - sizeof string)
			return false;
		trace.texts_[string.id].assign(reinterpret_cast<const char *>(&string + 1), string.length);
		return true;
	}

	bool read(const LaneRecord &lane)
	{
		trace.lanes.push_back({lane.lane, lane.tid, static_cast<uint32_t>(lane.mark.load())});
		trace.loss.eventsDropped += lane.dropped.load();
		return true;
	}

	bool read(const CellsRecord &cells)
	{
		if (cells.count > (cells.size - sizeof cells) / sizeof(Cell))
			return false;
		for (const Cell *cell = cells.cells(); cell < cells.cells() + cells.count; ++cell)
			addCell(*cell, cells.lane);
		return true;
	}

	bool read(const ScalerRecord &event)
	{
		trace.scaler.push_back({since(event.ticks, header.first.ticks),
		                        text(event.kind),
		                        {},
		                        event.row,
		                        static_cast<char>(event.operand),
		                        std::exp2(double{event.exponentBefore}),
		                        std::exp2(double{event.exponentAfter}),
		                        event.amax});
		return true;
	}

	bool read(const LossRecord &loss)
	{
		read(static_cast<const ScalerRecord &>(loss));
		ScalerInfo &info = trace.scaler.back();
		info.excess = loss.excess, info.lostRows = loss.lostRows, info.lostColumns = loss.lostColumns;
		return true;
	}

	bool read(const ScalerTotalRecord &total)
	{
		trace.scalerTotals.push_back(
		    {text(total.kind), {}, total.row, static_cast<char>(total.operand), total.count.load()});
		return true;
	}

	bool read(const NoteRecord &note)
	{
		trace.notes.push_back({text(note.kind), text(note.text), note.row, note.count.load(),
		                       since(note.firstTicks, header.first.ticks),
		                       since(note.lastTicks.load(), header.first.ticks)});
		return true;
	}

	bool read(const AuditRecord &record)
	{
		const auto error = [](const Counter &bits) { return std::fmax(0, std::bit_cast<double>(bits.load())); };
		AuditInfo info;
		info.audited = record.audited.load(), info.lost = record.lost.load();
		info.recomputed = record.recomputed.load(), info.unmeasured = record.unmeasured.load();
		info.partial = record.partial.load(), info.overflowed = record.overflowed.load();
		info.sum = error(record.sum), info.most = error(record.most);
		info.worstRow = error(record.worstRow), info.worstColumn = error(record.worstColumn);
		for (uint32_t i = 0; i < kErrorBuckets; ++i)
			info.histogram[i] = record.histogram[i].load();
		if (record.size >= sizeof(TimedAuditRecord)) {
			const auto &timed = static_cast<const TimedAuditRecord &>(record);
			info.timed = timed.timed.load();
			info.fp32Ns = static_cast<double>(timed.fp32Ns.load());
			info.actualNs = static_cast<double>(timed.actualNs.load());
		}
		audits[record.row].add(info);
		return true;
	}

	bool read(const WeightsRecord &record)
	{
		weights[record.row].push_back({text(record.how), text(record.reason), record.served.load(),
		                               record.converted.load(), record.made.load(), record.recast.load(),
		                               record.givenUp.load(), record.bytes.load()});
		return true;
	}

	bool read(const ComparedWeightsRecord &record)
	{
		read(static_cast<const WeightsRecord &>(record));
		WeightsInfo &info = weights[record.row].back();
		info.changed = record.changed.load(), info.refused = record.refused.load();
		info.compared = record.compared.load(), info.repeated = record.repeated.load();
		return true;
	}

	bool read(const GradientScalerRecord &record)
	{
		const auto scale = [](const Counter &bits) { return std::bit_cast<double>(bits.load()); };
		const auto time = [&](const Counter &ticks) { return since(ticks.load(), header.first.ticks); };
		GradientScalerInfo info;
		info.id = record.id;
		info.name = text(record.framework) + '#' + std::to_string(record.number);
		info.how = text(record.how);
		info.device = record.device;
		info.growth = record.growth, info.backoff = record.backoff;
		info.interval = record.interval;
		info.steps = record.steps.load(), info.skipped = record.skipped.load();
		info.longestSkipped = record.longestSkipped.load(), info.unseen = record.unseen.load();
		info.growths = record.growths.load(), info.backoffs = record.backoffs.load();
		info.sets = record.sets.load(), info.refusals = record.refusals.load(), info.holds = record.holds.load();
		info.scaleFirst = scale(record.scaleFirst), info.scaleLast = scale(record.scaleLast);
		info.scaleLeast = scale(record.scaleLeast), info.scaleMost = scale(record.scaleMost);
		info.tracker = static_cast<int64_t>(record.tracker.load());
		info.firstNs = time(record.firstTicks), info.lastNs = time(record.lastTicks);
		info.lastSkippedNs = kUnknown;
		if (record.size >= sizeof(OwnedGradientScalerRecord)) {
			const auto &owned = static_cast<const OwnedGradientScalerRecord &>(record);
			info.owner = owned.owner;
			info.lastSkippedStep = owned.lastSkip.load();
			if (info.lastSkippedStep)
				info.lastSkippedNs = time(owned.skipTicks);
		}
		trace.gradientScalers.push_back(std::move(info));
		return true;
	}

	bool read(const GradientEventRecord &event)
	{
		trace.gradientEvents.push_back({since(event.ticks, header.first.ticks), event.step, event.scaler,
		                                text(event.kind), event.scaleBefore, event.scaleAfter, event.foundInf,
		                                event.trackerBefore, event.trackerAfter, event.hysteresis});
		return true;
	}

	bool read(const GradientCauseRecord &cause)
	{
		trace.gradientCauses.push_back({since(cause.ticks, header.first.ticks), cause.step, cause.scaler, cause.row,
		                                text(cause.kind), static_cast<char>(cause.operand)});
		return true;
	}

	bool read(const LaunchRecord &launches)
	{
		trace.launches = {launches.launched.load(), launches.received.load(), launches.graphs.load(),
		                  launches.graphsReceived.load()};
		return true;
	}

	bool read(const KernelLossRecord &losses)
	{
		trace.hasKernels = true;
		trace.loss.kernelsUnattributed += losses.unattributed.load();
		trace.loss.invalidTimestamps += losses.invalid.load();
		trace.loss.kernelsDropped += losses.dropped.load();
		trace.loss.kernelsCapped += losses.singles.load();
		return true;
	}

	bool read(const CuptiOverheadRecord &overhead)
	{
		const bool isUnknown = header.flags & headerEmulated || overhead.flags & kernelEmulated;
		trace.overhead.push_back({text(overhead.kind), overhead.count.load(),
		                          isUnknown ? kUnknown : static_cast<double>(overhead.ns.load())});
		return true;
	}

	bool read(const ClockRecord &clock)
	{
		trace.clocks.push_back(
		    {since(clock.monotonicNs, header.first.monotonicNs), clock.monotonicNs, clock.realtimeNs, clock.cuptiNs});
		return true;
	}

	bool read(const CaptureRecord &capture)
	{
		trace.capture = {capture.outside.load(), capture.begun.load()};
		return true;
	}

	bool read(const PropertyRecord &property)
	{
		const std::string &group = text(property.group), &name = text(property.name), &value = text(property.value);
		auto set = [&](std::vector<PropertyInfo> &list) {
			for (PropertyInfo &known : list)
				if (known.name == name) {
					known = {name, value, text(property.origin)};
					return;
				}
			list.push_back({name, value, text(property.origin)});
		};
		if (group == "argument")
			trace.command.push_back(value);
		else if (group == "config")
			set(trace.config);
		else if (group == "rule")
			set(trace.rules);
		else if (group == "version")
			set(trace.versions);
		else if (group == "cpu" && name == "constants")
			trace.cpuConstants = value;
		else if (group == "device") {
			const unsigned long ordinal = strtoul(name.c_str(), nullptr, 10);
			if (ordinal < 1024) {
				trace.devices.resize(std::max<size_t>(trace.devices.size(), ordinal + 1));
				trace.devices[ordinal] = value;
				trace.capabilities.resize(trace.devices.size());
				if (const std::string &kind = text(property.origin); kind.starts_with("sm_"))
					trace.capabilities[ordinal] = static_cast<int>(strtoul(kind.c_str() + 3, nullptr, 10) % 1000);
			}
		} else if (group == "run") {
			for (auto [key, field] :
			     {std::pair{"exe", &trace.exe}, std::pair{"program", &trace.program}, std::pair{"host", &trace.host},
			      std::pair{"folder", &trace.folder}, std::pair{"launched", &trace.launched},
			      std::pair{"rank", &trace.rank}, std::pair{"ranks", &trace.ranks}, std::pair{"job", &trace.job}})
				if (name == key)
					*field = value;
		}
		return true;
	}

	bool read(const RowRecord &record)
	{
		if (record.id == 0 || record.id >= kRowLimit || trace.row(record.id))
			return false;
		RowInfo row;
		char site[16];
		snprintf(site, sizeof site, "%08x", record.site);
		row.id = record.id;
		row.site = site;
#define X(field) row.field = text(record.field);
		AUTOAMP_ROW_TEXTS(X)
#undef X
#define X(field, Added)                                                                                                \
	if (record.size >= sizeof(Added))                                                                                  \
		row.field = text(static_cast<const Added &>(record).field);
		AUTOAMP_ROW_ADDED_TEXTS(X)
#undef X
#define X(field) row.field = record.field;
		AUTOAMP_ROW_NUMBERS(X)
#undef X
		row.eligible = record.flags & rowEligible;
		row.isCounted = record.flags & rowCounted;
		row.estNs = orUnknown(record.estNs);
		row.estLoweredNs = orUnknown(record.estLoweredNs);
		row.kernelNs = row.castNs = kUnknown;
		trace.rows.push_back(std::move(row));
		trace.rowIndex_.resize(std::max<size_t>(trace.rowIndex_.size(), record.id + 1));
		trace.rowIndex_[record.id] = static_cast<uint32_t>(trace.rows.size());
		return true;
	}

	bool read(const KernelTotalRecord &record)
	{
		const bool isUnknown = header.flags & headerEmulated || record.flags & kernelEmulated || !record.lastNs.load();
		auto time = [&](uint64_t ns) { return isUnknown ? kUnknown : static_cast<double>(ns); };
		KernelTotal total;
		total.name = text(record.name);
		total.row = record.row;
		total.device = record.device;
		total.isOurs = record.flags & kernelOurs;
		total.isMemory = record.flags & kernelMemory;
		total.count = record.count.load();
		total.ns = time(record.ns.load());
		total.firstNs = time(record.firstNs.load());
		total.lastNs = time(record.lastNs.load());
		total.facts = total.isMemory || total.isOurs ? KernelFacts{} : factsOf(total.name);
		trace.kernels.push_back(std::move(total));
		return true;
	}

	// Derives facts about rows and about the program's own scaler from the kernels.
	void finishKernels()
	{
		for (const KernelTotal &total : trace.kernels) {
			if (const uint32_t at = total.row < trace.rowIndex_.size() ? trace.rowIndex_[total.row] : 0) {
				RowInfo &row = trace.rows[at - 1];
				(total.isOurs ? row.casts : row.kernels) += total.count;
				double &ns = total.isOurs ? row.castNs : row.kernelNs;
				if (!std::isnan(total.ns))
					ns = std::isnan(ns) ? total.ns : ns + total.ns;
				// One kernel with tensor cores is enough: additional kernels add up partial sums.
				if (total.facts.tensorCores != TensorCores::unknown && row.tensorCores != TensorCores::yes)
					row.tensorCores = total.facts.tensorCores;
			}
			if (!total.facts.scalerOf)
				continue;
			auto same = [&](const ObservedScaler &known) {
				return known.framework == total.facts.scalerOf && known.step == total.facts.scalerStep;
			};
			auto known = std::find_if(trace.observed.begin(), trace.observed.end(), same);
			if (known == trace.observed.end())
				known = trace.observed.insert(
				    known, {total.facts.scalerOf, total.facts.scalerStep, 0, total.firstNs, total.lastNs});
			known->count += total.count;
			known->firstNs = std::fmin(known->firstNs, total.firstNs);
			known->lastNs = std::fmax(known->lastNs, total.lastNs);
		}
	}

	// Replaces the times of updates by those of the device. If the kernels of a scaler are complete, the n-th one is
	// that of step n.
	void finishUpdates()
	{
		if (header.flags & headerEmulated || trace.gradientEvents.empty())
			return;
		std::map<uint32_t, std::vector<double>> ends; // by owner
		trace.forEachKernel([&](const KernelInfo &kernel) {
			if (kernel.updatedOwner)
				ends[kernel.updatedOwner].push_back(kernel.startNs + kernel.durationNs);
		});
		std::unordered_map<uint32_t, const std::vector<double> *> byId;
		for (GradientScalerInfo &scaler : trace.gradientScalers) {
			std::vector<double> &of = ends[scaler.owner];
			std::sort(of.begin(), of.end());
			scaler.hasDeviceTimes = scaler.owner && !of.empty() && of.front() > 0 && of.size() == scaler.steps;
			if (!scaler.hasDeviceTimes)
				continue;
			scaler.firstNs = of.front(), scaler.lastNs = of.back();
			if (scaler.lastSkippedStep && scaler.lastSkippedStep <= of.size())
				scaler.lastSkippedNs = of[scaler.lastSkippedStep - 1];
			byId[scaler.id] = &of;
		}
		for (GradientEvent &event : trace.gradientEvents)
			if (const auto found = byId.find(event.scaler);
			    found != byId.end() && event.step > 0 && event.step <= found->second->size())
				event.timeNs = (*found->second)[event.step - 1];
	}

	void addCell(const Cell &cell, uint32_t lane)
	{
		const uint64_t row = cell.row.load();
		if (row == 0 || row >= kRowLimit)
			return;
		Total &total = totals[static_cast<uint32_t>(row)][lane];
		total.calls += cell.calls.load();
		total.captured += cell.captured.load();
		total.ticks += static_cast<double>(cell.ticks.load());
	}

	// Computes values that need the whole file: times, sums, sites, the end.
	void finish()
	{
		const double ticks = since(header.last.ticks, header.first.ticks);
		const double passed = since(header.last.monotonicNs, header.first.monotonicNs);
		trace.nsPerTick_ = ticks > 0 && passed > 0 ? passed / ticks : 1;
		trace.firstTicks_ = header.first.ticks;

		for (RowInfo &row : trace.rows) {
			row.audit = audits[row.id];
			row.weights = weights[row.id];
			for (const auto &[lane, total] : totals[row.id]) {
				row.parts.push_back({lane, total.calls, total.ticks * trace.nsPerTick_});
				row.calls += total.calls;
				row.captured += total.captured;
				row.hostNs += row.parts.back().hostNs;
			}
		}
		finishKernels();
		auto site = [&](uint32_t row) {
			const RowInfo *info = trace.row(row);
			return info ? info->site : std::string();
		};
		for (ScalerInfo &event : trace.scaler) {
			event.timeNs *= trace.nsPerTick_;
			event.site = site(event.row);
		}
		for (GradientScalerInfo &scaler : trace.gradientScalers) {
			scaler.firstNs *= trace.nsPerTick_;
			scaler.lastNs *= trace.nsPerTick_;
			scaler.lastSkippedNs *= trace.nsPerTick_;
		}
		for (GradientEvent &event : trace.gradientEvents)
			event.timeNs *= trace.nsPerTick_;
		finishUpdates();
		for (GradientCauseInfo &cause : trace.gradientCauses)
			cause.timeNs *= trace.nsPerTick_;
		for (ScalerTotal &total : trace.scalerTotals)
			total.site = site(total.row);
		for (NoteInfo &note : trace.notes) {
			note.firstNs *= trace.nsPerTick_;
			note.lastNs *= trace.nsPerTick_;
		}

		trace.pid = header.pid;
		trace.parentPid = header.parent;
		trace.run = header.run;
		trace.number = header.number;
		trace.conclusion = header.conclusion;
		trace.isForked = header.flags & headerForked;
		trace.jobNumber = header.job;
		trace.startedNs = header.startedNs;
		trace.emulated = header.flags & headerEmulated;
		trace.hasEvents = header.flags & headerSingles;
		finishEnd();
		finishLaunches();
		finishLoss();
	}

	void finishLoss()
	{
		const bool isOpen = header.end.load() == static_cast<uint32_t>(End::open);
		trace.loss.tailMissing = isOpen && trace.ended != "running" &&
		                         (header.flags & headerWritten || (needsTail(header, sizeof header) && tail.file < 0));
		trace.loss.callsLost = header.lostCalls.load();
		trace.loss.diskFull = header.stopped.load() == static_cast<uint64_t>(Stopped::diskFull);
		trace.loss.unwritable = header.stopped.load() == static_cast<uint64_t>(Stopped::unwritable);
		trace.loss.sizeLimit = header.stopped.load() == static_cast<uint64_t>(Stopped::sizeLimit);
		const Loss &loss = trace.loss;
		if (loss.eventsDropped || loss.callsLost || loss.diskFull || loss.sizeLimit || loss.unwritable ||
		    loss.eventsMissing || loss.singleKernelsMissing || loss.tailMissing || fileSize < header.fileSize.load())
			trace.loss.truncated = true;
	}

	// A process that still runs has kernels that CUPTI will return later.
	void finishLaunches()
	{
		if (!trace.launches || trace.ended == "running")
			return;
		const bool isOff = std::any_of(trace.notes.begin(), trace.notes.end(),
		                               [](const NoteInfo &note) { return note.kind == noteOfKernels; });
		const Loss::Cause cause = isOff                             ? Loss::switchedOff
		                          : trace.ended.starts_with("exit") ? Loss::unfinished
		                                                            : Loss::killed;
		const auto excess = [](uint64_t more, uint64_t less) { return more > less ? more - less : 0; };
		trace.loss.kernelsExpected = trace.launches->kernels;
		trace.loss.kernelsMissing[cause] =
		    excess(trace.launches->kernels, trace.launches->kernelsReceived + trace.loss.kernelsDropped);
		trace.loss.graphsMissing[cause] = excess(trace.launches->graphs, trace.launches->graphsReceived);
	}

	void finishEnd()
	{
		switch (static_cast<End>(header.end.load())) {
		case End::exited:
			trace.ended = "exit";
			return;
		case End::exitedWith:
			trace.ended = "exit " + std::to_string(header.status);
			return;
		default:
			break;
		}
		trace.ended = isBeingWritten(file()) ? "running" : "no exit seen";
		if (trace.ended == "running")
			return;
		for (const LaneInfo &lane : trace.lanes)
			if (const RowInfo *row = trace.row(lane.inFlight); row && trace.diedInside.empty())
				trace.diedInside = row->entry;
		if (!trace.diedInside.empty())
			trace.ended = "killed";
	}
};

std::optional<Trace> Trace::open(const std::string &path, std::string &error)
{
	Trace trace;
	trace.path = path;
	const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	trace.file_.descriptor = file;
	struct stat status;
	error.clear();
	if (file < 0 || fstat(file, &status) != 0)
		error = strerror(errno);
	else if (!S_ISREG(status.st_mode))
		error = S_ISDIR(status.st_mode) ? "a folder, not a trace" : "not a regular file";
	else {
		Loader loader(trace);
		loader.fileSize = static_cast<uint64_t>(status.st_size);
		if (loader.readHeader(error)) {
			loader.readChunks();
			loader.finish();
			return trace;
		}
	}
	error = path + ": " + error;
	return {};
}

} // namespace autoamp::trace
