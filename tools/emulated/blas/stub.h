// The implementation of exported names that are not emulated: reports each name once and returns NOT_SUPPORTED. Any
// thread. Only generated stubs include this file. They are weak, so that a definition elsewhere in the library replaces
// them.
#pragma once

#include "tools/emulated/device/device.h"

#define STUB(name, status)                                                                                             \
	extern "C" __attribute__((weak, visibility("default"))) int name();                                                \
	int name()                                                                                                         \
	{                                                                                                                  \
		emulated::missing(#name);                                                                                      \
		return status; /* the library's NOT_SUPPORTED, also where the real function returns nothing */                 \
	}
