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
// Owners that are not calls. hiddenOwner: the kernel trace neither records nor counts the work. updateOwner: it is the
// update of a gradient scaler (core::scalerIndex).
constexpr uint64_t hiddenOwner = UINT64_MAX - 1, firstUpdateOwner = hiddenOwner - 256;
constexpr uint64_t updateOwner(uint32_t scaler)
{
	return firstUpdateOwner + scaler % 256;
}
constexpr uint32_t updatedBy(uint64_t owner) // 0: no update
{
	return owner >= firstUpdateOwner && owner < hiddenOwner ? static_cast<uint32_t>(owner - firstUpdateOwner) : 0;
}

// Sets the owner for the lifetime of this object, unless it is 0.
class OwnedWork
{
public:
	explicit OwnedWork(uint64_t owner)
	    : setter_(owner ? ownerSetter.load(std::memory_order_relaxed) : nullptr), before_(setter_ ? setter_(owner) : 0)
	{
	}
	~OwnedWork()
	{
		if (setter_)
			setter_(before_);
	}
	OwnedWork(const OwnedWork &) = delete;
	OwnedWork &operator=(const OwnedWork &) = delete;

private:
	uint64_t (*setter_)(uint64_t);
	uint64_t before_;
};

} // namespace autoamp::base
