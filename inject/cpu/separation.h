// Plug-ins that have a routine from different libraries. Any thread.
#pragma once

namespace autoamp::front {

// The slot of an exported name finds the library of its caller by the return address. A function that ends in the call
// leaves no trace of itself, because the compiler makes the call a jump. If several objects define a routine, the
// references of plug-ins to it therefore get slots of their own libraries. To be called before code of objects that may
// be new: at lookups in a handle, which plug-ins are called by, and at the first call from a place.
void separatePlugins();

} // namespace autoamp::front
