// Whether a program can run on the emulated device: each CUDA library that it needs must have an emulated version, or
// the vendor's own would be loaded next to the emulated driver and fail or compute wrong results. Main thread.
#pragma once

#include "tools/autoamp/executable.h"
#include "tools/autoamp/machine.h"

#include <string>
#include <vector>

namespace autoamp::tool {

// The emulated libraries, which have the names of the vendor's (tools/emulated/README.md). All of them are preloaded: a
// DT_RPATH of a program, plug-in or Python module comes before LD_LIBRARY_PATH, but a library that is already loaded
// comes before both, and the program that opens such a plug-in can be a child process.
constexpr const char *emulatedLibraries[] = {
    "libcuda.so.1",      "libcudart.so.13",   "libcublas.so.13",     "libcublasLt.so.13", "libcudnn.so.9",
    "libcudnn_adv.so.9", "libcudnn_cnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcupti.so.13"};

struct Emulation {
	std::string problem;              // why the program cannot run on the emulated device; empty: it can
	std::string build;                // the command that removes the problem; empty: no such command
	std::vector<std::string> missing; // indirectly needed libraries without an emulated version; calls to them fail
};
Emulation emulationOf(const Executable &program, const Installation &installation);

} // namespace autoamp::tool
