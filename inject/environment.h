// Rights of the program, and the environment variables that the front reads. Any thread.
#pragma once

namespace autoamp::front {

// True if the program has more rights than its user. The user must not gain them through a variable or a file: nothing
// is then read, loaded or written.
bool isPrivileged();

// The value of a variable, which the core validates; `text` is "NAME=". Null: it is not set.
const char *valueOf(const char *text);
bool isSet(const char *text, const char *value);

// AUTOAMP_HOOK_DLSYM, read at the first lookup.
enum class Hook : int { unknown, off, on, got };
Hook hook();

} // namespace autoamp::front
