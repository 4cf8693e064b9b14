// Distinguishes a process from those that it was forked from. Threads and accounts that a parent counted do not exist
// in its child. Any thread. No fork handler: the page that holds the number is cleared by the kernel in a child, so
// children of every kind are detected, also of clone() without handlers.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

// A number other than 0 that is constant in a process, and differs from that of its parents. Below 2^24.
uint32_t generation();

} // namespace autoamp::cpu
