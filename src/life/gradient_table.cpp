#include "src/life/gradient_table.h"

#include <atomic>
#include <cstring>

namespace autoamp::core {

namespace {

struct Known {
	trace::GradientScaler scaler; // apart from the parameters below
	unsigned long long contextId;
	std::atomic<double> growth, backoff;
	std::atomic<uint32_t> interval;

	// The program can change them at any update.
	void setParameters(const trace::GradientScaler &from)
	{
		growth.store(from.growth, std::memory_order_relaxed);
		backoff.store(from.backoff, std::memory_order_relaxed);
		interval.store(from.interval, std::memory_order_relaxed);
	}
};
constinit std::atomic<Known *> scalers[256];

bool isSame(const Known &known, const trace::GradientScaler &scaler, unsigned long long contextId)
{
	return known.contextId == contextId && known.scaler.identity == scaler.identity &&
	       std::strcmp(known.scaler.framework, scaler.framework) == 0;
}

} // namespace

uint32_t scalerIndex(const trace::GradientScaler &scaler, unsigned long long contextId)
{
	Known *made = nullptr;
	for (uint32_t i = 1; i < std::size(scalers); i++) {
		Known *known = scalers[i].load(std::memory_order_acquire);
		if (!known) {
			if (!made) {
				made = new Known{scaler, contextId, {}, {}, {}};
				made->scaler.framework = strdup(scaler.framework);
				made->setParameters(scaler);
			}
			if (scalers[i].compare_exchange_strong(known, made, std::memory_order_acq_rel))
				return i;
		}
		if (isSame(*known, scaler, contextId)) {
			known->setParameters(scaler);
			return i;
		}
	}
	return 0;
}

trace::GradientScaler scalerAt(uint32_t index)
{
	const Known *const known = scalers[index % std::size(scalers)].load(std::memory_order_acquire);
	if (!known)
		return {};
	trace::GradientScaler scaler = known->scaler;
	scaler.growth = known->growth.load(std::memory_order_relaxed);
	scaler.backoff = known->backoff.load(std::memory_order_relaxed);
	scaler.interval = known->interval.load(std::memory_order_relaxed);
	return scaler;
}

} // namespace autoamp::core
