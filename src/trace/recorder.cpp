#include "src/trace/recorder.h"

#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/run_board.h"
#include "src/trace/naming.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace autoamp::trace {
namespace {

constexpr size_t kKeptFiles = 200;
constexpr uint64_t kKeptBytes = 1u << 30;
constexpr uint64_t kSingleScalerEvents = 64;
constexpr uint32_t kFirstCells = 4, kMostCells = 64;
constexpr unsigned kArguments = 256;

ClockPair clockPair()
{
	return {base::ticks(), base::nanoseconds(CLOCK_MONOTONIC)};
}

size_t readFile(const char *path, char *out, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	size_t total = 0;
	for (ssize_t got; file >= 0 && total < size && (got = read(file, out + total, size - total)) > 0;)
		total += static_cast<size_t>(got);
	if (file >= 0)
		close(file);
	return total;
}

} // namespace

class Recorder::Lock
{
public:
	explicit Lock(Recorder &recorder) : recorder_(recorder) { pthread_mutex_lock(&recorder_.mutex_); }
	~Lock()
	{
		if (recorder_.isNew_ && !recorder_.file_.isKillSafe() && recorder_.isOpen()) {
			recorder_.isNew_ = false;
			recorder_.file_.flush(false);
		}
		pthread_mutex_unlock(&recorder_.mutex_);
	}

private:
	base::CallerState callerState_; // released after the mutex
	Recorder &recorder_;
};

// --- life -----------------------------------------------------------------------------------------------------------

bool Recorder::open(const Options &options)
{
	Lock lock(*this);
	if (file_.state() != File::State::none)
		return isOpen();
	if (options.mode == Mode::off || !makeFile(options)) {
		file_.giveUp();
		return false;
	}
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
		if (!lane->free_)
			writeLane(*lane);
	for (size_t row = 0; row < properties_.size(); ++row)
		writeProperty(properties_[row]);
	file_.flush(true);
	return isOpen();
}

bool Recorder::makeFile(const Options &options)
{
	struct Scratch { // too much for a small thread's stack
		char pattern[4096], exe[4096], host[256], program[256], arguments[64 << 10];
	};
	struct Pages {
		Scratch *scratch = static_cast<Scratch *>(base::mapPages(sizeof(Scratch)));
		~Pages() { base::unmapPages(scratch, sizeof(Scratch)); }
	} pages;
	Scratch *scratch = pages.scratch;
	if (!scratch)
		return false;

	const ClockPair first = clockPair();
	const uint64_t started = base::nanoseconds(CLOCK_REALTIME);
	size_t size = readFile("/proc/self/cmdline", scratch->arguments, sizeof scratch->arguments - 1);
	programName(scratch->arguments, size, scratch->program, sizeof scratch->program);
	gethostname(scratch->host, sizeof scratch->host - 1);
	if (readlink("/proc/self/exe", scratch->exe, sizeof scratch->exe - 1) < 0)
		scratch->exe[0] = 0;
	NameParts parts;
	parts.program = scratch->program;
	parts.host = scratch->host;
	parts.rank = jobRank(options.lookup);
	parts.pid = static_cast<uint32_t>(getpid());
	parts.time = static_cast<int64_t>(started / 1'000'000'000);
	parts.lookup = options.lookup;

	const char *pattern = options.pattern;
	const bool inDir = !pattern || !*pattern;
	if (inDir) {
		size_t length = 0;
		for (const char *at = options.dir; *at && length + 32 < sizeof scratch->pattern; ++at) {
			if (*at == '%')
				scratch->pattern[length++] = '%';
			scratch->pattern[length++] = *at;
		}
		strcpy(scratch->pattern + length, "/%e.%t.%p.aat");
		pattern = scratch->pattern;
	}
	singles_ = options.mode >= Mode::ops;
	base::AttachedBoard board(options.lookup ? options.lookup(base::runBoardVariable) : nullptr);
	if (char why[PATH_MAX + 256]; !file_.create(pattern, parts, options.maxSize, why, sizeof why)) {
		board.report(base::RunBoard::Failure::noTrace, why);
		return false;
	}
	const bool isForked = generation_++ > 0;
	isCapped_ = false;
	records_ = nullptr;
	chunksMade_ = 0;
	Header *header = file_.header();
	header->version = kVersion;
	header->byteOrder = kByteOrder;
	header->headerSize = kPage;
	header->flags = (options.emulated ? headerEmulated : 0) | (singles_ ? headerSingles : 0) |
	                (file_.isKillSafe() ? headerTail | headerIsTail : headerWritten) | (isForked ? headerForked : 0);
	header->startedNs = static_cast<int64_t>(started);
	header->first = first;
	header->last = clockPair();
	header->pid = parts.pid;
	header->parent = static_cast<uint32_t>(getppid());
	header->run = runIds(options.lookup);
	header->job = header->run.outer ? header->run.outer : jobOf(options.lookup);
	header->number = board.join(header->run.inner);
	// Last: a file without it is not a trace.
	std::atomic_signal_fence(std::memory_order_release);
	memcpy(header->magic, kMagic, sizeof kMagic);

	addProperty("run", "exe", scratch->exe, "");
	addProperty("run", "program", scratch->program, "");
	addProperty("run", "host", scratch->host, "");
	if (*parts.rank)
		addProperty("run", "rank", parts.rank, "");
	if (const char *ranks = jobRanks(options.lookup); *ranks)
		addProperty("run", "ranks", ranks, "");
	if (const char *job = jobName(options.lookup); *job)
		addProperty("run", "job", job, "");
	unsigned number = 0;
	for (size_t at = 0; at < size && number < kArguments; at += strlen(scratch->arguments + at) + 1) {
		char name[16];
		snprintf(name, sizeof name, "%u", number++);
		addProperty("argument", name, scratch->arguments + at, "");
	}
	if (const size_t removed = inDir ? prune(options.dir, kKeptFiles, kKeptBytes, parts.time) : 0)
		base::log(base::LogLevel::info, "%s: removed %zu traces of old jobs", options.dir, removed);
	return true;
}

void Recorder::close(int status)
{
	Lock lock(*this);
	Header *header = file_.header();
	if (!header || file_.state() == File::State::closed)
		return;
	header->last = clockPair();
	header->status = status;
	header->end.store(static_cast<uint32_t>(status < 0 ? End::exited : End::exitedWith));
	bool isInUse = false; // other threads finish calls after this
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
		isInUse |= lane->lane_->mark.load(std::memory_order_relaxed) != 0;
	file_.close(isInUse);
}

void Recorder::addLost(uint64_t calls)
{
	Lock lock(*this);
	if (Header *header = file_.header())
		header->lostCalls.fetch_add(calls, std::memory_order_relaxed);
}

CaptureRecord *Recorder::capture()
{
	Lock lock(*this);
	auto *const record = append<CaptureRecord>(RecordType::capture);
	if (record)
		commit();
	return record;
}

LaunchRecord *Recorder::launches()
{
	Lock lock(*this);
	auto *const record = append<LaunchRecord>(RecordType::kernelLaunches);
	if (record)
		commit();
	return record;
}

void Recorder::beforeFork()
{
	pthread_mutex_lock(&mutex_);
}
void Recorder::afterForkInParent()
{
	pthread_mutex_unlock(&mutex_);
}

void Recorder::afterForkInChild(Lane *own)
{
	base::CallerState callerState;
	// From here on, nothing is written to the parent's file.
	file_.forget();
	records_ = nullptr;
	kernels_ = nullptr;
	kernelLoss_ = nullptr;
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_) {
		lane->cellTable_.clear();
		lane->cells_ = nullptr;
		lane->cellCount_ = 0;
		lane->next_ = lane->end_ = nullptr;
		lane->chunk_ = nullptr;
		lane->eventsBefore_ = 0;
		lane->block_ = nullptr;
		lane->lane_ = &lane->none_;
		lane->singles_ = false;
		lane->free_ = lane != own; // the other threads do not exist in the child
	}
	mutex_ = PTHREAD_MUTEX_INITIALIZER;
}

Chunk *Recorder::beginChunk(char *memory, ChunkKind kind, uint64_t size, uint32_t lane, uint32_t number)
{
	auto *chunk = new (memory) Chunk();
	chunk->kind = kind;
	chunk->size = static_cast<uint32_t>(size);
	chunk->lane = lane;
	chunk->committed.store(sizeof(Chunk), std::memory_order_relaxed);
	chunk->order.store(uint64_t{number} << 32 | chunksMade_++, std::memory_order_relaxed);
	std::atomic_signal_fence(std::memory_order_release);
	chunk->magic = kChunkMagic; // last: the process may be killed in between
	return chunk;
}

bool Recorder::openRecords(uint64_t need)
{
	need += sizeof(Chunk) + 64; // for alignment
	const uint32_t number = records_ ? records_->number() + 1 : 1;
	if (records_)
		file_.flush(false);
	// The first chunk shares its space with the header.
	const uint64_t size = std::max<uint64_t>(number == 1 ? kRecordChunk - kPage : kRecordChunk, base::pageRound(need));
	char *memory = file_.take(size);
	if (!memory)
		return false;
	records_ = beginChunk(memory, ChunkKind::records, size, 0, number);
	recordsEnd_ = sizeof(Chunk);
	return true;
}

// Space for a record, zeroed except its head. commit() makes the record part of the file.
template <class T>
T *Recorder::append(RecordType type, size_t more)
{
	const uint64_t size = (sizeof(T) + more + 7) & ~uint64_t{7};
	if (!isOpen())
		return nullptr;
	auto aligned = [this] { return (recordsEnd_ + alignof(T) - 1) & ~uint64_t{alignof(T) - 1}; };
	if ((!records_ || aligned() + size > records_->size) && !openRecords(size))
		return nullptr;
	char *chunk = reinterpret_cast<char *>(records_);
	if (const uint64_t gap = aligned() - recordsEnd_) {
		auto *padding = new (chunk + recordsEnd_) Record();
		padding->size = static_cast<uint32_t>(gap);
		recordsEnd_ += gap;
	}
	T *record = new (chunk + recordsEnd_) T();
	record->type = type;
	record->size = static_cast<uint32_t>(size);
	recordsEnd_ += size;
	return record;
}

void Recorder::commit()
{
	records_->committed.store(recordsEnd_, std::memory_order_release);
	file_.header()->last = clockPair();
	isNew_ = true;
}

// --- content of records ---------------------------------------------------------------------------------------------

uint32_t Recorder::intern(const char *text)
{
	size_t length = text ? strnlen(text, kMaxString) : 0;
	if (length == kMaxString)
		while (length && (text[length] & 0xc0) == 0x80) // between characters
			length--;
	if (!length)
		return 0;
	const uint64_t hash = base::hashBytes(text, length);
	Text *known = textIndex_.find(
	    hash, [&](const Text &other) { return other.length == length && memcmp(other.bytes, text, length) == 0; });
	if (known)
		return known->id;
	known = arena_.make<Text>(length);
	if (!known || !texts_.push(known))
		return 0;
	known->id = static_cast<uint32_t>(texts_.size());
	known->length = static_cast<uint32_t>(length);
	memcpy(known->bytes, text, length);
	textIndex_.add(hash, known);
	return known->id;
}

bool Recorder::writeText(uint32_t id)
{
	if (id == 0 || texts_[id - 1]->written == generation_)
		return true;
	Text *text = texts_[id - 1];
	auto *record = append<StringRecord>(RecordType::string, text->length);
	if (!record)
		return false;
	record->id = id;
	record->length = text->length;
	memcpy(record + 1, text->bytes, text->length);
	commit();
	text->written = generation_;
	return true;
}

void Recorder::addProperty(const char *group, const char *name, const char *value, const char *origin)
{
	const Property added = {intern(group), intern(name), intern(value), intern(origin)};
	for (const Property &known : properties_)
		if (memcmp(&known, &added, sizeof added) == 0)
			return;
	properties_.push(added);
}

void Recorder::writeProperty(const Property &property)
{
	for (uint32_t text : {property.group, property.name, property.value, property.origin})
		writeText(text);
	if (auto *record = append<PropertyRecord>(RecordType::property)) {
		record->group = property.group;
		record->name = property.name;
		record->value = property.value;
		record->origin = property.origin;
		commit();
	}
}

void Recorder::property(const char *group, const char *name, const char *value, const char *origin)
{
	Lock lock(*this);
	const size_t before = properties_.size();
	addProperty(group, name, value, origin);
	if (isOpen() && properties_.size() > before)
		writeProperty(properties_[before]);
}

RowId Recorder::row(const Row &row)
{
	Lock lock(*this);
	CauseRowRecord record = {};
	record.type = RecordType::row;
	record.size = sizeof(RowRecord);
	record.entry = intern(row.entry);
	if (rows_.size() + 1 >= kMaxRows)
		record.entry = intern("(more signatures)");
	else {
		record.library = intern(row.library);
		record.op = intern(row.op);
		record.caller = intern(row.caller);
		record.dtypeIn = intern(row.dtypeIn);
		record.dtypeAsked = intern(row.dtypeAsked);
		record.dtypeCompute = intern(row.dtypeCompute);
		record.dtypeAccumulate = intern(row.dtypeAccumulate);
		record.dtypeOut = intern(row.dtypeOut);
		record.decision = intern(row.decision);
		record.reason = intern(row.reason);
		record.strategy = intern(row.strategy);
		record.m = row.m;
		record.n = row.n;
		record.k = row.k;
		record.batch = row.batch;
		record.estNs = row.estNs;
		record.estLoweredNs = row.estLoweredNs;
		record.device = row.device;
		record.transa = row.transa;
		record.transb = row.transb;
		record.flags = (row.eligible ? rowEligible : 0) | (row.isCounted ? rowCounted : 0);
		record.region = intern(row.region);
		record.shape = intern(row.shape);
		record.cause = intern(row.cause);
		if (record.cause)
			record.size = sizeof record;
		else if (record.region || record.shape)
			record.size = sizeof(RegionRowRecord);
	}
	uint64_t site = base::hashBytes(row.entry, row.entry ? strlen(row.entry) : 0);
	site = base::hashBytes(&record.m, 4 * sizeof record.m, site);
	site = base::hashByte(static_cast<unsigned char>(record.transa), site);
	site = base::hashByte(static_cast<unsigned char>(record.transb), site);
	site = base::hashBytes(row.caller, row.caller ? strlen(row.caller) : 0, site);
	site = base::hashBytes(row.region, row.region ? strlen(row.region) : 0, site);
	site = base::hashBytes(row.shape, row.shape ? strlen(row.shape) : 0, site);
	record.site = static_cast<uint32_t>(site ^ (site >> 32));

	constexpr size_t from = sizeof(Record) + 2 * sizeof(uint32_t); // after id and site
	auto key = [](const CauseRowRecord &known) { return reinterpret_cast<const char *>(&known) + from; };
	const uint64_t hash = base::hashBytes(key(record), sizeof record - from);
	KnownRow *known = rowIndex_.find(
	    hash, [&](const KnownRow &other) { return memcmp(key(other.record), key(record), sizeof record - from) == 0; });
	if (known)
		return known->record.id;
	known = arena_.make<KnownRow>();
	if (!known || !rows_.push(known))
		return 0;
	record.id = static_cast<uint32_t>(rows_.size());
	known->record = record;
	rowIndex_.add(hash, known);
	return record.id;
}

bool Recorder::writeRow(RowId row)
{
	if (row == 0 || row > rows_.size())
		return false;
	KnownRow *known = rows_[row - 1];
	if (known->written == generation_)
		return true;
	const CauseRowRecord &record = known->record;
	for (uint32_t text : {record.entry, record.library, record.op, record.caller, record.dtypeIn, record.dtypeAsked,
	                      record.dtypeCompute, record.dtypeAccumulate, record.dtypeOut, record.decision, record.reason,
	                      record.strategy, record.region, record.shape, record.cause})
		writeText(text);
	auto *written = append<Record>(RecordType::row, record.size - sizeof(Record));
	if (!written)
		return false;
	memcpy(written, &record, record.size);
	commit();
	known->written = generation_;
	return true;
}

void Recorder::scaler(const ScalerEvent &event)
{
	Lock lock(*this);
	if (!isOpen())
		return;
	const uint32_t key[3] = {event.row, intern(event.kind), static_cast<uint32_t>(event.operand)};
	const uint64_t hash = base::hashBytes(key, sizeof key);
	KnownScaler *known =
	    scalerIndex_.find(hash, [&](const KnownScaler &other) { return memcmp(&other, key, sizeof key) == 0; });
	if (!known) {
		known = arena_.make<KnownScaler>();
		if (!known)
			return;
		memcpy(static_cast<void *>(known), key, sizeof key);
		scalerIndex_.add(hash, known);
	}
	if (known->written != generation_) {
		writeText(known->kind);
		writeRow(known->row);
		known->total = append<ScalerTotalRecord>(RecordType::scalerTotal);
		if (!known->total)
			return;
		known->total->row = known->row;
		known->total->kind = known->kind;
		known->total->operand = known->operand;
		commit();
		known->written = generation_;
		known->singles = 0;
	}
	Lane::add(known->total->count, event.count);
	if (!event.isSingle || ++known->singles > kSingleScalerEvents)
		return;
	const bool hasLoss = event.excess >= 0;
	if (auto *record =
	        append<ScalerRecord>(RecordType::scaler, hasLoss ? sizeof(LossRecord) - sizeof(ScalerRecord) : 0)) {
		if (hasLoss) {
			auto *loss = static_cast<LossRecord *>(record);
			loss->excess = event.excess;
			loss->lostRows = event.lostRows;
			loss->lostColumns = event.lostColumns;
		}
		record->ticks = event.ticks ? event.ticks : base::ticks();
		record->row = known->row;
		record->kind = known->kind;
		record->operand = known->operand;
		record->exponentBefore = event.exponentBefore;
		record->exponentAfter = event.exponentAfter;
		record->amax = event.amax;
		commit();
	}
}

void Recorder::note(const char *kind, const char *text, RowId row, uint64_t count)
{
	Lock lock(*this);
	if (!isOpen())
		return;
	const uint32_t key[3] = {intern(kind), intern(text), row};
	const uint64_t hash = base::hashBytes(key, sizeof key);
	KnownNote *known =
	    noteIndex_.find(hash, [&](const KnownNote &other) { return memcmp(&other, key, sizeof key) == 0; });
	if (!known) {
		known = arena_.make<KnownNote>();
		if (!known)
			return;
		memcpy(static_cast<void *>(known), key, sizeof key);
		noteIndex_.add(hash, known);
	}
	const uint64_t now = base::ticks();
	if (known->written != generation_) {
		writeText(known->kind);
		writeText(known->text);
		writeRow(row);
		known->record = append<NoteRecord>(RecordType::note);
		if (!known->record)
			return;
		known->record->kind = known->kind;
		known->record->text = known->text;
		known->record->row = row;
		known->record->firstTicks = now;
		commit();
		known->written = generation_;
	}
	known->record->lastTicks.store(now, std::memory_order_relaxed);
	Lane::add(known->record->count, count);
}

// --- lanes ----------------------------------------------------------------------------------------------------------

Lane *Recorder::attach()
{
	Lock lock(*this);
	Lane *lane = lanes_;
	while (lane && !lane->free_)
		lane = lane->nextLane_;
	if (!lane) {
		lane = arena_.make<Lane>();
		if (!lane)
			return nullptr;
		lane->recorder_ = this;
		lane->number_ = lanesMade_++;
		lane->nextLane_ = lanes_;
		lanes_ = lane;
	}
	lane->free_ = false;
	if (isOpen())
		writeLane(*lane);
	return lane;
}

void Recorder::detach(Lane *lane)
{
	Lock lock(*this);
	lane->lane_->mark.store(0, std::memory_order_relaxed);
	lane->free_ = true;
}

bool Recorder::writeLane(Lane &lane)
{
	if (lane.lane_ == &lane.none_) {
		auto *record = append<LaneRecord>(RecordType::lane);
		if (!record)
			return false;
		record->lane = lane.number_;
		commit();
		lane.lane_ = record;
	}
	lane.lane_->tid = static_cast<uint32_t>(gettid());
	lane.singles_ = singles_;
	return true;
}

Cell *Lane::newCell(RowId row)
{
	if (!recorder_->isOpen())
		return nullptr;
	Recorder::Lock lock(*recorder_);
	return recorder_->addCell(*this, row) ? cells_[row] : nullptr;
}

void Lane::lose()
{
	Header *header = recorder_->file_.header();
	if (!header)
		return;
	header->lostCalls.fetch_add(1, std::memory_order_relaxed);
	if (recorder_->file_.state() != File::State::closed)
		return;
	Recorder::Lock lock(*recorder_); // after the process's exit handlers
	recorder_->file_.writeHeader();
}

bool Recorder::addCell(Lane &lane, RowId row)
{
	if (!isOpen() || !writeRow(row))
		return false;
	if (row >= lane.cellTable_.size() && !lane.cellTable_.resize(std::max<size_t>(row + 1, 512)))
		return false;
	if (!lane.block_ || lane.blockUsed_ == lane.block_->count) {
		const uint32_t count = lane.block_ ? std::min(2 * lane.block_->count, kMostCells) : kFirstCells;
		auto *block = append<CellsRecord>(RecordType::cells, count * sizeof(Cell));
		if (!block)
			return false;
		block->lane = lane.number_;
		block->count = count;
		commit();
		lane.block_ = block;
		lane.blockUsed_ = 0;
	}
	Cell *cell = &lane.block_->cells()[lane.blockUsed_++];
	cell->row.store(row, std::memory_order_release);
	lane.cells_ = lane.cellTable_.begin();
	lane.cellCount_ = static_cast<uint32_t>(lane.cellTable_.size());
	lane.cells_[row] = cell;
	return true;
}

bool Lane::newChunk()
{
	if (!singles_)
		return false;
	if (!recorder_->isCapped_.load(std::memory_order_relaxed) && recorder_->isOpen()) {
		Recorder::Lock lock(*recorder_);
		if (recorder_->newChunk(*this))
			return true;
	}
	add(lane_->dropped, 1);
	return false;
}

// Returns the chunk after `chunk` for single events or kernels, in the same memory. Null: no more of them are recorded.
Chunk *Recorder::nextChunk(Chunk *chunk, ChunkKind kind, uint32_t lane)
{
	if (!isOpen())
		return nullptr;
	char *memory = nullptr;
	if (chunk ? !file_.store(*chunk) : !(memory = file_.takeSingles())) {
		isCapped_ = true;
		return nullptr;
	}
	file_.header()->last = clockPair();
	isNew_ = true;
	if (!chunk)
		return beginChunk(memory, kind, kEventChunk, lane, 1);
	// One store: before it, a reader finds this chunk in the file; after it, the chunk is new and empty.
	chunk->order.store(uint64_t{chunk->number() + 1} << 32 | chunksMade_++, std::memory_order_release);
	return chunk;
}

bool Recorder::newChunk(Lane &lane)
{
	Chunk *const chunk = nextChunk(lane.chunk_, ChunkKind::events, lane.number_);
	if (!chunk)
		return false;
	if (lane.chunk_)
		lane.eventsBefore_ += kEventsInChunk;
	lane.chunk_ = chunk;
	lane.end_ = reinterpret_cast<Event *>(chunk + 1) + kEventsInChunk;
	lane.next_ = lane.end_ - kEventsInChunk;
	return true;
}

// --- kernels --------------------------------------------------------------------------------------------------------

void Recorder::kernels(std::span<const KernelEvent> events, const KernelLosses &losses)
{
	Lock lock(*this);
	if (isOpen() && !kernelLoss_ && (kernelLoss_ = append<KernelLossRecord>(RecordType::kernelLoss)))
		commit();
	if (!kernelLoss_)
		return;
	Lane::add(kernelLoss_->unattributed, losses.unattributed);
	Lane::add(kernelLoss_->invalid, losses.invalid);
	Lane::add(kernelLoss_->dropped, losses.dropped);
	for (const KernelEvent &event : events)
		addKernel(event, singles_ && !isCapped_);
}

void Recorder::addKernel(const KernelEvent &event, bool isSingle)
{
	constexpr uint16_t kindFlags = kernelOurs | kernelMemory | kernelEmulated;
	const uint32_t name = intern(event.name), kind = event.flags & kindFlags;
	const uint32_t key[3] = {event.row, name, uint32_t{event.device} << 16 | kind};
	const uint64_t hash = base::hashBytes(key, sizeof key);
	KnownKernel *known =
	    kernelIndex_.find(hash, [&](const KnownKernel &other) { return memcmp(&other, key, sizeof key) == 0; });
	if (!known) {
		known = arena_.make<KnownKernel>();
		if (!known)
			return;
		memcpy(static_cast<void *>(known), key, sizeof key);
		kernelIndex_.add(hash, known);
	}
	if (known->written != generation_) {
		writeText(name);
		writeRow(event.row);
		known->total = append<KernelTotalRecord>(RecordType::kernelTotal);
		if (!known->total)
			return;
		known->total->row = event.row;
		known->total->name = name;
		known->total->device = event.device;
		known->total->flags = static_cast<uint16_t>(kind);
		commit();
		known->written = generation_;
	}
	KernelTotalRecord &total = *known->total;
	Lane::add(total.count, 1);
	if (!event.endNs) // time unknown
		return;
	Lane::add(total.ns, event.endNs - event.startNs);
	if (const uint64_t first = total.firstNs.load(std::memory_order_relaxed); !first || event.startNs < first)
		total.firstNs.store(event.startNs, std::memory_order_relaxed);
	if (event.startNs > total.lastNs.load(std::memory_order_relaxed))
		total.lastNs.store(event.startNs, std::memory_order_relaxed);
	uint64_t used = kernels_ ? kernels_->committed.load(std::memory_order_relaxed) : kEventChunk;
	if (isSingle && used + sizeof(Kernel) > kEventChunk) {
		Chunk *const chunk = nextChunk(kernels_, ChunkKind::kernels, 0);
		isSingle = chunk != nullptr;
		if (chunk) {
			kernels_ = chunk;
			used = sizeof(Chunk);
		}
	}
	if (!isSingle) {
		Lane::add(kernelLoss_->singles, 1);
		return;
	}
	*reinterpret_cast<Kernel *>(reinterpret_cast<char *>(kernels_) + used) = {
	    event.startNs, event.endNs, event.call, name, event.row, event.stream, event.device, event.flags};
	kernels_->committed.store(used + sizeof(Kernel), std::memory_order_release);
}

void Recorder::overhead(const char *kind, uint64_t ns, bool isEmulated)
{
	Lock lock(*this);
	const uint32_t name = intern(kind);
	const auto known = std::find_if(std::begin(overheads_), std::end(overheads_),
	                                [&](const KnownOverhead &one) { return one.kind == name || one.kind == 0; });
	if (name == 0 || known == std::end(overheads_))
		return;
	known->kind = name;
	if (known->written != generation_) {
		writeText(name);
		known->record = append<CuptiOverheadRecord>(RecordType::cuptiOverhead);
		if (!known->record)
			return;
		known->record->kind = name;
		known->record->flags = isEmulated ? kernelEmulated : 0;
		commit();
		known->written = generation_;
	}
	Lane::add(known->record->count, 1);
	Lane::add(known->record->ns, ns);
}

uint64_t Recorder::clock(uint64_t cuptiNs)
{
	Lock lock(*this);
	if (!isOpen())
		return 0;
	const ClockPair now = clockPair();
	if (auto *record = append<ClockRecord>(RecordType::clock)) {
		record->ticks = now.ticks;
		record->monotonicNs = now.monotonicNs;
		record->realtimeNs = base::nanoseconds(CLOCK_REALTIME);
		record->cuptiNs = cuptiNs;
		commit();
	}
	return now.monotonicNs - file_.header()->first.monotonicNs;
}

} // namespace autoamp::trace
