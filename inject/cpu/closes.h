// Unloaded objects. Another object may be loaded at their addresses.
#pragma once

#include <cstdint>

namespace autoamp::front {

// True if the object that contains `address` is never unloaded, or if forget() will be called when it is. Code that was
// generated at run time is in no object, and counts as never unloaded. Needs the loader.
bool watch(const void *address);

// Ends answers about callers and functions between these addresses. Without the loader.
void forget(uintptr_t begin, uintptr_t end);

} // namespace autoamp::front
