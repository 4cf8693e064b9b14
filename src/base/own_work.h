// Distinguishes kernels launched by autoamp from the vendor's. A launch is enclosed in an OwnWork object, which
// notifies the kernel trace. Any thread; one relaxed load if there is no listener.
#pragma once

#include <atomic>
#include <cstdint>

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

// Sets the owner of the work that this thread launches (trace::cupti::Launcher), and returns the previous one.
inline constinit std::atomic<uint64_t (*)(uint64_t owner)> ownerSetter{nullptr};
constexpr uint64_t hiddenOwner = UINT64_MAX - 1;

// The kernel trace neither records nor counts work that the thread launches during the lifetime of this object.
class HiddenWork
{
public:
	HiddenWork() : setter_(ownerSetter.load(std::memory_order_relaxed)), before_(setter_ ? setter_(hiddenOwner) : 0) {}
	~HiddenWork()
	{
		if (setter_)
			setter_(before_);
	}
	HiddenWork(const HiddenWork &) = delete;
	HiddenWork &operator=(const HiddenWork &) = delete;

private:
	uint64_t (*setter_)(uint64_t);
	uint64_t before_;
};

} // namespace autoamp::base
