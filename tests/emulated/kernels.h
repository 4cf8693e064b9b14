// Two kernels for the tests, as in a plug-in: fill(float *, float, int) and add(float *, const float *, int).
#pragma once

#include "tools/emulated/kernel.h"

#include <cuda_runtime.h>
#include <iterator>

inline void fillBody(const emulated::Launch &, void **arguments)
{
	float *to = emulated::deviceView(*static_cast<float **>(arguments[0]));
	const float value = *static_cast<float *>(arguments[1]);
	const int count = *static_cast<int *>(arguments[2]);
	for (int i = 0; i < count; ++i)
		to[i] = value;
}

inline void addBody(const emulated::Launch &, void **arguments)
{
	float *to = emulated::deviceView(*static_cast<float **>(arguments[0]));
	const float *from = emulated::deviceView(*static_cast<const float **>(arguments[1]));
	const int count = *static_cast<int *>(arguments[2]);
	for (int i = 0; i < count; ++i)
		to[i] += from[i];
}

inline constexpr size_t fillSizes[] = {sizeof(float *), sizeof(float), sizeof(int)};
inline constexpr size_t addSizes[] = {sizeof(float *), sizeof(float *), sizeof(int)};
inline constexpr emulated::Kernel testKernels[] = {
    {"test_fill", fillBody, fillSizes, 3},
    {"test_add", addBody, addSizes, 3},
};
inline const emulated::Registration testRegistration{testKernels};

extern "C" void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *,
                                       dim3 *, int *);

// Like nvcc's start-up code: a host symbol for each kernel.
inline const char fillSymbol = 0, addSymbol = 0;
inline const bool symbolsRegistered = [] {
	__cudaRegisterFunction(nullptr, &fillSymbol, nullptr, "test_fill", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
	__cudaRegisterFunction(nullptr, &addSymbol, nullptr, "test_add", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
	return true;
}();

inline cudaError_t fill(float *to, float value, int count, cudaStream_t stream = nullptr)
{
	void *arguments[] = {&to, &value, &count};
	return cudaLaunchKernel(&fillSymbol, dim3(1), dim3(32), arguments, 0, stream);
}

inline cudaError_t add(float *to, const float *from, int count, cudaStream_t stream = nullptr)
{
	void *arguments[] = {&to, &from, &count};
	return cudaLaunchKernel(&addSymbol, dim3(1), dim3(32), arguments, 0, stream);
}
