// Inspects this machine: the driver and its GPUs, CUDA libraries, the parts of autoamp. Main thread. Foreign code is
// loaded only in a child process: a driver started in this process would not help the application and could end this
// process.
#pragma once

#include "tools/autoamp/executable.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace autoamp::tool {

// The installed parts of autoamp: next to this program in the build tree, or under ../lib/autoamp.
struct Installation {
	std::string library;             // libautoamp.so; empty: not found
	std::string cpuLibrary;          // libautoamp-cpu.so, in the same folder; empty: not found
	std::string emulated;            // folder of the emulated device; empty: not found
	std::string selfTest;            // the program of doctor --self-test; empty: not found
	std::vector<std::string> places; // the places searched

	std::string core() const; // the path where the library looks for its core
};
Installation findInstallation();
// The folder of the Python package, next to the installed program or in the source tree around the build; empty: not
// found.
std::string pythonFolder();

// The reason why the library, or that for a CPU BLAS, could not load its core; empty: it can.
std::string whyCoreFails(const Installation &installation, bool isOnCpu = false);

// The reason why a trace with this name pattern could not be created; empty: it could.
std::string whyNoTrace(const std::string &pattern);

struct Driver {
	struct Gpu {
		int capability = 0; // 90 for sm_90
		std::string name;
	};
	bool isFound = false;  // libcuda.so.1 loads
	int version = 0;       // CUDA version, 13000; 0: the driver does not report it
	std::string problem;   // why there is no GPU
	std::vector<Gpu> gpus; // empty: no GPU can run anything
	bool isEmulated = false;
};
Driver queryDriver();

struct Library {
	std::string name, path, version; // empty path: the loader does not find the library
};
// The CUDA libraries that the loader finds by name.
std::vector<Library> visibleLibraries();
// The CPU BLAS libraries that the loader finds by name; paths without symbolic links.
std::vector<Library> visibleBlas();

// oneDNN, which computes products of a CPU BLAS in bfloat16 on a CPU with AMX.
struct OneDnn {
	std::string path, version; // empty: not found
	std::string problem;       // why it does not use AMX; empty: it does
};
OneDnn queryOneDnn();

struct Answer {
	std::string text;
	int signal = 0; // the signal that ended the child
};
// Runs `work` in a child process and returns its stdout; its stderr is discarded.
Answer queryInChild(const std::function<void()> &work);

// sgemm with the arguments of Fortran. Small integers of 64 bits are also those of 32 bits at the same address.
using Sgemm = void(const char *transA, const char *transB, const int64_t *m, const int64_t *n, const int64_t *k,
                   const float *alpha, const float *A, const int64_t *lda, const float *B, const int64_t *ldb,
                   const float *beta, float *C, const int64_t *ldc, size_t, size_t);
// Opens a BLAS in this process, which must be a child.
struct OpenedBlas {
	Sgemm *sgemm; // null: `problem` is the reason
	std::string about, problem;
};
OpenedBlas openBlas(const std::string &library);

// The libraries that the loader would load with a program, by its own rules, without their versions. Runs none of their
// code. A non-empty `folder` comes before the folders of LD_LIBRARY_PATH.
std::vector<Library> loadedWith(const std::string &program, const std::string &folder = {});
// The CPU BLAS that the program uses: the first one of loadedWith(), or NumPy if the program is a Python that has it.
// Empty: none is known.
std::string blasOf(const Executable &program);

} // namespace autoamp::tool
