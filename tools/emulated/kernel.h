// Plug-in interface of the emulated device: host functions for kernels. A plug-in is a shared library in plugins/ next
// to libautoamp-emulated.so, or named by AUTOAMP_EMU_PLUGINS, and is linked with that library. README.md shows an
// example. A plug-in registers its kernels in constructors. Any worker may call `run`, for several launches at a time.
#pragma once

#include <vector_types.h>

#include <cstddef>

#define EMULATED_KERNEL_EXPORT __attribute__((visibility("default")))

namespace emulated {

struct Launch {
	dim3 grid, block;
	size_t sharedBytes; // dynamic shared memory
};

// One kernel. `name` is its name in the fat binary (mangled, or the extern "C" name). `sizes` has the bytes of each of
// its `count` parameters. `arguments` of run() points to copies of the parameters, made at the launch.
struct Kernel {
	const char *name;
	void (*run)(const Launch &, void **arguments);
	const size_t *sizes;
	unsigned count;
};

// Adds a table, which must live as long as the process. A later kernel with the same name replaces an earlier one.
EMULATED_KERNEL_EXPORT void registerKernels(const Kernel *kernels, size_t count);

// Converts a device pointer to an address that the kernel may access. Call it once per pointer argument, not per
// element: it looks up the allocation. A null pointer stays null. An invalid pointer (pageable host memory, freed
// memory) returns harmless pages; when the launch ends, the context fails with "illegal address", as on hardware. A
// pointer that was freed before the launch, in submission order, is invalid too.
EMULATED_KERNEL_EXPORT void *deviceAddress(const volatile void *pointer);

template <class T>
inline T *deviceView(T *pointer)
{
	return static_cast<T *>(deviceAddress(pointer));
}

// Usage: namespace { const emulated::Registration registration{table}; }
struct Registration {
	template <size_t count>
	explicit Registration(const Kernel (&kernels)[count])
	{
		registerKernels(kernels, count);
	}
};

} // namespace emulated
