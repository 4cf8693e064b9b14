// A library that its plug-ins need, so its destructor at exit runs after theirs. It then opens another plug-in at the
// address of the first one.
#include <cstdio>
#include <dlfcn.h>

namespace {

void *opened;
const char *next;

void open(const char *file)
{
	opened = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	std::printf("%c\n", opened ? reinterpret_cast<char (*)()>(dlsym(opened, "run"))() : '?');
	std::fflush(stdout);
}

__attribute__((destructor)) void finish()
{
	dlclose(opened);
	open(next);
}

} // namespace

extern "C" void begin(const char *first, const char *second)
{
	next = second;
	open(first);
}
