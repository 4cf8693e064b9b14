// A core of another version.
#include "inject/entry_index.h"

extern "C" {
struct {
	unsigned abi, count;
	void *const *wrappers;
} extern const autoamp_core = {99, autoamp::entry::vendorEntryCount, nullptr};
}
