#include <cmath>
#include <dlfcn.h>

int main(int argc, char **)
{
	volatile double x = 26.0 + argc;
	auto *found = reinterpret_cast<double (*)(double)>(dlsym(RTLD_DEFAULT, "cbrt"));
	return !(std::fabs(cbrt(x) - 103) < 1e-9 && std::fabs(found(27) - 103) < 1e-9);
}
