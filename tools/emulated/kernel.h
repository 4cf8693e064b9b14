// How a plug-in gives the emulated device host functions for kernels: a shared library in plugins/ beside
// libautoamp-emulated.so or named by AUTOAMP_EMU_PLUGINS, linked with it. README.md shows how to make one.
// A plug-in registers from its constructors; `run` is called by any worker, several launches at a time.
#pragma once

#include <vector_types.h>

#include <cstddef>

#define EMULATED_KERNEL_EXPORT __attribute__((visibility("default")))

namespace emulated {

struct Launch {
	dim3 grid, block;
	size_t sharedBytes; // dynamic shared memory
};

// One kernel: `name` is what the fat binary calls it (mangled, or the extern "C" name), `sizes` the bytes of each of
// its `count` parameters. `arguments` of run() points at copies of the parameters, taken when the kernel was launched.
struct Kernel {
	const char *name;
	void (*run)(const Launch &, void **arguments);
	const size_t *sizes;
	unsigned count;
};

// Adds a table that lives as long as the process. A later kernel of the same name replaces the earlier one.
EMULATED_KERNEL_EXPORT void registerKernels(const Kernel *kernels, size_t count);

// What the kernel may touch in place of a device pointer that it was given. Call it once a pointer argument, not once
// an element: it looks the allocation up. A null pointer stays null. A pointer into no live allocation that the device
// may touch (pageable host memory, freed memory) gives harmless pages and breaks the context with "illegal address"
// when the launch ends, as hardware does; so does a pointer that was freed, in submission order, before the launch.
EMULATED_KERNEL_EXPORT void *deviceAddress(const volatile void *pointer);

template <class T>
inline T *deviceView(T *pointer)
{
	return static_cast<T *>(deviceAddress(pointer));
}

// namespace { const emulated::Registration registration{table}; }
struct Registration {
	template <size_t count>
	explicit Registration(const Kernel (&kernels)[count])
	{
		registerKernels(kernels, count);
	}
};

} // namespace emulated
