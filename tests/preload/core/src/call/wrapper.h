// The tests' core: prints each call and the file that made it to stderr, and then runs the call.
#pragma once

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/op/arguments.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cublas_api.h>
#include <dlfcn.h>
#include <link.h>

namespace autoamp::op {

inline const GroupedCall &batchOf(const GroupedCall &groups) // printed as it arrived
{
	return groups;
}

constexpr int watchCreateDescriptor = 0, watchSetAttribute = 0, watchFinalize = 0, watchDestroyDescriptor = 0;

} // namespace autoamp::op

namespace autoamp::entry {

constexpr const front::Regions *regions = nullptr;
constexpr const front::Scalers *scalers = nullptr;

template <typename Call>
void tell(const char *name, const Call &call, const void *caller)
{
	dl_find_object object; // unlike dladdr it takes no lock
	const bool isFound = _dl_find_object(const_cast<void *>(caller), &object) == 0;
	const char *file = isFound ? object.dlfo_link_map->l_name : "/?";
	const char *const slash = std::strrchr(*file ? file : program_invocation_name, '/');
	char shape[64] = "";
	if constexpr (requires { call.m; })
		std::snprintf(shape, sizeof shape, " %ldx%ldx%ld", call.m, call.n, call.k);
	// autoamp's core needs cublasLt for any call: it must be loaded, in its own scope or not.
	std::fprintf(stderr, "core: %s%s from %s%s\n", name, shape, slash ? slash + 1 : "?",
	             autoamp_front_original(index_cublasLtMatmul) ? "" : ", no cublasLt");
}

template <unsigned index, typename Fn, typename Copy, typename... Args>
auto intercept(const Copy &copy, const void *caller, Args... args) noexcept
{
	if (!autoamp_front_thread.depth)
		tell(entryTable[index].name, copy(args...), caller);
	autoamp_front_thread.depth++;
	const auto status = reinterpret_cast<Fn *>(autoamp_front_originals[index])(args...);
	autoamp_front_thread.depth--;
	return status;
}

template <unsigned index, typename Fn, typename Copy, typename... Args>
auto count(const Copy &copy, const void *caller, Args... args) noexcept
{
	return intercept<index, Fn>(copy, caller, args...);
}

// Not a call: nothing is printed.
template <unsigned index, typename Fn, typename... Args>
auto watch(int, Args... args) noexcept
{
	return reinterpret_cast<Fn *>(autoamp_front_originals[index])(args...);
}

} // namespace autoamp::entry
