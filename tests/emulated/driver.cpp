#include "kernels.h"
#include "kernels/images.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

extern "C" unsigned long autoamp_emulated_calls(const char *name);

TEST_CASE("runtime and driver share the primary context, and a reset gives it another id")
{
	void *memory = nullptr;
	REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
	CUcontext context = nullptr, primary = nullptr;
	unsigned long long id = 0, later = 0;
	REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
	REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
	CHECK(context == primary);
	REQUIRE(cuCtxGetId(context, &id) == CUDA_SUCCESS);
	REQUIRE(cudaDeviceReset() == cudaSuccess);
	CHECK(cuMemAlloc(reinterpret_cast<CUdeviceptr *>(&memory), 16) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
	REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
	REQUIRE(cuCtxGetId(context, &later) == CUDA_SUCCESS);
	CHECK(context == primary);
	CHECK(later != id);
	CHECK(cudaFree(memory) == cudaSuccess);
}

namespace {

// A fat binary of one entry without code: PTX (1) or machine code (2) for an architecture.
struct FatBinary {
	uint32_t magic = 0xba55ed50;
	uint16_t version = 1, headerBytes = 16;
	uint64_t bytes = 64;
	uint16_t kind, entryVersion = 0x101;
	uint32_t entryHeaderBytes = 64;
	uint64_t entryBytes = 0;
	uint32_t compressed[2] = {};
	uint16_t minor = 7, major = 1;
	uint32_t architecture;
	uint64_t rest[4] = {};
	FatBinary(uint16_t entryKind, uint32_t target) : kind(entryKind), architecture(target) {}
};
static_assert(sizeof(FatBinary) == 80);

std::string fileAt(const char *path)
{
	std::ifstream file(path, std::ios::binary);
	REQUIRE(file);
	return {std::istreambuf_iterator<char>(file), {}};
}

CUresult load(const void *image)
{
	CUlibrary library = nullptr;
	CUmodule module = nullptr;
	const CUresult result = cuModuleLoadData(&module, image);
	const CUresult loaded = cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
	const bool isForeignCubin = result == CUDA_ERROR_NO_BINARY_FOR_GPU && memcmp(image, ELFMAG, SELFMAG) == 0;
	CHECK(loaded == (isForeignCubin ? CUDA_SUCCESS : result));
	if (isForeignCubin) {
		CUkernel kernel = nullptr;
		CHECK(cuLibraryGetKernel(&kernel, library, "emulated_fill") == CUDA_ERROR_NO_BINARY_FOR_GPU);
		CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
	}
	if (result == CUDA_SUCCESS) {
		CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
		CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
	}
	return result;
}

} // namespace

TEST_CASE("an image must hold code for the device")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	for (const auto &[kind, architecture, runs] :
	     {std::tuple{2, 90, true}, {2, 80, false}, {2, 100, false}, {1, 80, true}, {1, 90, true}, {1, 100, false}}) {
		const FatBinary image(static_cast<uint16_t>(kind), static_cast<uint32_t>(architecture));
		const struct {
			uint32_t magic, version;
			const void *data, *other;
		} wrapper = {0x466243b1, 1, &image, nullptr};
		CAPTURE(kind, architecture);
		CHECK(load(&image) == (runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU));
		CHECK(load(&wrapper) == (runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU));
	}
	FatBinary cut(2, 90);
	cut.entryBytes = 1000; // more than the image has
	CHECK(load(&cut) == CUDA_ERROR_INVALID_IMAGE);
	for (const char *junk : {"", "any", "image",
	                         "\x7f"
	                         "EL",
	                         "void kernel() {}"})
		CHECK(load(junk) == CUDA_ERROR_INVALID_IMAGE);
	CHECK(load("// made by hand\n/* PTX */ .version 8.0\n.target sm_80\n.address_size 64\n") == CUDA_SUCCESS);
	CHECK(load(".version 8.8\n.target sm_120\n.address_size 64\n") == CUDA_ERROR_INVALID_PTX);
	Elf64_Ehdr cubin = {};
	memcpy(cubin.e_ident, ELFMAG, SELFMAG);
	cubin.e_ident[EI_CLASS] = ELFCLASS64;
	cubin.e_machine = EM_X86_64;
	cubin.e_flags = 90;
	CHECK(load(&cubin) == CUDA_ERROR_INVALID_IMAGE);
	cubin.e_machine = EM_CUDA;
	CHECK(load(&cubin) == CUDA_SUCCESS);
	cubin.e_flags = 80;
	CHECK(load(&cubin) == CUDA_ERROR_NO_BINARY_FOR_GPU);
	cubin.e_ident[EI_OSABI] = 0x41; // as CUDA 13 writes it
	cubin.e_flags = 90 << 8;
	CHECK(load(&cubin) == CUDA_SUCCESS);

	CHECK(load(".version 9.0\n.target sm_90\n") == CUDA_SUCCESS);
	CHECK(load(".version 10.0\n.target sm_90\n") == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	CHECK(load(".version\n.target sm_90\n") == CUDA_ERROR_INVALID_PTX);
	FatBinary future(1, 80);
	future.major = 10, future.minor = 0;
	CHECK(load(&future) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

TEST_CASE("fat binaries of nvcc are read")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	CHECK(load(fileAt(FAT_BINARIES "/sm_80.fatbin").data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
	CHECK(load(fileAt(FAT_BINARIES "/sm_90.fatbin").data()) == CUDA_SUCCESS);
	CHECK(load(fileAt(FAT_BINARIES "/compute_80.fatbin").data()) == CUDA_SUCCESS);
	CHECK(load(fileAt(FAT_BINARIES "/compute_100.fatbin").data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_CASE("of autoamp's images, that for the device and the PTX load")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	for (const auto &image : autoamp::kernels::images()) {
		CAPTURE(image.architecture, image.isPtx);
		CHECK(load(autoamp_kernel_images + image.offset) ==
		      (image.isPtx || image.architecture == 90 ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU));
	}
}

// Runs with several versions as AUTOAMP_EMU_DRIVER.
TEST_CASE("the table has the oldest driver that loads each image", "[.][oldest]")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	int version = 0;
	REQUIRE(cuDriverGetVersion(&version) == CUDA_SUCCESS);
	for (const auto &image : autoamp::kernels::images()) {
		CAPTURE(version, image.architecture, image.isPtx, image.oldestDriver);
		if (image.isPtx || image.architecture == 90)
			CHECK((load(autoamp_kernel_images + image.offset) == CUDA_SUCCESS) == (version >= image.oldestDriver));
	}
}

// Runs with AUTOAMP_EMU_DRIVER=12060.
TEST_CASE("an older driver reads no image of a newer one", "[.][driver12]")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	int version = 0;
	CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS);
	CHECK(version == 12060);
	CHECK(cudaDriverGetVersion(&version) == cudaSuccess);
	CHECK(version == 12060);
	CHECK(load(fileAt(FAT_BINARIES "/sm_90.fatbin").data()) == CUDA_ERROR_INVALID_IMAGE);
	CHECK(load(fileAt(FAT_BINARIES "/compute_80.fatbin").data()) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	CHECK(load(".version 8.0\n.target sm_90\n") == CUDA_SUCCESS);
	CHECK(load(".version 8.5\n.target sm_90\n") == CUDA_SUCCESS);
	CHECK(load(".version 8.6\n.target sm_90\n") == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	CHECK(load(".version 9.0\n.target sm_90\n") == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	FatBinary image(1, 90);
	image.major = 8, image.minor = 5;
	CHECK(load(&image) == CUDA_SUCCESS);
	image.minor = 6;
	CHECK(load(&image) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	Elf64_Ehdr cubin = {};
	memcpy(cubin.e_ident, ELFMAG, SELFMAG);
	cubin.e_ident[EI_CLASS] = ELFCLASS64;
	cubin.e_machine = EM_CUDA;
	cubin.e_ident[EI_OSABI] = 0x33; // as CUDA 12 writes it
	cubin.e_flags = 90;
	CHECK(load(&cubin) == CUDA_SUCCESS);
	cubin.e_ident[EI_OSABI] = 0x41;
	cubin.e_flags = 90 << 8;
	CHECK(load(&cubin) == CUDA_ERROR_INVALID_IMAGE);
	cubin.e_flags = 120 << 8; // CUDA 12.9 writes this format for later GPUs
	CHECK(load(&cubin) == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_CASE("kernels come from any image by the name that a plug-in knows")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	const char image[] = ".version 8.0\n.target sm_75\n";
	CUlibrary library = nullptr;
	CUkernel kernel = nullptr, none = nullptr;
	REQUIRE(cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0) == CUDA_SUCCESS);
	REQUIRE(cuLibraryGetKernel(&kernel, library, "test_fill") == CUDA_SUCCESS);
	CHECK(cuLibraryGetKernel(&none, library, "nobody") == CUDA_ERROR_NOT_FOUND);
	CUdeviceptr memory = 0;
	REQUIRE(cuMemAlloc(&memory, 400) == CUDA_SUCCESS);
	float value = 9;
	int count = 100;
	void *arguments[] = {&memory, &value, &count};
	const auto function = reinterpret_cast<CUfunction>(kernel);
	REQUIRE(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
	value = 1; // was copied
	float back = 0;
	REQUIRE(cuMemcpyDtoH(&back, memory + 396, 4) == CUDA_SUCCESS);
	CHECK(back == 9);
	CHECK(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 60'000, nullptr, arguments, nullptr) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
	CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("driver functions by version")
{
	void *old = nullptr, *recent = nullptr, *none = &none;
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	REQUIRE(cuGetProcAddress("cuStreamGetCaptureInfo", &old, 11030, 0, &status) == CUDA_SUCCESS);
	REQUIRE(cuGetProcAddress("cuStreamGetCaptureInfo", &recent, 13000, 0, &status) == CUDA_SUCCESS);
	CHECK(recent == reinterpret_cast<void *>(&cuStreamGetCaptureInfo)); // cuda.h makes it _v3
	CHECK(old != recent);
	CHECK(cuGetProcAddress("cuCtxGetId", &none, 11000, 0, &status) == CUDA_SUCCESS);
	CHECK(none == nullptr);
	CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CHECK(cuGetProcAddress("cuNothing", &none, 13000, 0, &status) == CUDA_SUCCESS);
	CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	REQUIRE(cudaGetDriverEntryPointByVersion("cuMemAlloc", &old, 13000, 0, &found) == cudaSuccess);
	CHECK(found == cudaDriverEntryPointSuccess);
	CHECK(old == reinterpret_cast<void *>(&cuMemAlloc));
	void *plain = nullptr, *perThread = nullptr;
	REQUIRE(cuGetProcAddress("cuStreamQuery", &plain, 13000, 0, &status) == CUDA_SUCCESS);
	REQUIRE(cuGetProcAddress("cuStreamQuery", &perThread, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
	                         &status) == CUDA_SUCCESS);
	CHECK(plain != perThread);
}

TEST_CASE("errors have the names of the headers")
{
	CHECK(std::string(cudaGetErrorName(cudaErrorIllegalAddress)) == "cudaErrorIllegalAddress");
	CHECK(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
	CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
	const char *text = nullptr;
	CHECK(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, &text) == CUDA_SUCCESS);
	CHECK(std::string(text) == "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
	CHECK(cuGetErrorString(CUresult(12345), &text) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a forked child is refused, not hung")
{
	void *memory = nullptr;
	REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
	const pid_t child = fork();
	if (child == 0) {
		alarm(10);
		const bool refused = cudaMalloc(&memory, 16) == cudaErrorInitializationError &&
		                     cudaDeviceSynchronize() == cudaErrorInitializationError &&
		                     cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
		_exit(refused ? 0 : 1);
	}
	int status = -1;
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
	CHECK(cudaFree(memory) == cudaSuccess);
}

// Run with AUTOAMP_EMU_FAIL=cudaMalloc:3 by the build (meson.build).
TEST_CASE("the call that must fail fails, once", "[.][fail]")
{
	void *memory = nullptr;
	for (unsigned long call = 1; call < 6; ++call) {
		CHECK(cudaMalloc(&memory, 16) == (call == 3 ? cudaErrorMemoryAllocation : cudaSuccess));
		CHECK(autoamp_emulated_calls("cudaMalloc") == call);
	}
	CHECK(autoamp_emulated_calls("cudaFree") == 0);
}
