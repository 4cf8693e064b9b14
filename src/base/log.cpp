#include "src/base/log.h"

#include "src/base/caller_state.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace autoamp::base {
namespace {

constexpr unsigned kRepeats = 8;

std::atomic<LogLevel> threshold = LogLevel::warn;
std::atomic<bool (*)()> target = nullptr;

struct Said {
	std::atomic<const char *> format;
	std::atomic<unsigned> times;
};
Said said[128];

// How often this format was used before; formats beyond the table share its last row.
unsigned repeats(const char *format)
{
	for (Said &row : said) {
		const char *known = row.format.load(std::memory_order_relaxed);
		if (!known && row.format.compare_exchange_strong(known, format, std::memory_order_relaxed))
			known = format;
		if (known == format || &row == std::end(said) - 1)
			return row.times.fetch_add(1, std::memory_order_relaxed);
	}
	return 0;
}

} // namespace

void setLogLevel(LogLevel level)
{
	threshold.store(level, std::memory_order_relaxed);
}
void setLogTarget(bool (*hasStderr)())
{
	target.store(hasStderr, std::memory_order_relaxed);
}
bool logs(LogLevel level)
{
	return level <= threshold.load(std::memory_order_relaxed);
}

void log(LogLevel level, const char *format, ...)
{
	if (!logs(level))
		return;
	unsigned before = repeats(format);
	if (before >= kRepeats)
		return;
	const CallerState callerState;
	if (auto *const hasStderr = target.load(std::memory_order_relaxed); hasStderr && !hasStderr())
		return;
	char line[1024] = "autoamp: ";
	const size_t prefix = strlen(line), last = before + 1 == kRepeats ? 30 : 2;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line + prefix, sizeof line - prefix - last, format, arguments);
	va_end(arguments);
	strcat(line, before + 1 == kRepeats ? " (not repeated again)\n" : "\n");
	// One write a line, so that lines of threads and processes do not mix.
	[[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, strlen(line));
}

} // namespace autoamp::base
