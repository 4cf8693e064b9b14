#include "src/base/log.h"

#include "src/base/caller_state.h"
#include "src/base/quiet_write.h"

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

// Returns how often this format was used before. Formats beyond the table share its last row.
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

// Replaces control characters, bytes that are not UTF-8 and characters that reorder others: they must not reach a
// terminal. The text can contain values of variables and file names.
void makeSafe(char *text)
{
	for (auto *at = reinterpret_cast<unsigned char *>(text); *at;) {
		const unsigned size = *at < 0x80 ? 1 : *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc2 ? 2 : 0;
		unsigned valid = size > 0;
		while (valid && valid < size && (at[valid] & 0xc0) == 0x80)
			valid++;
		const bool isControl = *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
		const bool isOrder =
		    *at == 0xe2 && valid == 3 &&
		    ((at[1] == 0x80 && (at[2] < 0x90 || (at[2] >= 0xa8 && at[2] <= 0xae))) || (at[1] == 0x81 && at[2] >= 0xa0));
		const unsigned width = valid == size && size ? size : 1;
		if (width != size || isControl || isOrder || *at > 0xf4)
			memset(at, '?', width);
		at += width;
	}
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
	unsigned before = level == LogLevel::debug ? 0 : repeats(format);
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
	makeSafe(line + prefix);
	strcat(line, before + 1 == kRepeats ? " (not repeated again)\n" : "\n");
	// One write per line, so that lines of threads and processes do not mix.
	const iovec whole = {line, strlen(line)};
	writeLine(STDERR_FILENO, &whole, 1);
}

} // namespace autoamp::base
