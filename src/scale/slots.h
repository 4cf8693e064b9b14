// The scaling state of one CUDA context: the device table of predicted exponents and the ring by which rare events
// reach the host. Any thread. Nothing here decides a bit of a result: predictions only save a recast.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/context.h"

#include <atomic>
#include <utility>

namespace autoamp::scale {

// One scaler event as the host sees it (kinds: docs/reports.md).
struct Event {
	uint32_t site;
	kernels::EventKind kind;
	uint32_t operand;      // 0 A, 1 B
	int32_t before, after; // exponents of the scale; before is INT32_MIN at `init`
	float amax;
	kernels::Loss loss; // of `underflow`
};

class Slots
{
public:
	// Zero predictions and states of sites on the device; the ring in host memory of ours, registered with the driver,
	// so that reading it stays legal after the application destroyed the context. They are cleared on `stream`: the
	// legacy stream would be forbidden while another thread captures. Kernels of other streams may meet them uncleared,
	// which costs them a recast, or the verdict on a first call.
	// If the driver refuses to map the ring, there are no events, and one message.
	cuda::Failure open(const cuda::Driver &driver, cuda::Stream stream);
	void close(const cuda::Driver &driver); // before any kernel used it

	kernels::Prediction *predictions() const { return reinterpret_cast<kernels::Prediction *>(predictions_); }
	kernels::SiteState *sites() const { return reinterpret_cast<kernels::SiteState *>(predictions_ + predictionBytes); }
	kernels::Ring *ringOnDevice() const { return reinterpret_cast<kernels::Ring *>(ringOnDevice_); }

	// Hands every event that has arrived to `take(const Event &, count)`: how many of its kind are new. Each is counted
	// once, from the totals, also those that the ring lost. Never waits: a thread that finds another one draining
	// returns.
	template <typename Take>
	void drain(Take take)
	{
		if (!ring_ || written() == read_.load(std::memory_order_relaxed) ||
		    isDraining_.exchange(true, std::memory_order_acquire))
			return;
		Event event;
		while (next(event))
			take(event, untold(event.site, event.operand, static_cast<uint32_t>(event.kind)));
		isDraining_.store(false, std::memory_order_release);
	}
	// At the end: what is counted of `site` and was lost by the ring, as `take(kind, operand, count)`.
	template <typename Take>
	void drainTotals(uint32_t site, Take take)
	{
		if (!ring_ || isDraining_.exchange(true, std::memory_order_acquire))
			return;
		for (uint32_t operand = 0; operand < kernels::operands; operand++)
			for (uint32_t kind = 1; kind < kernels::kindCount; kind++)
				if (const uint32_t count = untold(site, operand, kind))
					take(static_cast<kernels::EventKind>(kind), operand, count);
		isDraining_.store(false, std::memory_order_release);
	}

private:
	void closeRing(const cuda::Driver &driver);
	uint64_t written() const { return __atomic_load_n(&ring_->written, __ATOMIC_ACQUIRE); }
	bool next(Event &event);
	uint32_t untold(uint32_t site, uint32_t operand, uint32_t kind)
	{
		const uint32_t total = __atomic_load_n(&ring_->totals[site][operand][kind], __ATOMIC_RELAXED);
		return total - std::exchange(told_[site][operand][kind], total);
	}

	static constexpr size_t predictionBytes = sizeof(kernels::Prediction) * kernels::predictionCount;
	cuda::Address predictions_ = 0, ringOnDevice_ = 0; // the sites' states are behind the predictions
	kernels::Ring *ring_ = nullptr;
	std::atomic<uint64_t> read_{0};
	std::atomic<bool> isDraining_{false};
	uint32_t told_[kernels::siteCount][kernels::operands][kernels::kindCount] = {}; // whoever drains
};

} // namespace autoamp::scale
