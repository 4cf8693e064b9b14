// References that are redirected while the program runs. Any thread.
#pragma once

namespace autoamp::front {

// The slot of an exported name finds the library of its caller by the return address. A function that ends in the call
// leaves no trace of itself, because the compiler makes the call a jump. If several objects define a routine, the
// references of plug-ins to it therefore get slots of their own libraries. To be called before code of objects that may
// be new: at lookups in a handle, which plug-ins are called by, and at the first call from a place.
void separatePlugins();

// The C interface of BLIS calls its Fortran interface. Calls from a BLAS are not calls of the application: if `caller`,
// which called this slot, and `function` are in one file of a BLAS, the calls of that file go directly to `function`.
// Nothing changes while another thread redirects references.
void bypassOwnCalls(unsigned slot, const void *caller, void *function);

} // namespace autoamp::front
