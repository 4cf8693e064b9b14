// Data of the interface between fronts and core that is common to both fronts. If both are in a process, the loader
// binds all references to the data of the first one. Any thread, also before main and inside dlopen. The front
// allocates nothing and takes no lock: in a race, all threads write the same value, or one compare-and-swap succeeds.
// It uses no libc string functions: the runtime of a sanitizer calls dlsym before it can provide them.
#include "inject/front.h"

extern "C" {
constinit thread_local autoamp::front::ThreadBlock autoamp_front_thread;
unsigned autoamp_front_profiled;
}
