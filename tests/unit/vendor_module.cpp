// A library with the vendor names that are looked up; OLD: one of each is missing.
#include "src/op/vendor.h"

extern "C" {
#define X(name, arguments)                                                                                             \
	__attribute__((visibility("default"))) int name()                                                                  \
	{                                                                                                                  \
		return sizeof #name;                                                                                           \
	}
#ifdef OLD
#define cublasGetPointerMode_v2 someOther
#define cublasLtMatrixLayoutCreate someOtherLt
#endif
AUTOAMP_CUBLAS_FUNCTIONS(X)
AUTOAMP_CUBLASLT_FUNCTIONS(X)
#undef X
}
