// What the library says to people: lines on stderr, each kind of message only a few times.
// Any thread; not on the hot path.
#pragma once

#include <cstdint>

namespace autoamp::base {

enum class LogLevel : uint8_t { off, error, warn, info, debug };

void setLogLevel(LogLevel level);
bool logs(LogLevel level);
// Nothing is written while `hasStderr` answers false.
void setLogTarget(bool (*hasStderr)());
// One line, "autoamp: " before it. A format that comes back too often falls silent: an application's inner loop must
// not be flooded. Lines of level debug have no such limit: they are for events that happen once for a signature.
void log(LogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace autoamp::base
