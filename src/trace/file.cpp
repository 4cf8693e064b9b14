#include "src/trace/file.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/trace/file_lock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
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

constexpr uint64_t kFirstWindow = 16u << 10, kLargestWindow = 1u << 20; // a caller waits for one: some 30 us
constexpr int kLowestDescriptor = 200;                                  // programs count on getting the small ones
constexpr uint64_t kFlushEveryNs = 1'000'000'000;
constexpr long kXfsMagic = 0x58465342;

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

} // namespace

bool File::create(const char *pattern, const NameParts &parts, uint64_t maxSize, bool isBusy)
{
	const char *problem = nullptr;
	int file = createFile(pattern, parts, path_, sizeof path_, &problem);
	if (file < 0) {
		base::log(base::LogLevel::warn, "no trace: %s: %s", problem ? pattern : path_,
		          problem ? problem : strerror(-file));
		return false;
	}
	if (int high = fcntl(file, F_DUPFD_CLOEXEC, kLowestDescriptor); high >= 0) {
		::close(file);
		file = high;
	}
	lockForWriting(file);
	struct stat status = {};
	fstat(file, &status);
	descriptor_ = file;
	device_ = status.st_dev;
	inode_ = status.st_ino;
	isMapped_ = canMap(file);
	isBusy_ = isBusy;
	maxSize_ = maxSize;
	end_ = next_ = usedEnd_ = 0;
	window_ = {};
	state_ = State::open;
	uint64_t offset;
	char *page = take(kPage, offset, false);
	if (!page) {
		unlink(path_);
		return false;
	}
	header_ = new (page) Header();
	header_->fileSize.store(end_);
	return true;
}

void File::close(uint64_t size)
{
	cut(size);
	if (!isMapped_)
		flush(true);
	state_ = State::closed;
}

void File::forget()
{
	for (Piece &piece : pieces_)
		munmap(piece.memory, piece.size);
	pieces_.clear();
	if (descriptor_ >= 0 && isOurs())
		::close(descriptor_);
	descriptor_ = -1;
	if (!isMapped_)
		base::unmapPages(header_, kPage);
	header_ = nullptr;
	path_[0] = 0;
	state_ = State::none;
}

void File::stop(int error)
{
	if (state_ != State::open)
		return;
	state_ = State::stopped;
	if (header_)
		header_->stopped.store(1);
	base::log(base::LogLevel::warn, "trace %s: %s: recording stops here, the application goes on", path_,
	          strerror(error));
}

// Programs close all descriptors at times, and the number may now be a file of theirs.
bool File::isOurs() const
{
	struct stat status;
	return fstat(descriptor_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

// Beyond the limit the kernel would send the application a SIGXFSZ.
bool File::fits(uint64_t size) const
{
	rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

// The window's blocks are allocated before it is mapped: storing to it can then not fail. errno says why not.
bool File::allocate(Piece &window)
{
	errno = EBADF;
	if (!isOurs())
		return false;
	errno = EFBIG;
	if (!fits(window.offset + window.size))
		return false;
	const auto offset = static_cast<off_t>(window.offset);
	int failed;
	do
		failed = fallocate(descriptor_, 0, offset, static_cast<off_t>(window.size));
	while (failed && errno == EINTR);
	if (failed)
		return false;
	void *memory = mmap(nullptr, window.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, offset);
	window.memory = static_cast<char *>(memory);
	return memory != MAP_FAILED;
}

// Grows with the file, and stays below the cap as long as single events are what needs it.
uint64_t File::windowSize() const
{
	const uint64_t size = std::clamp(end_, kFirstWindow, kLargestWindow);
	const uint64_t left = end_ < maxSize_ ? (maxSize_ - end_) & ~uint64_t{kPage - 1} : 0;
	return isBusy_ ? std::min(size, left) : size;
}

// The next window. Made by whoever needs it: a thread of ours would keep a process alive whose last own thread has
// ended.
bool File::grow(uint64_t need)
{
	Piece window = {nullptr, end_, std::max(need, windowSize())};
	if (!allocate(window)) {
		if (errno == EOPNOTSUPP && end_ == 0) {
			isMapped_ = false;
			return true;
		}
		window.size = need; // the last that fits
		if (!allocate(window)) {
			stop(errno);
			return false;
		}
	}
	end_ = window.offset + window.size;
	if (!pieces_.push(window)) {
		stop(ENOMEM);
		return false;
	}
	window_ = window;
	next_ = window.offset;
	if (header_)
		header_->fileSize.store(std::max(header_->fileSize.load(), window.offset + window.size));
	return true;
}

// The file's final size: gives back what was allocated and not used.
void File::cut(uint64_t size)
{
	if (isOurs() && ftruncate(descriptor_, static_cast<off_t>(size)) == 0)
		header_->fileSize.store(size);
}

char *File::take(uint64_t size, uint64_t &offset, bool isKept)
{
	if (state_ != State::open)
		return nullptr;
	if (isMapped_ && next_ + size > window_.offset + window_.size && !grow(size))
		return nullptr;
	if (isMapped_) {
		offset = next_;
		next_ += size;
		usedEnd_ = std::max(usedEnd_, next_);
		return window_.memory + (offset - window_.offset);
	}
	auto *memory = static_cast<char *>(base::mapPages(size));
	if (!memory)
		stop(ENOMEM);
	else if (place(size, offset) && (!isKept || pieces_.push({memory, offset, size})))
		return memory;
	base::unmapPages(memory, size);
	return nullptr;
}

bool File::place(uint64_t size, uint64_t &offset)
{
	if (!fits(end_ + size)) {
		stop(EFBIG);
		return false;
	}
	offset = end_;
	end_ = next_ = usedEnd_ = end_ + size;
	if (header_)
		header_->fileSize.store(end_);
	return true;
}

bool File::hasRoom() const
{
	uint64_t end = next_ + kEventChunk;
	if (isMapped_ && end > window_.offset + window_.size)
		end = end_ + kEventChunk;
	return end <= maxSize_;
}

bool File::write(const void *data, uint64_t size, uint64_t offset)
{
	int error = isOurs() ? 0 : EBADF;
	for (auto *bytes = static_cast<const char *>(data); size && !error;) {
		ssize_t written = pwrite(descriptor_, bytes, size, static_cast<off_t>(offset));
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
void File::flush(bool everything)
{
	const uint64_t now = base::nanoseconds(CLOCK_MONOTONIC);
	everything = everything || now - flushedNs_ > kFlushEveryNs;
	if (everything)
		flushedNs_ = now;
	for (size_t at = everything || pieces_.size() < 2 ? 0 : pieces_.size() - 1; at < pieces_.size(); ++at) {
		auto *chunk = reinterpret_cast<Chunk *>(pieces_[at].memory);
		if (!write(chunk, chunk->committed.load(), pieces_[at].offset))
			return;
	}
	write(header_, sizeof(Header), 0);
}

} // namespace autoamp::trace
