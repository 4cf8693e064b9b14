// Data of the interface between front and core, and of its assembler part. Any thread, also before main and inside
// dlopen. The front allocates nothing and takes no lock: in a race, all threads write the same value, or one
// compare-and-swap succeeds. It uses no libc string functions: the runtime of a sanitizer calls dlsym before it can
// provide them.
#include "inject/front.h"

#include "inject/slots.h"

using autoamp::front::rowCount;

extern "C" {
constinit thread_local autoamp::front::ThreadBlock autoamp_front_thread;
void *autoamp_front_originals[rowCount];
unsigned autoamp_front_unseen;
unsigned autoamp_front_second[rowCount];
unsigned autoamp_front_profiled;
}
