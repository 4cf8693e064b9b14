#include "inject/cpu/originals.h"

#include "inject/atomics.h"
#include "inject/environment.h"
#include "inject/loader.h"
#include "inject/object.h"
#include "inject/open_core.h"
#include "inject/search.h"

namespace autoamp::front {

constinit const char coreName[] = "autoamp_cpu_core";
constinit const unsigned wrapperCount = slotCount;

constinit const char *const routineNames[blasEntryCount] = {
#define BLAS(name, style, routine) #name,
#include "inject/blas.inc"
#undef BLAS
};

namespace {

void *originals[slotCount];        // of copy 0: those in the scope of the program
const void *copies[blasCopyCount]; // by copy - 1: dynamic section of the library

bool contains(const char *text, const char *part)
{
	for (; *text; text++)
		if (begins(text, part))
			return true;
	return false;
}

// The reference BLAS, OpenBLAS and BLIS of Debian mark the width of integers in the file name; MKL does so too, except
// for libmkl_rt, which reads a variable. Other libraries mark it in the names of the functions. OpenBLAS reports it.
bool isWide(const char *name, const Object &library)
{
	const size_t size = length(name);
	if ((size > 3 && equal(name + size - 3, "64_")) || (size > 3 && equal(name + size - 3, "_64")))
		return true;
	const char *const file = library.name();
	const char *const layer = contains(file, "libmkl_rt") ? valueOf("MKL_INTERFACE_LAYER=") : nullptr;
	const auto config = reinterpret_cast<const char *(*)()>(library.place(library.find("openblas_get_config")));
	if (config && contains(config(), "USE64BITINT"))
		return true;
	return contains(file, "blas64") || contains(file, "blis64") || contains(file, "ilp64") ||
	       (layer && contains(layer, "ILP64"));
}

// Names without an underscore at their begin or end are common words: an application can have its own `sgemm`.
bool isCommon(const char *name)
{
	const size_t size = length(name);
	return !begins(name, "cblas_") && !begins(name, "scipy_") && name[size - 1] != '_';
}

Original describe(unsigned row, void *function, bool isShared)
{
	const Object owner = ownerOf(function);
	const bool isOther = !isRoutine(row, owner) || (isCommon(routineNames[row]) && !isShared);
	return {function, isWide(routineNames[row], owner), isShared, isOther};
}

// Answers whether `first` was loaded before `second`.
struct Pair {
	const Object &first, &second;
	bool isBefore;
};

int isEither(dl_phdr_info *info, size_t, void *data)
{
	auto &pair = *static_cast<Pair *>(data);
	const ElfW(Dyn) *const dynamic = objectOf(*info).dynamic;
	pair.isBefore = dynamic && dynamic == pair.first.dynamic;
	return pair.isBefore || dynamic == pair.second.dynamic;
}

bool isBefore(const Object &first, const Object &second)
{
	Pair pair = {first, second, false};
	loader.iterate(isEither, &pair); // in the order of loading
	return pair.isBefore;
}

struct Search {
	const char *name;
	void *found;
};

int hasRoutine(dl_phdr_info *info, size_t, void *data)
{
	auto &search = *static_cast<Search *>(data);
	const Object object = objectOf(*info);
	if (object.dynamic && !isFront(object.dynamic))
		search.found = object.place(object.find(search.name));
	return search.found != nullptr;
}

} // namespace

unsigned rowOf(const char *name)
{
	constexpr const char *beginnings[] = {"cblas_", "scipy_", "sgem", "ssy",  "strm", "strs", "sbge", "dgem", "cgem",
	                                      "zgem",   "SGEM",   "SSY",  "STRM", "STRS", "SBGE", "DGEM", "CGEM", "ZGEM"};
	bool isPossible = false;
	for (const char *beginning : beginnings)
		isPossible |= begins(name, beginning);
	unsigned row = isPossible ? 0 : blasEntryCount;
	while (row < blasEntryCount && !equal(routineNames[row], name))
		row++;
	return row;
}

// ACML's functions with these names take their arguments by value.
bool isRoutine(unsigned row, const Object &owner)
{
	return !isCommon(routineNames[row]) ||
	       ((owner.find("sgemm_") || owner.find("cblas_sgemm")) && !owner.find("acmlversion"));
}

void pin(void *function)
{
	const Object owner = ownerOf(function);
	if (haveLoader() && *owner.path)
		loader.open(owner.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void *definitionFor(unsigned row, const Object &file, bool &isShared)
{
	const char *const name = routineNames[row];
	void *found = autoamp_front_dlsym(RTLD_NEXT, name);
	const Object owner = ownerOf(found);
	isShared = found && isFromStart(owner.dynamic);
	if (!isShared) {
		void *const own = findLoaded(file.path, name);
		if (own && !isFront(own) && (!found || isBefore(file, owner)))
			found = own;
	}
	loader.error(); // clears the errors of these lookups, which the application must not see
	return found;
}

Original resolveOriginal(unsigned slot, const void *caller, bool hasLoader)
{
	const unsigned row = slot % blasEntryCount;
	const char *const name = routineNames[row];
	if (void *const function = load(originals[slot]))
		return describe(row, function, true);
	void *found = nullptr;
	bool isShared = false;
	if (hasLoader && haveLoader())
		found = definitionFor(row, ownerOf(caller), isShared);
	if (!found) {
		Search search = {name, nullptr};
		loader.iterate(hasRoutine, &search);
		found = search.found;
	}
	if (!found)
		return {};
	if (isShared)
		found = settle(originals[slot], found);
	Original original = describe(row, found, isShared);
	original.staysLoaded = hasLoader && (!isOff() || ownerOf(found).dynamic != ownerOf(caller).dynamic);
	if (original.staysLoaded)
		pin(found);
	return original;
}

unsigned slotFor(unsigned row, void *found)
{
	if (isOff())
		return slotCount;
	if (load(originals[row]) == found)
		return row;
	const void *const library = ownerOf(found).dynamic;
	unsigned copy = 0;
	while (copy < blasCopyCount && settle(copies[copy], library) != library)
		copy++;
	const unsigned slot = (copy + 1) * blasEntryCount + row;
	if (copy == blasCopyCount || settle(originals[slot], found) != found)
		return slotCount;
	pin(found);
	return slot;
}

} // namespace autoamp::front
