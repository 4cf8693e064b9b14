// The front: finds the original functions and opens the core. Any thread, also before main and inside dlopen. It
// allocates nothing and takes no lock: in a race, all threads write the same value, or one compare-and-swap succeeds.
// Its only constructor is for fork and descriptor 2. It uses no libc string functions: the runtime of a sanitizer calls
// dlsym before it can provide them.
#include "inject/front.h"
#include "inject/entry_index.h"
#include "inject/vendors.h"
#include "src/base/caller_state.h"
#include "src/base/futex.h"
#include "src/base/quiet_write.h"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

using namespace autoamp::front;
using autoamp::base::CallerState, autoamp::base::Deadline, autoamp::base::futexWait, autoamp::base::futexWakeAll,
    autoamp::base::writeLine;
using autoamp::entry::entryCount;

extern "C" {
constinit thread_local ThreadBlock autoamp_front_thread;
void *autoamp_front_originals[entryCount];
unsigned autoamp_front_unseen;
unsigned autoamp_front_second[entryCount];
unsigned autoamp_front_profiled;
// Three slots per entry point: for references without a version, to the newer library (CUDA 13, cuDNN 9) and to the
// older one (CUDA 12, cuDNN 8).
HIDDEN extern void *autoamp_front_slots[];
HIDDEN extern const int autoamp_front_entries[]; // offsets from this table
HIDDEN decltype(&dlsym) autoamp_front_dlsym;
HIDDEN decltype(&dlvsym) autoamp_front_dlvsym;
HIDDEN bool autoamp_front_passes; // true: lookups bypass the hook, except for cub*, cudn*, cuP*, cudaP* and I*
HIDDEN extern const char __ehdr_start[], _end[]; // the bounds of the front in memory
// pthread_atfork would need crtbegin.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *object);
}

namespace {

template <typename T>
T load(const T &cell)
{
	return __atomic_load_n(&cell, __ATOMIC_ACQUIRE);
}

template <typename T, typename V>
void store(T &cell, V value)
{
	__atomic_store_n(&cell, reinterpret_cast<T>(value), __ATOMIC_RELEASE);
}

// Stores `value` if the cell is null. Returns the value that the cell has then.
template <typename T>
T settle(T &cell, T value)
{
	T none = nullptr;
	return __atomic_compare_exchange_n(&cell, &none, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? value : none;
}

// ---------------------------------------------------------------- tables

// The loader binds by symbol version. The version of a vendor library is its SONAME; version 0 is for references
// without one. Slot number: version * entryCount + row of the entry point.
constexpr unsigned unversioned = 0, older = 2, versionCount = 3;
constexpr unsigned undecided = versionCount + 1;
unsigned blasInUse = undecided, dnnInUse = undecided;

// Called in place of an entry point while its library is not in the process. Returns NOT_INITIALIZED of cuBLAS and
// cuDNN 8; absentDnn() returns that of cuDNN 9.
int absent()
{
	return 1;
}

int absentDnn()
{
	return 1001;
}

constexpr unsigned mostParts = 6;

struct Library {
	const char *sonames[versionCount];
	const char *parts[versionCount][mostParts]; // libraries that it loads; programs may link to them as well
	unsigned &versionInUse; // version of the captured copy; versionCount: a copy in an application file
	int (*absent)();        // for the newer version
};
const Library cublas = {{"libcublas.so", "libcublas.so.13", "libcublas.so.12"}, {}, blasInUse, absent};
const Library cublaslt = {{"libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12"}, {}, blasInUse, absent};
const Library cudnn = {{"libcudnn.so", "libcudnn.so.9", "libcudnn.so.8"},
                       {{},
                        {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"},
                        {"libcudnn_ops_infer.so.8", "libcudnn_ops_train.so.8", "libcudnn_cnn_infer.so.8",
                         "libcudnn_cnn_train.so.8", "libcudnn_adv_infer.so.8", "libcudnn_adv_train.so.8"}},
                       dnnInUse,
                       absentDnn};

const struct {
	const char *name;
	const Library &library;
} entries[] = {
#define ENTRY(name, library, ...) {#name, library},
#include "inject/entries.inc"
#undef ENTRY
};

void *entryOf(unsigned version, unsigned index)
{
	const auto *base = reinterpret_cast<const char *>(autoamp_front_entries);
	return const_cast<char *>(base + autoamp_front_entries[version * entryCount + index]);
}

bool isFront(const void *address)
{
	return address >= __ehdr_start && address < _end;
}

bool isOurs(const void *function) // true: it is a slot
{
	return function >= entryOf(0, 0) && function <= entryOf(versionCount - 1, entryCount - 1);
}

// ---------------------------------------------------------------- text

bool equal(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

bool begins(const char *text, const char *prefix)
{
	for (; *prefix && *text == *prefix; text++, prefix++)
		;
	return !*prefix;
}

// Also true for a file that a wheel repair tool has renamed: libcudnn-463fd6d5.so.8.9.7.
bool isCopyOf(const char *file, const char *soname)
{
	for (; *soname && *file; file++, soname++) {
		if (*file == '-' && *soname == '.')
			while (*file && *file != '.')
				file++;
		if (*file != *soname)
			return false;
	}
	return !*soname && (!*file || *file == '.');
}

bool isPart(const char *file, const Library &library, unsigned version)
{
	for (const char *part : library.parts[version])
		if (part && isCopyOf(file, part))
			return true;
	return false;
}

// Returns versionCount for other libraries, and for versions with unknown signatures.
unsigned versionOf(const char *file, const Library &library)
{
	unsigned version = equal(file, library.sonames[unversioned]) ? unversioned : unversioned + 1;
	while (version && version < versionCount && !isCopyOf(file, library.sonames[version]) &&
	       !isPart(file, library, version))
		version++;
	return version;
}

const char *baseName(const char *path)
{
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

size_t length(const char *text)
{
	const char *end = text;
	while (*end)
		end++;
	return static_cast<size_t>(end - text);
}

struct FileIdentity {
	dev_t device;
	ino_t inode;
	bool isOpen;
};
FileIdentity stderrAtStart; // counts as closed until the constructor has run

// A system call: the symbol of fstat is newer than GLIBC_2.28.
FileIdentity identify(int descriptor)
{
	struct stat file;
	const bool isOpen = syscall(SYS_fstat, descriptor, &file) == 0;
	return isOpen ? FileIdentity{file.st_dev, file.st_ino, true} : FileIdentity{};
}

template <typename... Text>
void say(Text... text)
{
	if (!autoamp_front_has_stderr())
		return;
	const iovec parts[] = {{const_cast<char *>(text), length(text)}...};
	writeLine(STDERR_FILENO, parts, sizeof...(text));
}

// Returns entryCount if `name` is not an entry point.
unsigned rowOf(const char *name)
{
	const unsigned count = entryCount;
	unsigned index = begins(name, "cublas") || begins(name, "cudnn") ? 0 : count;
	while (index < entryCount && !equal(entries[index].name, name))
		index++;
	return index;
}

// The profiler switch, with which a program selects the part to record: the functions of the runtime and the driver.
int throwSwitch(unsigned index);
template <unsigned index>
int throwAt()
{
	return throwSwitch(index);
}
constexpr struct {
	const char *name;
	int (*entry)(); // not the exported name, which may resolve to another definition
	bool isStart;
	const char *library; // beginning of the names of the files that define it
} switches[] = {{"cudaProfilerStart", throwAt<0>, true, "libcudart"},
                {"cudaProfilerStop", throwAt<1>, false, "libcudart"},
                {"cuProfilerStart", throwAt<2>, true, "libcuda.so"},
                {"cuProfilerStop", throwAt<3>, false, "libcuda.so"}};
constexpr unsigned switchCount = sizeof switches / sizeof *switches;

unsigned switchOf(const char *name) // switchCount: not a switch
{
	unsigned index = 0;
	while (index < switchCount && !equal(switches[index].name, name))
		index++;
	return index;
}

// True if the program has more rights than its user. The user must not gain them through a variable or a file: nothing
// is then read, loaded or written.
bool isPrivileged()
{
	return getauxval(AT_SECURE) != 0;
}

// True if the environment contains NAME=VALUE; `text` is "NAME=". The core validates the value.
bool isSet(const char *text, const char *value)
{
	for (char **variable = environ; variable && *variable; variable++)
		if (begins(*variable, text))
			return equal(*variable + length(text), value);
	return false;
}

// ---------------------------------------------------------------- objects in memory

using Symbol = ElfW(Sym);

struct Object {
	const void *address = nullptr;
	ElfW(Addr) base = 0;
	const ElfW(Dyn) *dynamic = nullptr;
	const char *path = ""; // name in the loader's list; "": the program, or no object contains the address

	uintptr_t value(ElfW(Sxword) tag) const
	{
		const ElfW(Dyn) *entry = dynamic;
		while (entry && entry->d_tag && entry->d_tag != tag)
			entry++;
		return entry && entry->d_tag ? entry->d_un.d_val : 0;
	}
	// The loader replaces file offsets by addresses, but not in every object.
	template <typename T>
	const T *table(ElfW(Sxword) tag) const
	{
		const uintptr_t at = value(tag);
		return reinterpret_cast<const T *>(at && at < base ? at + base : at);
	}
	// The name by which other objects need it: the file may have any name.
	const char *name() const
	{
		const uintptr_t soname = value(DT_SONAME);
		return soname ? table<char>(DT_STRTAB) + soname : baseName(path);
	}
	const Symbol *find(const char *symbol) const;
	void *place(const Symbol *symbol) const
	{
		return symbol ? reinterpret_cast<void *>(base + symbol->st_value) : nullptr;
	}
};

Object describe(const dl_phdr_info &info)
{
	Object object = {nullptr, info.dlpi_addr, nullptr, info.dlpi_name};
	for (int i = 0; i < info.dlpi_phnum; i++)
		if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic = reinterpret_cast<ElfW(Dyn) *>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
	return object;
}

int isOwner(dl_phdr_info *info, size_t, void *data)
{
	auto &object = *static_cast<Object *>(data);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const auto &segment = info->dlpi_phdr[i];
		const auto offset = reinterpret_cast<uintptr_t>(object.address) - info->dlpi_addr - segment.p_vaddr;
		if (segment.p_type == PT_LOAD && offset < segment.p_memsz) {
			object = describe(*info);
			return 1;
		}
	}
	return 0;
}

Object ownerOf(const void *address)
{
	Object object = {address};
	dl_iterate_phdr(isOwner, &object);
	return object;
}

// Searches DT_GNU_HASH. The only way to find dlsym itself, because the front defines dlsym and dlvsym, and the only way
// without the loader.
const Symbol *Object::find(const char *symbol) const
{
	const auto *symbols = table<Symbol>(DT_SYMTAB);
	const auto *strings = table<char>(DT_STRTAB);
	const auto *table = this->table<uint32_t>(DT_GNU_HASH);
	if (!symbols || !strings || !table)
		return nullptr;
	const uint32_t buckets = table[0], first = table[1], bloom = table[2];
	const uint32_t *bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t)), *chain = bucket + buckets;
	uint32_t hash = 5381;
	for (const char *c = symbol; *c; c++)
		hash = hash * 33 + static_cast<unsigned char>(*c);
	uint32_t i = bucket[hash % buckets];
	if (i < first)
		return nullptr;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && equal(strings + symbols[i].st_name, symbol) && symbols[i].st_shndx)
			return &symbols[i];
		if (chain[i - first] & 1)
			return nullptr;
	}
}

// ---------------------------------------------------------------- the loader's own functions

struct {
	decltype(&dlopen) open;
	decltype(&dlclose) close;
	decltype(&dlerror) error;
} loader;

// Walks the list of the loader: dl_iterate_phdr may be the version of a sanitizer, which calls dlsym before it works.
// The objects up to libc in this list exist from the start and are never unloaded.
bool haveLoader()
{
	for (const link_map *map = _r_debug.r_map; map && !load(autoamp_front_dlsym); map = map->l_next) {
		const Object object = {nullptr, map->l_addr, map->l_ld, map->l_name};
		const char *file = baseName(object.path);
		if (!begins(file, "libc.so.6") && !begins(file, "libdl.so.2")) // libdl: before glibc 2.34
			continue;
		const auto function = [&object](const char *name) { return object.place(object.find(name)); };
		if (!function("dlsym"))
			continue;
		store(loader.open, function("dlopen"));
		store(loader.close, function("dlclose"));
		store(loader.error, function("dlerror"));
		store(autoamp_front_dlvsym, function("dlvsym"));
		store(autoamp_front_dlsym, function("dlsym")); // last: it marks the others as set
	}
	return load(autoamp_front_dlsym);
}

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

// Finds the glibc lock that dlopen and dlsym take: the first of three consecutive recursive mutexes. If it is not found
// (another libc), returns a lock that is never held.
constexpr pthread_mutex_t noLock = {};
const pthread_mutex_t *findLoaderLock()
{
	const link_map *map = _r_debug.r_map;
	while (map && map->l_addr != _r_debug.r_ldbase)
		map = map->l_next;
	const Object object = {nullptr, map ? map->l_addr : 0, map ? map->l_ld : nullptr};
	const Symbol *const data = object.find("_rtld_global");
	auto at = reinterpret_cast<uintptr_t>(object.place(data));
	for (const auto end = at + (data ? data->st_size : 0); at + 3 * sizeof noLock <= end; at += sizeof(void *)) {
		const auto *mutex = reinterpret_cast<pthread_mutex_t *>(at);
		if (isRecursive(mutex[0]) && isRecursive(mutex[1]) && isRecursive(mutex[2]))
			return mutex;
	}
	return &noLock;
}

const pthread_mutex_t &loaderLock()
{
	static const pthread_mutex_t *found;
	if (!load(found))
		store(found, findLoaderLock());
	return *load(found);
}

int opener = -1; // thread that is opening the core; -1: none. Other threads may wait without limit for the loader lock
                 // that it holds

// Opening the core and looking up names need the loader lock. A thread that another thread waits for inside dlopen (the
// constructor of a plug-in joins it) would never get this lock. Returns false if the lock was held for a second: the
// caller must then work without the loader.
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

// ---------------------------------------------------------------- the original functions

// Returns whether `found`, which is called or was looked up, is the original function of the entry point. The first
// function found becomes the original function. Functions of other copies of the library are not intercepted: a handle
// of one copy is invalid in another. A file that is not a vendor library may be an interposer after autoamp, which
// works with any copy; the caller's own file is a copy.
bool capture(unsigned index, void *found, const void *caller)
{
	const Object owner = ownerOf(found);
	// A slot outlives the client that closes its library: the function in it must stay mapped.
	if (haveLoader())
		loader.open(owner.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	const Library &library = entries[index].library;
	const unsigned version = versionOf(owner.name(), library);
	unsigned inUse = undecided;
	if (version < versionCount || owner.base == ownerOf(caller).base)
		if (!__atomic_compare_exchange_n(&library.versionInUse, &inUse, version, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_ACQUIRE) &&
		    inUse != version)
			return false;
	const void *const original = settle(autoamp_front_originals[index], found);
	if (original == found)
		return true;
	// A library and a part that it loads are one copy.
	const char *const other = ownerOf(original).name();
	return version < versionCount && versionOf(other, library) == version && !equal(other, owner.name()) &&
	       (isPart(other, library, version) || isPart(owner.name(), library, version));
}

// Looks the name up in a loaded file and its dependencies.
void *findLoaded(const char *file, const char *name)
{
	void *const handle = loader.open(file, RTLD_LAZY | RTLD_NOLOAD);
	void *const found = handle ? autoamp_front_dlsym(handle, name) : nullptr;
	if (handle)
		loader.close(handle); // the application decides how long it stays loaded; captured libraries are pinned
	return found;
}

void *findLoaded(const char *file, unsigned index)
{
	void *const found = findLoaded(file, entries[index].name);
	return isOurs(found) ? nullptr : found;
}

struct Search {
	unsigned slot;
	const char *caller; // the caller's file, which may contain a copy of the library
	void *found;
};

int isInLibrary(dl_phdr_info *info, size_t, void *data)
{
	auto &search = *static_cast<Search *>(data);
	const auto &[name, library] = entries[search.slot % entryCount];
	const Object object = describe(*info);
	const unsigned version = versionOf(object.name(), library), wanted = search.slot / entryCount;
	const bool isLibrary = wanted ? version == wanted : version < versionCount;
	if (isLibrary || object.path == search.caller)
		if (const Symbol *symbol = object.find(name))
			search.found = object.place(symbol);
	return search.found && isLibrary; // a library takes precedence over the caller's file
}

// Finds a function without the loader: while another thread holds its lock, or without dlsym (glibc before 2.34 in a
// process without libdl). Reads the symbol table of the loaded library.
void *findInLibrary(unsigned slot, const void *caller)
{
	Search search = {slot, ownerOf(caller).path, nullptr};
	dl_iterate_phdr(isInLibrary, &search);
	return search.found;
}

// Finds the function that the loader would have bound without autoamp. RTLD_NEXT is tried first, so that an interposer
// after autoamp stays effective; it finds nothing if the library is in an RTLD_LOCAL scope. The file of `caller` (null:
// unknown) is tried last: it may contain a copy of the library or trampolines with these names, or need a copy under
// another name.
void *resolveOriginal(unsigned slot, const void *caller, bool hasLoader)
{
	const unsigned index = slot % entryCount, version = slot / entryCount;
	const auto &[name, library] = entries[index];
	if (void *known = load(autoamp_front_originals[index]); known && version == load(library.versionInUse))
		return known;
	if (!hasLoader || !haveLoader())
		return findInLibrary(slot, caller);
	void *found = version ? autoamp_front_dlvsym(RTLD_NEXT, name, library.sonames[version])
	                      : autoamp_front_dlsym(RTLD_NEXT, name);
	for (const char *part : library.parts[version])
		if (!found && part)
			found = autoamp_front_dlvsym(RTLD_NEXT, name, part);
	if (!found) {
		const auto isWanted = [version](unsigned each) { return !version || each == version; };
		for (unsigned each = unversioned + 1; !found && each < versionCount; each++)
			if (isWanted(each))
				found = findLoaded(library.sonames[each], index);
		for (unsigned each = unversioned + 1; !found && each < versionCount; each++)
			for (const char *part : library.parts[each])
				if (!found && part && isWanted(each))
					found = findLoaded(part, index);
		if (!found && caller)
			found = findLoaded(ownerOf(caller).path, index);
		loader.error(); // clears the errors of these lookups, which the application must not see
	}
	return found;
}

// ---------------------------------------------------------------- the core

constexpr Core untouched = {}; // the decision not to use the core
const Core *decision;

// Finds the folder of the front's file. The loader's name for the file may be relative, and the working directory may
// have changed.
bool ownFolder(char (&path)[PATH_MAX])
{
	const auto wanted = reinterpret_cast<uintptr_t>(&absent); // code, because .bss pages have no file name
	size_t size = 0;
	const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC); // "start-end perms offset dev inode   /path\n"
	uintptr_t bound[2] = {};
	int field = 0;
	bool isFound = false;
	char buffer[1024];
	for (ssize_t got; !isFound && (got = read(file, buffer, sizeof buffer)) > 0;)
		for (const char *c = buffer; c < buffer + got && !isFound; c++) {
			if (*c == '\n') {
				isFound = size;
				bound[0] = bound[1] = 0, field = 0;
			} else if (field < 2) {
				if (*c == '-' || *c == ' ')
					field++;
				else
					bound[field] = bound[field] * 16 + static_cast<uintptr_t>(*c <= '9' ? *c - '0' : *c - 'a' + 10);
			} else if ((size || *c == '/') && bound[0] <= wanted && wanted < bound[1] && size < sizeof path - 1) {
				path[size++] = *c;
			}
		}
	close(file);
	if (!isFound) // no /proc
		for (const char *name = ownerOf(reinterpret_cast<void *>(&absent)).path; *name && size < sizeof path - 1;
		     name++)
			path[size++] = *name;
	while (size && path[size - 1] != '/')
		size--;
	path[size] = 0;
	return size && path[0] == '/';
}

// Returns whether a segment ends beyond the end of the file. dlopen maps a truncated file without an error, and the
// application would die of SIGBUS. dlopen reports other faults of a file itself. (No fstat: its symbol is newer than
// GLIBC_2.28.)
bool isCut(const char *path)
{
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	const auto size = static_cast<uint64_t>(lseek(file, 0, SEEK_END));
	ElfW(Ehdr) head;
	bool isFound = false;
	if (pread(file, &head, sizeof head, 0) == sizeof head)
		for (unsigned i = 0; i < head.e_phnum && !isFound; i++) {
			ElfW(Phdr) part;
			const auto at = static_cast<off_t>(head.e_phoff + i * sizeof part);
			isFound = pread(file, &part, sizeof part, at) != sizeof part ||
			          (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > size);
		}
	close(file);
	return isFound;
}

// Returns null if autoamp is switched off (`why` stays null) or the core cannot be opened (`why` is the reason).
const Core *openCore(const char *&why)
{
	static constexpr char file[] = "libautoamp-core.so";
	if (isPrivileged() || isSet("AUTOAMP_ENABLED=", "0"))
		return nullptr;
	why = "its folder is unknown";
	char path[PATH_MAX] = {};
	if (!haveLoader()) {
		why = "no dlopen in this process (glibc before 2.34, no libdl.so.2)";
		return nullptr;
	}
	if (!ownFolder(path))
		return nullptr;
	const size_t size = length(path);
	if (size + sizeof file > sizeof path)
		return nullptr;
	for (size_t i = 0; i < sizeof file; i++)
		path[size + i] = file[i];
	if (isCut(path)) {
		why = "its file is cut short";
		return nullptr;
	}
	// RTLD_NOW: missing symbols are found here, not during a call. Racing threads wait for the loader lock, and all get
	// the same handle.
	void *const handle = loader.open(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *const error = loader.error();
		why = error ? error : "unknown";
		return nullptr;
	}
	const auto *core = static_cast<const Core *>(autoamp_front_dlsym(handle, "autoamp_core"));
	why = "it is of another version";
	return core && core->abi == abi && core->count == entryCount ? core : nullptr;
}

const Core *decide()
{
	if (const Core *decided = load(decision))
		return decided;
	const char *why = nullptr;
	int nobody = -1, self = static_cast<int>(syscall(SYS_gettid));
	const bool isOpener =
	    __atomic_compare_exchange_n(&opener, &nobody, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	const Core *core = openCore(why);
	if (isOpener)
		__atomic_store_n(&opener, -1, __ATOMIC_RELEASE);
	const Core *mine = core ? core : &untouched, *decided = nullptr;
	if (!__atomic_compare_exchange_n(&decision, &decided, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return decided;
	if (!core && why)
		say("autoamp: off, cannot load the core: ", why, "\n");
	return mine;
}

// ---------------------------------------------------------------- fork

// A child that is forked while another thread is inside dlopen or dl_iterate_phdr inherits the loader's write lock,
// which is then never released (glibc resets only the other lock). A fork therefore waits for resolving threads, but at
// most forkPatience: a resolving thread may wait for a lock that the forking thread holds. Resolving threads wait for
// forks in the same way.
int resolvers, forks;
constexpr long forkPatience = 1; // seconds

void beforeFork()
{
	const CallerState callerState;
	__atomic_add_fetch(&forks, 1, __ATOMIC_SEQ_CST);
	const Deadline deadline(forkPatience);
	for (int others; (others = __atomic_load_n(&resolvers, __ATOMIC_SEQ_CST)) > autoamp_front_thread.resolving &&
	                 !deadline.isOver();)
		futexWait(&resolvers, others, deadline.at());
}

void afterFork()
{
	const CallerState callerState;
	__atomic_sub_fetch(&forks, 1, __ATOMIC_SEQ_CST);
	futexWakeAll(&forks);
}

void stopResolving()
{
	__atomic_sub_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST))
		futexWakeAll(&resolvers);
}

void inChild()
{
	forks = 0, resolvers = autoamp_front_thread.resolving, opener = -1;
	autoamp_front_profiled %= 2; // an open profiler range continues
}

bool isStarted; // the objects that the program started with are bound

// The only constructor. The first call would be too late: forks race with it, and descriptor 2 may be another file by
// then. Everything else works before the constructor has run.
__attribute__((constructor)) void begin()
{
	const CallerState callerState;
	stderrAtStart = identify(STDERR_FILENO);
	__register_atfork(beforeFork, afterFork, inChild, nullptr);
	__atomic_store_n(&isStarted, true, __ATOMIC_RELEASE);
}

struct Resolving {
	Resolving() { autoamp_front_hold_forks(); }
	~Resolving() { autoamp_front_release_forks(); }
	const CallerState callerState;
	const bool hasLoader = awaitLoader(); // waits before forks must wait for this thread
};

// ---------------------------------------------------------------- lookups

// AUTOAMP_HOOK_DLSYM, read at the first lookup.
enum class Hook : int { unknown, off, on, got };
Hook hook()
{
	static Hook known;
	Hook answer = load(known);
	if (answer == Hook::unknown) {
		const char *const name = "AUTOAMP_HOOK_DLSYM=";
		answer = isPrivileged() || isSet(name, "0") ? Hook::off : isSet(name, "got") ? Hook::got : Hook::on;
		__atomic_store_n(&known, answer, __ATOMIC_RELEASE);
	}
	return answer;
}

bool isVendors(const char *file)
{
	for (const char *prefix : vendorFiles)
		if (begins(file, prefix))
			return true;
	return false;
}

// Counts a call that will be reported. Calls inside another call, and calls by vendor libraries, are not counted.
void count(unsigned &calls, const void *caller)
{
	if (!autoamp_front_thread.depth && !isVendors(ownerOf(caller).name()))
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

// ---------------------------------------------------------------- objects bound without interception

// For an object opened with RTLD_DEEPBIND, its own libraries precede preloaded ones. Its references are redirected to
// the slots of the front, which find the same functions.

unsigned neededVersion(const Object &object, const Library &library)
{
	unsigned needed = versionCount;
	for (const ElfW(Dyn) *entry = object.dynamic; entry && entry->d_tag && needed == versionCount; entry++)
		if (entry->d_tag == DT_NEEDED)
			needed = versionOf(object.table<char>(DT_STRTAB) + entry->d_un.d_val, library);
	return needed;
}

bool isReadOnly(const dl_phdr_info &info, uintptr_t page)
{
	for (int i = 0; i < info.dlpi_phnum; i++)
		if (const auto &part = info.dlpi_phdr[i]; part.p_type == PT_GNU_RELRO) {
			const uintptr_t begin = info.dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
			return page >= (begin & ~uintptr_t{4095}) && page < (end & ~uintptr_t{4095}); // rounded as in the loader
		}
	return false;
}

void rebind(dl_phdr_info &info, const Object &object, unsigned index, uintptr_t at)
{
	const unsigned version = neededVersion(object, entries[index].library);
	auto &place = *reinterpret_cast<void **>(at);
	Object target = {load(place)};
	if (version == versionCount || isOurs(target.address))
		return;
	// A reference into the object itself is not bound so far. Any other reference must point to the function that the
	// slot would find.
	if (!isOwner(&info, 0, &target) && target.address != findInLibrary(version * entryCount + index, nullptr))
		return;
	auto *const page = reinterpret_cast<void *>(at & ~uintptr_t{4095});
	const bool wasReadOnly = isReadOnly(info, at & ~uintptr_t{4095});
	if (wasReadOnly && mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0)
		return;
	store(place, entryOf(version, index));
	if (wasReadOnly)
		mprotect(page, 4096, PROT_READ);
}

struct Scan {
	unsigned long long before, now; // numbers of objects loaded so far
};

// While dl_iterate_phdr runs, no object is loaded or unloaded. If no thread holds the loader lock, no object is partly
// bound.
int rebindObject(dl_phdr_info *info, size_t, void *data)
{
	auto &[before, now] = *static_cast<Scan *>(data);
	now = info->dlpi_adds;
	if (now == before || load(loaderLock().__data.__lock))
		return 1;
	const Object object = describe(*info);
	if (isVendors(object.name()) ||
	    (neededVersion(object, cublas) == versionCount && neededVersion(object, cublaslt) == versionCount &&
	     neededVersion(object, cudnn) == versionCount))
		return 0;
	const auto *symbols = object.table<Symbol>(DT_SYMTAB);
	const auto *strings = object.table<char>(DT_STRTAB);
	constexpr ElfW(Sxword) tables[][2] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
	for (const auto &[table, size] : tables) {
		const auto *each = object.table<ElfW(Rela)>(table), *end = each + object.value(size) / sizeof *each;
		for (; each != end; each++) {
			const auto type = ELF64_R_TYPE(each->r_info);
			const Symbol &symbol = symbols[ELF64_R_SYM(each->r_info)];
			if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) || symbol.st_shndx)
				continue; // not a reference to a function, or defined in the object itself
			if (const unsigned index = rowOf(strings + symbol.st_name); index < entryCount)
				rebind(*info, object, index, object.base + each->r_offset);
		}
	}
	return 0;
}

// Called at first calls and at every lookup: a program that loads a plug-in looks up functions in it. If other threads
// keep loading objects, this may fail; the next lookup retries.
void rebindObjects()
{
	static unsigned long long known;
	if (!load(isStarted) || hook() != Hook::got || &loaderLock() == &noLock || autoamp_front_thread.resolving)
		return;
	const Resolving resolving;
	Scan scan = {known, 0};
	bool isHeld = true;
	for (int i = 0; i < 100 && isHeld && awaitLoader(); i++)
		isHeld = dl_iterate_phdr(rebindObject, &scan) && scan.now != scan.before;
	if (!isHeld)
		__atomic_store_n(&known, scan.now, __ATOMIC_RELAXED);
}

// ---------------------------------------------------------------- what the assembler calls

struct Answer {
	void *symbol;
	long isFinal; // 0: jump to the original dlsym or dlvsym
};

} // namespace

extern "C" bool autoamp_front_has_stderr()
{
	const FileIdentity now = identify(STDERR_FILENO);
	return now.isOpen && stderrAtStart.isOpen && now.device == stderrAtStart.device && now.inode == stderrAtStart.inode;
}

extern "C" void autoamp_front_hold_forks()
{
	__atomic_add_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
	if (!autoamp_front_thread.resolving && __atomic_load_n(&forks, __ATOMIC_SEQ_CST)) {
		const Deadline deadline(forkPatience);
		for (int others; (others = __atomic_load_n(&forks, __ATOMIC_SEQ_CST)) && !deadline.isOver();) {
			stopResolving();
			futexWait(&forks, others, deadline.at());
			__atomic_add_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
		}
	}
	autoamp_front_thread.resolving++;
}

extern "C" void autoamp_front_release_forks()
{
	autoamp_front_thread.resolving--;
	stopResolving();
}

extern "C" void *autoamp_front_original(unsigned index)
{
	if (void *known = load(autoamp_front_originals[index]))
		return known;
	const Resolving resolving;
	const unsigned version = load(entries[index].library.versionInUse),
	               slot = (version < versionCount ? version : 0) * entryCount + index;
	void *const found = resolveOriginal(slot, nullptr, resolving.hasLoader);
	return found && (!resolving.hasLoader || capture(index, found, nullptr)) ? found : nullptr;
}

// Called by a lazy slot. Returns the target of the call and stores it in the slot. If the library is not loaded, the
// slot stays lazy, because it may be loaded later. Each slot is resolved separately: its caller determines where the
// original function is searched.
extern "C" HIDDEN void *autoamp_front_resolve(unsigned slot, const void *caller)
{
	rebindObjects();
	const Resolving resolving;
	const unsigned index = slot % entryCount;
	void *target = resolveOriginal(slot, caller, resolving.hasLoader);
	if (!target)
		return reinterpret_cast<void *>(slot / entryCount == older ? absent : entries[index].library.absent);
	if (!resolving.hasLoader) {
		count(autoamp_front_unseen, caller);
		return target;
	}
	if (!capture(index, target, caller))
		count(autoamp_front_second[index], caller);
	else if (const Core *core = decide(); core != &untouched)
		target = core->doors[index];
	store(autoamp_front_slots[slot], target);
	return target;
}

// ---- the profiler switch

// The switch functions have no slots and wrappers: a process that uses the switch but no entry point must not open the
// core. The front counts the switches, and the core reads the count.

namespace {

struct SwitchSearch {
	unsigned index;
	void *found;
};

int hasSwitch(dl_phdr_info *info, size_t, void *data)
{
	auto &[index, found] = *static_cast<SwitchSearch *>(data);
	const Object object = describe(*info);
	if (object.dynamic && begins(object.name(), switches[index].library))
		found = object.place(object.find(switches[index].name));
	return found != nullptr;
}

// Finds the original function. An interposer after autoamp stays effective. A library in an RTLD_LOCAL scope is found
// by its name.
void *originalSwitch(unsigned index)
{
	const Resolving resolving;
	SwitchSearch search = {index, nullptr};
	if (resolving.hasLoader && haveLoader()) {
		search.found = autoamp_front_dlsym(RTLD_NEXT, switches[index].name);
		loader.error();
	}
	if (!search.found)
		dl_iterate_phdr(hasSwitch, &search);
	return search.found;
}

int throwSwitch(unsigned index)
{
	const bool isStart = switches[index].isStart;
	unsigned count = load(autoamp_front_profiled);
	// A second start without a stop has no effect, as in CUDA.
	while (count % 2 != isStart && !__atomic_compare_exchange_n(&autoamp_front_profiled, &count, count + 1, false,
	                                                            __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		;
	if (const Core *core = load(decision); core && core->regions)
		core->regions->profilerSwitched();
	auto *const original = reinterpret_cast<int (*)()>(originalSwitch(index));
	autoamp_front_thread.depth++;                 // the runtime's use of the driver switch is not a second switch
	const int status = original ? original() : 3; // "not initialized" in both APIs
	autoamp_front_thread.depth--;
	return status;
}

} // namespace

#define SWITCH(name, index)                                                                                            \
	extern "C" AUTOAMP_EXPORT int name()                                                                               \
	{                                                                                                                  \
		return throwSwitch(index);                                                                                     \
	}
SWITCH(cudaProfilerStart, 0)
SWITCH(cudaProfilerStop, 1)
SWITCH(cuProfilerStart, 2)
SWITCH(cuProfilerStop, 3)
#undef SWITCH

// ---- regions: autoamp.h and the NVTX entry

// Returns null if the core is not open or has no regions. With `asks`, opens the core if necessary: the program
// requests a region.
static const Regions *regionsOf(bool asks)
{
	const Core *core = load(decision);
	if (!core && asks) {
		const Resolving resolving;
		core = resolving.hasLoader ? decide() : nullptr;
	}
	return core ? core->regions : nullptr;
}

extern "C" int autoamp_enter(const autoamp_region *region, size_t *number)
{
	const Regions *const regions = regionsOf(true);
	return regions ? regions->enter(region, number) : load(decision) ? 0 : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_leave(size_t number)
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->leave(number) : load(decision) ? 0 : AUTOAMP_UNBALANCED;
}

extern "C" int autoamp_push(const autoamp_region *region)
{
	return autoamp_enter(region, nullptr);
}

extern "C" int autoamp_pop()
{
	return autoamp_leave(0);
}

extern "C" int autoamp_current(autoamp_region *region)
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->current(region) : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_active()
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->active()
	               : !load(decision) && !isPrivileged() && !isSet("AUTOAMP_ENABLED=", "0") &&
	                     !isSet("AUTOAMP_SCOPE=", "regions");
}

extern "C" const char *autoamp_error()
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->error() : nullptr;
}

extern "C" int InitializeInjectionNvtx2(const void *tables)
{
	const Regions *const regions = regionsOf(true);
	return regions ? regions->receiveRanges(tables) : 0;
}

// ----

namespace {

// The result that a lookup has without the front. Exporting a name must not make a program believe that CUDA is
// present. A lookup that finds a function of the front therefore continues with the next definition, then with the
// dependencies of the caller's file. Returns null if nothing is found; dlerror() may be set or not.
void *findBehind(void *handle, const char *name, const char *version, const char *path)
{
	const auto look = [name, version](void *where) {
		return version ? autoamp_front_dlvsym(where, name, version) : autoamp_front_dlsym(where, name);
	};
	if (void *const found = handle == RTLD_NEXT ? nullptr : look(handle); handle != RTLD_NEXT && !isFront(found))
		return found;
	void *found = look(RTLD_NEXT);
	if (!found && (found = findLoaded(path, name)))
		loader.error();
	return isFront(found) ? nullptr : found;
}

// Sets dlerror().
Answer findNothing(const char *name)
{
	return {autoamp_front_dlsym(RTLD_NEXT, name), 1};
}

// Lookups of exported names without slots. Profiler functions resolve to the front if there is another definition. NVTX
// looks for its entry in the front's own file.
Answer lookUpOther(void *handle, const char *name, const char *version, const void *caller)
{
	const unsigned index = switchOf(name);
	const bool isReceiver = equal(name, "InitializeInjectionNvtx2");
	if (index == switchCount && !isReceiver)
		return {};
	if (isReceiver && handle != RTLD_DEFAULT && handle != RTLD_NEXT && isFront(static_cast<link_map *>(handle)->l_ld))
		return {};
	const Resolving resolving;
	void *const found = findBehind(handle, name, version, ownerOf(caller).path);
	if (!found)
		return findNothing(name);
	if (handle == RTLD_NEXT) // the original dlsym finds the next object after the caller
		return {};
	if (isReceiver || hook() == Hook::off)
		return {found, 1};
	return {reinterpret_cast<void *>(switches[index].entry), 1};
}

} // namespace

extern "C" HIDDEN Answer autoamp_front_lookup(void *handle, const char *name, const char *version, const void *caller)
{
	const bool canPass = haveLoader() && load(isStarted) && hook() != Hook::got; // not before the environment exists
	if (autoamp_front_thread.depth)
		return {};
	rebindObjects();
	if (canPass)
		__atomic_store_n(&autoamp_front_passes, true, __ATOMIC_RELEASE);
	const unsigned index = name ? rowOf(name) : entryCount;
	if (index == entryCount)
		return name ? lookUpOther(handle, name, version, caller) : Answer{};
	const Resolving resolving;
	const Object info = ownerOf(caller);
	if (isVendors(info.name())) // libcudnn.so.9 looks up its own public names
		return {};
	void *const found = findBehind(handle, name, version, info.path);
	if (!found)
		return findNothing(name);
	if (handle == RTLD_NEXT)
		return {}; // the original dlsym finds the next object after the caller
	const Object owner = ownerOf(found);
	const unsigned its = versionOf(owner.name(), entries[index].library);
	if (hook() == Hook::off || (*owner.path && its == versionCount))
		return {found, 1};
	// Linked programs of that version use the copy that was loaded first. Other copies are not intercepted. A copy in
	// another link-map namespace has no owner here and is not intercepted either.
	const void *const first = *owner.path ? findLoaded(owner.name(), index) : nullptr;
	loader.error();
	if (*owner.path && (!first || first == found) && capture(index, found, nullptr))
		return {entryOf(its, index), 1};
	count(autoamp_front_second[index], caller);
	return {found, 1};
}
