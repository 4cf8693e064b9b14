// What this machine has: the driver and its GPUs, CUDA libraries, the parts of autoamp. Main thread.
// Foreign code is loaded in a child process only: a driver that was started in this one would be inherited by nobody
// and could take this one down.
#pragma once

#include <string>
#include <vector>

namespace autoamp::tool {

// Where the things that the application needs lie: beside this program in the build tree, or under ../lib/autoamp.
struct Installation {
	std::string library;             // libautoamp.so; empty: in none of the places
	std::string emulated;            // folder of the emulated device; empty: not there
	std::vector<std::string> places; // that were looked at

	std::string core() const; // where the library looks for it
};
Installation findInstallation();

// Why the library could not load its core; empty: it can.
std::string whyCoreFails(const Installation &installation);

// Why no file could be made where a pattern of names wants it; empty: one could.
std::string whyNoTrace(const std::string &pattern);

struct Driver {
	struct Gpu {
		int capability = 0; // 90 for sm_90
		std::string name;
	};
	bool isFound = false;  // libcuda.so.1 loads
	int version = 0;       // of CUDA, 13000; 0: it does not say
	std::string problem;   // why there is no GPU
	std::vector<Gpu> gpus; // none: nothing can run on it
	bool isEmulated = false;
};
Driver askDriver();

struct Library {
	std::string name, path, version; // path empty: the loader does not find it
};
// CUDA libraries that the loader finds by name alone.
std::vector<Library> visibleLibraries();
// The libraries that the loader would load with a program, by its own rules; none of their code is run. Without
// versions. `folder`, unless it is empty, comes before the folders of LD_LIBRARY_PATH.
std::vector<Library> loadedWith(const std::string &program, const std::string &folder = {});

} // namespace autoamp::tool
