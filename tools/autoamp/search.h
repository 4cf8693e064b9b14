// Finds the items that are responsible for a failure. Pure: the caller answers each question. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace autoamp::tool {

// Returns true if the check fails while exactly these items are lowered. `left` is the number of further questions,
// this one included, if the current set is the only one and needs no further member.
using Fails = std::function<bool(const std::vector<bool> &lowered, size_t left)>;

// Returns disjoint sets of items. The check fails if all items of one set are lowered and no other item, and passes if
// all items outside of the sets are lowered and no other item. If lowering more items never repairs a failure, no set
// has an unnecessary member. Precondition: the check fails with all items and passes without any. These two questions
// are not repeated.
//
// A set of s members among n items takes at most s * (log2(n) rounded up + 1) + 1 questions.
std::vector<std::vector<size_t>> responsibleSets(size_t count, const Fails &fails);

} // namespace autoamp::tool
