// What can be said of a program before it runs: does the loader preload into it, which CUDA does it carry. Main thread.
// Reads the file only; nothing of it is executed.
#pragma once

#include <string>
#include <vector>

namespace autoamp::tool {

struct Executable {
	std::string path;                   // as found in PATH; empty: not found
	bool isElf = false;                 // 64-bit x86; scripts are described by their interpreter
	bool isForeign = false;             // an ELF file for another machine
	bool isStatic = false;              // no program interpreter: LD_PRELOAD is ignored
	bool isPrivileged = false;          // set-user-id or file capabilities: LD_PRELOAD is ignored
	bool hasRpath = false;              // DT_RPATH, which beats LD_LIBRARY_PATH
	bool carriesRuntime = false;        // libcudart_static is linked in
	bool carriesCublas = false;         // libcublas_static is linked in
	std::vector<std::string> libraries; // DT_NEEDED

	bool needs(const char *prefix) const;
};

Executable inspect(const std::string &program);

} // namespace autoamp::tool
