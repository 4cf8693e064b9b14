#include "src/trace/write/recorder.h"

#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/base/held_signals.h"
#include "src/base/log.h"
#include "src/base/run_board.h"
#include "src/trace/naming.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace autoamp::trace {
namespace {

// Writes the default pattern of names in `folder`, in which a % is an ordinary character.
template <size_t size>
const char *patternIn(const char *folder, char (&pattern)[size])
{
	size_t length = 0;
	for (; *folder && length + 32 < size; ++folder) {
		if (*folder == '%')
			pattern[length++] = '%';
		pattern[length++] = *folder;
	}
	strcpy(pattern + length, "/%e.%t.%p.aat");
	return pattern;
}

constexpr size_t kKeptFiles = 200;
constexpr uint64_t kKeptBytes = 1u << 30;
constexpr uint32_t kFirstCells = 4, kMostCells = 64;
constexpr unsigned kArguments = 256;

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
		recorder_.records_.flushNew();
		pthread_mutex_unlock(&recorder_.mutex_);
	}

private:
	base::CallerState callerState_; // released after the mutex
	base::HeldSignals signals_;
	Recorder &recorder_;
};

// --- life -----------------------------------------------------------------------------------------------------------

bool Recorder::open(const Options &options)
{
	Lock lock(*this);
	if (records_.file().state() != File::State::none)
		return isOpen();
	if (options.mode == Mode::off || !makeFile(options)) {
		records_.file().giveUp();
		return false;
	}
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
		if (!lane->free_)
			writeLane(*lane);
	properties_.writeAll();
	records_.file().flush(true);
	return isOpen();
}

void Recorder::completeHeader(const Options &options)
{
	const File &file = records_.file();
	Header *const header = file.header();
	header->version = kVersion;
	header->byteOrder = kByteOrder;
	header->headerSize = kPage;
	header->flags = (options.emulated ? headerEmulated : 0) | (singles_ ? headerSingles : 0) |
	                (file.isKillSafe() ? headerTail | headerIsTail : headerWritten) |
	                (records_.generation() > 1 ? headerForked : 0);
	header->last = clockPair();
	header->parent = static_cast<uint32_t>(getppid());
	// Last: a file without it is not a trace.
	std::atomic_signal_fence(std::memory_order_release);
	memcpy(header->magic, kMagic, sizeof kMagic);
}

void Recorder::addArguments(const char *arguments, size_t size)
{
	unsigned number = 0;
	for (size_t at = 0; at < size && number < kArguments; at += strlen(arguments + at) + 1) {
		char name[16];
		snprintf(name, sizeof name, "%u", number++);
		properties_.add("argument", name, arguments + at, "");
	}
}

bool Recorder::makeFile(const Options &options)
{
	struct Scratch { // too much for a small thread's stack
		char pattern[4096], exe[4096], folder[4096], host[256], program[256], arguments[64 << 10];
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

	const bool inDir = !options.pattern || !*options.pattern;
	const char *const pattern = inDir ? patternIn(options.dir, scratch->pattern) : options.pattern;
	singles_ = options.mode >= Mode::ops;
	base::AttachedBoard board(options.lookup ? options.lookup(base::runBoardVariable) : nullptr);
	if (char why[PATH_MAX + 256]; !records_.create(pattern, parts, options.maxSize, why, sizeof why)) {
		board.report(base::RunBoard::Failure::noTrace, why);
		return false;
	}
	Header *const header = records_.file().header();
	header->startedNs = static_cast<int64_t>(started);
	header->first = first;
	header->pid = parts.pid;
	header->run = runIds(options.lookup);
	header->job = header->run.outer ? header->run.outer : jobOf(options.lookup);
	header->number = board.join(header->run.inner);
	completeHeader(options);

	properties_.add("run", "exe", scratch->exe, "");
	const char *const launched = options.lookup ? options.lookup(kCommandVariable) : nullptr;
	const char *const line = launched ? strchr(launched, '\n') : nullptr;
	if (line && static_cast<size_t>(line - launched) < sizeof scratch->folder) {
		*std::copy(launched, line, scratch->folder) = 0;
		properties_.add("run", "launched", line + 1, "");
	} else if (!getcwd(scratch->folder, sizeof scratch->folder)) {
		*scratch->folder = 0;
	}
	properties_.add("run", "folder", scratch->folder, "");
	properties_.add("run", "program", scratch->program, "");
	properties_.add("run", "host", scratch->host, "");
	if (*parts.rank)
		properties_.add("run", "rank", parts.rank, "");
	if (const char *ranks = jobRanks(options.lookup); *ranks)
		properties_.add("run", "ranks", ranks, "");
	if (const char *job = jobName(options.lookup); *job)
		properties_.add("run", "job", job, "");
	addArguments(scratch->arguments, size);
	if (const size_t removed = inDir ? prune(options.dir, kKeptFiles, kKeptBytes, parts.time) : 0)
		base::log(base::LogLevel::info, "%s: removed %zu traces of old jobs", options.dir, removed);
	return true;
}

void Recorder::close(int status)
{
	Lock lock(*this);
	Header *header = records_.file().header();
	if (!header || records_.file().state() == File::State::closed)
		return;
	header->last = clockPair();
	header->status = status;
	header->end.store(static_cast<uint32_t>(status < 0 ? End::exited : End::exitedWith));
	bool isInUse = false; // other threads finish calls after this
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
		isInUse |= lane->lane_->mark.load(std::memory_order_relaxed) != 0;
	records_.file().close(isInUse);
}

void Recorder::addLost(uint64_t calls)
{
	Lock lock(*this);
	if (Header *header = records_.file().header())
		header->lostCalls.fetch_add(calls, std::memory_order_relaxed);
}

CaptureRecord *Recorder::capture()
{
	Lock lock(*this);
	return records_.add<CaptureRecord>(RecordType::capture);
}

LaunchRecord *Recorder::launches()
{
	Lock lock(*this);
	return records_.add<LaunchRecord>(RecordType::kernelLaunches);
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
	records_.forget();
	kernels_.forget();
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

// --- content --------------------------------------------------------------------------------------------------------

void Recorder::property(const char *group, const char *name, const char *value, const char *origin)
{
	Lock lock(*this);
	if (properties_.add(group, name, value, origin) && isOpen())
		properties_.writeNewest();
}

RowId Recorder::row(const Row &row)
{
	Lock lock(*this);
	return rows_.add(row);
}

void Recorder::scaler(const ScalerEvent &event)
{
	Lock lock(*this);
	if (isOpen())
		events_.scaler(event);
}

void Recorder::audit(const AuditResult &result)
{
	Lock lock(*this);
	if (isOpen())
		audits_.add(result);
}

void Recorder::weights(const WeightCounts &counts)
{
	Lock lock(*this);
	if (isOpen())
		weights_.add(counts);
}

void Recorder::gradient(const GradientScaler &scaler, const GradientUpdate &update,
                        std::span<const GradientCause> causes)
{
	Lock lock(*this);
	if (isOpen())
		gradients_.add(scaler, update, causes);
}

void Recorder::note(const char *kind, const char *text, RowId row, uint64_t count)
{
	Lock lock(*this);
	if (isOpen())
		events_.note(kind, text, row, count);
}

void Recorder::kernels(std::span<const KernelEvent> events, const KernelLosses &losses)
{
	Lock lock(*this);
	kernels_.add(events, losses, singles_);
}

void Recorder::overhead(const char *kind, uint64_t ns, bool isEmulated)
{
	Lock lock(*this);
	kernels_.addOverhead(kind, ns, isEmulated);
}

uint64_t Recorder::clock(uint64_t cuptiNs)
{
	Lock lock(*this);
	if (!isOpen())
		return 0;
	const ClockPair now = clockPair();
	if (auto *record = records_.append<ClockRecord>(RecordType::clock)) {
		record->ticks = now.ticks;
		record->monotonicNs = now.monotonicNs;
		record->realtimeNs = base::nanoseconds(CLOCK_REALTIME);
		record->cuptiNs = cuptiNs;
		records_.commit();
	}
	return now.monotonicNs - records_.file().header()->first.monotonicNs;
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
		auto *record = records_.append<LaneRecord>(RecordType::lane);
		if (!record)
			return false;
		record->lane = lane.number_;
		records_.commit();
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
	Header *header = recorder_->records_.file().header();
	if (!header)
		return;
	header->lostCalls.fetch_add(1, std::memory_order_relaxed);
	if (recorder_->records_.file().state() != File::State::closed)
		return;
	Recorder::Lock lock(*recorder_); // after the process's exit handlers
	recorder_->records_.file().writeHeader();
}

bool Recorder::addCell(Lane &lane, RowId row)
{
	if (!isOpen() || !rows_.write(row))
		return false;
	if (row >= lane.cellTable_.size() && !lane.cellTable_.resize(std::max<size_t>(row + 1, 512)))
		return false;
	if (!lane.block_ || lane.blockUsed_ == lane.block_->count) {
		const uint32_t count = lane.block_ ? std::min(2 * lane.block_->count, kMostCells) : kFirstCells;
		auto *block = records_.append<CellsRecord>(RecordType::cells, count * sizeof(Cell));
		if (!block)
			return false;
		block->lane = lane.number_;
		block->count = count;
		records_.commit();
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
	if (!recorder_->records_.isCapped() && recorder_->isOpen()) {
		Recorder::Lock lock(*recorder_);
		if (recorder_->newChunk(*this))
			return true;
	}
	trace::add(lane_->dropped, 1);
	return false;
}

bool Recorder::newChunk(Lane &lane)
{
	Chunk *const chunk = records_.nextChunk(lane.chunk_, ChunkKind::events, lane.number_);
	if (!chunk)
		return false;
	if (lane.chunk_)
		lane.eventsBefore_ += kEventsInChunk;
	lane.chunk_ = chunk;
	lane.end_ = reinterpret_cast<Event *>(chunk + 1) + kEventsInChunk;
	lane.next_ = lane.end_ - kEventsInChunk;
	return true;
}

} // namespace autoamp::trace
