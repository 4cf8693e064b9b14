// Which calls are recorded, where AUTOAMP_CAPTURE_RANGE, AUTOAMP_DELAY or AUTOAMP_DURATION leave some out. Decisions do
// not ask. Any thread.
#pragma once

#include "src/state/process.h"
#include "src/state/thread.h"

#include <atomic>

namespace autoamp::core {

// Not every call is recorded. Does not change once there is a process.
extern std::atomic<bool> isCaptureLimited;

// No call takes the fast path: kernels are traced, or not all calls are recorded.
inline bool isEachDescribed(const Process &process)
{
	return process.options.trace == policy::TraceLevel::kernels || isCaptureLimited.load(std::memory_order_relaxed);
}

// From the process's first call on, and anew from a forked child's.
void limitCapture(Process &process);
// In a forked child, before its first call: what was counted in is the parent's.
void forgetCapture();
// The range may have begun or ended: it is counted, and kernels are traced from now on, or no longer.
void renewCapture();
// For them: inside the range, or in a call that is recorded.
bool areKernelsCaptured();

// One call, counted in its order. It is recorded whole or not at all, whatever becomes of the range meanwhile.
class CaptureCall
{
public:
	explicit CaptureCall(Thread &thread) : thread_(thread)
	{
		if (__builtin_expect(isCaptureLimited.load(std::memory_order_relaxed), 0))
			begin();
	}
	~CaptureCall() { leave(thread_); }
	CaptureCall(const CaptureCall &) = delete;
	CaptureCall &operator=(const CaptureCall &) = delete;

	bool isRecorded() const { return isRecorded_; }
	// Also of a call whose frames are gone: an exception went through them.
	static void leave(Thread &thread)
	{
		if (__builtin_expect(thread.isInsideCapture, 0))
			end(thread);
	}

private:
	void begin();
	static void end(Thread &thread);

	Thread &thread_;
	bool isRecorded_ = true;
};

extern std::atomic<bool> areRangesSeen; // an object of the program's has asked for the receiver
// NVTX's ranges of that name, in all threads, as their receiver sees them; in a forked child what is left of them.
void beginCaptureRange();
void endCaptureRange();
void inheritCaptureRanges(unsigned open);

} // namespace autoamp::core
