#include "src/trace/write/gradients.h"

#include "src/base/clock.h"
#include "src/trace/write/counter.h"

#include <algorithm>
#include <bit>

namespace autoamp::trace {

namespace {

constexpr uint64_t kSingles = 1024;

void set(Counter &counter, double value)
{
	counter.store(std::bit_cast<uint64_t>(value), std::memory_order_relaxed);
}

double valueOf(const Counter &counter)
{
	return std::bit_cast<double>(counter.load(std::memory_order_relaxed));
}

// Event of the scale itself: the counter of its total, and its kind; null: a clean step without a change.
struct Change {
	Counter GradientScalerRecord::*total;
	const char *kind;
};

Change changeOf(const GradientScalerRecord &scaler, const GradientUpdate &update)
{
	const bool isChanged = update.after.scale < update.before.scale || update.after.scale > update.before.scale;
	if (update.foundInf != 0)
		return isChanged ? Change{&GradientScalerRecord::backoffs, "backoff"}
		                 : Change{&GradientScalerRecord::holds, "hold"};
	if (isChanged)
		return {&GradientScalerRecord::growths, "growth"};
	// A clean step that ends an interval clears the tracker. It must also multiply the scale.
	const bool isCleared = update.before.tracker >= 0 && update.after.tracker == 0;
	return isCleared && scaler.growth != 1 ? Change{&GradientScalerRecord::refusals, "growth_refused"}
	                                       : Change{nullptr, nullptr};
}

} // namespace

Gradients::Known *Gradients::find(const GradientScaler &scaler)
{
	const uint32_t key[3] = {texts_.intern(scaler.framework), static_cast<uint32_t>(scaler.identity),
	                         static_cast<uint32_t>(scaler.identity >> 32) ^ uint32_t{scaler.device} << 24};
	Known *const known = knownOf(index_, arena_, key);
	if (!known || known->id)
		return known;
	auto *framework = std::begin(frameworks_);
	while (framework != std::end(frameworks_) - 1 && framework->name && framework->name != key[0])
		++framework;
	framework->name = key[0];
	known->number = framework->scalers++;
	known->id = ++scalers_;
	known->scale = NAN;
	return known;
}

bool Gradients::write(Known &known, const GradientScaler &scaler, const GradientUpdate &update)
{
	if (known.written != records_.generation()) {
		const uint32_t how = texts_.intern(scaler.how);
		texts_.write(known.key[0]);
		texts_.write(how);
		known.record = records_.append<OwnedGradientScalerRecord>(RecordType::gradientScaler);
		if (!known.record)
			return false;
		known.record->id = known.id;
		known.record->framework = known.key[0];
		known.record->number = known.number;
		known.record->how = how;
		known.record->device = scaler.device;
		known.record->owner = scaler.owner;
		for (Counter *const scale : {&known.record->scaleFirst, &known.record->scaleLeast, &known.record->scaleMost})
			set(*scale, update.before.scale);
		known.record->firstTicks = update.ticks;
		records_.commit();
		known.written = records_.generation();
		known.singles = known.steps = known.skipped = known.skippedInARow = 0;
		known.scale = NAN;
	}
	known.record->interval = scaler.interval; // the program can change the parameters
	known.record->growth = scaler.growth;
	known.record->backoff = scaler.backoff;
	return true;
}

void Gradients::add(const GradientScaler &scaler, const GradientUpdate &given, std::span<const GradientCause> causes)
{
	GradientUpdate update = given;
	update.ticks = update.ticks ? update.ticks : base::ticks();
	Known *const known = find(scaler);
	if (!known || !write(*known, scaler, update))
		return;
	if (std::isnan(update.before.scale))
		update.before.scale = known->scale;
	if (std::isnan(update.after.scale))
		update.after.scale = update.before.scale;
	const bool isSkipped = update.foundInf != 0, isFirst = known->steps == 0;
	if (!update.steps) {
		update.steps = known->steps + 1;
		update.skipped = known->skipped + isSkipped;
	}
	OwnedGradientScalerRecord &record = *known->record;
	if (update.steps > known->steps + 1) {
		trace::add(record.unseen, update.steps - known->steps - 1);
		known->scale = NAN; // changed by updates without values
	}
	known->steps = update.steps;
	known->skipped = update.skipped;
	known->skippedInARow = isSkipped ? known->skippedInARow + 1 : 0;
	if (isSkipped) {
		record.lastSkip.store(update.steps, std::memory_order_relaxed);
		record.skipTicks.store(update.ticks, std::memory_order_relaxed);
	}
	record.steps.store(known->steps, std::memory_order_relaxed);
	record.skipped.store(known->skipped, std::memory_order_relaxed);
	record.longestSkipped.store(std::max(record.longestSkipped.load(std::memory_order_relaxed), known->skippedInARow),
	                            std::memory_order_relaxed);
	for (const double scale : {update.before.scale, update.after.scale}) {
		set(record.scaleLeast, std::fmin(valueOf(record.scaleLeast), scale));
		set(record.scaleMost, std::fmax(valueOf(record.scaleMost), scale));
	}
	set(record.scaleLast, update.after.scale);
	record.tracker.store(static_cast<uint64_t>(int64_t{update.after.tracker}), std::memory_order_relaxed);
	record.lastTicks.store(update.ticks, std::memory_order_relaxed);
	addEvents(*known, update, isFirst);
	known->scale = update.after.scale;
	for (const GradientCause &cause : causes) {
		const uint32_t kind = texts_.intern(cause.kind);
		texts_.write(kind);
		rows_.write(cause.row);
		if (known->singles > kSingles)
			return;
		if (auto *caused = records_.append<GradientCauseRecord>(RecordType::gradientCause)) {
			caused->ticks = cause.ticks;
			caused->step = update.steps;
			caused->scaler = known->id;
			caused->row = cause.row;
			caused->kind = kind;
			caused->operand = static_cast<uint32_t>(cause.operand);
			records_.commit();
		}
	}
}

void Gradients::addEvents(Known &known, const GradientUpdate &update, bool isFirst)
{
	if (isFirst)
		addEvent(known, "first", update);
	// Without an update, so `scale` and not the tracker: load_state_dict() and fill_() leave no other sign.
	else if (update.before.scale != known.scale && !std::isnan(known.scale)) {
		trace::add(known.record->sets, 1);
		GradientUpdate change = update;
		change.after = update.before;
		change.before = {known.scale, -1, -1};
		change.foundInf = 0;
		addEvent(known, "set", change);
	}
	if (const Change change = changeOf(*known.record, update); change.kind) {
		trace::add(known.record->*change.total, 1);
		addEvent(known, change.kind, update);
	}
}

void Gradients::addEvent(Known &known, const char *kind, const GradientUpdate &update)
{
	const uint32_t word = texts_.intern(kind);
	texts_.write(word);
	if (++known.singles > kSingles)
		return;
	if (auto *event = records_.append<GradientEventRecord>(RecordType::gradientEvent)) {
		event->ticks = update.ticks;
		event->step = update.steps;
		event->scaler = known.id;
		event->kind = word;
		event->scaleBefore = update.before.scale;
		event->scaleAfter = update.after.scale;
		event->foundInf = update.foundInf;
		event->trackerBefore = update.before.tracker;
		event->trackerAfter = update.after.tracker;
		event->hysteresis = update.after.hysteresis;
		records_.commit();
	}
}

} // namespace autoamp::trace
