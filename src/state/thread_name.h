// The names of threads as rules see them: two names that match the same patterns are of one class. Any thread.
#pragma once

#include "src/state/process.h"

#include <string_view>

namespace autoamp::core {

// At most 8 bits; 0: no pattern matches, or there are too many classes.
uint32_t nameClassOf(const Process &process, std::string_view name);

// Bit: the thread pattern of a rule that names of the class match.
uint32_t patternsOfNameClass(uint32_t nameClass);

} // namespace autoamp::core
