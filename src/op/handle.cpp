#include "src/op/handle.h"

#include <cublas_v2.h>

namespace autoamp::op {

HandleModes readModes(const Cublas *cublas, void *handle)
{
	HandleModes modes;
	if (!cublas) {
		modes.isUnknown = true;
		return modes;
	}
	int pointerMode = 0;
	if ((modes.status = cublas->cublasGetPointerMode_v2(handle, &pointerMode)))
		modes.refused = "cublasGetPointerMode_v2";
	else if ((modes.status = cublas->cublasGetMathMode(handle, &modes.mathMode)))
		modes.refused = "cublasGetMathMode";
	modes.deviceScalars = pointerMode == CUBLAS_POINTER_MODE_DEVICE;
	modes.mathMode &= 0xf; // the flags beside the mode concern 16-bit results
	return modes;
}

} // namespace autoamp::op
