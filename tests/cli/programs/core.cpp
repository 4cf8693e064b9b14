// Stands in for libautoamp-core.so: what the front asks of it, and nothing behind.
#include "inject/entry_index.h"
#include "inject/front.h"

extern const autoamp::front::Core autoamp_core = {autoamp::front::abi, autoamp::entry::entryCount, nullptr, nullptr};
