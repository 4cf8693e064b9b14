// The front: finds the true functions and the core. Any thread, also before main and inside dlopen.
// No allocation, no lock of ours: every race writes the same value or loses one CAS. One constructor, for fork.
// No libc string functions either: a sanitizer's runtime calls dlsym before it can serve them.
#include "inject/front.h"
#include "inject/entry_index.h"
#include "inject/vendors.h"

#include <cerrno>
#include <climits>
#include <cstdint>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

using namespace autoamp::front;
using autoamp::entry::entryCount;

extern "C" {
constinit thread_local ThreadBlock autoamp_front_thread;
void *autoamp_front_truths[entryCount];
unsigned autoamp_front_unseen;
HIDDEN extern void *autoamp_front_slots[entryCount];
HIDDEN extern void *const autoamp_front_entries[entryCount];
HIDDEN decltype(&dlsym) autoamp_front_dlsym;
HIDDEN decltype(&dlvsym) autoamp_front_dlvsym;
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

// The first writer wins; returns what is in the cell now.
template <typename T>
T settle(T &cell, T value)
{
	T none = nullptr;
	return __atomic_compare_exchange_n(&cell, &none, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? value : none;
}

// ---------------------------------------------------------------- tables

struct Library {
	const char *prefix; // of the file that owns the true functions: libcublas.so is not libcublasLt.so
	const char *sonames[3];
};

constexpr Library cublas = {"libcublas.so", {"libcublas.so.13", "libcublas.so.12"}};
constexpr Library cublaslt = {"libcublasLt.so", {"libcublasLt.so.13", "libcublasLt.so.12"}};

const struct {
	const char *name;
	const Library *library;
} entries[] = {
#define ENTRY(name, library) {#name, &library},
#include "inject/entries.inc"
#undef ENTRY
};

// What a call returns while no such library is in the process: CUBLAS_STATUS_NOT_INITIALIZED.
int absent()
{
	return 1;
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

template <typename... Text>
void say(Text... text)
{
	const iovec parts[] = {{const_cast<char *>(text), length(text)}...};
	if (writev(STDERR_FILENO, parts, sizeof...(text)) < 0)
		return; // nobody listens
}

// Whether the environment says NAME=0; `text` is "NAME=". Any other value is the core's to judge.
bool isZero(const char *text)
{
	for (char **variable = environ; variable && *variable; variable++)
		if (begins(*variable, text))
			return equal(*variable + length(text), "0");
	return false;
}

// ---------------------------------------------------------------- objects in memory

struct Object {
	const void *address;
	const char *path; // the loader's name for the file that holds address, null if none does
};

int isOwner(dl_phdr_info *info, size_t, void *data)
{
	auto &object = *static_cast<Object *>(data);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const auto &segment = info->dlpi_phdr[i];
		const auto offset = reinterpret_cast<uintptr_t>(object.address) - info->dlpi_addr - segment.p_vaddr;
		if (segment.p_type == PT_LOAD && offset < segment.p_memsz) {
			object.path = info->dlpi_name;
			return 1;
		}
	}
	return 0;
}

const char *ownerOf(const void *address)
{
	Object object = {address, nullptr};
	dl_iterate_phdr(isOwner, &object);
	return object.path ? object.path : "";
}

// By DT_GNU_HASH: the only way to dlsym itself once dlsym and dlvsym are ours, and the only one without the loader.
const ElfW(Sym) * findSymbol(ElfW(Addr) base, const ElfW(Dyn) * dynamic, const char *name)
{
	const ElfW(Sym) *symbols = nullptr;
	const char *strings = nullptr;
	const uint32_t *table = nullptr;
	for (; dynamic && dynamic->d_tag; dynamic++) {
		const auto value = dynamic->d_un.d_ptr;
		const auto address = value < base ? value + base : value;
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = reinterpret_cast<ElfW(Sym) *>(address);
		else if (dynamic->d_tag == DT_STRTAB)
			strings = reinterpret_cast<char *>(address);
		else if (dynamic->d_tag == DT_GNU_HASH)
			table = reinterpret_cast<uint32_t *>(address);
	}
	if (!symbols || !strings || !table)
		return nullptr;
	const uint32_t buckets = table[0], first = table[1], bloom = table[2];
	const uint32_t *bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t)), *chain = bucket + buckets;
	uint32_t hash = 5381;
	for (const char *c = name; *c; c++)
		hash = hash * 33 + static_cast<unsigned char>(*c);
	uint32_t i = bucket[hash % buckets];
	if (i < first)
		return nullptr;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && equal(strings + symbols[i].st_name, name) && symbols[i].st_shndx)
			return &symbols[i];
		if (chain[i - first] & 1)
			return nullptr;
	}
}

void *findInObject(const link_map &object, const char *name)
{
	const ElfW(Sym) *const symbol = findSymbol(object.l_addr, object.l_ld, name);
	return symbol ? reinterpret_cast<void *>(object.l_addr + symbol->st_value) : nullptr;
}

// ---------------------------------------------------------------- the loader's own functions

struct {
	decltype(&dlopen) open;
	decltype(&dlclose) close;
	decltype(&dlerror) error;
} loader;

// By the loader's own list: dl_iterate_phdr may be a sanitizer's that calls dlsym before it can serve. What stands in
// the list up to libc was there at the start and never goes.
bool haveLoader()
{
	for (const link_map *object = _r_debug.r_map; object && !load(autoamp_front_dlsym); object = object->l_next) {
		const char *file = baseName(object->l_name);
		if (!begins(file, "libc.so.6") && !begins(file, "libdl.so.2")) // libdl: before glibc 2.34
			continue;
		void *const sym = findInObject(*object, "dlsym");
		if (!sym)
			continue;
		store(loader.open, findInObject(*object, "dlopen"));
		store(loader.close, findInObject(*object, "dlclose"));
		store(loader.error, findInObject(*object, "dlerror"));
		store(autoamp_front_dlvsym, findInObject(*object, "dlvsym"));
		store(autoamp_front_dlsym, sym); // last: it says that the others are there
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

// Where glibc keeps the lock that dlopen and dlsym take: the first of three recursive mutexes in a row. Found nowhere
// (another libc): a lock that nobody holds.
const pthread_mutex_t *findLoaderLock()
{
	static const pthread_mutex_t none = {};
	const link_map *object = _r_debug.r_map;
	while (object && object->l_addr != _r_debug.r_ldbase)
		object = object->l_next;
	const auto *const data = object ? findSymbol(object->l_addr, object->l_ld, "_rtld_global") : nullptr;
	auto at = data ? object->l_addr + data->st_value : 0;
	for (const auto end = at + (data ? data->st_size : 0); at + 3 * sizeof none <= end; at += sizeof(void *)) {
		const auto *mutex = reinterpret_cast<pthread_mutex_t *>(at);
		if (isRecursive(mutex[0]) && isRecursive(mutex[1]) && isRecursive(mutex[2]))
			return mutex;
	}
	return &none;
}

int opener = -1; // the thread that is opening the core: whoever waits for it waits for nobody else

int thisThread()
{
	return static_cast<int>(syscall(SYS_gettid));
}

// Opening the core and looking names up need the loader's lock, and a thread that another one waits for inside dlopen
// (a plug-in's constructor joins it) would never get it. False: someone has held it for a second, so do without.
bool awaitLoader()
{
	static const pthread_mutex_t *found;
	static int patience;
	if (!load(found))
		store(found, findLoaderLock());
	const auto &lock = load(found)->__data;
	for (int self = 0; load(lock.__lock); nap()) {
		const int owner = load(lock.__owner);
		self = self ? self : thisThread();
		if (owner == self || owner == load(opener))
			break;
		if (__atomic_add_fetch(&patience, 1, __ATOMIC_RELAXED) > 1000)
			return false; // the next call does not wait again
	}
	__atomic_store_n(&patience, 0, __ATOMIC_RELAXED);
	return true;
}

// ---------------------------------------------------------------- the true functions

// A slot outlives the client that closes its library: what stands in a slot must stay mapped.
void *capture(unsigned index, void *found)
{
	loader.open(ownerOf(found), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	return settle(autoamp_front_truths[index], found);
}

// In a file that is loaded already, or in what that file needs.
void *findLoaded(const char *file, unsigned index)
{
	void *const handle = loader.open(file, RTLD_LAZY | RTLD_NOLOAD);
	void *found = handle ? autoamp_front_dlsym(handle, entries[index].name) : nullptr;
	if (found == autoamp_front_entries[index])
		found = nullptr;
	if (handle && !found)
		loader.close(handle);
	return found;
}

struct Search {
	unsigned index;
	const char *caller; // the caller's file, which may carry a copy of its own
	void *found;
};

int isInLibrary(dl_phdr_info *info, size_t, void *data)
{
	auto &search = *static_cast<Search *>(data);
	const bool isCaller = equal(info->dlpi_name, search.caller);
	if (!isCaller && !begins(baseName(info->dlpi_name), entries[search.index].library->prefix))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const auto *dynamic = reinterpret_cast<ElfW(Dyn) *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		if (const auto *symbol = findSymbol(info->dlpi_addr, dynamic, entries[search.index].name))
			search.found = reinterpret_cast<void *>(info->dlpi_addr + symbol->st_value);
	}
	return search.found && !isCaller; // the library's comes first
}

// Without the loader: while somebody holds its lock, or before glibc 2.34 in a process without libdl, which has no
// dlsym. The library that is there is read directly.
void *findInLibrary(unsigned index, const void *caller)
{
	Search search = {index, caller ? ownerOf(caller) : "", nullptr};
	dl_iterate_phdr(isInLibrary, &search);
	return search.found;
}

// RTLD_NEXT first: another interposer behind us keeps its turn. It finds nothing where the library sits in an
// RTLD_LOCAL scope. The caller's own file (null: unknown) comes last: it may carry a copy, or trampolines of these
// names.
void *findTruth(unsigned index, const void *caller)
{
	if (void *known = load(autoamp_front_truths[index]))
		return known;
	if (!haveLoader())
		return findInLibrary(index, caller);
	const auto &[name, library] = entries[index];
	void *found = autoamp_front_dlsym(RTLD_NEXT, name);
	if (!found) {
		for (const char *const *soname = library->sonames; !found && *soname; soname++)
			found = findLoaded(*soname, index);
		if (!found && caller)
			found = findLoaded(ownerOf(caller), index);
		loader.error(); // what failed on the way is not the application's to read
	}
	return found ? capture(index, found) : nullptr;
}

// ---------------------------------------------------------------- the core

constexpr Core untouched = {}; // the decision to stay out for good
const Core *decision;

// Where the front's file really is: the loader's own name for it may be relative, and the working folder another by
// now.
bool ownFolder(char (&path)[PATH_MAX])
{
	const auto wanted = reinterpret_cast<uintptr_t>(&absent); // code: the pages of .bss bear no file's name
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
		for (const char *name = ownerOf(reinterpret_cast<void *>(&absent)); *name && size < sizeof path - 1; name++)
			path[size++] = *name;
	while (size && path[size - 1] != '/')
		size--;
	path[size] = 0;
	return size && path[0] == '/';
}

// Of a file that was cut short dlopen maps what is not there, and the application dies of SIGBUS: every segment must
// end inside it. What else is wrong with a file dlopen says itself. (No fstat: its symbol is newer than GLIBC_2.28.)
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

// Null: switched off or not to be had; `why` says which, or stays null.
const Core *openCore(const char *&why)
{
	static constexpr char file[] = "libautoamp-core.so";
	if (isZero("AUTOAMP_ENABLED="))
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
	// NOW: what is missing shows here, not in the middle of a call. The loader's own lock makes racing threads wait
	// for the first; all get the same handle.
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
	int nobody = -1;
	const bool isOpener =
	    __atomic_compare_exchange_n(&opener, &nobody, thisThread(), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
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

// A child born while another thread is inside dlopen or dl_iterate_phdr inherits the loader's write lock held for ever
// (glibc resets only the other one). So a fork waits for our resolvers, but not without end: who resolves may be
// waiting for what the forking thread holds. Resolvers wait for forks likewise.
int resolvers, forks;

void beforeFork()
{
	__atomic_add_fetch(&forks, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 1000 && __atomic_load_n(&resolvers, __ATOMIC_SEQ_CST) > autoamp_front_thread.resolving; i++)
		nap();
}

void afterFork()
{
	__atomic_sub_fetch(&forks, 1, __ATOMIC_SEQ_CST);
}

void inChild()
{
	forks = 0, resolvers = autoamp_front_thread.resolving, opener = -1;
}

// The only constructor. At the first call it would be too late: that is when the race is. All else works before it ran.
__attribute__((constructor)) void watchForks()
{
	__register_atfork(beforeFork, afterFork, inChild, nullptr);
}

struct Resolving {
	Resolving() { autoamp_front_hold_forks(); }
	~Resolving()
	{
		autoamp_front_release_forks();
		errno = error;
	}
	const int error = errno;
	const bool hasLoader = awaitLoader(); // before forks have to wait for this thread
};

// ---------------------------------------------------------------- lookups

// AUTOAMP_HOOK_DLSYM, read at the first lookup that it concerns.
bool isHooking()
{
	static int known; // 1 yes, 2 no
	int answer = load(known);
	if (!answer) {
		answer = isZero("AUTOAMP_HOOK_DLSYM=") ? 2 : 1;
		__atomic_store_n(&known, answer, __ATOMIC_RELEASE);
	}
	return answer == 1;
}

bool isVendors(const char *file)
{
	for (const char *prefix : vendorFiles)
		if (begins(file, prefix))
			return true;
	return false;
}

struct Answer {
	void *symbol;
	long isFinal; // 0: jump to the real function
};

} // namespace

extern "C" void autoamp_front_hold_forks()
{
	for (int i = 0;; i++, nap()) {
		__atomic_add_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
		if (autoamp_front_thread.resolving || !__atomic_load_n(&forks, __ATOMIC_SEQ_CST) || i == 1000)
			break;
		__atomic_sub_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
	}
	autoamp_front_thread.resolving++;
}

extern "C" void autoamp_front_release_forks()
{
	autoamp_front_thread.resolving--;
	__atomic_sub_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
}

extern "C" void *autoamp_front_truth(unsigned index)
{
	if (void *known = load(autoamp_front_truths[index]))
		return known;
	const Resolving resolving;
	return findTruth(index, nullptr);
}

// From a lazy slot. Returns where the call goes, and lets later calls go there at once. A library that is not here yet
// may come: its slots stay lazy. Each entry point comes here once, so that its own caller can say where its truth is.
extern "C" HIDDEN void *autoamp_front_resolve(unsigned index, const void *caller)
{
	const Resolving resolving;
	void *target = resolving.hasLoader ? findTruth(index, caller) : findInLibrary(index, caller);
	if (!target)
		return reinterpret_cast<void *>(absent);
	if (!resolving.hasLoader) {
		__atomic_add_fetch(&autoamp_front_unseen, 1, __ATOMIC_RELAXED);
		return target;
	}
	if (const Core *core = decide(); core != &untouched)
		target = core->doors[index];
	store(autoamp_front_slots[index], target);
	return target;
}

// Exporting these names must not change whether a program believes that cuBLAS is here: a lookup that would find ours
// while no such library is loaded fails as it would without us, with dlerror() set.
extern "C" HIDDEN Answer autoamp_front_lookup(void *handle, const char *name, const char *version, const void *caller)
{
	haveLoader();
	if (!name || !begins(name, "cublas") || autoamp_front_thread.depth)
		return {};
	unsigned index = 0;
	while (index < entryCount && !equal(entries[index].name, name))
		index++;
	if (index == entryCount)
		return {};
	const Resolving resolving;
	if (isVendors(baseName(ownerOf(caller)))) // libcudnn.so.9 asks for its own public names
		return {};
	void *const ours = autoamp_front_entries[index];
	void *found = ours;
	if (handle != RTLD_NEXT)
		found = version ? autoamp_front_dlvsym(handle, name, version) : autoamp_front_dlsym(handle, name);
	if (found == ours) {
		if (findTruth(index, caller))
			return {ours, handle != RTLD_NEXT};       // who is next is the caller's question: the real function answers
		found = autoamp_front_dlsym(RTLD_NEXT, name); // null, and sets what dlerror() tells
		return {found, 1};
	}
	if (!found || !isHooking() || !begins(baseName(ownerOf(found)), entries[index].library->prefix))
		return {found, 1};
	return {capture(index, found) == found ? ours : found, 1}; // a second copy is left alone
}
