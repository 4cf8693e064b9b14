// References from one object to functions of others: the words of its tables that the loader fills. Any thread.
#pragma once

#include "inject/object.h"

namespace autoamp::front {

// True if the loader made the page of this reference read-only.
bool isReadOnly(const dl_phdr_info &info, const void *place);

// Lets a reference lead to `target`. It stays as it is if its page cannot be made writable.
void redirect(void **place, void *target, bool isReadOnly);

} // namespace autoamp::front
