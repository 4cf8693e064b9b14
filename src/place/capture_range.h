// Selection of the calls to record, by AUTOAMP_CAPTURE_RANGE, AUTOAMP_DELAY and AUTOAMP_DURATION. It does not influence
// decisions. Any thread.
#pragma once

#include "src/state/process.h"
#include "src/state/thread.h"

#include <atomic>

namespace autoamp::core {

// True if not every call is recorded. Constant once the process exists.
extern std::atomic<bool> isCaptureLimited;

// True if no call takes the fast path, because kernels are traced or not all calls are recorded.
inline bool isEachDescribed(const Process &process)
{
	return process.options.trace == policy::TraceLevel::kernels || isCaptureLimited.load(std::memory_order_relaxed);
}

// Called at the first call of the process, and again at the first call of a forked child.
void limitCapture(Process &process);
// Called in a forked child before its first call: resets the counts, which belong to the parent.
void forgetCapture();
// Called when the range may have begun or ended: counts it, and starts or stops the tracing of kernels.
void renewCapture();
// True if kernels launched now are recorded: inside the range, or while a recorded call runs.
bool areKernelsCaptured();

// Numbers one call in order. The call is recorded completely or not at all, even if the range begins or ends meanwhile.
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
	// Also called for a call whose frames were unwound.
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

extern std::atomic<bool> areRangesSeen; // NVTX in an object of the program has called receiveRanges()
// Called by the NVTX receiver for ranges that match the capture range, in all threads. In a forked child, `open` is the
// number of those that remain open.
void beginCaptureRange();
void endCaptureRange();
void inheritCaptureRanges(unsigned open);

} // namespace autoamp::core
