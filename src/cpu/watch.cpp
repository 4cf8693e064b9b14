#include "src/cpu/watch.h"

#include "src/base/pages.h"
#include "src/cpu/generation.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <linux/userfaultfd.h>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::cpu {

namespace {

// From the headers of Linux 6.7 for fs and userfaultfd. Debian 12 has older ones.
struct ScanRegion {
	uint64_t begin, end, categories;
};
struct Scan {
	uint64_t size, flags, begin, end, walkEnd, regions, regionCount, maxPages;
	uint64_t invertedCategories, allOf, anyOf, returned;
};
constexpr unsigned long pagemapScan = _IOWR('f', 16, Scan);
constexpr uint64_t protectMatching = 1, checkWatched = 2;                            // flags
constexpr uint64_t pageWritten = 2, pageFile = 4, pagePresent = 8, pageSwapped = 16; // categories
constexpr uint64_t featureWriteProtectAsync = 1 << 15;
constexpr int userModeOnly = 1;

// A file that the program can close, and whose number it can use for another file then.
struct Descriptor {
	int number;
	dev_t device;
	ino_t inode;

	bool isOurs() const
	{
		struct stat status;
		return number >= 0 && fstat(number, &status) == 0 && status.st_dev == device && status.st_ino == inode;
	}
	void close() const
	{
		if (isOurs())
			::close(number);
	}
};
constexpr Descriptor noDescriptor{-1, 0, 0};

// Takes over `file`. Programs close the lowest numbers, and expect these for their next files.
Descriptor moved(int file)
{
	const int high = fcntl(file, F_DUPFD_CLOEXEC, 200);
	if (high >= 0)
		close(file);
	struct stat status {
	};
	const int number = high >= 0 ? high : file;
	fstat(number, &status);
	return {number, status.st_dev, status.st_ino};
}

struct Descriptors {
	uint32_t generation;       // generation() of the process that they describe
	Descriptor watch, pagemap; // none: the kernel does not support watching, or does not allow it

	bool isSupported() const { return pagemap.number >= 0; }
};
constinit std::atomic<const Descriptors *> current{nullptr};

const Descriptors *openDescriptors()
{
	auto *const opened = static_cast<Descriptors *>(base::mapPages(sizeof(Descriptors)));
	if (!opened)
		return nullptr;
	*opened = {generation(), noDescriptor, noDescriptor};
	const int watch = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | userModeOnly));
	if (watch < 0)
		return opened;
	uffdio_api api{UFFD_API, featureWriteProtectAsync, 0};
	const int pagemap = ioctl(watch, UFFDIO_API, &api) == 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
	if (pagemap < 0)
		close(watch);
	else
		opened->watch = moved(watch), opened->pagemap = moved(pagemap);
	return opened;
}

// Those of this process; null if it has none.
const Descriptors *descriptors()
{
	const Descriptors *const known = current.load(std::memory_order_acquire);
	return known && known->generation == generation() ? known : nullptr;
}

// Opens them if this process has none, or if the program has closed one.
const Descriptors *ensureDescriptors()
{
	const Descriptors *known = current.load(std::memory_order_acquire);
	if (known && known->generation == generation() &&
	    (!known->isSupported() || (known->watch.isOurs() && known->pagemap.isOurs())))
		return known;
	const Descriptors *const fresh = openDescriptors();
	if (!fresh)
		return nullptr;
	const Descriptors *superseded = fresh;
	if (current.compare_exchange_strong(known, fresh, std::memory_order_acq_rel))
		superseded = known; // inherited, or incomplete
	if (superseded)
		superseded->watch.close(), superseded->pagemap.close();
	return descriptors();
}

// Regions of the pages whose categories match, from scan.begin; -1: failed.
long scanPages(Scan &scan)
{
	const Descriptors *const opened = descriptors();
	if (!opened || !opened->isSupported())
		return -1;
	scan.size = sizeof scan;
	return ioctl(opened->pagemap.number, pagemapScan, &scan);
}

// The first page with all categories in `allOf`, of which those in `inverted` must be absent.
Written hasPage(const Pages &pages, uint64_t allOf, uint64_t inverted = 0)
{
	ScanRegion region;
	Scan scan{};
	scan.flags = checkWatched;
	scan.begin = pages.begin, scan.end = pages.end;
	scan.regions = reinterpret_cast<uintptr_t>(&region), scan.regionCount = scan.maxPages = 1;
	scan.allOf = scan.returned = allOf; // the kernel is faster if it compares only one category
	scan.invertedCategories = inverted;
	const long count = scanPages(scan);
	return count == 0 && scan.walkEnd == pages.end ? Written::no : count > 0 ? Written::yes : Written::unknown;
}

// False for a file of an interface that can pin memory: devices and the kernel then write to it without using the page
// table. io_uring, RDMA, VFIO and GPUs do, so only kinds of files that are known not to do it are harmless.
bool isHarmless(std::string_view target)
{
	const auto startsWith = [&](std::initializer_list<std::string_view> prefixes) {
		return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return target.starts_with(prefix); });
	};
	if (target.starts_with("/dev/"))
		return startsWith({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
		                   "/dev/pts/", "/dev/ptmx", "/dev/console", "/dev/shm/", "/dev/mqueue/", "/dev/hugepages/"});
	if (target.starts_with("anon_inode:"))
		return startsWith({"anon_inode:[eventfd]", "anon_inode:[eventpoll]", "anon_inode:[timerfd]",
		                   "anon_inode:[signalfd]", "anon_inode:[pidfd]", "anon_inode:[perf_event]",
		                   "anon_inode:inotify"});
	return true;
}

// True also if the descriptors cannot be listed.
bool hasPinningDescriptor(const Descriptors &own)
{
	struct Entry { // of getdents64
		uint64_t inode;
		int64_t offset;
		uint16_t length;
		uint8_t type;
		char name[1];
	};
	const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return true;
	bool found = false;
	alignas(8) char buffer[4096], target[64];
	long bytes;
	while (!found && (bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) != 0) {
		found = bytes < 0;
		for (long at = 0; at < bytes && !found;) {
			const auto *const entry = reinterpret_cast<const Entry *>(buffer + at);
			at += entry->length;
			const ssize_t length = readlinkat(folder, entry->name, target, sizeof target);
			if (length <= 0)
				continue; // "." and "..", and descriptors that another thread has closed
			const std::string_view text(target, static_cast<size_t>(length));
			found = !isHarmless(text) && std::atoi(entry->name) != own.watch.number;
		}
	}
	close(folder);
	return found;
}

} // namespace

WeightReason watch(const Pages &pages)
{
	const Descriptors *const opened = ensureDescriptors();
	if (!opened || !opened->isSupported())
		return WeightReason::noWatch;
	uffdio_register request{};
	request.range = {pages.begin, pages.end - pages.begin};
	request.mode = UFFDIO_REGISTER_MODE_WP;
	return ioctl(opened->watch.number, UFFDIO_REGISTER, &request) == 0 ? WeightReason::none : WeightReason::noWatch;
}

Written isWritten(const Pages &pages)
{
	return hasPage(pages, pageWritten);
}

bool collectRegions(const Pages &pages, void (*found)(const Pages &, void *), void *context)
{
	constexpr size_t most = 64;
	ScanRegion regions[most];
	Scan scan{};
	for (uint64_t at = pages.begin; at < pages.end; at = scan.walkEnd) {
		scan = {};
		scan.flags = protectMatching | checkWatched;
		scan.begin = at, scan.end = pages.end;
		scan.regions = reinterpret_cast<uintptr_t>(regions), scan.regionCount = most;
		scan.allOf = scan.returned = pageWritten;
		const long count = scanPages(scan);
		if (count < 0 || scan.walkEnd <= at)
			return false;
		for (long i = 0; i < count; ++i)
			found({regions[i].begin, regions[i].end}, context);
	}
	return true;
}

WeightReason findUnwatchedWriter(const Pages &pages)
{
	const Descriptors *const opened = descriptors();
	if (!opened)
		return WeightReason::noWatch;
	if (hasPinningDescriptor(*opened))
		return WeightReason::pinned;
	// A page of shared memory or of a file can be absent from the page table, a private one only if it is swapped.
	const Written hasFilePage = hasPage(pages, pageFile);
	const Written hasAbsentPage = hasPage(pages, pagePresent | pageSwapped, pagePresent | pageSwapped);
	if (hasFilePage == Written::unknown || hasAbsentPage == Written::unknown)
		return WeightReason::noWatch;
	return hasFilePage == Written::yes || hasAbsentPage == Written::yes ? WeightReason::sharedMemory
	                                                                    : WeightReason::none;
}

bool isMapped(const Pages &pages)
{
	// MS_ASYNC writes nothing.
	return msync(reinterpret_cast<void *>(pages.begin), pages.end - pages.begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

void endWatch(const Pages &pages)
{
	const Descriptors *const opened = descriptors();
	// Older kernels also end the registration of another userfaultfd.
	if (!opened || !opened->watch.isOurs() || isWritten(pages) == Written::unknown)
		return;
	uffdio_range range{pages.begin, pages.end - pages.begin};
	ioctl(opened->watch.number, UFFDIO_UNREGISTER, &range);
}

} // namespace autoamp::cpu
