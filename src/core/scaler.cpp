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
			const Site *site = siteAt(event.site);
			if (!site || !process.isTracing)
				return;
			trace::ScalerEvent told;
			told.kind = word(event.kind);
			told.row = rowOf(process, const_cast<Site &>(*site));
			told.operand = event.operand ? 'B' : 'A';
			told.exponentBefore = event.before == INT32_MIN ? NAN : static_cast<float>(event.before);
			told.exponentAfter = static_cast<float>(event.after);
			told.amax = event.amax;
			told.ticks = base::ticks();
			process.recorder.scaler(told);
		});
}

} // namespace autoamp::core
