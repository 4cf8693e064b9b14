#include "inject/loader.h"

#include "inject/atomics.h"
#include "inject/object.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

decltype(&dlsym) autoamp_front_dlsym;
decltype(&dlvsym) autoamp_front_dlvsym;
decltype(&dlsym) autoamp_front_next_dlsym;
decltype(&dlvsym) autoamp_front_next_dlvsym;

namespace autoamp::front {

constinit Loader loader = {nullptr, nullptr, nullptr, dl_iterate_phdr, false};
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

Object ownerOf(const void *address)
{
	Object object = {address};
	loader.iterate(isOwner, &object);
	return object;
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

namespace {

void *openNothing(const char *, int) noexcept
{
	return nullptr;
}

// The file's header, which is the begin of its first segment. Null if it or the table of segments is not there: the
// object is being unloaded, or has fixed addresses.
const ElfW(Ehdr) * headerOf(const link_map &map)
{
	unsigned char isResident;
	const bool isMapped = syscall(SYS_mincore, map.l_addr, 1, &isResident) == 0;
	const auto *const header = reinterpret_cast<ElfW(Ehdr) *>(map.l_addr);
	const bool isHeader = isMapped && begins(reinterpret_cast<const char *>(header->e_ident), ELFMAG);
	return isHeader && header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) <= 4096 ? header : nullptr;
}

int iterateList(int (*visit)(dl_phdr_info *, size_t, void *), void *data)
{
	int result = 0;
	for (const link_map *map = _r_debug.r_map; map && !result; map = map->l_next) {
		dl_phdr_info info = {};
		info.dlpi_addr = map->l_addr, info.dlpi_name = map->l_name;
		if (const auto *const header = headerOf(*map)) {
			info.dlpi_phdr = reinterpret_cast<ElfW(Phdr) *>(map->l_addr + header->e_phoff);
			info.dlpi_phnum = header->e_phnum;
		} else if (map == _r_debug.r_map && getauxval(AT_BASE)) { // else the kernel describes the loader
			info.dlpi_phdr = reinterpret_cast<ElfW(Phdr) *>(getauxval(AT_PHDR));
			info.dlpi_phnum = static_cast<ElfW(Half)>(getauxval(AT_PHNUM));
		}
		if (info.dlpi_phnum)
			result = visit(&info, sizeof info, data);
	}
	return result;
}

} // namespace

// glibc releases the first lock in a child, but not the second one, for which dl_iterate_phdr waits. dlopen ends the
// process if the state is not consistent. The program may have a copy of _r_debug, whose state is that of its start.
void adaptLoaderToFork()
{
	const pthread_mutex_t *const locks = &loaderLock();
	const Object program = {nullptr, _r_debug.r_map->l_addr, _r_debug.r_map->l_ld};
	const auto *const own = reinterpret_cast<r_debug *>(program.value(DT_DEBUG));
	const bool isLocked = locks != &noLock && load(locks[1].__data.__lock);
	if (!isLocked && (own ? own : &_r_debug)->r_state == r_debug::RT_CONSISTENT)
		return;
	haveLoader();
	loader = {openNothing, loader.close, loader.error, iterateList, true};
}

Loading holderOfLoader()
{
	if (loader.isBroken)
		return Loading::broken;
	const auto &lock = loaderLock().__data;
	if (!load(lock.__lock))
		return Loading::nobody;
	return load(lock.__owner) == static_cast<int>(syscall(SYS_gettid)) ? Loading::self : Loading::other;
}

// exit() releases the lock before it calls destructors.
bool isInsideClose()
{
	const Loading holder = holderOfLoader();
	return &loaderLock() == &noLock || holder == Loading::self || holder == Loading::broken;
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
