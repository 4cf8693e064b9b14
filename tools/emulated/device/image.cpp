// Images of device code in the forms that the driver accepts: fat binary, its wrapper, cubin, PTX text. Their kernels
// are not run: plug-ins provide the kernels by name. Any thread; no data is kept.
#include "core.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <string_view>

namespace emulated {
namespace {

constexpr unsigned deviceArchitecture = 90;

struct Wrapper {
	static constexpr uint32_t expected = 0x466243b1;
	uint32_t magic, version;
	const void *image;
	void *other;
};

struct FatBinary {
	static constexpr uint32_t expected = 0xba55ed50;
	uint32_t magic;
	uint16_t version, headerBytes;
	uint64_t bytes; // size of the entries
};

struct Entry {
	enum Kind : uint16_t { ptx = 1, cubin = 2 };
	uint16_t kind, version;
	uint32_t headerBytes;
	uint64_t bytes;
	uint32_t compressed[2];
	uint16_t minor, major; // version of the PTX language, or of the cubin format
	uint32_t architecture;
};

constexpr unsigned formatOfCuda13 = 18; // 1.8; 1.7 before. CUDA 12.9 writes it for sm_100 and newer

template <class T>
T at(const void *address)
{
	T value;
	std::memcpy(&value, address, sizeof value);
	return value;
}

// Code runs on newer devices of the same major version; PTX is compiled for all newer devices. Both run on devices of
// the same version.
bool runs(bool isPtx, unsigned architecture)
{
	return architecture <= deviceArchitecture && (isPtx || architecture / 10 == deviceArchitecture / 10);
}

// `version`: 88 for PTX 8.8. CUDA 12.5 and 12.6 have the same PTX version.
bool readsPtx(unsigned version)
{
	const auto major = static_cast<unsigned>(driverVersion()) / 1000,
	           minor = static_cast<unsigned>(driverVersion()) % 1000 / 10;
	return version <= (major - 4) * 10 + minor - (major == 12 && minor > 5);
}

// Success if a driver of this version reads a cubin for this device, in the format of CUDA 13 or an older one.
cudaError_t checkFormat(bool isOfCuda13)
{
	return isOfCuda13 && driverVersion() < 13000 ? cudaErrorInvalidKernelImage : cudaSuccess;
}

cudaError_t checkFatBinary(const void *image)
{
	const auto header = at<FatBinary>(image);
	const auto *next = static_cast<const char *>(image) + header.headerBytes, *const end = next + header.bytes;
	cudaError_t error = cudaErrorNoKernelImageForDevice;
	if (header.headerBytes < sizeof header)
		return cudaErrorInvalidKernelImage;
	while (next < end) {
		if (end - next < static_cast<ptrdiff_t>(sizeof(Entry)))
			return cudaErrorInvalidKernelImage;
		const auto entry = at<Entry>(next);
		const auto room = static_cast<uint64_t>(end - next);
		if (entry.headerBytes < sizeof entry || entry.headerBytes > room || entry.bytes > room - entry.headerBytes)
			return cudaErrorInvalidKernelImage;
		const bool isPtx = entry.kind == Entry::ptx;
		const unsigned version = entry.major * 10u + entry.minor;
		if ((isPtx || entry.kind == Entry::cubin) && runs(isPtx, entry.architecture)) {
			error = !isPtx              ? checkFormat(version >= formatOfCuda13)
			        : readsPtx(version) ? cudaSuccess
			                            : cudaErrorUnsupportedPtxVersion;
			if (!error)
				return error;
		}
		next += entry.headerBytes + entry.bytes;
	}
	return error;
}

cudaError_t checkCubin(const void *image)
{
	constexpr uint16_t machineCuda = 190;
	constexpr unsigned char abiOfCuda13 = 0x41;
	const auto header = at<Elf64_Ehdr>(image);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machineCuda)
		return cudaErrorInvalidKernelImage;
	const bool isOfCuda13 = header.e_ident[EI_OSABI] == abiOfCuda13;
	const unsigned shift = isOfCuda13 ? 8 : 0;
	return runs(false, header.e_flags >> shift & 0xff) ? checkFormat(isOfCuda13) : cudaErrorNoKernelImageForDevice;
}

// A text may be shorter than the magic number of the other forms.
bool beginsWith(const void *image, uint32_t magic)
{
	const auto *bytes = static_cast<const char *>(image);
	for (size_t i = 0; i < sizeof magic; ++i)
		if (bytes[i] != reinterpret_cast<const char *>(&magic)[i])
			return false;
	return true;
}

// `.version` must be first, after comments and spaces.
cudaError_t checkPtx(const char *text)
{
	std::string_view rest(text);
	const auto skip = [&](std::string_view mark, size_t from) {
		const size_t end = rest.find(mark, from);
		rest.remove_prefix(end == rest.npos ? rest.size() : end + mark.size());
	};
	while (!rest.empty()) {
		if (std::isspace(static_cast<unsigned char>(rest[0])))
			rest.remove_prefix(1);
		else if (rest.starts_with("//"))
			skip("\n", 2);
		else if (rest.starts_with("/*"))
			skip("*/", 2);
		else
			break;
	}
	constexpr std::string_view version = ".version";
	if (!rest.starts_with(version))
		return cudaErrorInvalidKernelImage;
	unsigned major = 0, minor = 0;
	if (sscanf(rest.data() + version.size(), "%u.%u", &major, &minor) != 2)
		return cudaErrorInvalidPtx;
	if (!readsPtx(major * 10 + minor))
		return cudaErrorUnsupportedPtxVersion;
	constexpr std::string_view target = ".target";
	const size_t found = rest.find(target);
	const size_t number = found == rest.npos ? found : rest.find("sm_", found + target.size());
	const bool isForUs = number != rest.npos && runs(true, static_cast<unsigned>(atoi(rest.data() + number + 3)));
	return isForUs ? cudaSuccess : cudaErrorInvalidPtx;
}

} // namespace

cudaError_t checkImage(const void *image)
{
	const auto begins = [image](uint32_t magic) { return beginsWith(image, magic); };
	if (begins(Wrapper::expected)) {
		const auto *inside = at<Wrapper>(image).image;
		return inside && at<uint32_t>(inside) == FatBinary::expected ? checkFatBinary(inside)
		                                                             : cudaErrorInvalidKernelImage;
	}
	if (begins(FatBinary::expected))
		return checkFatBinary(image);
	if (begins(at<uint32_t>(ELFMAG)))
		return checkCubin(image);
	return checkPtx(static_cast<const char *>(image));
}

bool isForeignCubin(const void *image)
{
	return beginsWith(image, at<uint32_t>(ELFMAG)) && checkCubin(image) == cudaErrorNoKernelImageForDevice;
}

} // namespace emulated
