// Stage of the start: one thread starts autoamp in this process, the others wait. Any thread.
#pragma once

#include <atomic>

namespace autoamp::core {

enum class Stage : int { none, starting, on, off };
extern std::atomic<Stage> stage;

// The thread that starts the process never waits for a thread that waits for the start.
void awaitStart();
void endStart(Stage started);

// Called when a region is enabled: if a configuration file disables autoamp, the next call starts it.
void wakeProcess();
extern std::atomic<bool> isWoken; // a region has been enabled in this process

} // namespace autoamp::core
