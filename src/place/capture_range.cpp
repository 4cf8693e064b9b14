#include "src/place/capture_range.h"

#include "inject/front.h"
#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/config/environment.h"
#include "src/trace/cupti/collector.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace autoamp::core {

namespace {

using Kind = policy::CaptureRange::Kind;

constinit trace::CaptureRecord nobodys = {}; // used while there is no file

struct State {
	Kind kind = Kind::none;
	uint64_t first = 0, last = 0; // numbers of the calls
	uint64_t durationNs = 0;      // 0: none
	bool hasKernels = false;
	std::atomic<uint64_t> beginNs{0}; // on CLOCK_MONOTONIC, like endNs; 0: immediately
	std::atomic<uint64_t> endNs{0};   // set at the first recorded call if there is a duration
	std::atomic<uint64_t> calls{0};
	std::atomic<unsigned> callsInside{0}; // recorded calls in progress
	std::atomic<trace::CaptureRecord *> counters{&nobodys};
};
constinit State state;
std::atomic<unsigned> rangesOpen{0}, rangesBegun{0};

bool hasEnvironment(const char *name, const char *ending)
{
	const char *const value = policy::environmentValue(policy::processEnvironment(), name);
	const size_t size = value ? std::strlen(value) : 0, wanted = std::strlen(ending);
	return size >= wanted && !std::strcmp(value + size - wanted, ending);
}

// Start time of this process on CLOCK_MONOTONIC; without /proc, the current time.
uint64_t processStart()
{
	const uint64_t now = base::nanoseconds(CLOCK_MONOTONIC);
	char text[1024] = "";
	const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	const ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
	if (file >= 0)
		close(file);
	const char *field = size > 0 ? std::strrchr(text, ')') : nullptr; // the program name may contain any character
	for (int number = 2; field && number < 22; number++)
		field = std::strchr(field + 1, ' ');
	if (!field)
		return now;
	const auto perSecond = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
	const uint64_t ticks = std::strtoull(field, nullptr, 10);
	const uint64_t sinceBoot = ticks / perSecond * 1'000'000'000 + ticks % perSecond * 1'000'000'000 / perSecond;
	const uint64_t age = base::nanoseconds(CLOCK_BOOTTIME) - sinceBoot;
	return age < now ? now - age : 0;
}

unsigned openNow()
{
	if (state.kind == Kind::profiler)
		return __atomic_load_n(&autoamp_front_profiled, __ATOMIC_SEQ_CST) % 2;
	return rangesOpen.load();
}

uint64_t begunNow()
{
	if (state.kind == Kind::profiler)
		return (__atomic_load_n(&autoamp_front_profiled, __ATOMIC_RELAXED) + uint64_t{1}) / 2;
	return rangesBegun.load(std::memory_order_relaxed);
}

bool hasSwitch()
{
	return state.kind == Kind::profiler || state.kind == Kind::nvtx;
}

void countBegun(bool isCall)
{
	std::atomic<uint64_t> &begun = state.counters.load(std::memory_order_acquire)->begun;
	const uint64_t known = begun.load(std::memory_order_relaxed), now = hasSwitch() ? begunNow() : isCall;
	if (now > known)
		begun.store(now, std::memory_order_relaxed);
}

// `isCall`: for a call that is recorded if the result is true. The first such call starts the duration.
bool isTime(bool isCall)
{
	const uint64_t begin = state.beginNs.load(std::memory_order_relaxed);
	if (!begin && !state.durationNs)
		return true;
	const uint64_t now = base::nanoseconds(CLOCK_MONOTONIC);
	if (now < begin)
		return false;
	uint64_t end = state.endNs.load(std::memory_order_relaxed);
	if (state.durationNs && !end && isCall && state.endNs.compare_exchange_strong(end, now + state.durationNs))
		return true;
	return !end || now < end;
}

} // namespace

constinit std::atomic<bool> isCaptureLimited{false}, areRangesSeen{false};

void limitCapture(Process &process)
{
	const policy::Options &options = process.options;
	if (!process.isTracing || (options.captureRange.kind == Kind::none && !options.delayNs && !options.durationNs))
		return;
	if (!isCaptureLimited) { // in a forked child it is set already, and other threads may read it
		state.kind = options.captureRange.kind;
		state.first = options.captureRange.first;
		state.last = options.captureRange.last;
		state.durationNs = options.durationNs;
		state.hasKernels = options.trace == policy::TraceLevel::kernels;
	}
	state.beginNs = options.delayNs ? processStart() + options.delayNs : 0;
	if (trace::CaptureRecord *const counters = process.recorder.capture())
		state.counters.store(counters, std::memory_order_release);
	isCaptureLimited = true;
	renewCapture();
	if (state.kind != Kind::nvtx || areRangesSeen || hasEnvironment("NVTX_INJECTION64_PATH", "/libautoamp.so"))
		return;
	constexpr const char *why =
	    "no NVTX range is received: NVTX_INJECTION64_PATH does not lead to libautoamp.so; `autoamp run` sets it";
	base::log(base::LogLevel::warn, "AUTOAMP_CAPTURE_RANGE=%s: %s",
	          options.valueOf(policy::Option::captureRange).c_str(), why);
	process.recorder.note(trace::noteOfRange, why);
}

void forgetCapture()
{
	state.counters = &nobodys;
	state.calls = 0;
	state.endNs = 0;
	state.callsInside = 0;
}

void renewCapture()
{
	if (!isCaptureLimited.load(std::memory_order_relaxed))
		return;
	const base::CallerState callerState;
	countBegun(false);
	if (state.hasKernels)
		trace::cupti::renew();
}

bool areKernelsCaptured()
{
	if (!isCaptureLimited.load(std::memory_order_relaxed) || state.callsInside.load())
		return true;
	const uint64_t calls = state.calls.load(std::memory_order_relaxed);
	const bool isOpen = hasSwitch()                 ? openNow() > 0
	                    : state.kind == Kind::calls ? calls >= state.first && calls < state.last
	                                                : true;
	return isOpen && isTime(false);
}

void CaptureCall::begin()
{
	const uint64_t number = state.calls.fetch_add(1, std::memory_order_relaxed) + 1;
	const bool isOpen = hasSwitch()                 ? openNow() > 0
	                    : state.kind == Kind::calls ? number >= state.first && number <= state.last
	                                                : true;
	isRecorded_ = isOpen && isTime(true);
	if (isRecorded_) {
		thread_.isInsideCapture = true;
		countBegun(true);
		state.callsInside.fetch_add(1);
	} else {
		state.counters.load(std::memory_order_acquire)->outside.fetch_add(1, std::memory_order_relaxed);
	}
	if (state.hasKernels)
		trace::cupti::renew();
}

void CaptureCall::end(Thread &thread)
{
	thread.isInsideCapture = false;
	state.callsInside.fetch_sub(1);
	if (state.hasKernels)
		trace::cupti::renew();
}

void beginCaptureRange()
{
	if (rangesOpen.fetch_add(1) == 0)
		rangesBegun.fetch_add(1, std::memory_order_relaxed);
	renewCapture();
}

void endCaptureRange()
{
	rangesOpen.fetch_sub(1);
	renewCapture();
}

void inheritCaptureRanges(unsigned open)
{
	rangesOpen = open;
	rangesBegun = open > 0;
}

} // namespace autoamp::core
