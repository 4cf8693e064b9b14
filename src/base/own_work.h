// Kernels of ours, told apart from the vendor's: whoever launches one stands in a bracket, whoever traces kernels
// learns of it. Any thread; one relaxed load where nobody listens.
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
