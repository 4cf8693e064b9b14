// Stands in for libautoamp-core.so: has the functions that the front calls, without an implementation.
#include "inject/entry_index.h"
#include "inject/front.h"

extern const autoamp::front::Core autoamp_core = {autoamp::front::abi, autoamp::entry::vendorEntryCount, nullptr,
                                                  nullptr, nullptr};
