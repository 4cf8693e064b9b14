// Distinguishes kernels launched by autoamp from the vendor's. A launch is enclosed in an OwnWork object, which
// notifies the kernel trace. Any thread; one relaxed load if there is no listener.
#pragma once

#include <atomic>

namespace autoamp::base {

inline constinit std::atomic<void (*)(bool isBegin)> ownWorkListener{nullptr};

class OwnWork
{
public:
	OwnWork() : listener_(ownWorkListener.load(std::memory_order_relaxed))
	{
		if (__builtin_expect(listener_ != nullptr, 0))
			listener_(true);
	}
	~OwnWork()
	{
		if (__builtin_expect(listener_ != nullptr, 0))
			listener_(false);
	}
	OwnWork(const OwnWork &) = delete;
	OwnWork &operator=(const OwnWork &) = delete;

private:
	void (*listener_)(bool isBegin);
};

} // namespace autoamp::base
