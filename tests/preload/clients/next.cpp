// A plug-in that wraps a name of libm and looks up the next one: a hook that called dlsym would find the wrapper
// itself.
#include <dlfcn.h>

extern "C" double cbrt(double x)
{
	static auto *next = reinterpret_cast<double (*)(double)>(dlsym(RTLD_NEXT, "cbrt"));
	static auto *versioned = reinterpret_cast<double (*)(double)>(dlvsym(RTLD_NEXT, "cbrt", "GLIBC_2.2.5"));
	return next && next != cbrt && versioned == next ? next(x) + 100 : -1;
}
