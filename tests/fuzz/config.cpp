// Any configuration file: accepted text prints back to the same meaning, everything else is one line of error with its
// place.
#include "tests/fuzz/environment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::checkFile({reinterpret_cast<const char *>(data), size});
	return 0;
}
