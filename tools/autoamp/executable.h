// Inspects a program before it runs: whether the loader can preload into it, and which CUDA code it contains. Main
// thread. Reads the file only; executes no part of it.
#pragma once

#include <string>
#include <vector>

namespace autoamp::tool {

// Kinds of texts that identify libraries or kernels; `strip` does not remove them.
enum class Sign { runtime, cublas, opens, cutlass, triton, blas, count };

struct Executable {
	std::string path;                   // as found in PATH, or the interpreter of a script; empty: not found
	std::string script;                 // the script whose #! line names `path`; empty: `path` is the program itself
	std::string problem;                // why the system would refuse to run it; empty: it would run
	std::string damage;                 // the missing part of an ELF file; empty: no damage found
	std::string interpreter;            // the loader that the file requests
	std::string machine;                // 64-bit x86, aarch64, ...
	bool isElf = false;                 // 64-bit x86; scripts are described by their interpreter
	bool isForeign = false;             // an ELF file for another machine
	bool isStatic = false;              // no program interpreter: LD_PRELOAD is ignored
	bool isLibrary = false;             // a shared library: others load it
	bool isPrivileged = false;          // set-user-id or file capabilities: LD_PRELOAD is ignored
	bool hasRpath = false;              // DT_RPATH; the loader searches it before LD_LIBRARY_PATH
	bool hasKernels = false;            // contains device code
	bool isSearchedInPart = false;      // the data exceed the limit of the search for signs
	bool exportsBlas = false;           // a library with products of a CPU BLAS for other files
	size_t searched = 0;                // bytes
	int glibc = 0;                      // 36: the newest symbols that it needs are from GLIBC_2.36
	std::vector<std::string> libraries; // DT_NEEDED
	std::string signs[static_cast<int>(Sign::count)]; // the text found for each Sign (blas: or the name of a function
	                                                  // that the file defines); empty: none

	const std::string &sign(Sign which) const { return signs[static_cast<int>(which)]; }
	bool needs(const char *prefix) const;
	// If the program needs a shared library, the text comes from the use of that library, not from a static copy.
	bool carriesRuntime() const { return !sign(Sign::runtime).empty() && !needs("libcudart.so"); }
	bool carriesCublas() const { return !sign(Sign::cublas).empty() && !needs("libcublas"); }
	bool carriesBlas() const;
};

// Whether a file with this name is a CPU BLAS, whose calls libautoamp-cpu.so intercepts.
bool isBlas(const std::string &name);

// At most `limit` bytes are searched for signs.
constexpr size_t searchLimit = 128 << 20; // searched in some tenths of a second
Executable inspect(const std::string &program, size_t limit = searchLimit);

} // namespace autoamp::tool
