// A libcuda.so.1 that lets its client wait in the first function that is called of it, and then is none.
#include "src/cuda/driver.h"

extern "C" {
void (*duringStart)() = nullptr;
}

#define X(name, arguments)                                                                                             \
	extern "C" int name()                                                                                              \
	{                                                                                                                  \
		if (auto *const wait = __atomic_exchange_n(&duringStart, nullptr, __ATOMIC_SEQ_CST))                           \
			wait();                                                                                                    \
		return 1;                                                                                                      \
	}
AUTOAMP_DRIVER_FUNCTIONS(X)
