// The hook of __cxa_finalize, by which the start files of the compiler report that an object is unloaded. Programs
// reach dlclose in ways that a preloaded one does not see. Any thread.
#include "inject/cpu/closes.h"

#include "inject/atomics.h"
#include "inject/front.h"
#include "inject/loader.h"
#include "inject/object.h"
#include "inject/references.h"

using namespace autoamp::front;

extern "C" {

unsigned autoamp_cpu_closes = 1;

AUTOAMP_EXPORT void __cxa_finalize(void *handle) noexcept;

} // extern "C"

namespace {

// An object that was loaded after the start, and its reference to the hook.
enum { begin, end, reference, isProtected, wordCount };
constexpr unsigned watchedCount = 256; // further objects are not watched
Record<wordCount> watched[watchedCount];
bool isAnyWatched;

using Words = uintptr_t[wordCount];

bool contains(const Words &object, const void *address)
{
	const auto place = reinterpret_cast<uintptr_t>(address);
	return object[begin] <= place && place < object[end];
}

struct Search {
	const void *address;
	Words object = {};
	const ElfW(Dyn) *dynamic = nullptr;
};

int describe(dl_phdr_info *info, size_t, void *data)
{
	auto &search = *static_cast<Search *>(data);
	Object owner = {search.address};
	if (!isOwner(info, 0, &owner))
		return 0;
	search.dynamic = owner.dynamic;
	search.object[begin] = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (const auto &part = info->dlpi_phdr[i]; part.p_type == PT_LOAD) {
			const uintptr_t first = info->dlpi_addr + part.p_vaddr, last = first + part.p_memsz;
			search.object[begin] = first < search.object[begin] ? first : search.object[begin];
			search.object[end] = last > search.object[end] ? last : search.object[end];
		}
	forEachReference(owner, [&](const char *name, const Symbol &, unsigned, void **place) {
		if (equal(name, "__cxa_finalize") && isFront(load(*place))) {
			search.object[reference] = reinterpret_cast<uintptr_t>(place);
			search.object[isProtected] = isReadOnly(*info, place);
		}
	});
	return 1;
}

// That of libc, or that of a library that was preloaded after the front.
void *nextFinalizer()
{
	static void *found;
	const link_map *map = _r_debug.r_map;
	while (map && !isFront(map->l_ld))
		map = map->l_next;
	while (map && !load(found)) {
		map = map->l_next;
		const Object object = {nullptr, map ? map->l_addr : 0, map ? map->l_ld : nullptr};
		store(found, object.place(object.find("__cxa_finalize")));
	}
	return load(found);
}

} // namespace

bool autoamp::front::watch(const void *address)
{
	Words words;
	unsigned version;
	for (const auto &object : watched)
		if (object.read(words, version) && contains(words, address))
			return true;
	Search search = {address};
	dl_iterate_phdr(describe, &search);
	if (!search.dynamic || isFromStart(search.dynamic))
		return true;
	if (!search.object[reference])
		return false;
	for (auto &object : watched)
		if (object.read(words, version) && !words[begin] && object.write(search.object, version)) {
			__atomic_store_n(&isAnyWatched, true, __ATOMIC_RELEASE);
			return true;
		}
	return false;
}

// The handle is an address in the object. Functions of the object that run later, such as destructors with a priority,
// find it no longer watched.
extern "C" void __cxa_finalize(void *handle) noexcept
{
	if (void *const next = nextFinalizer())
		reinterpret_cast<decltype(&__cxa_finalize)>(next)(handle);
	if (!load(isAnyWatched))
		return;
	for (auto &object : watched) {
		Words words;
		unsigned version;
		if (!object.read(words, version) || !contains(words, handle))
			continue;
		redirect(reinterpret_cast<void **>(words[reference]), nextFinalizer(), words[isProtected]);
		object.write({}, version);
		forget(words[begin], words[end]);
		__atomic_add_fetch(&autoamp_cpu_closes, 1, __ATOMIC_RELEASE);
	}
}
