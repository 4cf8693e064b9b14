// Stage of the start: one thread starts autoamp in this process, the others wait. Any thread.
#pragma once

#include <atomic>

namespace autoamp::core {

enum class Stage : int { none, starting, on, off };
extern std::atomic<Stage> stage;

// Waits until the start has ended. The starting thread may need the loader. A thread that holds it does not wait, and
// gets false; so does a thread that has waited for a second while another one holds it, which may wait for this thread.
bool awaitStart();
void endStart(Stage started);

// Called when a region is enabled: if a configuration file disables autoamp, the next call starts it.
void wakeProcess();
extern std::atomic<bool> isWoken; // a region has been enabled in this process

} // namespace autoamp::core
