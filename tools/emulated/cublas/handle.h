// The contents of a cublasHandle_t. Any thread; the caller must guard the settings.
#pragma once

#include "tools/emulated/blas/context.h"

namespace emulated::cublas {

struct Handle : blas::Context {
	cudaStream_t stream = nullptr;
	void *workspace = nullptr; // null: the library's own pool, which is inaccessible to programs
	size_t workspaceBytes = 0;
	cublasPointerMode_t pointerMode = CUBLAS_POINTER_MODE_HOST;
	cublasAtomicsMode_t atomicsMode = CUBLAS_ATOMICS_NOT_ALLOWED;
	cublasMath_t mathMode = CUBLAS_DEFAULT_MATH;
	int smCountTarget = 0;
	cublasEmulationStrategy_t emulationStrategy = CUBLAS_EMULATION_STRATEGY_DEFAULT;
	cudaEmulationSpecialValuesSupport specialValues = CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_DEFAULT;
	cudaEmulationMantissaControl mantissaControl = CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC;
	int maxMantissaBitCount = 0;
	int mantissaBitOffset = 0;
	int *mantissaBitCountPointer = nullptr;

	bool hasDeviceScalars() const { return pointerMode == CUBLAS_POINTER_MODE_DEVICE; }
};

inline Handle *handleOf(cublasHandle_t handle)
{
	blas::Context *context = blas::live(handle);
	return context && context->kind == blas::Context::Kind::Cublas ? static_cast<Handle *>(context) : nullptr;
}

} // namespace emulated::cublas
