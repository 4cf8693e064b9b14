// A libcuda.so.1 that does nothing. It has the driver functions that autoamp calls. Functions whose result matters
// return the values of an H100 (cuda_answers.cpp).
#include "src/cuda/driver.h"

using autoamp::cuda::Address;
using autoamp::cuda::Stream;

#define X(name, arguments)                                                                                             \
	extern "C" [[gnu::weak]] int name arguments                                                                        \
	{                                                                                                                  \
		return 0;                                                                                                      \
	}
AUTOAMP_DRIVER_FUNCTIONS(X)
