// Modes of the application's cuBLAS handle, queried with the vendor's getters. Any thread.
#pragma once

#include "src/op/vendor.h"

namespace autoamp::op {

struct HandleModes {
	Status status = 0;             // returned by the getters; if not 0, no other field is valid
	const char *refused = nullptr; // the getter that failed
	bool isUnknown = false;        // the library has no getters
	bool deviceScalars = false;
	int mathMode = 0; // cublasMath_t without its flags
};

// Inline, because every BLAS call uses it.
[[gnu::always_inline]] inline HandleModes readModes(const Cublas *cublas, void *handle)
{
	HandleModes modes;
	if (!cublas) {
		modes.isUnknown = true;
		return modes;
	}
	int pointerMode = 0, mathMode = 0;
	if ((modes.status = cublas->cublasGetPointerMode_v2(handle, &pointerMode)))
		modes.refused = "cublasGetPointerMode_v2";
	else if ((modes.status = cublas->cublasGetMathMode(handle, &mathMode)))
		modes.refused = "cublasGetMathMode";
	modes.deviceScalars = pointerMode == pointerModeDevice;
	modes.mathMode = mathMode & 0xf; // the flags next to the mode concern 16-bit results
	return modes;
}

} // namespace autoamp::op
