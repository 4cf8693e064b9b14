#include "src/state/caller.h"

#include "inject/vendors.h"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string_view>
#include <unistd.h>

namespace autoamp::core {

namespace {

constexpr uint32_t callerLimit = 1024;

// Append-only; each place is written by one compare-and-swap. No lock: a call may arrive inside dlopen.
std::atomic<const char *> names[callerLimit];

uint32_t idOf(std::string_view name)
{
	for (uint32_t id = 1; id < callerLimit; id++) {
		const char *known = names[id].load(std::memory_order_acquire);
		if (!known) {
			char *const copy = new char[name.size() + 1];
			name.copy(copy, name.size());
			copy[name.size()] = 0;
			if (names[id].compare_exchange_strong(known, copy, std::memory_order_acq_rel))
				return id;
			delete[] copy;
		}
		if (known == name)
			return id;
	}
	return 0; // the table is full
}

std::string_view baseName(std::string_view path)
{
	return path.substr(path.rfind('/') + 1); // npos + 1 is 0
}

template <typename Files>
bool isAnyOf(std::string_view file, const Files &beginnings)
{
	for (const char *beginning : beginnings)
		if (file.substr(0, std::strlen(beginning)) == beginning)
			return true;
	return false;
}

} // namespace

CallerAnswer findCaller(const void *address)
{
	dl_find_object object;
	if (_dl_find_object(const_cast<void *>(address), &object) != 0 || !object.dlfo_link_map)
		return {0, CallerKind::application}; // code generated at run time
	char path[4096];
	std::string_view file = baseName(object.dlfo_link_map->l_name);
	if (file.empty()) { // the program itself
		const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
		file = size > 0 ? baseName({path, static_cast<size_t>(size)}) : std::string_view("program");
	}
	const bool isVendor = isAnyOf(file, front::vendorFiles) || isAnyOf(file, front::blasFiles),
	           isSolver = isAnyOf(file, front::solverFiles) || isAnyOf(file, front::blasSolverFiles);
	const CallerKind kind = isVendor ? CallerKind::vendor : isSolver ? CallerKind::solver : CallerKind::application;
	return {idOf(file), kind};
}

const char *callerName(uint32_t id)
{
	const char *name = id && id < callerLimit ? names[id].load(std::memory_order_acquire) : nullptr;
	return name ? name : "";
}

} // namespace autoamp::core
