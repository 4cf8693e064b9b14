// Messages on stderr, each kind only a few times. Any thread; not on the hot path.
#pragma once

#include <cstdint>

namespace autoamp::base {

enum class LogLevel : uint8_t { off, error, warn, info, debug };

void setLogLevel(LogLevel level);
bool logs(LogLevel level);
// Nothing is written while `hasStderr` returns false.
void setLogTarget(bool (*hasStderr)());
// Writes one line with the prefix "autoamp: ". A format that repeats too often is not written any more, so that an
// inner loop of the application does not flood stderr. Level debug has no such limit, because its events happen once
// per signature.
void log(LogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace autoamp::base
