#include "src/core/scaler.h"

#include "src/base/clock.h"
#include "src/core/site.h"
#include "src/reroute/context.h"

#include <cmath>
#include <climits>

namespace autoamp::core {

namespace {

const char *word(kernels::EventKind kind)
{
	static constexpr const char *words[] = {"", "init", "rescale", "scale_range", "overflow", "nonfinite_input"};
	return words[static_cast<uint32_t>(kind) % kernels::kindCount];
}

} // namespace

void drainScalerEvents(Process &process)
{
	for (reroute::Context *context = reroute::contexts(); context; context = context->next)
		context->slots.drain([&](const scale::Event &event) {
			Site *const site = siteAt(event.site);
			if (!site || !process.isTracing)
				return;
			trace::ScalerEvent told;
			told.kind = word(event.kind);
			told.row = rowOf(process, *site);
			told.operand = event.operand ? 'B' : 'A';
			told.exponentBefore = event.before == INT32_MIN ? NAN : static_cast<float>(event.before);
			told.exponentAfter = static_cast<float>(event.after);
			told.amax = event.amax;
			told.ticks = base::ticks();
			process.recorder.scaler(told);
			site->told[static_cast<uint32_t>(event.kind)].fetch_add(1, std::memory_order_relaxed);
		});
}

void settleScalerTotals(Process &process)
{
	drainScalerEvents(process);
	for (uint32_t place = 1; Site *const site = siteAt(place); place++)
		for (uint32_t kind = 1; kind < kernels::kindCount; kind++) {
			uint64_t happened = 0;
			for (reroute::Context *context = reroute::contexts(); context; context = context->next)
				happened += context->slots.total(place, static_cast<kernels::EventKind>(kind));
			const uint64_t told = site->told[kind].load(std::memory_order_relaxed);
			if (happened <= told)
				continue;
			trace::ScalerEvent lost; // of the operand the ring does not know any more
			lost.kind = word(static_cast<kernels::EventKind>(kind));
			lost.row = rowOf(process, *site);
			lost.exponentBefore = lost.exponentAfter = lost.amax = NAN;
			lost.count = happened - told;
			process.recorder.scaler(lost);
		}
}

} // namespace autoamp::core
