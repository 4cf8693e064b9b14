#include "tools/autoamp/write_watch.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::tool {

namespace {

// The headers of Debian 12 lack these definitions of Linux 6.7.
struct Scan { // struct pm_scan_arg
	uint64_t size, flags, start, end, walkEnd, regions, regionCount, maxPages, inverted, mask, anyOfMask, returned;
};
constexpr unsigned long pagemapScan = _IOWR('f', 16, Scan);
constexpr uint64_t featureAsync = 1 << 15, categoryWritten = 2;
constexpr int userModeOnly = 1;

struct File {
	int descriptor;
	~File()
	{
		if (descriptor >= 0)
			::close(descriptor);
	}
};

} // namespace

std::string whyNoWatch()
{
	const File faults{static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | userModeOnly))};
	if (faults.descriptor < 0)
		return fmt::format("userfaultfd: {}", std::strerror(errno));
	uffdio_api api = {UFFD_API, featureAsync, 0};
	if (::ioctl(faults.descriptor, UFFDIO_API, &api) != 0)
		return fmt::format("userfaultfd without asynchronous write protection (Linux 6.7): {}", std::strerror(errno));
	const File pages{::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
	if (pages.descriptor < 0)
		return fmt::format("/proc/self/pagemap: {}", std::strerror(errno));
	Scan scan = {}; // of no page
	scan.size = sizeof scan, scan.mask = scan.returned = categoryWritten;
	if (::ioctl(pages.descriptor, pagemapScan, &scan) != 0)
		return fmt::format("PAGEMAP_SCAN (Linux 6.7): {}", std::strerror(errno));
	return {};
}

} // namespace autoamp::tool
