// Stand-ins for the CUDA libraries that only interposition tests use: device memory is host memory, and every entry
// point remembers its name and an order-sensitive checksum of its arguments, so a client sees what really arrived.
#pragma once

#include <cstdint>
#include <cstring>
#include <dlfcn.h>

extern "C" void standInRemember(const char *name, uint64_t sum); // per thread, in libcudart.so.13
extern "C" uint64_t standInLast(const char **name);

// Like libcudnn.so.9: its functions look their own names up in the part that has them.
template <typename Function, typename... Args>
auto forward(const char *part, const char *name, Function *, Args... args)
{
	return reinterpret_cast<Function *>(dlsym(dlopen(part, RTLD_NOW), name))(args...);
}

template <typename... Args>
uint64_t checksum(Args... args)
{
	uint64_t sum = 14695981039346656037u, bits;
	((bits = 0, std::memcpy(&bits, &args, sizeof args), sum = (sum ^ bits) * 1099511628211u), ...);
	return sum;
}
