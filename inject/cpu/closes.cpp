// The hook of __cxa_finalize, by which the start files of the compiler report that an object is unloaded. Programs
// reach dlclose in ways that a preloaded one does not see. Any thread.
#include "inject/cpu/closes.h"

#include "inject/atomics.h"
#include "inject/front.h"
#include "inject/loader.h"
#include "inject/object.h"
#include "inject/references.h"
#include "inject/start.h"

#include <initializer_list>

using namespace autoamp::front;

extern "C" {

unsigned autoamp_cpu_closes = 1;

AUTOAMP_EXPORT void __cxa_finalize(void *handle) noexcept;

} // extern "C"

namespace {

// An object, and its references to the hook: lld and gold write one for the call and one for the comparison with null.
enum { begin, end, reference, otherReference, wordCount };
constexpr uintptr_t readOnlyBit = 1;   // in a reference
constexpr unsigned watchedCount = 256; // further objects are not watched
Record<wordCount> watched[watchedCount];
bool isAnyWatched, isExiting;

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
	bool leadsHere = false;
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
		if (!equal(name, "__cxa_finalize"))
			return;
		search.object[otherReference] = search.object[reference];
		search.object[reference] = reinterpret_cast<uintptr_t>(place) | (isReadOnly(*info, place) ? readOnlyBit : 0);
		search.leadsHere |= isFront(load(*place));
	});
	return 1;
}

// The next definition: that of libc, or of a library that was preloaded after the front. If the front is behind libc,
// the first one.
void *nextFinalizer()
{
	static void *found;
	bool isBehind = false;
	for (const link_map *map = _r_debug.r_map; map && !load(found); map = map->l_next) {
		isBehind |= isFront(map->l_ld);
		const Object object = {nullptr, map->l_addr, map->l_ld};
		if (isBehind && !isFront(map->l_ld))
			store(found, object.place(object.find("__cxa_finalize")));
	}
	for (const link_map *map = _r_debug.r_map; map && !load(found); map = map->l_next)
		if (const Object object = {nullptr, map->l_addr, map->l_ld}; !isFront(map->l_ld))
			store(found, object.place(object.find("__cxa_finalize")));
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
	loader.iterate(describe, &search);
	if (!search.leadsHere || load(isExiting)) // leadsHere is also false for a library that is not relocated yet
		return !search.dynamic || (load(isStarted) && isFromStart(search.dynamic));
	for (auto &object : watched)
		if (object.read(words, version) && !words[begin] && object.write(search.object, version)) {
			__atomic_store_n(&isAnyWatched, true, __ATOMIC_RELEASE);
			return true;
		}
	return false;
}

// The handle is an address in the object. Functions of the object that run later, such as destructors with a priority,
// find it no longer watched. At exit, no object is watched from then on, and the references stay: some sandboxes forbid
// mprotect.
extern "C" void __cxa_finalize(void *handle) noexcept
{
	if (void *const next = nextFinalizer())
		reinterpret_cast<decltype(&__cxa_finalize)>(next)(handle);
	if (!load(isAnyWatched))
		return;
	if (!isInsideClose())
		store(isExiting, true);
	for (auto &object : watched) {
		Words words;
		unsigned version;
		if (!object.read(words, version) || !contains(words, handle))
			continue;
		for (const unsigned each : {reference, otherReference}) {
			auto *const place = reinterpret_cast<void **>(words[each] & ~readOnlyBit);
			if (place && !load(isExiting) && isFront(load(*place)))
				redirect(place, nextFinalizer(), words[each] & readOnlyBit);
		}
		object.write({}, version);
		__atomic_add_fetch(&autoamp_cpu_closes, 1, __ATOMIC_SEQ_CST); // a thread that remembers meanwhile takes it back
		forget(words[begin], words[end]);
		__atomic_add_fetch(&autoamp_cpu_closes, 1, __ATOMIC_SEQ_CST);
	}
}
