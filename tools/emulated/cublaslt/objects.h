// The layout of opaque cuBLASLt objects in this library, with the sizes and versions of the real ones. Any thread; the
// owner of an object must guard it.
#pragma once

#include <cublasLt.h>

#include <cstddef>

namespace emulated::cublaslt {

struct MatrixLayout {
	cudaDataType type;
	cublasLtOrder_t order;
	uint64_t rows, columns;
	int64_t ld, stride, plane;
	int32_t batch;
	cublasLtBatchMode_t batchMode;
};

// A program compiled with an older header reserves less memory, so only the fields of the object's version may be
// accessed.
struct MatmulDesc {
	uint32_t version;
	cublasComputeType_t compute;
	cudaDataType scale;
	cublasLtPointerMode_t pointerMode;
	cublasOperation_t transa, transb, transc;
	cublasFillMode_t fill;
	cublasLtEpilogue_t epilogue;
	uint32_t unnamed; // attribute 16: accepted by the real library, but not named in its header
	const void *bias;
	int64_t biasStride;
	// version 2
	void *aux;
	int64_t auxLd, auxStride, alphaStride;
	// version 3
	int32_t smCount;
	// version 4
	int32_t auxType;
	const void *scaleA, *scaleB, *scaleC, *scaleD;
	void *amaxD;
	const void *auxScale;
	void *auxAmax;
	int8_t fastAccumulation;
	int32_t biasType;
	int32_t reserved;
	// version 6
	int32_t scaleModeA, scaleModeB, scaleModeC, scaleModeD, auxScaleMode;
	void *scaleOutD;
	int32_t scaleOutModeD;
	void *emulation;
};

struct MatmulPreference {
	uint32_t version; // Init writes only its first byte, as the real library does
	uint32_t searchMode;
	uint64_t maxWorkspace, implementations;
	uint32_t reductions;
	uint32_t alignA, alignB, alignC, alignD;
	float maxWaves;
};

struct TransformDesc {
	cudaDataType scale;
	cublasLtPointerMode_t pointerMode;
	cublasOperation_t transa, transb;
};

struct EmulationDesc {
	uint32_t version;
	uint32_t strategy, specialValues, mantissaControl, maxMantissaBits, mantissaBitOffset;
	int *mantissaBitCount;
};

// The fields of a descriptor; attributes that are newer than its version have their defaults.
MatmulDesc read(cublasLtMatmulDesc_t desc);

} // namespace emulated::cublaslt
