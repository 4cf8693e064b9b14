#include "tools/autoamp/emulation.h"

#include "tools/autoamp/commands.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// Name prefixes of the CUDA libraries that use a device. NVRTC, nvJitLink and NVTX only compile or mark.
constexpr const char *cudaLibraries[] = {"libcuda.so", "libcudart", "libcublas",   "libcudnn",    "libcupti",
                                         "libcufft",   "libcurand", "libcusolver", "libcusparse", "libcutensor",
                                         "libnccl",    "libnpp",    "libnvjpeg",   "libnvinfer",  "libnvblas"};

// The part of a library's name that all its versions share: libcudnn of libcudnn.so.8.
std::string stem(const std::string &name)
{
	return name.substr(0, name.find(".so"));
}

// The command that builds the emulated device, if `emulated` is in a build tree; empty if autoamp was installed.
std::string buildCommand(const fs::path &emulated)
{
	std::error_code error;
	const auto build = emulated.parent_path().parent_path();
	return fs::exists(build / "build.ninja", error) ? fmt::format("ninja -C {} emulated", quoted(here(build))) : "";
}

std::string whyIncomplete(const std::string &folder)
{
	std::error_code error;
	const auto *const missing = std::find_if(std::begin(emulatedLibraries), std::end(emulatedLibraries),
	                                         [&](auto *name) { return !fs::exists(fs::path(folder) / name, error); });
	if (missing == std::end(emulatedLibraries))
		return {};
	const auto command = buildCommand(folder);
	return fmt::format("the emulated device is incomplete: {} is missing in {}; {}", *missing, folder,
	                   command.empty() ? "install autoamp again" : "build it with " + command);
}

bool isCudaLibrary(const std::string &name)
{
	return std::any_of(std::begin(cudaLibraries), std::end(cudaLibraries),
	                   [&](const char *prefix) { return name.starts_with(prefix); });
}

} // namespace

Emulation emulationOf(const Executable &program, const Installation &installation)
{
	const auto &folder = installation.emulated;
	if (folder.empty())
		return {fmt::format("the emulated device is not installed next to {}", installation.library), {}, {}};
	if (folder.find_first_of(":;") != std::string::npos)
		return {fmt::format("{}: the loader cannot load from a folder whose name has a colon or semicolon", folder),
		        {},
		        {}};
	if (program.carriesRuntime())
		return {
		    fmt::format("{} contains the static CUDA runtime, which needs a real driver; relink it with nvcc -cudart "
		                "shared (CMake: CMAKE_CUDA_RUNTIME_LIBRARY=Shared)",
		                program.path),
		    {},
		    {}};
	if (auto problem = whyIncomplete(folder); !problem.empty())
		return {std::move(problem), buildCommand(folder), {}};

	Emulation emulation;
	if (!program.isElf) // the program cannot start at all
		return emulation;
	const auto isEmulated = [](const std::string &name) {
		return std::count(std::begin(emulatedLibraries), std::end(emulatedLibraries), name) > 0;
	};
	for (const auto &library : loadedWith(program.path, folder)) {
		if (!isCudaLibrary(library.name) || isEmulated(library.name))
			continue;
		const auto other = std::find_if(std::begin(emulatedLibraries), std::end(emulatedLibraries),
		                                [&](const char *name) { return stem(name) == stem(library.name); });
		const bool isDirect = std::count(program.libraries.begin(), program.libraries.end(), library.name) > 0;
		if (other != std::end(emulatedLibraries))
			emulation.problem =
			    fmt::format("{} needs {}, but the emulated device has {}", program.path, library.name, *other);
		else if (isDirect)
			emulation.problem = fmt::format("{} needs {}, which has no emulated version", program.path, library.name);
		else if (!library.name.starts_with(
		             "libcudnn_")) // the parts of the vendor's libcudnn, which the emulated one replaces
			emulation.missing.push_back(library.name);
		if (!emulation.problem.empty())
			break;
	}
	return emulation;
}

} // namespace autoamp::tool
