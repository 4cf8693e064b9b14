// The stage of the start: one thread starts autoamp in this process, the others wait. Any thread.
#pragma once

#include <atomic>

namespace autoamp::core {

enum class Stage : int { none, starting, on, off };
extern std::atomic<Stage> stage;

// The thread that starts the process never waits for a thread that waits for the start.
void awaitStart();
void endStart(Stage started);

// A region is enabled: where a file disables everything, calls begin to count.
void wakeProcess();
extern std::atomic<bool> isWoken; // there was an enabled region

} // namespace autoamp::core
