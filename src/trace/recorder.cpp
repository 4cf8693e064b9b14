#include "src/trace/recorder.h"

#include "src/base/clock.h"
#include "src/base/errno_guard.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/trace/file_lock.h"
#include "src/trace/naming.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/magic.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace autoamp::trace {
namespace {

constexpr uint64_t kFirstWindow = 16u << 10, kLargestWindow = 8u << 20;
constexpr size_t kKeptFiles = 200;
constexpr uint64_t kKeptBytes = 1u << 30;
constexpr uint64_t kSingleScalerEvents = 64;
constexpr uint32_t kFirstCells = 4, kMostCells = 64;
constexpr unsigned kArguments = 256;
constexpr int kLowestDescriptor = 200; // programs count on getting the small ones
constexpr uint64_t kFlushEveryNs = 1'000'000'000;
constexpr size_t kHelperStack = 256u << 10; // the application's static TLS is on it
constexpr long kXfsMagic = 0x58465342;

uint64_t nanoseconds(clockid_t clock)
{
	timespec now;
	clock_gettime(clock, &now);
	return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

ClockPair clockPair()
{
	return {base::ticks(), nanoseconds(CLOCK_MONOTONIC)};
}

// Where a mapped page that was allocated can always be written. On others (btrfs copies on write, network file systems
// have no space until later) a full disk would be a SIGBUS in the application.
bool canMap(int file)
{
	struct statfs status;
	if (fstatfs(file, &status) != 0)
		return false;
	return status.f_type == EXT4_SUPER_MAGIC || status.f_type == kXfsMagic || status.f_type == TMPFS_MAGIC ||
	       status.f_type == OVERLAYFS_SUPER_MAGIC;
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
		if (recorder_.header_ && !recorder_.mapped_ && recorder_.state_ == State::open)
			recorder_.flush(false);
		pthread_mutex_unlock(&recorder_.mutex_);
	}

private:
	base::ErrnoGuard errno_;
	Recorder &recorder_;
};

// --- life -----------------------------------------------------------------------------------------------------------

bool Recorder::open(const Options &options)
{
	Lock lock(*this);
	if (state_ != State::idle)
		return state_ == State::open;
	if (options.mode == Mode::off || !makeFile(options)) {
		if (state_ == State::idle)
			state_ = State::stopped;
		return false;
	}
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
		if (!lane->free_)
			writeLane(*lane);
	for (size_t row = 0; row < properties_.size(); ++row)
		writeProperty(properties_[row]);
	return state_ == State::open;
}

bool Recorder::makeFile(const Options &options)
{
	struct Scratch { // too much for a small thread's stack
		char pattern[sizeof path_], exe[4096], host[256], program[256], arguments[64 << 10];
	};
	struct Pages {
		Scratch *scratch = static_cast<Scratch *>(base::mapPages(sizeof(Scratch)));
		~Pages() { base::unmapPages(scratch, sizeof(Scratch)); }
	} pages;
	Scratch *scratch = pages.scratch;
	if (!scratch)
		return false;

	const ClockPair first = clockPair();
	const uint64_t started = nanoseconds(CLOCK_REALTIME);
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
	const char *problem = nullptr;
	file_ = createFile(pattern, parts, path_, sizeof path_, &problem);
	if (file_ < 0) {
		base::log(base::LogLevel::warn, "no trace: %s: %s", problem ? pattern : path_,
		          problem ? problem : strerror(-file_));
		return false;
	}
	if (int high = fcntl(file_, F_DUPFD_CLOEXEC, kLowestDescriptor); high >= 0) {
		::close(file_);
		file_ = high;
	}
	lockForWriting(file_);
	struct stat status;
	if (fstat(file_, &status) == 0) {
		device_ = status.st_dev;
		inode_ = status.st_ino;
	}

	++generation_;
	singles_ = options.mode == Mode::ops;
	mapped_ = canMap(file_);
	capped_ = false;
	maxSize_ = options.maxSize;
	fileEnd_ = carved_ = usedEnd_ = 0;
	window_ = {};
	records_ = nullptr;
	uint64_t offset;
	state_ = State::open;
	char *page = carve(kPage, offset);
	if (!page) {
		unlink(path_);
		return false;
	}
	header_ = new (page) Header();
	header_->version = kVersion;
	header_->byteOrder = kByteOrder;
	header_->headerSize = kPage;
	header_->flags =
	    (options.emulated ? headerEmulated : 0) | (singles_ ? headerSingles : 0) | (mapped_ ? 0 : headerWritten);
	header_->startedNs = static_cast<int64_t>(started);
	header_->first = first;
	header_->last = clockPair();
	header_->pid = parts.pid;
	header_->parent = static_cast<uint32_t>(getppid());
	header_->fileSize.store(fileEnd_);
	// Last: a file without it is not yet a trace.
	std::atomic_signal_fence(std::memory_order_release);
	memcpy(header_->magic, kMagic, sizeof kMagic);

	addProperty("run", "exe", scratch->exe, "");
	addProperty("run", "program", scratch->program, "");
	addProperty("run", "host", scratch->host, "");
	if (*parts.rank)
		addProperty("run", "rank", parts.rank, "");
	unsigned number = 0;
	for (size_t at = 0; at < size && number < kArguments; at += strlen(scratch->arguments + at) + 1) {
		char name[16];
		snprintf(name, sizeof name, "%u", number++);
		addProperty("argument", name, scratch->arguments + at, "");
	}
	if (inDir)
		prune(options.dir, kKeptFiles, kKeptBytes);
	return true;
}

void Recorder::close(int status)
{
	Lock lock(*this);
	if (!header_ || state_ == State::closed)
		return;
	header_->last = clockPair();
	header_->status = status;
	header_->end.store(static_cast<uint32_t>(status < 0 ? End::exited : End::exitedWith));
	if (!mapped_) {
		for (Lane *lane = lanes_; lane; lane = lane->nextLane_)
			if (lane->chunk_ && state_ == State::open)
				writeOut(lane->chunk_, lane->chunk_->committed.load(std::memory_order_acquire), lane->chunkOffset_);
		cut(fileEnd_);
		flush(true);
	} else {
		// Only what nobody has been given is cut: other threads may still be counting.
		uint64_t used = usedEnd_;
		if (records_ && recordsOffset_ + records_->size == used)
			used = recordsOffset_ + base::pageRound(records_->committed.load());
		cut(used);
	}
	state_ = State::closed;
}

void Recorder::stop(int error)
{
	if (state_ != State::open)
		return;
	state_ = State::stopped;
	if (header_)
		header_->stopped.store(1);
	base::log(base::LogLevel::warn, "trace %s: %s: recording stops here, the application goes on", path_,
	          strerror(error));
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
	base::ErrnoGuard guard;
	// The parent's file is the parent's: not one more byte of it is written from here.
	for (Piece &piece : pieces_)
		munmap(piece.memory, piece.size);
	pieces_.clear();
	if (spare_.size)
		munmap(spare_.memory, spare_.size);
	spare_ = {};
	hasHelper_ = isPreparing_ = false;
	if (file_ >= 0 && stillOurs())
		::close(file_);
	file_ = -1;
	if (!mapped_)
		base::unmapPages(header_, kPage);
	header_ = nullptr;
	records_ = nullptr;
	path_[0] = 0;
	for (Lane *lane = lanes_; lane; lane = lane->nextLane_) {
		if (!mapped_ && lane->chunk_)
			base::unmapPages(lane->chunk_, kEventChunk);
		lane->cellTable_.clear();
		lane->cells_ = nullptr;
		lane->cellCount_ = 0;
		lane->next_ = lane->end_ = nullptr;
		lane->chunk_ = nullptr;
		lane->block_ = nullptr;
		lane->lane_ = &lane->none_;
		lane->singles_ = false;
		lane->free_ = lane != own; // the other threads are not in this process
	}
	state_ = State::idle;
	mutex_ = PTHREAD_MUTEX_INITIALIZER;
}

// --- the file -------------------------------------------------------------------------------------------------------

// Programs close all descriptors at times, and the number may now be a file of theirs.
bool Recorder::stillOurs() const
{
	struct stat status;
	return fstat(file_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

// Beyond the limit the kernel would send the application a SIGXFSZ.
bool Recorder::fits(uint64_t size) const
{
	rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

// The window's blocks are allocated before it is mapped: storing to it can then not fail. errno says why not.
bool Recorder::allocate(Piece &window)
{
	errno = EBADF;
	if (!stillOurs())
		return false;
	errno = EFBIG;
	if (!fits(window.offset + window.size))
		return false;
	const auto offset = static_cast<off_t>(window.offset);
	int failed;
	do
		failed = fallocate(file_, 0, offset, static_cast<off_t>(window.size));
	while (failed && errno == EINTR);
	if (failed)
		return false;
	void *memory = mmap(nullptr, window.size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
	window.memory = static_cast<char *>(memory);
	return memory != MAP_FAILED;
}

// Grows with the file, and stays below the cap as long as single events are what needs it.
uint64_t Recorder::windowSize() const
{
	const uint64_t size = std::clamp(fileEnd_, kFirstWindow, kLargestWindow);
	const uint64_t left = fileEnd_ < maxSize_ ? (maxSize_ - fileEnd_) & ~uint64_t{kPage - 1} : 0;
	return singles_ ? std::min(size, left) : size;
}

// The next window: the spare one, or one made now.
bool Recorder::grow(uint64_t need)
{
	Piece window = spare_;
	spare_ = {};
	if (!window.size) {
		window = {nullptr, fileEnd_, std::max(need, windowSize())};
		if (!allocate(window)) {
			if (errno == EOPNOTSUPP && fileEnd_ == 0) {
				mapped_ = false;
				return true;
			}
			window.size = need; // the last that fits
			if (!allocate(window)) {
				stop(errno);
				return false;
			}
		}
		fileEnd_ = window.offset + window.size;
	}
	if (!pieces_.push(window)) {
		stop(ENOMEM);
		return false;
	}
	window_ = window;
	carved_ = window.offset;
	if (header_)
		header_->fileSize.store(std::max(header_->fileSize.load(), window.offset + window.size));
	return true;
}

// Has the next window made by the helper: single events fill one in milliseconds, and first touches of its pages would
// cost the callers more than the recording. Without a helper all works, slower.
void Recorder::prepareSpare()
{
	if (spare_.size || isPreparing_ || windowSize() < kEventChunk)
		return;
	if (!hasHelper_) {
		pthread_attr_t attributes;
		pthread_t thread;
		sigset_t all, before;
		sem_init(&wake_, 0, 0);
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		pthread_attr_setstacksize(&attributes, kHelperStack);
		sigfillset(&all); // the application's handlers must not find themselves on our thread
		pthread_sigmask(SIG_SETMASK, &all, &before);
		hasHelper_ = pthread_create(&thread, &attributes, helper, this) == 0;
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
		pthread_attr_destroy(&attributes);
		if (!hasHelper_)
			return;
	}
	isPreparing_ = true;
	sem_post(&wake_);
}

void *Recorder::helper(void *argument)
{
	auto &recorder = *static_cast<Recorder *>(argument);
	pthread_setname_np(pthread_self(), "autoamp-trace");
	for (;;) {
		while (sem_wait(&recorder.wake_) != 0)
			;
		pthread_mutex_lock(&recorder.mutex_);
		// The place in the file is taken now, the work is done without the lock.
		Piece window = {nullptr, recorder.fileEnd_, recorder.windowSize()};
		const bool wanted = recorder.state_ == State::open && window.size >= kEventChunk;
		if (wanted)
			recorder.fileEnd_ += window.size;
		pthread_mutex_unlock(&recorder.mutex_);
		const bool made = wanted && recorder.allocate(window);
		if (made)
			madvise(window.memory, window.size, MADV_POPULATE_WRITE);
		pthread_mutex_lock(&recorder.mutex_);
		if (made && recorder.state_ == State::open) {
			recorder.spare_ = window;
			recorder.isPreparing_ = false; // once it failed, it is not asked again
		} else if (made) {                 // the trace ended meanwhile
			munmap(window.memory, window.size);
			recorder.cut(recorder.header_->fileSize.load());
		}
		pthread_mutex_unlock(&recorder.mutex_);
	}
}

// The file's final size: gives back what was allocated and not used.
void Recorder::cut(uint64_t size)
{
	if (stillOurs() && ftruncate(file_, static_cast<off_t>(size)) == 0)
		header_->fileSize.store(size);
}

char *Recorder::carve(uint64_t size, uint64_t &offset)
{
	if (mapped_ && carved_ + size > window_.offset + window_.size && !grow(size))
		return nullptr;
	offset = carved_;
	if (mapped_) {
		carved_ += size;
		usedEnd_ = std::max(usedEnd_, carved_);
		return window_.memory + (offset - window_.offset);
	}
	if (!fits(carved_ + size)) {
		stop(EFBIG);
		return nullptr;
	}
	auto *memory = static_cast<char *>(base::mapPages(size));
	if (!memory) {
		stop(ENOMEM);
		return nullptr;
	}
	carved_ += size;
	fileEnd_ = carved_;
	if (header_)
		header_->fileSize.store(fileEnd_);
	return memory;
}

bool Recorder::writeOut(const void *data, uint64_t size, uint64_t offset)
{
	int error = stillOurs() ? 0 : EBADF;
	for (auto *bytes = static_cast<const char *>(data); size && !error;) {
		ssize_t written = pwrite(file_, bytes, size, static_cast<off_t>(offset));
		if (written < 0 && errno != EINTR)
			error = errno;
		if (written > 0) {
			bytes += written;
			offset += static_cast<uint64_t>(written);
			size -= static_cast<uint64_t>(written);
		}
	}
	if (error)
		stop(error);
	return !error;
}

// Where the file cannot be mapped: the header and the newest records, or all that has totals in it.
void Recorder::flush(bool everything)
{
	const uint64_t now = nanoseconds(CLOCK_MONOTONIC);
	everything = everything || now - flushedNs_ > kFlushEveryNs;
	if (everything)
		flushedNs_ = now;
	for (size_t at = everything || pieces_.size() < 2 ? 0 : pieces_.size() - 1; at < pieces_.size(); ++at) {
		auto *chunk = reinterpret_cast<Chunk *>(pieces_[at].memory);
		if (!writeOut(chunk, chunk->committed.load(), pieces_[at].offset))
			return;
	}
	writeOut(header_, sizeof(Header), 0);
}

Chunk *Recorder::beginChunk(char *memory, ChunkKind kind, uint64_t size, uint32_t lane)
{
	auto *chunk = new (memory) Chunk();
	chunk->kind = kind;
	chunk->size = static_cast<uint32_t>(size);
	chunk->lane = lane;
	chunk->committed.store(sizeof(Chunk), std::memory_order_relaxed);
	chunk->sequence = chunksMade_++;
	std::atomic_signal_fence(std::memory_order_release);
	chunk->magic = kChunkMagic; // last: the process may be killed in between
	return chunk;
}

bool Recorder::openRecords(uint64_t need)
{
	// 64 bytes for alignment; the rest of a window where it is enough.
	uint64_t size = std::max<uint64_t>(kRecordChunk, base::pageRound(need + sizeof(Chunk) + 64));
	const uint64_t rest = mapped_ ? window_.offset + window_.size - carved_ : 0;
	if (rest >= need + sizeof(Chunk) + 64)
		size = std::min(size, rest);
	if (!mapped_ && records_)
		writeOut(records_, recordsEnd_, recordsOffset_);
	uint64_t offset;
	char *memory = state_ == State::open ? carve(size, offset) : nullptr;
	if (!memory || (!mapped_ && !pieces_.push({memory, offset, size})))
		return false;
	records_ = beginChunk(memory, ChunkKind::records, size, 0);
	recordsOffset_ = offset;
	recordsEnd_ = sizeof(Chunk);
	return true;
}

// Room for a record, zeroed but for its head. It is part of the file once commit() was called.
template <class T>
T *Recorder::append(RecordType type, size_t more)
{
	const uint64_t size = (sizeof(T) + more + 7) & ~uint64_t{7};
	if (state_ != State::open)
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
	header_->last = clockPair();
}

// --- what is written there ------------------------------------------------------------------------------------------

uint32_t Recorder::intern(const char *text)
{
	const size_t length = text ? strnlen(text, kMaxString) : 0;
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
	if (state_ == State::open && properties_.size() > before)
		writeProperty(properties_[before]);
}

RowId Recorder::row(const Row &row)
{
	Lock lock(*this);
	RowRecord record = {};
	record.type = RecordType::row;
	record.size = sizeof record;
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
		record.flags = row.eligible ? rowEligible : 0;
	}
	uint64_t site = base::hashBytes(row.entry, row.entry ? strlen(row.entry) : 0);
	site = base::hashBytes(&record.m, 4 * sizeof record.m, site);
	site = base::hashByte(static_cast<unsigned char>(record.transa), site);
	site = base::hashByte(static_cast<unsigned char>(record.transb), site);
	site = base::hashBytes(row.caller, row.caller ? strlen(row.caller) : 0, site);
	record.site = static_cast<uint32_t>(site ^ (site >> 32));

	constexpr size_t from = sizeof(Record) + 2 * sizeof(uint32_t); // behind id and site
	auto key = [](const RowRecord &known) { return reinterpret_cast<const char *>(&known) + from; };
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
	const RowRecord &record = known->record;
	for (uint32_t text : {record.entry, record.library, record.op, record.caller, record.dtypeIn, record.dtypeAsked,
	                      record.dtypeCompute, record.dtypeAccumulate, record.dtypeOut, record.decision, record.reason,
	                      record.strategy})
		writeText(text);
	auto *written = append<RowRecord>(RecordType::row);
	if (!written)
		return false;
	*written = record;
	commit();
	known->written = generation_;
	return true;
}

void Recorder::scaler(const ScalerEvent &event)
{
	Lock lock(*this);
	if (state_ != State::open)
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
	if (++known->singles > kSingleScalerEvents)
		return;
	if (auto *record = append<ScalerRecord>(RecordType::scaler)) {
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

void Recorder::note(const char *kind, const char *text, RowId row)
{
	Lock lock(*this);
	if (state_ != State::open)
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
	Lane::add(known->record->count, 1);
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
	if (state_ == State::open)
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

bool Lane::newCell(RowId row)
{
	if (recorder_->state_.load(std::memory_order_acquire) != Recorder::State::open)
		return false;
	Recorder::Lock lock(*recorder_);
	return recorder_->addCell(*this, row);
}

void Lane::countFirst(RowId row, uint64_t durationTicks, bool captured)
{
	if (newCell(row))
		add(*cells_[row], durationTicks, captured);
	else if (Header *header = recorder_->header_)
		header->lostCalls.fetch_add(1, std::memory_order_relaxed);
}

bool Recorder::addCell(Lane &lane, RowId row)
{
	if (state_ != State::open || !writeRow(row))
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
	if (!recorder_->capped_.load(std::memory_order_relaxed) &&
	    recorder_->state_.load(std::memory_order_acquire) == Recorder::State::open) {
		Recorder::Lock lock(*recorder_);
		if (recorder_->newChunk(*this))
			return true;
	}
	add(lane_->dropped, 1);
	return false;
}

bool Recorder::newChunk(Lane &lane)
{
	if (state_ != State::open)
		return false;
	if (!mapped_ && lane.chunk_) {
		writeOut(lane.chunk_, lane.chunk_->committed.load(), lane.chunkOffset_);
		flush(false);
	}
	uint64_t end = carved_ + kEventChunk;
	if (mapped_ && end > window_.offset + window_.size)
		end = (spare_.size ? spare_.offset : fileEnd_) + kEventChunk;
	if (end > maxSize_) {
		capped_ = true;
		header_->stopped.store(2);
		return false;
	}
	char *memory;
	if (!mapped_ && lane.chunk_) {
		if (!fits(carved_ + kEventChunk)) {
			stop(EFBIG);
			return false;
		}
		memory = reinterpret_cast<char *>(lane.chunk_);
		lane.chunkOffset_ = carved_;
		carved_ += kEventChunk;
		fileEnd_ = carved_;
		header_->fileSize.store(fileEnd_);
	} else
		memory = carve(kEventChunk, lane.chunkOffset_);
	if (!memory)
		return false;
	if (mapped_ && lane.chunk_) // it stays in the page cache; only our address space need not keep it
		madvise(lane.chunk_, kEventChunk, MADV_DONTNEED);
	lane.chunk_ = beginChunk(memory, ChunkKind::events, kEventChunk, lane.number_);
	lane.next_ = reinterpret_cast<Event *>(memory + sizeof(Chunk));
	lane.end_ = reinterpret_cast<Event *>(memory + kEventChunk);
	header_->last = clockPair();
	if (mapped_)
		prepareSpare();
	return true;
}

} // namespace autoamp::trace
