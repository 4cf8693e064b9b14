// The original functions of the entry points. Any thread.
#pragma once

namespace autoamp::front {

// Returns whether `found`, the function that a call or a lookup resolved to, is the original function of the entry
// point. The first function found becomes the original function. Functions of other copies of the library are not
// intercepted: a handle of one copy is invalid in another. If the file of `found` is not a vendor library, it counts as
// a copy if it is the caller's own file, and otherwise as an interposer, which works with any copy.
bool keepOriginal(unsigned index, void *found, const void *caller);

// Looks the name of an entry point up in a loaded file and its dependencies. Null if the result is a slot.
void *findLoaded(const char *file, unsigned index);

// Finds a function without the loader: while another thread holds its lock, or without dlsym (glibc before 2.34 in a
// process without libdl). Reads the symbol table of the loaded library.
void *findInLibrary(unsigned slot, const void *caller);

// Finds the function that the loader would have bound without autoamp. RTLD_NEXT is tried first, so that an interposer
// after autoamp stays effective; it finds nothing if the library is in an RTLD_LOCAL scope. The file of `caller` (null:
// unknown) is tried last: it may contain a copy of the library or trampolines with these names, or need a copy under
// another name.
void *resolveOriginal(unsigned slot, const void *caller, bool hasLoader);

// Counts a call that will be reported. Calls inside another call, and calls by vendor libraries, are not counted.
void count(unsigned &calls, const void *caller);

} // namespace autoamp::front
