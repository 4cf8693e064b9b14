#include "tools/autoamp/executable.h"

#include "src/policy/options.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace autoamp::tool {

namespace {

// A file as read-only memory. Every read of a structure is bounds-checked: the file may be anything.
class Image
{
public:
	explicit Image(const std::string &path)
	{
		const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
		struct stat status;
		if (file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
			void *address = ::mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
			if (address != MAP_FAILED)
				bytes_ = {static_cast<const char *>(address), static_cast<size_t>(status.st_size)};
		}
		if (file >= 0)
			::close(file);
	}
	~Image()
	{
		if (!bytes_.empty())
			::munmap(const_cast<char *>(bytes_.data()), bytes_.size());
	}
	Image(const Image &) = delete;
	Image &operator=(const Image &) = delete;

	template <typename T>
	std::optional<T> at(uint64_t offset) const
	{
		T value;
		if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T))
			return std::nullopt;
		std::memcpy(&value, bytes_.data() + offset, sizeof(T));
		return value;
	}
	std::string text(uint64_t offset) const
	{
		if (offset >= bytes_.size())
			return {};
		const auto rest = bytes_.substr(offset);
		return std::string(rest.substr(0, std::min<size_t>(rest.find('\0'), 4096)));
	}
	bool contains(std::string_view marker) const
	{
		return !bytes_.empty() && ::memmem(bytes_.data(), bytes_.size(), marker.data(), marker.size());
	}
	std::string_view bytes() const { return bytes_; }

private:
	std::string_view bytes_;
};

std::string find(const std::string &program)
{
	const auto isFile = [](const std::string &path) {
		struct stat status;
		return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
	};
	if (program.find('/') != std::string::npos)
		return isFile(program) ? program : "";
	const char *variable = policy::environmentValue(policy::processEnvironment(), "PATH");
	std::string_view folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
	while (true) {
		const auto end = folders.find(':');
		std::string path(folders.substr(0, end));
		path = (path.empty() ? "." : path) + "/" + program;
		if (isFile(path) && ::access(path.c_str(), X_OK) == 0)
			return path;
		if (end == std::string_view::npos)
			return {};
		folders.remove_prefix(end + 1);
	}
}

void readElf(const Image &image, Executable &result)
{
	const auto header = image.at<Elf64_Ehdr>(0);
	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64) {
		result.isForeign = true;
		return;
	}
	result.isElf = true;
	result.isStatic = true;
	std::optional<Elf64_Phdr> dynamic;
	std::vector<Elf64_Phdr> loaded;
	for (int i = 0; i < header->e_phnum; i++) {
		const auto segment = image.at<Elf64_Phdr>(header->e_phoff + uint64_t(i) * header->e_phentsize);
		if (!segment)
			return;
		if (segment->p_type == PT_INTERP)
			result.isStatic = false;
		else if (segment->p_type == PT_DYNAMIC)
			dynamic = segment;
		else if (segment->p_type == PT_LOAD)
			loaded.push_back(*segment);
	}
	if (!dynamic)
		return;
	std::vector<uint64_t> names;
	uint64_t strings = 0;
	bool hasRpath = false, hasRunpath = false;
	for (uint64_t offset = 0; offset < dynamic->p_filesz; offset += sizeof(Elf64_Dyn)) {
		const auto entry = image.at<Elf64_Dyn>(dynamic->p_offset + offset);
		if (!entry || entry->d_tag == DT_NULL)
			break;
		if (entry->d_tag == DT_NEEDED)
			names.push_back(entry->d_un.d_val);
		else if (entry->d_tag == DT_STRTAB)
			strings = entry->d_un.d_ptr;
		else if (entry->d_tag == DT_RPATH)
			hasRpath = true;
		else if (entry->d_tag == DT_RUNPATH)
			hasRunpath = true;
	}
	result.hasRpath = hasRpath && !hasRunpath; // the loader ignores DT_RPATH beside DT_RUNPATH
	for (const auto &segment : loaded) {
		if (strings < segment.p_vaddr || strings - segment.p_vaddr >= segment.p_filesz)
			continue;
		for (const auto name : names)
			result.libraries.push_back(image.text(segment.p_offset + (strings - segment.p_vaddr) + name));
	}
}

// `#!interpreter argument`; for `#!/usr/bin/env NAME` it is NAME that counts.
std::string interpreterOf(std::string_view script)
{
	const std::string line(script.substr(2, std::min<size_t>(script.find('\n'), 256) - 2));
	const auto word = [&line](size_t &position) {
		position = line.find_first_not_of(" \t", position);
		if (position == std::string::npos)
			return std::string();
		const auto start = position;
		position = std::min(line.find_first_of(" \t\r", start), line.size());
		return line.substr(start, position - start);
	};
	size_t position = 0;
	const auto interpreter = word(position);
	if (!interpreter.ends_with("/env"))
		return interpreter;
	const auto name = word(position);
	return name.starts_with("-") ? word(position) : name;
}

} // namespace

bool Executable::needs(const char *prefix) const
{
	return std::any_of(libraries.begin(), libraries.end(), [&](const auto &name) { return name.starts_with(prefix); });
}

Executable inspect(const std::string &program)
{
	Executable result;
	result.path = find(program);
	for (int depth = 0; depth < 4 && !result.path.empty(); depth++) {
		const Image image(result.path);
		const auto bytes = image.bytes();
		if (bytes.starts_with("#!")) {
			const auto interpreter = find(interpreterOf(bytes));
			if (interpreter.empty())
				break;
			result.path = interpreter;
			continue;
		}
		if (!bytes.starts_with(ELFMAG))
			break;
		readElf(image, result);
		// Texts that only NVIDIA's own code contains and that survive `strip`.
		std::string mark = "/cudart"; // in two pieces: this program carries no runtime
		mark += ".shm.";
		result.carriesRuntime = !result.needs("libcudart.so") && image.contains(mark);
		result.carriesCublas = !result.needs("libcublas") && image.contains("CUBLASLT_LOG_LEVEL");
		struct stat status;
		result.isPrivileged = (::stat(result.path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID))) ||
		                      ::getxattr(result.path.c_str(), "security.capability", nullptr, 0) > 0;
		break;
	}
	return result;
}

} // namespace autoamp::tool
