// Checks combinations of values. Any thread.
#pragma once

#include "src/config/options.h"

#include <string>

namespace autoamp::policy {

// Both return the error, or an empty text. checkTogether() includes checkLists().
std::string checkLists(const Options &options);
std::string checkTogether(const Options &options);

} // namespace autoamp::policy
