#include "src/trace/write/file.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/trace/file_lock.h"
#include "src/trace/tail_name.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace autoamp::trace {
namespace {

constexpr uint64_t kRegion = 64u << 10;   // step of allocation for records; kRecordChunk on a small disk
constexpr uint64_t kSmallDisk = 1u << 20; // a small disk has less free space
constexpr int kLowestDescriptor = 200;    // programs rely on getting the small ones
constexpr uint64_t kFlushEveryNs = 1'000'000'000;
constexpr long kXfsMagic = 0x58465342;

// Returns whether an allocated page can always be written through a mapping. On other file systems (btrfs copies on
// write, network file systems allocate later) a full disk would cause a SIGBUS in the application.
bool canMap(int file)
{
	struct statfs status;
	if (fstatfs(file, &status) != 0)
		return false;
	return status.f_type == EXT4_SUPER_MAGIC || status.f_type == kXfsMagic || status.f_type == TMPFS_MAGIC ||
	       status.f_type == OVERLAYFS_SUPER_MAGIC;
}

bool isSmallDisk(int file)
{
	struct statvfs status;
	return fstatvfs(file, &status) != 0 || uint64_t{status.f_bavail} * status.f_frsize < kSmallDisk;
}

// RLIMIT_FSIZE: a write beyond it would send the application a SIGXFSZ.
uint64_t largestFile()
{
	rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? ~uint64_t{0} : limit.rlim_cur;
}

int allocate(int file, uint64_t offset, uint64_t size)
{
	if (offset + size > largestFile())
		return EFBIG;
	int failed;
	do
		failed = fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(size));
	while (failed && errno == EINTR);
	return failed ? errno : 0;
}

} // namespace

// --- a file by its descriptor, or else by its name ------------------------------------------------------------------

void File::Handle::adopt(int file)
{
	if (const int high = fcntl(file, F_DUPFD_CLOEXEC, kLowestDescriptor); high >= 0) {
		::close(file);
		file = high;
	}
	struct stat status = {};
	fstat(file, &status);
	descriptor = file;
	device = status.st_dev;
	inode = status.st_ino;
}

bool File::Handle::isSame(int file) const
{
	struct stat status;
	return fstat(file, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

int File::Handle::ensure(bool isRecreated)
{
	const bool isOpen = isSame(descriptor);
	struct stat status;
	if (isOpen && (!isRecreated || (fstat(descriptor, &status) == 0 && status.st_nlink > 0)))
		return 0;
	int file = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (file >= 0 && !isSame(file)) {
		::close(file);
		return ESTALE;
	}
	if (file < 0 && errno == ENOENT && isRecreated)
		file = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return errno;
	if (isOpen)
		::close(descriptor);
	adopt(file);
	if (isRecreated)
		lockForWriting(descriptor);
	return 0;
}

void File::Handle::close()
{
	if (isSame(descriptor))
		::close(descriptor);
	descriptor = -1;
	path[0] = 0;
}

// --- life -----------------------------------------------------------------------------------------------------------

bool File::create(const char *pattern, const NameParts &parts, uint64_t maxSize, char *why, size_t size)
{
	const char *problem = nullptr;
	const int file = createFile(pattern, parts, file_.path, sizeof file_.path, &problem);
	if (file < 0) {
		snprintf(why, size, "%s: %s", problem ? pattern : file_.path, problem ? problem : strerror(-file));
		base::log(base::LogLevel::warn, "no trace: %s", why);
		return false;
	}
	file_.adopt(file);
	lockForWriting(file_.descriptor);
	if (file_.path[0] != '/' && getcwd(tail_.path, sizeof tail_.path)) { // the program may change its working directory
		const size_t folder = strlen(tail_.path), name = strlen(file_.path);
		if (folder + name + 2 <= sizeof file_.path) {
			memmove(file_.path + folder + 1, file_.path, name + 1);
			memcpy(file_.path, tail_.path, folder);
			file_.path[folder] = '/';
		}
	}
	// A single event must not take the last bytes that totals need.
	maxSize_ = std::min(maxSize, largestFile() / 4 * 3);
	end_ = tailEnd_ = singles_ = flushedNs_ = 0;
	region_ = {};
	header_ = nullptr;
	state_ = State::open;
	isKillSafe_ = openTail();
	char *page = take(kPage);
	if (!page) {
		snprintf(why, size, "%s: %s", file_.path, strerror(error_));
		unlink(file_.path);
		removeTail();
		return false;
	}
	records_.clear(); // the header is written separately
	if (!isKillSafe_)
		removeTail();
	header_ = new (page) Header();
	header_->fileSize.store(end_);
	return true;
}

void File::close(bool isInUse)
{
	int error = file_.ensure(true);
	for (const Piece &piece : records_)
		if (!error)
			error = write(piece.memory, reinterpret_cast<Chunk *>(piece.memory)->committed.load(), piece.offset);
	for (const Region &region : regions_) {
		const auto *chunk = reinterpret_cast<Chunk *>(region.memory);
		if (region.isSingles && chunk->committed.load() > sizeof(Chunk) && !error)
			error = writeSingles(*chunk);
	}
	// The unused end of the newest chunk of records is cut off.
	uint64_t size = end_;
	if (region_.offset + region_.size == end_ && records_.size()) {
		const Piece &newest = records_[records_.size() - 1];
		const uint64_t used = reinterpret_cast<Chunk *>(newest.memory)->committed.load();
		size = newest.offset + base::pageRound(used);
	}
	if (!error && ftruncate(file_.descriptor, static_cast<off_t>(size)) == 0)
		header_->fileSize.store(size);
	// The header has its place since create(), so the end of the process is recorded even if there is no space.
	if (const int headerError = writeHeader(); !error)
		error = headerError;
	if (error)
		base::log(base::LogLevel::warn, "trace %s: %s%s%s", file_.path, strerror(error),
		          tail_.descriptor >= 0 ? "; the rest is in " : "; it is incomplete", tail_.path);
	else if (!isInUse && tail_.descriptor >= 0) {
		removeTail();
		writeHeader(); // the trace needs no tail any more
	}
	state_ = State::closed;
}

void File::forget()
{
	for (const Region &region : regions_)
		munmap(region.memory, region.size);
	regions_.clear();
	records_.clear();
	file_.close();
	tail_.close();
	header_ = nullptr;
	isKillSafe_ = false;
	state_ = State::none;
}

// Stores the first reason in the header. Logs every error.
void File::stop(Stopped why, int error)
{
	if (header_ && header_->stopped.load() == static_cast<uint64_t>(Stopped::no))
		header_->stopped.store(static_cast<uint64_t>(why));
	if (error_ = error; error)
		base::log(base::LogLevel::warn, "trace %s: %s; %s, the application continues", file_.path, strerror(error),
		          state_ == State::open ? "recording of single events stopped" : "recording stopped");
}

void File::stop(int error)
{
	const bool isFull = error == ENOSPC || error == EDQUOT || error == ENOMEM;
	stop(isFull ? Stopped::diskFull : error == EFBIG ? Stopped::sizeLimit : Stopped::unwritable, error);
}

// --- the tail -------------------------------------------------------------------------------------------------------

bool File::openTail()
{
	if (!tailName(file_.path, tail_.path, sizeof tail_.path))
		return false;
	// An earlier trace of this name may have left a tail. If its writer still lives, its pages stay valid.
	unlink(tail_.path);
	if (!canMap(file_.descriptor))
		return false;
	const int file = ::open(tail_.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return false;
	tail_.adopt(file);
	return true;
}

void File::removeTail()
{
	struct stat status;
	if (tail_.descriptor >= 0 && lstat(tail_.path, &status) == 0 && status.st_dev == tail_.device &&
	    status.st_ino == tail_.inode)
		unlink(tail_.path);
	tail_.close();
	isKillSafe_ = false;
}

// The blocks are allocated before they are mapped, so stores to them cannot fail.
char *File::mapTail(uint64_t size)
{
	errno = tail_.descriptor < 0 ? EBADF : tail_.ensure(false);
	if (!errno)
		errno = allocate(tail_.descriptor, tailEnd_, size);
	if (errno)
		return nullptr;
	void *memory =
	    mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, tail_.descriptor, static_cast<off_t>(tailEnd_));
	if (memory == MAP_FAILED)
		return nullptr;
	tailEnd_ += size;
	return static_cast<char *>(memory);
}

// --- memory ---------------------------------------------------------------------------------------------------------

// Space for records: in the file, so that it can be written at exit, and in the tail. Without space in the tail they
// are in memory only, and a SIGKILL loses the newest totals. Without space in the file they stay in the tail.
int File::reserve(uint64_t least)
{
	int error = file_.ensure(true);
	Region region = {nullptr, std::max<uint64_t>(least, kRegion), false, end_, 0};
	if (!error && isSmallDisk(file_.descriptor))
		region.size = std::max<uint64_t>(least, kRecordChunk);
	for (; !error; region.size = least) {
		error = allocate(file_.descriptor, end_, region.size);
		if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)
			error = 0; // space comes with the first write
		if (!error || region.size == least)
			break;
		error = 0;
	}
	region.memory = mapTail(region.size);
	if (error && !region.memory)
		return error;
	if (error)
		stop(error);
	if (!region.memory) {
		isKillSafe_ = false;
		region.memory = static_cast<char *>(base::mapPages(region.size));
	}
	if (!region.memory || !regions_.push(region))
		return ENOMEM;
	region_ = region;
	end_ += region.size;
	if (header_)
		header_->fileSize.store(end_);
	return 0;
}

char *File::take(uint64_t size)
{
	if (state_ != State::open)
		return nullptr;
	int error = region_.used + size > region_.size ? reserve(size) : 0;
	char *const memory = region_.memory + region_.used;
	if (!error && !records_.push({memory, region_.offset + region_.used}))
		error = ENOMEM;
	if (error) {
		state_ = State::stopped;
		stop(error);
		return nullptr;
	}
	region_.used += size;
	return memory;
}

char *File::takeSingles()
{
	if (end_ + (singles_ + 1) * kEventChunk > maxSize_) {
		stop(Stopped::sizeCap, 0);
		return nullptr;
	}
	// Totals first: a chunk of records has its space before single events take any.
	int error = region_.used + kRecordChunk > region_.size ? reserve(kRecordChunk) : 0;
	void *memory = nullptr;
	if (!error) {
		memory = tail_.descriptor >= 0 ? mapTail(kEventChunk) : base::mapPages(kEventChunk);
		error = memory ? 0 : errno;
	}
	if (!error && !regions_.push({static_cast<char *>(memory), kEventChunk, true, 0, 0}))
		error = ENOMEM;
	if (error) {
		stop(error);
		return nullptr;
	}
	madvise(memory, kEventChunk, MADV_POPULATE_WRITE); // now: later faults are a tenth of a recorded call's cost
	++singles_;
	return static_cast<char *>(memory);
}

// --- writing --------------------------------------------------------------------------------------------------------

int File::write(const void *data, uint64_t size, uint64_t offset)
{
	if (const int error = file_.ensure(true))
		return error;
	if (offset + size > largestFile())
		return EFBIG;
	for (auto *bytes = static_cast<const char *>(data); size;) {
		// Not by libc: tools that intercept its pwrite report a race with counters that threads meanwhile store to.
		const ssize_t written = syscall(SYS_pwrite64, file_.descriptor, bytes, size, static_cast<off_t>(offset));
		if (written < 0 && errno != EINTR)
			return errno;
		if (written > 0) {
			bytes += written;
			offset += static_cast<uint64_t>(written);
			size -= static_cast<uint64_t>(written);
		}
	}
	return 0;
}

int File::writeHeader()
{
	const uint32_t flags = header_->flags & ~(tail_.descriptor >= 0 ? headerIsTail : headerIsTail | headerTail);
	char copy[sizeof(Header)];
	memcpy(copy, static_cast<const void *>(header_), sizeof copy);
	memcpy(copy + offsetof(Header, flags), &flags, sizeof flags);
	return write(copy, sizeof copy, 0);
}

// Writes the used pages. The chunk's thread may record more events meanwhile, so the written head only covers what is
// written here.
int File::writeSingles(const Chunk &chunk)
{
	const uint64_t bytes = chunk.committed.load(std::memory_order_acquire);
	const auto size = static_cast<uint32_t>(base::pageRound(bytes));
	char head[sizeof(Chunk)];
	memcpy(head, static_cast<const void *>(&chunk), sizeof head);
	memcpy(head + offsetof(Chunk, size), &size, sizeof size);
	memcpy(head + offsetof(Chunk, committed), &bytes, sizeof bytes);
	int error = write(&chunk + 1, bytes - sizeof head, end_ + sizeof head);
	if (!error)
		error = write(head, sizeof head, end_);
	if (error)
		return error;
	end_ += size;
	header_->fileSize.store(end_);
	return 0;
}

bool File::store(Chunk &chunk)
{
	if (const int error = writeSingles(chunk)) {
		stop(error);
		return false;
	}
	chunk.committed.store(sizeof(Chunk), std::memory_order_release);
	writeHeader();
	if (end_ + singles_ * kEventChunk <= maxSize_)
		return true;
	stop(Stopped::sizeCap, 0);
	return false;
}

void File::flush(bool everything)
{
	const uint64_t now = base::nanoseconds(CLOCK_MONOTONIC);
	everything = everything || (!isKillSafe_ && now - flushedNs_ > kFlushEveryNs);
	if (everything)
		flushedNs_ = now;
	for (size_t at = everything || !records_.size() ? 0 : records_.size() - 1; at < records_.size(); ++at) {
		const auto *chunk = reinterpret_cast<Chunk *>(records_[at].memory);
		if (write(chunk, chunk->committed.load(), records_[at].offset))
			return; // retried at the next flush and at exit
	}
	writeHeader();
}

} // namespace autoamp::trace
