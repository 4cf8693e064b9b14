// Finds vendor functions without a wrapper, in the library that owns a given function. A global search could find
// another copy of the library. Any thread.
#pragma once

namespace autoamp::cuda {

// Returns the function `name` of the library that owns `original`, or of one of its dependencies (a cublasLt* function
// for a cublas* one); null if there is none.
void *findInLibraryOf(const void *original, const char *name);

// Returns the first such function in the global scope; null if there is none.
void *findInProcess(const char *name);

} // namespace autoamp::cuda
