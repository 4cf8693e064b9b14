// The scaling state of one CUDA context: the device table of predicted exponents and the ring by which rare events
// reach the host. Any thread. Nothing here decides a bit of a result: predictions only save a recast.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/driver.h"

#include <atomic>

namespace autoamp::scale {

// One scaler event as the host sees it (kinds: interface.md section 5).
struct Event {
	uint32_t site;
	kernels::EventKind kind;
	uint32_t operand;          // 0 A, 1 B
	int32_t before, after;     // exponents of the scale; before is INT32_MIN at `init`
	float amax;
};

class Slots
{
public:
	// Zero predictions on the device; the ring in host memory of ours, registered with the driver, so that reading it
	// stays legal after the application destroyed the context.
	// The table is cleared on `stream`: the legacy stream would be forbidden while another thread captures. Kernels of
	// other streams may meet it uncleared, which costs them a recast.
	bool open(const cuda::Driver &driver, cuda::Stream stream);
	void close(const cuda::Driver &driver); // before any kernel used it

	kernels::Prediction *predictions() const { return reinterpret_cast<kernels::Prediction *>(predictions_); }
	kernels::Ring *ringOnDevice() const { return reinterpret_cast<kernels::Ring *>(ringOnDevice_); }

	// Hands every event that has arrived to `take(const Event &)`, each once, and counts what the ring lost. Never waits:
	// a thread that finds another one draining returns.
	template <typename Take>
	void drain(Take take)
	{
		if (!ring_ || written() == read_.load(std::memory_order_relaxed) ||
		    isDraining_.exchange(true, std::memory_order_acquire))
			return;
		Event event;
		while (next(event))
			take(event);
		isDraining_.store(false, std::memory_order_release);
	}
	// Exact, also when the ring wrapped.
	uint32_t total(uint32_t site, kernels::EventKind kind) const
	{
		return ring_ ? __atomic_load_n(&ring_->totals[site][static_cast<uint32_t>(kind)], __ATOMIC_RELAXED) : 0;
	}

private:
	uint64_t written() const { return __atomic_load_n(&ring_->written, __ATOMIC_ACQUIRE); }
	bool next(Event &event);

	cuda::Address predictions_ = 0, ringOnDevice_ = 0;
	kernels::Ring *ring_ = nullptr;
	std::atomic<uint64_t> read_{0};
	std::atomic<bool> isDraining_{false};
};

} // namespace autoamp::scale
