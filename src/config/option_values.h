// Converts the texts of values. Any thread.
#pragma once

#include "src/config/option_table.h"

#include <cstdint>
#include <string_view>

namespace autoamp::policy {

// Index of the value in `words`; aliases have the index of the word that they follow. -1: not found.
int valueIndex(std::string_view words, std::string_view value);

bool parseSize(std::string_view text, uint64_t &bytes);

// Converts a value of type choice, size or time to a number. Returns false if it is not accepted. Other types are
// texts.
bool toNumber(const OptionRow &row, std::string_view value, uint64_t &number);

bool isAsUnset(const OptionRow &row, std::string_view value);

} // namespace autoamp::policy
