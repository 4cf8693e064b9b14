// What can be said of a program before it runs: does the loader preload into it, which CUDA does it carry. Main thread.
// Reads the file only; nothing of it is executed.
#pragma once

#include <string>
#include <vector>

namespace autoamp::tool {

// What texts in the file's data give away; they survive `strip`.
enum class Sign { runtime, cublas, opens, cutlass, triton, count };

struct Executable {
	std::string path;                   // as found in PATH, of a script its interpreter's; empty: not found
	std::string script;                 // whose #! line names it; empty: it is the program itself
	std::string problem;                // why the system would not run it; empty: it would
	std::string damage;                 // the part of an ELF file that is missing; empty: none is known
	std::string interpreter;            // the loader that it asks for
	std::string machine;                // 64-bit x86, aarch64, ...
	bool isElf = false;                 // 64-bit x86; scripts are described by their interpreter
	bool isForeign = false;             // an ELF file for another machine
	bool isStatic = false;              // no program interpreter: LD_PRELOAD is ignored
	bool isLibrary = false;             // a shared library: others load it
	bool isPrivileged = false;          // set-user-id or file capabilities: LD_PRELOAD is ignored
	bool hasRpath = false;              // DT_RPATH, which beats LD_LIBRARY_PATH
	bool hasKernels = false;            // device code
	bool isSearchedInPart = false;      // more data than the limit allows to search for signs
	size_t searched = 0;                // bytes
	int glibc = 0;                      // 36: the newest symbols that it needs are GLIBC_2.36's
	std::vector<std::string> libraries; // DT_NEEDED
	std::string signs[static_cast<int>(Sign::count)]; // the text that was found; empty: none

	const std::string &sign(Sign which) const { return signs[static_cast<int>(which)]; }
	bool needs(const char *prefix) const;
	// A shared library beside the text is what the text is about.
	bool carriesRuntime() const { return !sign(Sign::runtime).empty() && !needs("libcudart.so"); }
	bool carriesCublas() const { return !sign(Sign::cublas).empty() && !needs("libcublas"); }
};

// At most `limit` bytes are searched for signs.
constexpr size_t searchLimit = 128 << 20; // some tenths of a second
Executable inspect(const std::string &program, size_t limit = searchLimit);

} // namespace autoamp::tool
