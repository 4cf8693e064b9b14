// Any environment: an accepted value has the meaning of its text and prints back to it, everything else is one line of
// error.
#include "tests/fuzz/environment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::checkEnvironment(fuzz::strings(reinterpret_cast<const char *>(data), size));
	return 0;
}
