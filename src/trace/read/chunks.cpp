#include "src/trace/read/chunks.h"

#include "src/trace/tail_name.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace autoamp::trace {

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

std::string problemOf(const Header &header, size_t got)
{
	if (got < sizeof kMagic || memcmp(header.magic, kMagic, sizeof kMagic) != 0)
		return got == 0 ? "empty file" : "not an autoamp trace";
	if (got < sizeof header)
		return "truncated within its header";
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

bool needsTail(const Header &header, size_t got)
{
	if (got >= sizeof kMagic && memcmp(header.magic, kMagic, sizeof kMagic) == 0)
		return got < sizeof header || (header.flags & (headerTail | headerIsTail)) == headerTail;
	const char *bytes = header.magic;
	return std::all_of(bytes, bytes + std::min(got, sizeof header.magic), [](char byte) { return byte == 0; });
}

void dropZeros(int file, FoundChunk &found)
{
	const size_t size = found.kind == ChunkKind::events    ? sizeof(Event)
	                    : found.kind == ChunkKind::kernels ? sizeof(Kernel)
	                                                       : 0;
	if (!size || found.bytes < sizeof(Chunk) + size)
		return;
	const auto isThere = [&](uint64_t item) {
		const uint64_t offset = found.offset + sizeof(Chunk) + item * size;
		if (found.kind == ChunkKind::events) {
			Event event = {};
			readAt(file, &event, sizeof event, offset);
			return event.packed >> 44 != 0; // its row, in the last bytes
		}
		Kernel kernel = {};
		readAt(file, &kernel, sizeof kernel, offset);
		return kernel.name != 0;
	};
	uint64_t there = 0, end = (found.bytes - sizeof(Chunk)) / size;
	if (isThere(end - 1))
		return;
	while (there < end) {
		const uint64_t middle = (there + end) / 2;
		if (isThere(middle))
			there = middle + 1;
		else
			end = middle;
	}
	// The last item that is there can have lost its end.
	found.bytes = static_cast<uint32_t>(sizeof(Chunk) + (there - std::min<uint64_t>(there, 1)) * size);
}

std::string readWhole(int file, const FoundChunk &found)
{
	std::string content(found.bytes, 0);
	Chunk head;
	content.resize(readAt(file, content.data(), content.size(), found.offset));
	const bool isRead = readAt(file, static_cast<void *>(&head), sizeof head, found.offset) == sizeof head;
	return isRead && head.sequence() == found.sequence ? content : std::string();
}

bool Tail::open(const std::string &trace, const Header &its, size_t got)
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

} // namespace autoamp::trace
