// Classes of thread names, for rules: names that match the same patterns are in one class. Any thread.
#pragma once

#include "src/state/process.h"

#include <string_view>

namespace autoamp::core {

// At most 8 bits; 0: no pattern matches, or there are too many classes.
uint32_t nameClassOf(const Process &process, std::string_view name);

// Bit i: names of the class match Rules::threadPatterns[i].
uint32_t patternsOfNameClass(uint32_t nameClass);

} // namespace autoamp::core
