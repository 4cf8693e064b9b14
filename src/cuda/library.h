// The vendor's functions that are not entry points: found in the library that owns a function we know, never by a
// global search (another copy of the library may be loaded). Any thread.
#pragma once

namespace autoamp::cuda {

// The function `name` of the library that owns `known`, or of one that it needs (cublasLt* beside cublas*); null if
// there is none.
void *beside(const void *known, const char *name);

} // namespace autoamp::cuda
