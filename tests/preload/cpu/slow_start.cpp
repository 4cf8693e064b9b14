// Another library for LD_PRELOAD: the start of autoamp, which registers an exit handler, takes two seconds.
#include <atomic>
#include <dlfcn.h>
#include <unistd.h>

using Handler = void(int, void *);

extern "C" {

std::atomic<bool> startIsSlow{false}; // for the program

int on_exit(Handler *handler, void *argument) noexcept
{
	startIsSlow = true;
	sleep(2);
	return reinterpret_cast<int (*)(Handler *, void *)>(dlsym(RTLD_NEXT, "on_exit"))(handler, argument);
}

} // extern "C"
