// Finds out whether this system can notice writes to kept weights. Main thread.
#pragma once

#include <string>

namespace autoamp::tool {

// The reason why writes are not noticed; empty: they are.
std::string whyNoWatch();

} // namespace autoamp::tool
