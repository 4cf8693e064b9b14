#include "core.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>
#include <string_view>

namespace emulated {
namespace {

// The error that a function named in AUTOAMP_EMU_FAIL returns; the first matching pattern decides. Runtime and driver
// share the numbers. The cuBLAS fronts have their own codes.
constexpr struct {
	const char *pattern;
	cudaError_t failure;
} failures[] = {
    {"cuInit", cudaErrorUnknown},
    {"cu*GetDeviceCount", cudaErrorNoDevice},
    {"cuDevicePrimaryCtxRetain", cudaErrorMemoryAllocation},
    {"cuCtxCreate*", cudaErrorMemoryAllocation},
    {"cuCtxGetId", cudaErrorInvalidValue}, // an invalid context would be one that was destroyed
    {"cuCtx*", cudaErrorDeviceUninitialized},
    {"cu*Mem*Alloc*", cudaErrorMemoryAllocation},
    {"cu*Malloc*", cudaErrorMemoryAllocation},
    {"cu*HostAlloc*", cudaErrorMemoryAllocation},
    {"cu*HostRegister*", cudaErrorMemoryAllocation},
    {"cu*MemPoolCreate", cudaErrorMemoryAllocation},
    {"cu*StreamCreate*", cudaErrorMemoryAllocation},
    {"cu*EventCreate*", cudaErrorMemoryAllocation},
    {"cu*GraphInstantiate*", cudaErrorMemoryAllocation},
    {"cu*UserObjectCreate", cudaErrorMemoryAllocation},
    {"cu*LibraryLoad*", cudaErrorMemoryAllocation},
    {"cu*ModuleLoad*", cudaErrorMemoryAllocation},
    {"cu*GetKernel", cudaErrorSymbolNotFound},
    {"cu*GetFunction", cudaErrorSymbolNotFound},
    {"cuGetProcAddress*", cudaErrorSymbolNotFound},
    {"cu*Launch*", cudaErrorLaunchOutOfResources},
    {"__cudaLaunch*", cudaErrorLaunchOutOfResources},
    {"cu*Synchronize*", cudaErrorUnknown},
    {"cu*Query*", cudaErrorUnknown},
    {"cu*Stream*", cudaErrorInvalidResourceHandle},
    {"cu*Event*", cudaErrorInvalidResourceHandle},
    {"*", cudaErrorInvalidValue},
};

cudaError_t failureOf(const char *name)
{
	for (const auto &row : failures)
		if (fnmatch(row.pattern, name, 0) == 0)
			return row.failure;
	return cudaErrorUnknown;
}

// AUTOAMP_EMU_FAIL=function:N
unsigned long failingCall(const char *name)
{
	static const char *const wanted = getenv("AUTOAMP_EMU_FAIL");
	if (!wanted || !*wanted)
		return 0;
	const char *colon = strrchr(wanted, ':');
	char *end = nullptr;
	const unsigned long call = colon ? strtoul(colon + 1, &end, 10) : 0;
	if (call == 0 || *end) {
		static const bool isSaid = (say("AUTOAMP_EMU_FAIL=%s is not function:N", wanted), true);
		(void)isSaid;
		return 0;
	}
	return std::string_view(wanted, size_t(colon - wanted)) == name ? call : 0;
}

std::atomic<unsigned long> misuses{0};

struct Entries {
	std::mutex mutex;
	std::map<std::string_view, Entry *> byName;
};

Entries &entries()
{
	static auto *all = new Entries;
	return *all;
}

} // namespace

void Entry::enrol()
{
	Entries &all = entries();
	std::lock_guard guard(all.mutex);
	if (enrolled_)
		return;
	failure_ = failureOf(name);
	failing_ = failingCall(name);
	all.byName.emplace(name, this);
	enrolled_.store(true, std::memory_order_release);
}

cudaError_t Entry::misused()
{
	misuses.fetch_add(1);
	return cudaErrorNotPermitted;
}

Entry &entryOf(const char *name)
{
	// Callers pass literals, so their addresses are cached.
	thread_local struct {
		const char *name;
		Entry *entry;
	} recent[64];
	auto &slot = recent[reinterpret_cast<uintptr_t>(name) / 8 % 64];
	if (slot.entry && slot.name == name && strcmp(slot.entry->name, name) == 0)
		return *slot.entry;
	Entries &all = entries();
	std::lock_guard guard(all.mutex);
	auto found = all.byName.find(name);
	if (found == all.byName.end()) {
		const char *own = strdup(name);
		found = all.byName.emplace(own, new Entry(own)).first;
	}
	Entry *entry = found->second;
	slot = {name, entry};
	return *entry;
}

bool mustFail(const char *name)
{
	return hasForked() || entryOf(name).begin() != cudaSuccess;
}

// The name comes from the program; its control characters must not reach a terminal.
static std::string printable(const char *name)
{
	std::string result;
	for (; *name; name++) {
		char code[8];
		snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(*name));
		result += *name >= ' ' && *name < 127 ? std::string(1, *name) : std::string(code);
	}
	return result;
}

void missing(const char *name)
{
	static auto *said = new std::unordered_set<std::string>;
	static std::mutex mutex;
	std::lock_guard guard(mutex);
	if (said->insert(name).second)
		say("%s is not emulated", printable(name).c_str());
}

} // namespace emulated

EMULATED_EXPORT unsigned long autoamp_emulated_calls(const char *name)
{
	auto &all = emulated::entries();
	std::lock_guard guard(all.mutex);
	const auto found = all.byName.find(name);
	return found == all.byName.end() ? 0 : found->second->calls.load();
}

EMULATED_EXPORT unsigned long autoamp_emulated_misuses()
{
	return emulated::misuses.load();
}
