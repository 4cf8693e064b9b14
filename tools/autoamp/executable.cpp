#include "tools/autoamp/executable.h"

#include "src/config/environment.h"
#include "src/config/options.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// A file as read-only memory. Every read of a structure is bounds-checked, because the file can have any content.
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
	std::string_view textAt(uint64_t offset) const
	{
		const auto rest = bytes_.substr(std::min<uint64_t>(offset, bytes_.size()), 4096);
		return rest.substr(0, rest.find('\0'));
	}
	std::string text(uint64_t offset) const { return std::string(textAt(offset)); }
	std::string_view bytes() const { return bytes_; }

private:
	std::string_view bytes_;
};

std::string find(const std::string &program)
{
	std::error_code error;
	if (program.find('/') != std::string::npos)
		return fs::exists(program, error) ? program : "";
	const char *variable = policy::environmentValue(policy::processEnvironment(), "PATH");
	std::string_view folders = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
	while (true) {
		const auto end = folders.find(':');
		std::string path(folders.substr(0, end));
		path = (path.empty() ? "." : path) + "/" + program;
		if (fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0)
			return path;
		if (end == std::string_view::npos)
			return {};
		folders.remove_prefix(end + 1);
	}
}

// The file offset of what is loaded at `address`.
uint64_t offsetOf(const std::vector<Elf64_Phdr> &loaded, uint64_t address)
{
	for (const auto &segment : loaded)
		if (address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
			return segment.p_offset + (address - segment.p_vaddr);
	return UINT64_MAX;
}

// The newest GLIBC_2.N among the names of the required versions.
int newestGlibc(std::string_view names)
{
	constexpr std::string_view prefix = "GLIBC_2.";
	int newest = 0;
	for (size_t at = 0; (at = names.find(prefix, at)) != names.npos;) {
		at += prefix.size();
		int minor = 0;
		for (; at < names.size() && names[at] >= '0' && names[at] <= '9' && minor < 1000; at++)
			minor = minor * 10 + names[at] - '0';
		newest = std::max(newest, minor);
	}
	return newest;
}

void readDynamic(const Image &image, const Elf64_Phdr &dynamic, const std::vector<Elf64_Phdr> &loaded,
                 Executable &result)
{
	std::vector<uint64_t> names;
	uint64_t strings = UINT64_MAX, size = 0;
	bool hasRunpath = false, isProgram = false;
	for (uint64_t at = 0; at < dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
		const auto entry = image.at<Elf64_Dyn>(dynamic.p_offset + at);
		if (!entry || entry->d_tag == DT_NULL)
			break;
		if (entry->d_tag == DT_NEEDED)
			names.push_back(entry->d_un.d_val);
		else if (entry->d_tag == DT_STRTAB)
			strings = offsetOf(loaded, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRSZ)
			size = entry->d_un.d_val;
		result.hasRpath |= entry->d_tag == DT_RPATH;
		hasRunpath |= entry->d_tag == DT_RUNPATH;
		isProgram |= entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_PIE);
	}
	result.hasRpath &= !hasRunpath; // the loader ignores DT_RPATH if there is DT_RUNPATH
	result.isLibrary = result.isStatic && !isProgram;
	result.isStatic &= isProgram;
	if (strings >= image.bytes().size())
		return;
	for (const auto name : names)
		result.libraries.push_back(image.text(strings + name));
	result.glibc = newestGlibc(image.bytes().substr(strings, size));
}

// The data that can contain texts: loaded, not executable, not device code. Without a section table, all loaded data.
std::vector<std::string_view> dataOf(const Image &image, const Elf64_Ehdr &header,
                                     const std::vector<Elf64_Phdr> &loaded, Executable &result)
{
	std::vector<std::string_view> parts;
	const auto take = [&](uint64_t offset, uint64_t size) {
		if (offset < image.bytes().size())
			parts.push_back(image.bytes().substr(offset, size));
	};
	const auto section = [&](uint64_t i) { return image.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)); };
	const auto names = header.e_shoff ? section(header.e_shstrndx) : std::nullopt;
	for (uint64_t i = 0; names && i < header.e_shnum; i++) {
		const auto each = section(i);
		if (!each)
			break;
		const auto name = image.text(names->sh_offset + each->sh_name);
		result.hasKernels |= name == ".nv_fatbin";
		if (each->sh_type == SHT_PROGBITS && (each->sh_flags & SHF_ALLOC) && !(each->sh_flags & SHF_EXECINSTR) &&
		    name != ".nv_fatbin" && !name.starts_with(".eh_frame"))
			take(each->sh_offset, each->sh_size);
	}
	for (const auto &segment : loaded)
		if (!names)
			take(segment.p_offset, segment.p_filesz);
	return parts;
}

// Texts that occur only in these libraries, in programs that open them, or in kernels of these makers. Each is split in
// two so that autoamp itself does not contain it.
constexpr struct {
	Sign sign;
	const char *begin, *end;
} signs[] = {
    {Sign::runtime, "/cudart", ".shm."},
    {Sign::cublas, "CUBLASLT_", "LOG_LEVEL"},
    {Sign::cublas, "CUBLAS_", "LOGINFO_DBG"},
    {Sign::opens, "libcublas", ".so"},
    {Sign::opens, "libcublas", "Lt.so"},
    {Sign::opens, "libcudnn", ".so"},
    {Sign::cutlass, "7cut", "lass"}, // in a mangled name
    {Sign::cutlass, "cut", "lass_"},
    {Sign::triton, "tri", "ton_"},
    {Sign::blas, "OpenBLAS : ", "Program is Terminated"},
    {Sign::blas, "OpenBLAS blas_", "thread_init"},
    {Sign::blas, "OpenBLAS WARNING", " - could not determine the L2"},
    {Sign::blas, "libblis: sel", "ecting sub-configuration"},
    {Sign::blas, "Intel MKL ", "ERROR: Parameter"},
    {Sign::blas, "Illegal TransA", " setting, %d"}, // reference CBLAS
};

void searchSigns(std::vector<std::string_view> parts, size_t limit, Executable &result)
{
	for (auto &part : parts) {
		result.isSearchedInPart |= part.size() > limit - result.searched;
		part = part.substr(0, limit - result.searched);
		result.searched += part.size();
	}
	for (const auto &[sign, begin, end] : signs) {
		auto &found = result.signs[static_cast<int>(sign)];
		const auto text = std::string(begin) + end;
		for (const auto part : parts)
			if (found.empty() && ::memmem(part.data(), part.size(), text.data(), text.size()))
				found = text;
	}
}

// Finds a product of a CPU BLAS among the functions that the file defines.
void searchBlas(const Image &image, const Elf64_Ehdr &header, Executable &result)
{
	static constexpr std::string_view products[] = {"cblas_sgemm", "sgemm_", "sgemm_64_", "cblas_sgemm64_",
	                                                "mkl_blas_sgemm"};
	std::string found; // the file may contain a text of the BLAS and define other functions
	const auto section = [&](uint64_t i) { return image.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)); };
	for (uint64_t i = 0; header.e_shoff && i < header.e_shnum && found.empty(); i++) {
		const auto table = section(i);
		if (!table || (table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM))
			continue;
		const auto names = section(table->sh_link);
		for (uint64_t at = 0; names && at < table->sh_size && found.empty(); at += sizeof(Elf64_Sym)) {
			const auto symbol = image.at<Elf64_Sym>(table->sh_offset + at);
			if (!symbol)
				break;
			const auto type = ELF64_ST_TYPE(symbol->st_info);
			if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC))
				continue;
			const auto name = image.textAt(names->sh_offset + symbol->st_name);
			if (std::find(std::begin(products), std::end(products), name) == std::end(products))
				continue;
			found = name;
			result.exportsBlas = result.isLibrary && table->sh_type == SHT_DYNSYM;
		}
	}
	if (auto &sign = result.signs[static_cast<int>(Sign::blas)]; sign.empty())
		sign = found;
}

std::string machineOf(const Elf64_Ehdr &header)
{
	const int number = header.e_machine;
	const auto bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? "64-bit" : "32-bit";
	return number == EM_AARCH64                      ? "aarch64"
	       : number == EM_X86_64 || number == EM_386 ? fmt::format("{} x86", bits)
	                                                 : fmt::format("{} ELF machine {}", bits, number);
}

void readElf(const Image &image, size_t limit, Executable &result)
{
	const auto header = image.at<Elf64_Ehdr>(0);
	if (!header) {
		result.problem = "the file ends within its ELF header";
		return;
	}
	result.machine = machineOf(*header);
	result.isElf = result.isStatic = header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64;
	result.isForeign = !result.isElf;
	if (result.isForeign)
		return;
	std::optional<Elf64_Phdr> dynamic;
	std::vector<Elf64_Phdr> loaded;
	for (int i = 0; i < header->e_phnum; i++) {
		const auto segment = image.at<Elf64_Phdr>(header->e_phoff + uint64_t(i) * header->e_phentsize);
		if (!segment) {
			result.damage = "the file ends within its program headers";
			return;
		}
		if (segment->p_type == PT_LOAD && segment->p_filesz > 0 &&
		    (segment->p_offset > image.bytes().size() || segment->p_filesz > image.bytes().size() - segment->p_offset))
			result.damage = "the file ends within a segment that the loader maps";
		if (segment->p_type == PT_INTERP)
			result.isStatic = false, result.interpreter = image.text(segment->p_offset);
		else if (segment->p_type == PT_DYNAMIC)
			dynamic = segment;
		else if (segment->p_type == PT_LOAD)
			loaded.push_back(*segment);
	}
	if (dynamic)
		readDynamic(image, *dynamic, loaded, result);
	searchSigns(dataOf(image, *header, loaded, result), limit, result);
	if (limit > 0)
		searchBlas(image, *header, result);
}

// The interpreter NAME of `#!NAME argument` or of `#!/usr/bin/env NAME`.
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

bool Executable::carriesBlas() const
{
	return !exportsBlas && !sign(Sign::blas).empty() && std::none_of(libraries.begin(), libraries.end(), isBlas);
}

bool isBlas(const std::string &name)
{
	static constexpr std::string_view beginnings[] = {"libblas",           "libcblas",  "libf77blas",   "libopenblas",
	                                                  "libscipy_openblas", "libblis",   "libmkl_",      "libatlas",
	                                                  "libsatlas",         "libtatlas", "libflexiblas", "libgslcblas"};
	return std::any_of(std::begin(beginnings), std::end(beginnings),
	                   [&](std::string_view beginning) { return name.starts_with(beginning); });
}

Executable inspect(const std::string &program, size_t limit)
{
	Executable result;
	result.path = find(program);
	if (result.path.empty())
		result.problem = "not found";
	for (int depth = 0; depth < 4 && result.problem.empty(); depth++) {
		std::error_code error;
		if (!fs::is_regular_file(result.path, error))
			result.problem = fs::is_directory(result.path, error) ? "a folder" : "not a regular file";
		else if (::access(result.path.c_str(), R_OK) != 0)
			result.problem = std::strerror(errno);
		if (!result.problem.empty())
			break;
		const Image image(result.path);
		const auto bytes = image.bytes();
		if (bytes.starts_with("#!")) {
			const auto name = interpreterOf(bytes);
			const auto interpreter = find(name);
			if (interpreter.empty()) {
				result.problem = "its interpreter " + name + " is not found";
				break;
			}
			result.script = result.script.empty() ? result.path : result.script;
			result.path = interpreter;
			continue;
		}
		if (!bytes.starts_with(ELFMAG)) {
			result.problem = "neither an ELF file nor a script with a #! line";
			break;
		}
		readElf(image, limit, result);
		struct stat status;
		result.isPrivileged = (::stat(result.path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID))) ||
		                      ::getxattr(result.path.c_str(), "security.capability", nullptr, 0) > 0;
		break;
	}
	return result;
}

} // namespace autoamp::tool
