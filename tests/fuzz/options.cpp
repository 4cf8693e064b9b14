// Any environment: what is accepted means what was typed and prints back to it, everything else is one line of error.
#include "tests/fuzz/environment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::checkEnvironment(fuzz::strings(reinterpret_cast<const char *>(data), size));
	return 0;
}
