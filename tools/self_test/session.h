// The vendor's libraries, opened by name as a plug-in would, and arrays on the first device. An error ends the program.
// One thread.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace self_test {

[[noreturn]] inline void fail(const std::string &what)
{
	std::fprintf(stderr, "autoamp-self-test: %s\n", what.c_str());
	std::exit(2);
}

inline void need(int status, const char *call)
{
	if (status)
		fail(std::string(call) + " returned " + std::to_string(status));
}
#define NEED(call) self_test::need(static_cast<int>(call), #call)

// The first of these libraries that the loader finds.
inline void *open(std::initializer_list<const char *> names)
{
	for (const char *name : names)
		if (void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
			return library;
	fail(std::string("the loader does not find ") + *names.begin() + "; add its folder to LD_LIBRARY_PATH");
}

template <typename Function>
Function find(void *library, const char *name)
{
	if (void *const function = dlsym(library, name))
		return reinterpret_cast<Function>(function);
	fail(std::string("the library has no ") + name);
}
#define FUNCTION(library, name) decltype(&::name) name = self_test::find<decltype(&::name)>(library, #name)

struct Driver {
	void *library = open({"libcuda.so.1"});
	FUNCTION(library, cuInit);
	FUNCTION(library, cuDevicePrimaryCtxRetain);
	FUNCTION(library, cuCtxSetCurrent);
	FUNCTION(library, cuCtxSynchronize);
	FUNCTION(library, cuMemAlloc_v2);
	FUNCTION(library, cuMemFree_v2);
	FUNCTION(library, cuMemcpyHtoD_v2);
	FUNCTION(library, cuMemcpyDtoH_v2);
};
const Driver &driver(); // the first device is current on this thread

// Device memory with a copy on the host.
template <typename T>
class Array
{
public:
	explicit Array(size_t size) : host(size) { NEED(driver().cuMemAlloc_v2(&address_, size * sizeof(T))); }
	~Array() { driver().cuMemFree_v2(address_); }
	Array(const Array &) = delete;
	Array &operator=(const Array &) = delete;
	T *device() const { return reinterpret_cast<T *>(address_); }
	void upload() const { NEED(driver().cuMemcpyHtoD_v2(address_, host.data(), host.size() * sizeof(T))); }
	std::vector<T> download() const
	{
		std::vector<T> copy(host.size());
		NEED(driver().cuCtxSynchronize());
		NEED(driver().cuMemcpyDtoH_v2(copy.data(), address_, host.size() * sizeof(T)));
		return copy;
	}

	std::vector<T> host;

private:
	CUdeviceptr address_ = 0;
};

// Fills with random values in [-2^exponent, 2^exponent).
void fill(std::vector<float> &values, int exponent);

// The relative Frobenius error of one call.
using Report = std::function<void(const char *call, double error)>;
// hasRange: the operands may have any magnitude.
void multiply(bool hasRange, const Report &report);
void convolve(const Report &report);

} // namespace self_test
