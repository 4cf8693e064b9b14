#include "src/cpu/library.h"

#include "src/base/broken_loader.h"
#include "src/base/futex.h"

#include <atomic>
#include <dlfcn.h>
#include <link.h>

namespace autoamp::cpu {

namespace {

constexpr uint32_t unknown = 0, claimed = 1, complete = 2;

struct Library {
	std::atomic<const link_map *> map{nullptr}; // pinned by the front: the address identifies it
	LibraryThreads threads;
	const char *kernels = "";
	std::atomic<uint32_t> state{unknown};
};
constexpr unsigned libraryLimit = 32; // of later ones, products use one thread
constinit Library libraries[libraryLimit];

const link_map *mapOf(const void *address)
{
	dl_find_object object;
	return _dl_find_object(const_cast<void *>(address), &object) == 0 ? object.dlfo_link_map : nullptr;
}

Library *find(const link_map *map, bool isAdded)
{
	for (Library &each : libraries) {
		const link_map *known = each.map.load(std::memory_order_acquire);
		if (!known && isAdded && each.map.compare_exchange_strong(known, map))
			return &each;
		if (known == map)
			return &each;
		if (!known)
			return nullptr;
	}
	return nullptr;
}

// Null if it is not recorded, or not yet.
const Library *recorded(const void *original)
{
	const link_map *const map = mapOf(original);
	const Library *const library = map ? find(map, false) : nullptr;
	return library && library->state.load(std::memory_order_acquire) == complete ? library : nullptr;
}

} // namespace

void recordLibrary(const void *original, bool mayWait)
{
	const link_map *const map = mapOf(original);
	Library *const library = map ? find(map, true) : nullptr;
	if (!library || base::isLoaderBroken)
		return;
	uint32_t seen = unknown;
	if (!library->state.compare_exchange_strong(seen, claimed, std::memory_order_acquire)) {
		for (const base::Deadline second(1); mayWait && seen == claimed && !second.isOver();) {
			base::futexWait(&library->state, static_cast<int>(seen), second.at());
			seen = library->state.load(std::memory_order_acquire);
		}
		return;
	}
	if (void *const handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD)) {
		library->threads = threadsOf(handle);
		library->kernels = kernelsOf(handle);
		dlclose(handle);
	}
	dlerror(); // clears the error, which must not reach the application
	library->state.store(complete, std::memory_order_release);
	base::futexWakeAll(&library->state);
}

Threads threadsOf(const void *original)
{
	const Library *const library = recorded(original);
	return library ? library->threads.now() : Threads(1, Pool::none);
}

const char *kernelsOfLibrary(const void *original)
{
	const Library *const library = recorded(original);
	return library ? library->kernels : "";
}

} // namespace autoamp::cpu
