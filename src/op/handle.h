// What an application's cuBLAS handle says about its calls, asked through the vendor's getters. Any thread.
#pragma once

#include "src/op/vendor.h"

namespace autoamp::op {

struct HandleModes {
	Status status = 0;             // of the getters; not 0: the handle did not answer and nothing else holds
	const char *refused = nullptr; // which getter gave it
	bool isUnknown = false;        // the library has no getters
	bool deviceScalars = false;
	int mathMode = 0; // cublasMath_t without its flags
};

// Inline: every call of a BLAS entry point asks.
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
	modes.mathMode = mathMode & 0xf; // the flags beside the mode concern 16-bit results
	return modes;
}

} // namespace autoamp::op
