// Memory of the calling thread for converted operands. A thread keeps one block, which grows and is released when the
// thread ends. A forked child inherits none.
#pragma once

#include "src/cpu/reason.h"

#include <cstddef>

namespace autoamp::cpu {

// Returns at least `bytes` of memory, aligned to a page; the content is undefined. It is valid until the next call on
// this thread. Null: `reason` is memoryBudget (more than `budget` bytes would be held, see budget.h) or noMemory.
void *scratch(size_t bytes, size_t budget, Reason &reason);

} // namespace autoamp::cpu
