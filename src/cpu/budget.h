// Account of the memory for converted operands: scratch memory of all threads, and copies of weights. A forked child
// inherits neither, so it starts with an empty account. Any thread; no lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autoamp::cpu {

// False if more than `budget` bytes would be held. `bytes` are whole pages.
bool hold(size_t bytes, size_t budget);
// `generation`: generation() when they were held. Bytes of a parent process are not counted here.
void letGo(size_t bytes, uint32_t generation);
size_t bytesHeld();

} // namespace autoamp::cpu
