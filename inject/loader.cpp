#include "inject/loader.h"

#include "inject/atomics.h"
#include "inject/object.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

decltype(&dlsym) autoamp_front_dlsym;
decltype(&dlvsym) autoamp_front_dlvsym;
decltype(&dlsym) autoamp_front_next_dlsym;
decltype(&dlvsym) autoamp_front_next_dlvsym;

namespace autoamp::front {

constinit Loader loader = {};
constinit int opener = -1;

// Walks the list of the loader: dl_iterate_phdr may be the version of a sanitizer, which calls dlsym before it works.
// The objects up to libc in this list exist from the start and are never unloaded.
bool haveLoader()
{
	const Object self = {nullptr, reinterpret_cast<ElfW(Addr)>(__ehdr_start)};
	Object next = {}; // the other front
	bool isBehind = false;
	for (const link_map *map = _r_debug.r_map; map && !load(autoamp_front_dlsym); map = map->l_next) {
		const Object object = {nullptr, map->l_addr, map->l_ld, map->l_name};
		const char *file = baseName(object.path);
		if (object.base == self.base)
			isBehind = true;
		else if (isBehind && !next.dynamic && begins(file, "libautoamp"))
			next = object;
		if (!begins(file, "libc.so.6") && !begins(file, "libdl.so.2")) // libdl: before glibc 2.34
			continue;
		const auto function = [&object](const char *name) { return object.place(object.find(name)); };
		if (!function("dlsym"))
			continue;
		store(loader.open, function("dlopen"));
		store(loader.close, function("dlclose"));
		store(loader.error, function("dlerror"));
		const auto hook = [&](const char *name) {
			void *const other = next.dynamic ? next.place(next.find(name)) : nullptr;
			return other ? other : function(name);
		};
		store(autoamp_front_next_dlvsym, hook("dlvsym"));
		store(autoamp_front_next_dlsym, hook("dlsym"));
		store(autoamp_front_dlvsym, function("dlvsym"));
		store(autoamp_front_dlsym, function("dlsym")); // last: it marks the others as set
	}
	return load(autoamp_front_dlsym);
}

namespace {

const link_map *lastAtStart;

} // namespace

void noteStart()
{
	for (const link_map *map = _r_debug.r_map; map; map = map->l_next)
		lastAtStart = map;
}

bool isFromStart(const ElfW(Dyn) * dynamic)
{
	const link_map *map = _r_debug.r_map;
	while (map && map->l_ld != dynamic && map != lastAtStart)
		map = map->l_next;
	return map && map->l_ld == dynamic;
}

namespace {

void nap()
{
	const timespec millisecond = {0, 1000000};
	nanosleep(&millisecond, nullptr);
}

bool isRecursive(const pthread_mutex_t &mutex)
{
	const auto &data = mutex.__data;
	return data.__kind == PTHREAD_MUTEX_RECURSIVE_NP && !data.__spins && !data.__list.__prev && !data.__list.__next;
}

const pthread_mutex_t *findLoaderLock()
{
	const link_map *map = _r_debug.r_map;
	while (map && map->l_addr != _r_debug.r_ldbase)
		map = map->l_next;
	const Object object = {nullptr, map ? map->l_addr : 0, map ? map->l_ld : nullptr};
	const Symbol *const data = object.find("_rtld_global");
	auto at = reinterpret_cast<uintptr_t>(object.place(data));
	for (const auto end = at + (data ? data->st_size : 0); at + 2 * sizeof noLock <= end; at += sizeof(void *)) {
		const auto *mutex = reinterpret_cast<pthread_mutex_t *>(at);
		if (isRecursive(mutex[0]) && isRecursive(mutex[1]))
			return mutex;
	}
	return &noLock;
}

} // namespace

const pthread_mutex_t &loaderLock()
{
	static const pthread_mutex_t *found;
	if (!load(found))
		store(found, findLoaderLock());
	return *load(found);
}

Loading holderOfLoader()
{
	const auto &lock = loaderLock().__data;
	if (!load(lock.__lock))
		return Loading::nobody;
	return load(lock.__owner) == static_cast<int>(syscall(SYS_gettid)) ? Loading::self : Loading::other;
}

bool awaitLoader()
{
	// Polls and sleeps: libc wakes only threads that have marked its lock. A thread that marks the lock without taking
	// it would consume the wake-up of a waiting thread.
	static int patience;
	const auto &lock = loaderLock().__data;
	for (int self = 0; load(lock.__lock); nap()) {
		const int owner = load(lock.__owner);
		self = self ? self : static_cast<int>(syscall(SYS_gettid));
		if (owner == self || owner == load(opener))
			break;
		if (__atomic_add_fetch(&patience, 1, __ATOMIC_RELAXED) > 1000)
			return false; // the next call does not wait again
	}
	__atomic_store_n(&patience, 0, __ATOMIC_RELAXED);
	return true;
}

} // namespace autoamp::front
