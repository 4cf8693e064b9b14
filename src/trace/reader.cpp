#include "src/trace/reader.h"

#include "src/trace/file_lock.h"
#include "src/trace/tail_name.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace autoamp::trace {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double orUnknown(float value)
{
	return value >= 0 && std::isfinite(value) ? value : kUnknown;
}

// Signed difference: a thread's counter may be slightly behind the first clock reading.
double since(uint64_t ticks, uint64_t first)
{
	return static_cast<double>(static_cast<int64_t>(ticks - first));
}

size_t readAt(int file, void *out, size_t size, uint64_t offset)
{
	size_t total = 0;
	while (total < size) {
		ssize_t got = pread(file, static_cast<char *>(out) + total, size - total, static_cast<off_t>(offset + total));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		total += static_cast<size_t>(got);
	}
	return total;
}

// Memory for file content, aligned like the memory of the writer.
struct Buffer {
	static constexpr size_t kSize = kMaxChunk;
	struct alignas(64) Block {
		char bytes[64];
	};
	std::unique_ptr<Block[]> blocks{new Block[kSize / sizeof(Block)]};
	char *data() { return blocks[0].bytes; }
};

std::string problemOf(const Header &header, size_t got)
{
	if (got < sizeof kMagic || memcmp(header.magic, kMagic, sizeof kMagic) != 0)
		return got == 0 ? "empty file" : "not an autoamp trace";
	if (got < sizeof header)
		return "cut off in its header";
	if (header.byteOrder == __builtin_bswap32(kByteOrder))
		return "written on a machine of the other byte order";
	if (header.byteOrder != kByteOrder)
		return "damaged header";
	if (header.version != kVersion)
		return "format version " + std::to_string(header.version) + ", this program reads version " +
		       std::to_string(kVersion);
	if (header.headerSize < sizeof header || header.headerSize > kMaxChunk || header.headerSize % kPage)
		return "damaged header";
	return {};
}

// Returns whether a trace must be read together with its tail: its header requires it, or the header was truncated
// away.
bool needsTail(const Header &header, size_t got)
{
	if (got >= sizeof kMagic && memcmp(header.magic, kMagic, sizeof kMagic) == 0)
		return got < sizeof header || (header.flags & (headerTail | headerIsTail)) == headerTail;
	const char *bytes = header.magic;
	return std::all_of(bytes, bytes + std::min(got, sizeof header.magic), [](char byte) { return byte == 0; });
}

struct FoundChunk {
	ChunkKind kind;
	uint32_t sequence, number, lane, size, bytes; // size: chunk size; bytes: valid bytes
	uint64_t offset;
	bool isCut; // the file ends inside it
};

template <class Visit>
void forEachChunk(int file, uint64_t from, uint64_t fileSize, Visit visit)
{
	for (uint64_t offset = from; offset + sizeof(Chunk) <= fileSize;) {
		Chunk chunk;
		if (readAt(file, static_cast<void *>(&chunk), sizeof chunk, offset) < sizeof chunk)
			break;
		if (chunk.magic != kChunkMagic || chunk.size < kPage || chunk.size > kMaxChunk || chunk.size % kPage) {
			offset += kPage; // never used, or damaged: look for the next one
			continue;
		}
		const uint64_t there = std::min<uint64_t>(chunk.size, fileSize - offset);
		const uint64_t committed = chunk.committed.load();
		visit(FoundChunk{chunk.kind, chunk.sequence(), chunk.number(), chunk.kind == ChunkKind::events ? chunk.lane : 0,
		                 chunk.size, static_cast<uint32_t>(std::min(committed, there)), offset,
		                 committed > there && committed <= chunk.size});
		offset += chunk.size;
	}
}

// Returns "" if the writer has reused the memory of the chunk meanwhile; the chunk is then in the trace.
std::string readWhole(int file, const FoundChunk &found)
{
	std::string content(found.bytes, 0);
	Chunk head;
	content.resize(readAt(file, content.data(), content.size(), found.offset));
	const bool isRead = readAt(file, static_cast<void *>(&head), sizeof head, found.offset) == sizeof head;
	return isRead && head.sequence() == found.sequence ? content : std::string();
}

// The tail of a trace, see docs/trace-format.md. Closed with the object.
struct Tail {
	std::string path;
	int file = -1;
	uint64_t size = 0;
	Header header = {};
	std::map<uint32_t, std::string> content; // the chunks, by sequence

	Tail() = default;
	Tail(const Tail &) = delete;
	Tail &operator=(const Tail &) = delete;
	~Tail()
	{
		if (file >= 0)
			::close(file);
	}
	// Returns false if the trace has no tail. `its`: the header of the trace, of which `got` bytes are valid.
	bool open(const std::string &trace, const Header &its, size_t got)
	{
		char name[4096];
		struct stat status;
		if (!tailName(trace.c_str(), name, sizeof name))
			return false;
		path = name;
		file = ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		const bool isFile = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
		const size_t read = isFile ? readAt(file, static_cast<void *>(&header), sizeof header, 0) : 0;
		const bool isIts =
		    got < sizeof header || memcmp(its.magic, kMagic, sizeof kMagic) != 0 ||
		    (header.pid == its.pid && header.startedNs == its.startedNs && header.first.ticks == its.first.ticks);
		if (isFile && isIts && problemOf(header, read).empty()) {
			size = static_cast<uint64_t>(status.st_size);
			return true;
		}
		if (file >= 0)
			::close(std::exchange(file, -1));
		return false;
	}
};

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
				inTail[chunk.sequence].bytes = static_cast<uint32_t>(content.size());
			});
		std::vector<Place> records;
		const auto add = [&](const FoundChunk &chunk, std::string content) {
			auto &places = chunk.kind == ChunkKind::events    ? trace.chunks_
			               : chunk.kind == ChunkKind::kernels ? trace.kernelChunks_
			                                                  : records;
			if (chunk.kind <= ChunkKind::kernels && chunk.kind >= ChunkKind::records)
				places.push_back(
				    {chunk.sequence, chunk.number, chunk.offset, chunk.bytes, chunk.lane, std::move(content)});
		};
		forEachChunk(file(), header.headerSize, fileSize, [&](const FoundChunk &chunk) {
			trace.loss.truncated |= chunk.isCut;
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
		trace.loss.eventsMissing = missing(trace.chunks_) * kEventsInChunk;
		trace.loss.singleKernelsMissing = missing(trace.kernelChunks_) * kKernelsInChunk;
		trace.loss.truncated |= missing(records) > 0;
		for (const Place &chunk : records)
			readRecords(trace.read(chunk, buffer.data()));
	}

	// Number of missing chunks below the highest number of each lane. They were full: only the newest chunk of a lane
	// is not.
	static uint64_t missing(const std::vector<Place> &places)
	{
		std::map<uint32_t, std::pair<uint64_t, uint64_t>> lanes; // highest number; how many chunks have a number
		for (const Place &place : places) {
			auto &[highest, count] = lanes[place.lane];
			highest = std::max<uint64_t>(highest, place.number);
			count += place.number > 0;
		}
		uint64_t sum = 0;
		for (const auto &[lane, found] : lanes)
			sum += found.first - std::min(found.first, found.second);
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

	// The record as a T if it is long enough and aligned for a T, otherwise null.
	template <class T>
	static const T *as(const Record &record, size_t at)
	{
		return record.size >= sizeof(T) && at % alignof(T) == 0 ? static_cast<const T *>(&record) : nullptr;
	}

	// Returns false if a record of a known type is damaged.
	bool readRecord(const Record &record, size_t at)
	{
		switch (record.type) {
		case RecordType::string:
			if (auto *string = as<StringRecord>(record, at); string && string->length <= record.size - sizeof *string)
				return trace.texts_[string->id].assign(reinterpret_cast<const char *>(string + 1), string->length),
				       true;
			return false;
		case RecordType::property:
			if (auto *property = as<PropertyRecord>(record, at))
				return readProperty(*property), true;
			return false;
		case RecordType::row:
			if (auto *row = as<RowRecord>(record, at))
				return readRow(*row);
			return false;
		case RecordType::lane:
			if (auto *lane = as<LaneRecord>(record, at)) {
				trace.lanes.push_back({lane->lane, lane->tid, static_cast<uint32_t>(lane->mark.load())});
				trace.loss.eventsDropped += lane->dropped.load();
				return true;
			}
			return false;
		case RecordType::cells:
			if (auto *cells = as<CellsRecord>(record, at);
			    cells && cells->count <= (record.size - sizeof *cells) / sizeof(Cell)) {
				for (const Cell *cell = cells->cells(); cell < cells->cells() + cells->count; ++cell)
					addCell(*cell, cells->lane);
				return true;
			}
			return false;
		case RecordType::scaler:
			if (auto *event = as<ScalerRecord>(record, at)) {
				trace.scaler.push_back({since(event->ticks, header.first.ticks),
				                        text(event->kind),
				                        {},
				                        event->row,
				                        static_cast<char>(event->operand),
				                        std::exp2(double{event->exponentBefore}),
				                        std::exp2(double{event->exponentAfter}),
				                        event->amax});
				if (auto *loss = as<LossRecord>(record, at)) {
					ScalerInfo &info = trace.scaler.back();
					info.excess = loss->excess, info.lostRows = loss->lostRows, info.lostColumns = loss->lostColumns;
				}
				return true;
			}
			return false;
		case RecordType::scalerTotal:
			if (auto *total = as<ScalerTotalRecord>(record, at)) {
				trace.scalerTotals.push_back(
				    {text(total->kind), {}, total->row, static_cast<char>(total->operand), total->count.load()});
				return true;
			}
			return false;
		case RecordType::note:
			if (auto *note = as<NoteRecord>(record, at)) {
				trace.notes.push_back({text(note->kind), text(note->text), note->row, note->count.load(),
				                       since(note->firstTicks, header.first.ticks),
				                       since(note->lastTicks.load(), header.first.ticks)});
				return true;
			}
			return false;
		case RecordType::kernelTotal:
			if (auto *total = as<KernelTotalRecord>(record, at))
				return readKernels(*total), true;
			return false;
		case RecordType::kernelLaunches:
			if (auto *launches = as<LaunchRecord>(record, at)) {
				trace.launches = {launches->launched.load(), launches->received.load(), launches->graphs.load(),
				                  launches->graphsReceived.load()};
				return true;
			}
			return false;
		case RecordType::kernelLoss:
			if (auto *losses = as<KernelLossRecord>(record, at)) {
				trace.hasKernels = true;
				trace.loss.kernelsUnattributed += losses->unattributed.load();
				trace.loss.invalidTimestamps += losses->invalid.load();
				trace.loss.kernelsDropped += losses->dropped.load();
				trace.loss.kernelsCapped += losses->singles.load();
				return true;
			}
			return false;
		case RecordType::cuptiOverhead:
			if (auto *overhead = as<CuptiOverheadRecord>(record, at)) {
				const bool isUnknown = header.flags & headerEmulated || overhead->flags & kernelEmulated;
				trace.overhead.push_back({text(overhead->kind), overhead->count.load(),
				                          isUnknown ? kUnknown : static_cast<double>(overhead->ns.load())});
				return true;
			}
			return false;
		case RecordType::clock:
			if (auto *clock = as<ClockRecord>(record, at)) {
				trace.clocks.push_back({since(clock->monotonicNs, header.first.monotonicNs), clock->monotonicNs,
				                        clock->realtimeNs, clock->cuptiNs});
				return true;
			}
			return false;
		case RecordType::capture:
			if (auto *capture = as<CaptureRecord>(record, at)) {
				trace.capture = {capture->outside.load(), capture->begun.load()};
				return true;
			}
			return false;
		case RecordType::padding:
			break;
		}
		return true; // a record type of a later minor version
	}

	void readProperty(const PropertyRecord &property)
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
			      std::pair{"rank", &trace.rank}, std::pair{"ranks", &trace.ranks}, std::pair{"job", &trace.job}})
				if (name == key)
					*field = value;
		}
	}

	bool readRow(const RowRecord &record)
	{
		if (record.id == 0 || record.id >= kRowLimit || trace.row(record.id))
			return false;
		RowInfo row;
		char site[16];
		snprintf(site, sizeof site, "%08x", record.site);
		row.id = record.id;
		row.site = site;
		row.entry = text(record.entry);
		row.library = text(record.library);
		row.op = text(record.op);
		row.caller = text(record.caller);
		if (record.size >= sizeof(RegionRowRecord)) {
			row.region = text(static_cast<const RegionRowRecord &>(record).region);
			row.shape = text(static_cast<const RegionRowRecord &>(record).shape);
		}
		if (record.size >= sizeof(CauseRowRecord))
			row.cause = text(static_cast<const CauseRowRecord &>(record).cause);
		row.dtypeIn = text(record.dtypeIn);
		row.dtypeAsked = text(record.dtypeAsked);
		row.dtypeCompute = text(record.dtypeCompute);
		row.dtypeAccumulate = text(record.dtypeAccumulate);
		row.dtypeOut = text(record.dtypeOut);
		row.decision = text(record.decision);
		row.reason = text(record.reason);
		row.strategy = text(record.strategy);
		row.m = record.m;
		row.n = record.n;
		row.k = record.k;
		row.batch = record.batch;
		row.transa = record.transa;
		row.transb = record.transb;
		row.device = record.device;
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

	void readKernels(const KernelTotalRecord &record)
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
		const bool isOpen = header.end.load() == static_cast<uint32_t>(End::open);
		trace.loss.tailMissing = isOpen && trace.ended != "running" &&
		                         (header.flags & headerWritten || (needsTail(header, sizeof header) && tail.file < 0));
		trace.loss.callsLost = header.lostCalls.load();
		trace.loss.diskFull = header.stopped.load() == static_cast<uint64_t>(Stopped::diskFull);
		trace.loss.unwritable = header.stopped.load() == static_cast<uint64_t>(Stopped::unwritable);
		const Loss &loss = trace.loss;
		if (loss.eventsDropped || loss.callsLost || loss.diskFull || loss.unwritable || loss.eventsMissing ||
		    loss.singleKernelsMissing || loss.tailMissing || fileSize < header.fileSize.load())
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

Trace::File::~File()
{
	if (descriptor >= 0)
		close(descriptor);
}

const RowInfo *Trace::row(uint32_t id) const
{
	const uint32_t at = id < rowIndex_.size() ? rowIndex_[id] : 0;
	return at ? &rows[at - 1] : nullptr;
}

const std::string &Trace::text(uint32_t id) const
{
	static const std::string none;
	auto found = texts_.find(id);
	return found == texts_.end() ? none : found->second;
}

size_t Trace::read(const Place &chunk, char *out) const
{
	if (chunk.content.empty())
		return readAt(file_.descriptor, out, chunk.bytes, chunk.offset);
	memcpy(out, chunk.content.data(), chunk.content.size());
	return chunk.content.size();
}

template <class T, class Visit>
void Trace::forEachIn(const std::vector<Place> &chunks, Visit visit) const
{
	Buffer buffer;
	for (const Place &chunk : chunks) {
		const size_t got = read(chunk, buffer.data());
		auto *thing = reinterpret_cast<const T *>(buffer.data() + sizeof(Chunk));
		const size_t count = got > sizeof(Chunk) ? (got - sizeof(Chunk)) / sizeof(T) : 0;
		for (size_t at = 0; at < count; ++at)
			visit(thing[at], chunk, at);
	}
}

void Trace::forEachEvent(const std::function<void(const EventInfo &)> &visit) const
{
	std::unordered_map<uint32_t, uint64_t> counts; // by lane
	forEachIn<Event>(chunks_, [&](const Event &event, const Place &chunk, size_t at) {
		uint64_t &count = counts[chunk.lane];
		count = chunk.number ? uint64_t{chunk.number - 1} * kEventsInChunk + at + 1 : count + 1;
		visit({static_cast<uint32_t>(event.packed >> 44), chunk.lane, (event.packed >> 40 & eventCaptured) != 0,
		       since(event.start, firstTicks_) * nsPerTick_,
		       static_cast<double>(event.packed & kMaxDuration) * nsPerTick_, uint64_t{chunk.lane} << 32 | count});
	});
}

void Trace::forEachKernel(const std::function<void(const KernelInfo &)> &visit) const
{
	forEachIn<Kernel>(kernelChunks_, [&](const Kernel &kernel, const Place &, size_t) {
		visit({text(kernel.name), kernel.row, kernel.device, kernel.stream, kernel.call,
		       (kernel.flags & kernelOurs) != 0, (kernel.flags & kernelMemory) != 0, (kernel.flags & kernelGraph) != 0,
		       (kernel.flags & kernelOutside) != 0, static_cast<double>(kernel.startNs),
		       static_cast<double>(kernel.endNs - kernel.startNs)});
	});
}

bool isBeingWritten(const std::string &path)
{
	const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const bool isWritten = file >= 0 && isBeingWritten(file);
	if (file >= 0)
		close(file);
	return isWritten;
}

std::optional<Writer> writerOf(const std::string &path)
{
	const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Header header = {};
	const size_t got = file >= 0 ? readAt(file, static_cast<void *>(&header), sizeof header, 0) : 0;
	const bool isFile = file >= 0;
	if (isFile)
		close(file);
	Tail tail;
	if (got == sizeof header && memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.byteOrder == kByteOrder)
		return Writer{header.pid, header.startedNs, header.run};
	if (isFile && needsTail(header, got) && tail.open(path, header, got)) // the header was truncated away
		return Writer{tail.header.pid, tail.header.startedNs, tail.header.run};
	return std::nullopt;
}

std::optional<RunIds> runIdsOf(const std::string &path)
{
	const auto writer = writerOf(path);
	return writer ? std::optional(writer->run) : std::nullopt;
}

bool conclude(const std::string &path, const Conclusion &conclusion)
{
	const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	Header header = {};
	struct stat status;
	const bool isOurs = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && !isBeingWritten(file);
	const size_t got = isOurs ? readAt(file, static_cast<void *>(&header), sizeof header, 0) : 0;
	const bool isDone = got == sizeof header && !needsTail(header, got) && problemOf(header, got).empty() &&
	                    pwrite(file, &conclusion, sizeof conclusion, offsetof(Header, conclusion)) == sizeof conclusion;
	if (file >= 0)
		::close(file);
	return isDone;
}

bool foldTail(const std::string &path)
{
	struct File {
		int descriptor;
		~File()
		{
			if (descriptor >= 0)
				::close(descriptor);
		}
		bool write(const void *data, size_t size, uint64_t offset) const
		{
			return pwrite(descriptor, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
		}
	} file = {::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
	struct stat status;
	Header header;
	if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	const size_t got = readAt(file.descriptor, static_cast<void *>(&header), sizeof header, 0);
	if (!needsTail(header, got))
		return true;
	Tail tail;
	if (isBeingWritten(file.descriptor) || !tail.open(path, header, got))
		return false;
	const auto size = static_cast<uint64_t>(status.st_size);
	std::map<uint32_t, FoundChunk> known;
	forEachChunk(file.descriptor, tail.header.headerSize, size,
	             [&](const FoundChunk &chunk) { known[chunk.sequence] = chunk; });
	uint64_t end = std::max<uint64_t>((size + kPage - 1) / kPage * kPage, tail.header.headerSize);
	bool isWritten = true;
	forEachChunk(tail.file, tail.header.headerSize, tail.size, [&](const FoundChunk &chunk) {
		std::string content = readWhole(tail.file, chunk);
		const auto old = known.find(chunk.sequence);
		const bool isKnown = old != known.end();
		if (content.size() <= sizeof(Chunk) || (isKnown && old->second.bytes > content.size()))
			return;
		uint32_t room = (chunk.bytes + kPage - 1) / kPage * kPage;
		uint64_t offset = end;
		if (isKnown) {
			room = old->second.size;
			offset = old->second.offset;
			content.resize(std::min<size_t>(content.size(), room));
		} else {
			end += room;
		}
		const uint64_t bytes = content.size();
		memcpy(content.data() + offsetof(Chunk, size), &room, sizeof room);
		memcpy(content.data() + offsetof(Chunk, committed), &bytes, sizeof bytes);
		isWritten = isWritten && file.write(content.data(), content.size(), offset);
	});
	tail.header.flags &= ~(headerTail | headerIsTail);
	tail.header.fileSize.store(end);
	isWritten = isWritten && (end <= size || ftruncate(file.descriptor, static_cast<off_t>(end)) == 0) &&
	            file.write(static_cast<void *>(&tail.header), sizeof tail.header, 0);
	return isWritten && unlink(tail.path.c_str()) == 0;
}

std::vector<std::string> family(const std::string &path)
{
	std::vector<std::string> files;
	const auto run = runIdsOf(path);
	const size_t base = path.rfind('/') + 1;
	size_t suffix = path.rfind('.');
	if (suffix == std::string::npos || suffix <= base)
		suffix = path.size();
	const auto part = [&](uint64_t number) {
		return number ? path.substr(0, suffix) + "." + std::to_string(number) + path.substr(suffix) : path;
	};
	uint64_t number = 0;
	for (; access(part(number).c_str(), F_OK) == 0; ++number) {
		const auto other = runIdsOf(part(number));
		if (!run || !other || other->isPartOf(run->inner))
			files.push_back(part(number));
	}
	if (!run || run->inner == 0)
		return files;
	// For files after a deleted one, only the id decides.
	std::set<uint64_t> later;
	DIR *const folder = opendir(base ? path.substr(0, base).c_str() : ".");
	for (const dirent *entry = folder ? readdir(folder) : nullptr; entry; entry = readdir(folder)) {
		char *end = nullptr;
		const std::string name = path.substr(0, base) + entry->d_name;
		if (name.compare(0, suffix, path, 0, suffix) != 0 || name.size() < suffix + 2 || name[suffix] != '.')
			continue;
		const uint64_t found = strtoull(name.c_str() + suffix + 1, &end, 10);
		if (end - name.c_str() > static_cast<ptrdiff_t>(suffix + 1) && path.substr(suffix) == end && found > number)
			later.insert(found);
	}
	if (folder)
		closedir(folder);
	for (const uint64_t found : later)
		if (const auto other = runIdsOf(part(found)); other && other->isPartOf(run->inner))
			files.push_back(part(found));
	return files;
}

} // namespace autoamp::trace
