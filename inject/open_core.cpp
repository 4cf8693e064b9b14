#include "inject/open_core.h"

#include "inject/environment.h"
#include "inject/fork.h"
#include "inject/loader.h"
#include "inject/message.h"
#include "inject/object.h"

#include <climits>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::front {

constinit const Core untouched = {};
constinit const Core *decision = nullptr;

namespace {

// Finds the folder of the front's file. The loader's name for the file may be relative, and the working directory may
// have changed.
bool ownFolder(char (&path)[PATH_MAX])
{
	const auto wanted = reinterpret_cast<uintptr_t>(&findCore); // code, because .bss pages have no file name
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
		for (const char *name = ownerOf(reinterpret_cast<void *>(&findCore)).path; *name && size < sizeof path - 1;
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
	if (isOff())
		return nullptr;
	why = "its folder is unknown";
	char path[PATH_MAX] = {};
	if (!haveLoader()) {
		why = "no dlopen in this process (glibc before 2.34, no libdl.so.2)";
		return nullptr;
	}
	if (loader.isBroken) {
		why = "the process was forked while a thread loaded a library";
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
	const auto *core = static_cast<const Core *>(autoamp_front_dlsym(handle, coreName));
	why = "it is of another version";
	return core && core->abi == abi && core->count == wrapperCount ? core : nullptr;
}

} // namespace

bool isOff()
{
	return isPrivileged() || isSet("AUTOAMP_ENABLED=", "0");
}

const Core *findCore()
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
		sayOff(why);
	return mine;
}

const Core *coreOf(bool asks)
{
	const Core *core = load(decision);
	if (!core && asks) {
		const Resolving resolving;
		core = resolving.hasLoader ? findCore() : nullptr;
	}
	return core;
}

} // namespace autoamp::front
