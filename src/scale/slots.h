// Scaling state of one CUDA context: the device table of predicted exponents, and the ring that brings rare events to
// the host. Any thread. It never affects the bits of a result: predictions only save a recast.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/context.h"

#include <atomic>
#include <utility>

namespace autoamp::scale {

class Slots
{
public:
	// Allocates zeroed predictions and site states on the device, and the ring in autoamp's host memory, which it
	// registers with the driver. Reading the ring thus stays legal after the application destroyed the context. The
	// tables are cleared on `stream`, because the legacy stream is forbidden while another thread captures. Kernels of
	// other streams may see them before, which costs a recast, or the loss check of a first call.
	// If the driver does not map the ring, there are no events, and one warning is logged.
	cuda::Failure open(const cuda::Driver &driver, cuda::Stream stream);
	void close(const cuda::Driver &driver); // only before any kernel used it

	kernels::Prediction *predictions() const { return reinterpret_cast<kernels::Prediction *>(predictions_); }
	kernels::SiteState *sites() const { return reinterpret_cast<kernels::SiteState *>(predictions_ + predictionBytes); }
	const kernels::WeightFacts &weightFacts(uint32_t index) const { return ring_->weights[index].facts; } // with a ring
	kernels::Ring *ringOnDevice() const { return reinterpret_cast<kernels::Ring *>(ringOnDevice_); }

	// The flag of a site whose float16 products are not to be mended again; sites without a place share one.
	uint32_t *uncuredOnDevice(uint32_t site) const
	{
		return ringOnDevice_ ? ringOnDevice()->isUncured + placeOf(site) : nullptr;
	}
	bool isUncured(uint32_t site) const
	{
		return ring_ && __atomic_load_n(&ring_->isUncured[placeOf(site)], __ATOMIC_RELAXED);
	}

	// Calls take(const kernels::Event &, count) for every event that has arrived; `count` is the number of new events
	// of its kind, and 1 for an update of a gradient scaler. The totals count each event once, including those that the
	// ring lost. Never waits: returns if another thread is draining.
	template <typename Take>
	void drain(Take take)
	{
		if (!ring_ || written() == read_.load(std::memory_order_relaxed) ||
		    isDraining_.exchange(true, std::memory_order_acquire))
			return;
		kernels::Event event;
		while (next(event)) {
			const auto kind = static_cast<uint32_t>(event.kind);
			take(event, event.kind == kernels::EventKind::audit ? newAudits(event)
			            : kind < kernels::kindCount             ? untold(event.site, event.operand, kind)
			                                                    : 1);
		}
		isDraining_.store(false, std::memory_order_release);
	}
	// For exit: calls take(kind, operand, count) for the events of `site` that the ring lost.
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
	static uint32_t placeOf(uint32_t site) { return site < kernels::siteCount ? site : 0; }
	// Number of audits of the site since the last one that was taken, with this one.
	uint32_t newAudits(const kernels::Event &event)
	{
		return event.operand - std::exchange(audits_[event.site % kernels::siteCount], event.operand);
	}
	void closeRing(const cuda::Driver &driver);
	uint64_t written() const { return __atomic_load_n(&ring_->written, __ATOMIC_ACQUIRE); }
	bool next(kernels::Event &event);
	uint32_t untold(uint32_t site, uint32_t operand, uint32_t kind)
	{
		const uint32_t total = __atomic_load_n(&ring_->totals[site][operand][kind], __ATOMIC_RELAXED);
		return total - std::exchange(reported_[site][operand][kind], total);
	}

	static constexpr size_t predictionBytes = sizeof(kernels::Prediction) * kernels::predictionCount;
	cuda::Address predictions_ = 0, ringOnDevice_ = 0; // the states of the sites follow the predictions
	kernels::Ring *ring_ = nullptr;
	std::atomic<uint64_t> read_{0};
	std::atomic<bool> isDraining_{false};
	uint32_t audits_[kernels::siteCount] = {};                                          // as the next
	uint32_t reported_[kernels::siteCount][kernels::operands][kernels::kindCount] = {}; // for the draining thread
};

} // namespace autoamp::scale
