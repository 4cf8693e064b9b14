#include "src/life/scaler.h"

#include "src/base/clock.h"
#include "src/life/gradients.h"
#include "src/life/weight_events.h"
#include "src/lower/context_state.h"
#include "src/site/rows.h"

#include <bit>
#include <climits>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

namespace autoamp::core {

namespace {

const char *word(kernels::EventKind kind)
{
	static constexpr const char *words[] = {
	    "",          "init",    "rescale", "scale_range", "overflow", "nonfinite_input",
	    "underflow", "clamped", "mended",  "uncured",     "recast",   "changed"};
	static_assert(std::size(words) == kernels::kindCount);
	return words[static_cast<uint32_t>(kind) % kernels::kindCount];
}

void recordAudit(Process &process, const kernels::Event &event, uint32_t count)
{
	const Site *site = siteAt(event.site);
	if (!site || !process.isTracing)
		return;
	trace::AuditResult result;
	result.row = rowOf(process, const_cast<Rows &>(site->rows));
	result.number = count;
	result.error = static_cast<double>(event.audit.error);
	result.worstRow = static_cast<double>(event.audit.worstRow);
	result.worstColumn = static_cast<double>(event.audit.worstColumn);
	if (site->op.flags & op::flagRowD) // the transposed product was computed
		std::swap(result.worstRow, result.worstColumn);
	result.isRecomputed = event.audit.flags & kernels::auditRecomputed;
	result.isPartial = event.audit.flags & kernels::auditPartial;
	result.hasOverflowed = event.audit.flags & kernels::auditOverflow;
	process.recorder.audit(result);
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
	const auto record = [&process](uint32_t place, kernels::EventKind kind, uint32_t operand,
	                               trace::ScalerEvent scalerEvent) {
		const Site *site = siteAt(place);
		const bool isSwapped = site && site->op.flags & op::flagRowD; // the transposed product was computed
		scalerEvent.operand = (operand != 0) != isSwapped ? 'B' : 'A';
		if (kind == kernels::EventKind::changed)
			noteChange(site, scalerEvent.operand, scalerEvent.count);
		if (!site || !process.isTracing)
			return scalerEvent;
		scalerEvent.kind = word(kind);
		scalerEvent.row = rowOf(process, const_cast<Rows &>(site->rows));
		if (isSwapped)
			std::swap(scalerEvent.lostRows, scalerEvent.lostColumns);
		scalerEvent.ticks = base::ticks();
		process.recorder.scaler(scalerEvent);
		if (kind == kernels::EventKind::recast || kind == kernels::EventKind::changed)
			recordDifferences(process, *site, scalerEvent.row, kind, scalerEvent.count);
		return scalerEvent;
	};
	for (lower::ContextState *context = lower::contexts(); context; context = context->next) {
		if (!context->slots.ringOnDevice())
			noteMissingRing(process);
		context->slots.drain([&](const kernels::Event &event, uint32_t count) {
			if (event.kind == kernels::EventKind::update) {
				recordUpdate(process, *context, event);
				return;
			}
			if (event.kind == kernels::EventKind::audit)
				return recordAudit(process, event, count);
			trace::ScalerEvent scalerEvent;
			scalerEvent.exponentBefore = event.before == INT32_MIN ? NAN : static_cast<float>(event.before);
			scalerEvent.exponentAfter = event.after == INT32_MIN ? NAN : static_cast<float>(event.after);
			scalerEvent.amax = std::bit_cast<float>(event.amax);
			if (event.kind == kernels::EventKind::underflow || event.kind == kernels::EventKind::mended ||
			    event.kind == kernels::EventKind::uncured) {
				scalerEvent.excess = event.loss.excess;
				scalerEvent.lostRows = event.loss.lostRows;
				scalerEvent.lostColumns = event.loss.lostColumns;
			}
			scalerEvent.count = count;
			scalerEvent = record(event.site, event.kind, event.operand, scalerEvent);
			if (event.kind == kernels::EventKind::overflow || event.kind == kernels::EventKind::nonfinite_input)
				suspect(*context, scalerEvent.row, event.kind, scalerEvent.operand, scalerEvent.ticks);
		});
		if (isLast) // events of signatures that came after all places were taken
			context->slots.drainTotals(0, [&](kernels::EventKind kind, uint32_t operand, uint32_t count) {
				if (kind == kernels::EventKind::changed)
					noteChange(nullptr, operand ? 'B' : 'A', count);
				if (!process.isTracing || kind == kernels::EventKind::init || kind == kernels::EventKind::rescale ||
				    kind == kernels::EventKind::recast)
					return; // these do not indicate a problem
				char text[96];
				std::snprintf(text, sizeof text, "%u events %s of operand %c in signatures beyond the %uth", count,
				              word(kind), operand ? 'B' : 'A', kernels::siteCount - 1);
				process.recorder.note("scaler_events_unplaced", text);
			});
		for (uint32_t place = 1; isLast && place < kernels::siteCount && siteAt(place); place++)
			context->slots.drainTotals(place, [&](kernels::EventKind kind, uint32_t operand, uint32_t count) {
				trace::ScalerEvent scalerEvent;
				scalerEvent.isSingle = false;
				scalerEvent.count = count;
				record(place, kind, operand, scalerEvent);
			});
	}
}

} // namespace autoamp::core
