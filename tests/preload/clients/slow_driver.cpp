// A libcuda.so.1 whose functions all fail. The first called function runs duringStart before it returns.
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
