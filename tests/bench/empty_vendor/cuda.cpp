// A libcuda.so.1 that does nothing: what the library asks of a driver, answered as a H100 would where the answer counts
// (cuda_answers.cpp).
#include "src/cuda/driver.h"

using autoamp::cuda::Address;
using autoamp::cuda::Stream;

#define X(name, arguments)                                                                                             \
	extern "C" [[gnu::weak]] int name arguments                                                                        \
	{                                                                                                                  \
		return 0;                                                                                                      \
	}
AUTOAMP_DRIVER_FUNCTIONS(X)
