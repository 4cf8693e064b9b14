// Functions newer than glibc 2.28 that libstdc++, libgcc, the headers of this machine or our sources call. Hidden in
// each library and program of a release, so that it references none of them. Any thread.
#undef _FILE_OFFSET_BITS // would rename the functions below
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Exported by glibc; inline functions of its older headers call them.
extern int __fxstat64(int version, int file, struct stat64 *facts);
extern int __xstat64(int version, const char *path, struct stat64 *facts);
extern int __lxstat64(int version, const char *path, struct stat64 *facts);
extern int __fxstatat64(int version, int folder, const char *path, struct stat64 *facts, int flags);

// The front's dl_iterate_phdr, for the core (inject/front.h); null in programs.
extern __attribute__((weak)) int autoamp_front_iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);

#pragma GCC visibility push(hidden)

// glibc 2.36; std::random_device.
uint32_t arc4random(void)
{
	uint32_t number;
	while (getentropy(&number, sizeof number) != 0)
		;
	return number;
}

// glibc 2.32; libstdc++. False: reference counts always are atomic.
char __libc_single_threaded = 0;

// glibc 2.30.
pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

// glibc 2.33. The structure is that of version 1 of the older functions.
int fstat64(int file, struct stat64 *facts)
{
	return __fxstat64(1, file, facts);
}

int stat64(const char *restrict path, struct stat64 *restrict facts)
{
	return __xstat64(1, path, facts);
}

int lstat64(const char *restrict path, struct stat64 *restrict facts)
{
	return __lxstat64(1, path, facts);
}

int fstatat64(int folder, const char *restrict path, struct stat64 *restrict facts, int flags)
{
	return __fxstatat64(1, folder, path, facts, flags);
}

// These have the same structure on x86-64.
int fstat(int file, struct stat *facts) __attribute__((alias("fstat64")));
int stat(const char *restrict path, struct stat *restrict facts) __attribute__((alias("stat64")));
int lstat(const char *restrict path, struct stat *restrict facts) __attribute__((alias("lstat64")));
int fstatat(int folder, const char *restrict path, struct stat *restrict facts, int flags)
    __attribute__((alias("fstatat64")));

// glibc 2.35; libgcc's unwinder, and the core, which looks up who calls it.
static int (*newFindObject)(void *address, struct dl_find_object *found);

// Here and not at the first use, because dlsym may wait for the loader's lock. The thread that loads this object has
// it.
__attribute__((constructor)) static void lookUp(void)
{
	*(void **)&newFindObject = dlsym(RTLD_DEFAULT, "_dl_find_object");
	dlerror(); // clears the error, which must not reach the application
}

struct Search {
	uintptr_t address;
	struct dl_find_object *found;
};

// The loader's list changes only under the lock that dl_iterate_phdr holds.
static struct link_map *mapOf(const struct dl_phdr_info *info)
{
	struct link_map *map = _r_debug.r_map;
	while (map && (map->l_addr != info->dlpi_addr || map->l_name != info->dlpi_name))
		map = map->l_next;
	return map;
}

static int isOwner(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	const struct Search *const search = data;
	uintptr_t begin = UINTPTR_MAX, end = 0;
	void *frames = NULL;
	int isInside = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		const uintptr_t first = info->dlpi_addr + segment->p_vaddr, last = first + segment->p_memsz;
		if (segment->p_type == PT_GNU_EH_FRAME)
			frames = (void *)first;
		if (segment->p_type != PT_LOAD)
			continue;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
		isInside |= search->address >= first && search->address < last;
	}
	if (!isInside)
		return 0;
	*search->found = (struct dl_find_object){.dlfo_map_start = (void *)(begin & -0x1000ul),
	                                         .dlfo_map_end = (void *)end,
	                                         .dlfo_link_map = mapOf(info),
	                                         .dlfo_eh_frame = frames};
	return 1;
}

// Without the function of glibc it takes a lock, but not that of dlopen: the loader holds it only while it changes its
// list, and never while a constructor runs.
int _dl_find_object(void *address, struct dl_find_object *found)
{
	if (newFindObject)
		return newFindObject(address, found);
	const struct Search search = {(uintptr_t)address, found};
	return (autoamp_front_iterate ? autoamp_front_iterate : dl_iterate_phdr)(isOwner, (void *)&search) ? 0 : -1;
}

#pragma GCC visibility pop
