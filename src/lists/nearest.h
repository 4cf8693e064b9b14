// Finds the name nearest to a misspelt one, for error messages. Any thread; no state.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace autoamp::policy {

// The candidate with the smallest edit distance; null without candidates.
std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates);
const char *nearestName(std::string_view name, std::span<const char *const> candidates);
// For the end of an error: "; did you mean X?", or `otherwise` if no candidate is near.
std::string nearestHint(std::string_view name, std::span<const std::string_view> candidates,
                        std::string_view otherwise = {});
std::string nearestHint(std::string_view name, std::span<const char *const> candidates,
                        std::string_view otherwise = {});

} // namespace autoamp::policy
