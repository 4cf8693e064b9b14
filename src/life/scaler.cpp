#include "src/life/scaler.h"

#include "src/base/clock.h"
#include "src/lower/context_state.h"
#include "src/site/rows.h"

#include <climits>
#include <cmath>
#include <cstdio>
#include <utility>

namespace autoamp::core {

namespace {

const char *word(kernels::EventKind kind)
{
	static constexpr const char *words[] = {
	    "", "init", "rescale", "scale_range", "overflow", "nonfinite_input", "underflow", "clamped"};
	return words[static_cast<uint32_t>(kind) % kernels::kindCount];
}

// Once per process: a forked child has no contexts.
void noteMissingRing(Process &process)
{
	static constinit std::atomic<bool> isNoted{false};
	if (process.isTracing && !isNoted.load(std::memory_order_relaxed) && !isNoted.exchange(true))
		process.recorder.note(trace::noteOfScaler, "the device cannot map host memory");
}

} // namespace

void drainScalerEvents(Process &process, bool isLast)
{
	const auto tell = [&process](uint32_t place, kernels::EventKind kind, uint32_t operand, trace::ScalerEvent told) {
		const Site *site = siteAt(place);
		if (!site || !process.isTracing)
			return;
		told.kind = word(kind);
		told.row = rowOf(process, const_cast<Rows &>(site->rows));
		const bool isSwapped = site->op.flags & op::flagRowD; // the transposed product was computed
		told.operand = (operand != 0) != isSwapped ? 'B' : 'A';
		if (isSwapped)
			std::swap(told.lostRows, told.lostColumns);
		told.ticks = base::ticks();
		process.recorder.scaler(told);
	};
	for (lower::ContextState *context = lower::contexts(); context; context = context->next) {
		if (!context->slots.ringOnDevice())
			noteMissingRing(process);
		context->slots.drain([&](const scale::Event &event, uint32_t count) {
			trace::ScalerEvent told;
			told.exponentBefore = event.before == INT32_MIN ? NAN : static_cast<float>(event.before);
			told.exponentAfter = static_cast<float>(event.after);
			told.amax = event.amax;
			if (event.kind == kernels::EventKind::underflow) {
				told.excess = event.loss.excess;
				told.lostRows = event.loss.lostRows;
				told.lostColumns = event.loss.lostColumns;
			}
			told.count = count;
			tell(event.site, event.kind, event.operand, told);
		});
		if (isLast && process.isTracing) // events of signatures that came after all places were taken
			context->slots.drainTotals(0, [&](kernels::EventKind kind, uint32_t operand, uint32_t count) {
				if (kind == kernels::EventKind::init || kind == kernels::EventKind::rescale)
					return; // these do not indicate a problem
				char text[96];
				std::snprintf(text, sizeof text, "%u events %s of operand %c in signatures beyond the %uth", count,
				              word(kind), operand ? 'B' : 'A', kernels::siteCount - 1);
				process.recorder.note("scaler_events_unplaced", text);
			});
		for (uint32_t place = 1; isLast && place < kernels::siteCount && siteAt(place); place++)
			context->slots.drainTotals(place, [&](kernels::EventKind kind, uint32_t operand, uint32_t count) {
				trace::ScalerEvent told;
				told.isSingle = false;
				told.count = count;
				tell(place, kind, operand, told);
			});
	}
}

} // namespace autoamp::core
