// The loader's own functions, and its lock. Any thread.
#pragma once

#include "inject/front.h"
#include "inject/object.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {
// The functions of libc; null before haveLoader().
HIDDEN extern decltype(&dlsym) autoamp_front_dlsym;
HIDDEN extern decltype(&dlvsym) autoamp_front_dlvsym;
// The functions that the hooks jump to: those of libc, or the hooks of the other front if it was preloaded after this
// one.
HIDDEN extern decltype(&dlsym) autoamp_front_next_dlsym;
HIDDEN extern decltype(&dlvsym) autoamp_front_next_dlvsym;
HIDDEN extern const char __ehdr_start[], _end[]; // the bounds of the front in memory
}

namespace autoamp::front {

inline bool isFront(const void *address)
{
	return address >= __ehdr_start && address < _end;
}

// Null before haveLoader(), except `iterate`. In a process that was forked while another thread was inside dlopen,
// dlclose or dl_iterate_phdr, these functions would wait for a lock that is never released, or end the process. `open`
// then returns null, and `iterate` reads the loader's list, which cannot change any more. dlsym works.
struct Loader {
	decltype(&dlopen) open;
	decltype(&dlclose) close;
	decltype(&dlerror) error;
	decltype(&dl_iterate_phdr) iterate;
	bool isBroken;
};
extern Loader loader;

// Finds the functions above. False if the process has no dlsym.
bool haveLoader();

// The object that contains the address.
Object ownerOf(const void *address);

// Objects that exist when noteStart() runs are those of the program's start. Before it, all objects are.
void noteStart();
bool isFromStart(const ElfW(Dyn) * dynamic);

// Never held.
inline constexpr pthread_mutex_t noLock = {};

// Finds the glibc lock that dlopen and dlsym take: the first of consecutive recursive mutexes, three of them in
// glibc 2.35 and two before. If it is not found (another libc), returns noLock.
const pthread_mutex_t &loaderLock();

// Called in a child by the front's fork handler. Handlers that libraries of the program registered run before it.
void adaptLoaderToFork();

// The thread that holds this lock: it is inside dlopen or dlclose, for example in a constructor.
Loading holderOfLoader();

// False in destructors that exit() calls.
bool isInsideClose();

// Thread that is opening the core; -1: none. Other threads may wait without limit for the loader lock that it holds.
extern int opener;

// Opening the core and looking up names need the loader lock. A thread that another thread waits for inside dlopen (the
// constructor of a plug-in joins it) would never get this lock. Returns false if the lock was held for a second: the
// caller must then work without the loader.
bool awaitLoader();

} // namespace autoamp::front
