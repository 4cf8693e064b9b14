// Any two texts as the custom lists: each name is known and selects its matches, or the list is refused.
#include "tests/fuzz/environment.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	std::vector<std::string> lists = fuzz::strings(reinterpret_cast<const char *>(data), size);
	lists.resize(2);
	fuzz::checkEnvironment({"AUTOAMP_CUSTOM_WHITE_LIST=" + lists[0], "AUTOAMP_CUSTOM_BLACK_LIST=" + lists[1]});
	return 0;
}
