// Another library for LD_PRELOAD: the start of autoamp, which registers an exit handler, takes half a second.
#include <dlfcn.h>
#include <unistd.h>

using Handler = void(int, void *);

extern "C" int on_exit(Handler *handler, void *argument) noexcept
{
	usleep(500000);
	return reinterpret_cast<int (*)(Handler *, void *)>(dlsym(RTLD_NEXT, "on_exit"))(handler, argument);
}
