// One line on descriptor 2, if this is still the file that it was at the start. Any thread.
#pragma once

namespace autoamp::front {

// Called at the start. Before that, descriptor 2 counts as closed.
void rememberStderr();

// Prints "autoamp: off, cannot load the core: WHY".
void sayOff(const char *why);

// Reports the call of a function that no library has.
void sayAbsent(const char *name);

} // namespace autoamp::front
