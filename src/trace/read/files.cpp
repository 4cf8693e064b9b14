#include "src/trace/read/files.h"

#include "src/trace/file_lock.h"
#include "src/trace/read/chunks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace autoamp::trace {

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
	uint64_t end = std::max<uint64_t>((size + kPage - 1) / kPage * kPage, tail.header.headerSize);
	bool isWritten = true;
	forEachChunk(file.descriptor, tail.header.headerSize, size, [&](const FoundChunk &chunk) {
		known[chunk.sequence] = chunk;
		end = std::max(end, chunk.offset + chunk.size); // if the file was truncated inside it, it keeps its place
	});
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

namespace {

// Numbers of the files next to `path` that have its name with a number before the suffix. `base`, `suffix`: offsets of
// the name and of its suffix.
std::set<uint64_t> numbersOf(const std::string &path, size_t base, size_t suffix)
{
	std::set<uint64_t> numbers;
	DIR *const folder = opendir(base ? path.substr(0, base).c_str() : ".");
	for (const dirent *entry = folder ? readdir(folder) : nullptr; entry; entry = readdir(folder)) {
		char *end = nullptr;
		const std::string name = path.substr(0, base) + entry->d_name;
		if (name.compare(0, suffix, path, 0, suffix) != 0 || name.size() < suffix + 2 || name[suffix] != '.')
			continue;
		const uint64_t found = strtoull(name.c_str() + suffix + 1, &end, 10);
		if (end - name.c_str() > static_cast<ptrdiff_t>(suffix + 1) && path.substr(suffix) == end)
			numbers.insert(found);
	}
	if (folder)
		closedir(folder);
	return numbers;
}

} // namespace

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
	for (const uint64_t found : numbersOf(path, base, suffix))
		if (const auto other = found > number ? runIdsOf(part(found)) : std::nullopt;
		    other && other->isPartOf(run->inner))
			files.push_back(part(found));
	return files;
}

} // namespace autoamp::trace
