// What the library's own code allocates and locks while it handles what it knows: the program's malloc and
// pthread_mutex_lock count the calls that come from libautoamp-core.so. For one file of a program that exports its
// symbols.
#pragma once

#include "harness.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

namespace client {

inline uintptr_t coreLow, coreHigh; // nothing before it is there
struct Count {
	int allocations, locks;
};
inline thread_local Count count; // of the program: initial-exec, so counting allocates nothing

inline bool isOurs(const void *caller)
{
	return reinterpret_cast<uintptr_t>(caller) - coreLow < coreHigh - coreLow;
}

inline int findCore(dl_phdr_info *object, size_t, void *)
{
	if (!std::strstr(object->dlpi_name, "libautoamp-core.so"))
		return 0;
	coreLow = object->dlpi_addr;
	for (int i = 0; i < object->dlpi_phnum; i++)
		coreHigh = std::max<uintptr_t>(coreHigh, coreLow + object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz);
	return 1;
}

// At the first turn, and in forty later ones, `calls` each. Something else has been called before: the core is there.
template <typename Turn>
void countTurns(Line &line, int calls, Turn turn)
{
	dl_iterate_phdr(findCore, nullptr);
	count = {};
	turn();
	line.put("first_allocations", count.allocations).put("first_locks", count.locks);
	for (int i = 0; i < 3; i++)
		turn();
	count = {};
	constexpr int rounds = 40;
	for (int i = 0; i < rounds; i++)
		turn();
	line.put("calls", calls * rounds).put("allocations", count.allocations).put("locks", count.locks);
}

} // namespace client

extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
	client::count.allocations += client::isOurs(__builtin_return_address(0));
	return __libc_malloc(bytes);
}
void *calloc(size_t number, size_t bytes)
{
	client::count.allocations += client::isOurs(__builtin_return_address(0));
	return __libc_calloc(number, bytes);
}
void *realloc(void *memory, size_t bytes)
{
	client::count.allocations += client::isOurs(__builtin_return_address(0));
	return __libc_realloc(memory, bytes);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static std::atomic<int (*)(pthread_mutex_t *)> known;
	if (!known)
		known = reinterpret_cast<int (*)(pthread_mutex_t *)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
	client::count.locks += client::isOurs(__builtin_return_address(0));
	return known.load()(mutex);
}
}
