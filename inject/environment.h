// Rights of the program, and the environment variables that the front reads. Any thread.
#pragma once

namespace autoamp::front {

// True if the program has more rights than its user. The user must not gain them through a variable or a file: nothing
// is then read, loaded or written.
bool isPrivileged();

// True if the environment contains NAME=VALUE; `text` is "NAME=". The core validates the value.
bool isSet(const char *text, const char *value);

// AUTOAMP_HOOK_DLSYM, read at the first lookup.
enum class Hook : int { unknown, off, on, got };
Hook hook();

} // namespace autoamp::front
