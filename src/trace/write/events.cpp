#include "src/trace/write/events.h"

#include "src/base/clock.h"
#include "src/trace/write/counter.h"

namespace autoamp::trace {

namespace {

constexpr uint64_t kSingleScalerEvents = 64;

} // namespace

void Events::scaler(const ScalerEvent &event)
{
	const uint32_t key[3] = {event.row, texts_.intern(event.kind), static_cast<uint32_t>(event.operand)};
	KnownScaler *const known = knownOf(scalers_, arena_, key);
	if (!known)
		return;
	if (known->written != records_.generation()) {
		texts_.write(known->kind);
		rows_.write(known->row);
		known->total = records_.append<ScalerTotalRecord>(RecordType::scalerTotal);
		if (!known->total)
			return;
		known->total->row = known->row;
		known->total->kind = known->kind;
		known->total->operand = known->operand;
		records_.commit();
		known->written = records_.generation();
		known->singles = 0;
	}
	add(known->total->count, event.count);
	if (!event.isSingle || ++known->singles > kSingleScalerEvents)
		return;
	const bool hasLoss = event.excess >= 0;
	if (auto *record = records_.append<ScalerRecord>(RecordType::scaler,
	                                                 hasLoss ? sizeof(LossRecord) - sizeof(ScalerRecord) : 0)) {
		if (hasLoss) {
			auto *loss = static_cast<LossRecord *>(record);
			loss->excess = event.excess;
			loss->lostRows = event.lostRows;
			loss->lostColumns = event.lostColumns;
		}
		record->ticks = event.ticks ? event.ticks : base::ticks();
		record->row = known->row;
		record->kind = known->kind;
		record->operand = known->operand;
		record->exponentBefore = event.exponentBefore;
		record->exponentAfter = event.exponentAfter;
		record->amax = event.amax;
		records_.commit();
	}
}

void Events::note(const char *kind, const char *text, RowId row, uint64_t count)
{
	const uint32_t key[3] = {texts_.intern(kind), texts_.intern(text), row};
	KnownNote *const known = knownOf(notes_, arena_, key);
	if (!known)
		return;
	const uint64_t now = base::ticks();
	if (known->written != records_.generation()) {
		texts_.write(known->kind);
		texts_.write(known->text);
		rows_.write(row);
		known->record = records_.append<NoteRecord>(RecordType::note);
		if (!known->record)
			return;
		known->record->kind = known->kind;
		known->record->text = known->text;
		known->record->row = row;
		known->record->firstTicks = now;
		records_.commit();
		known->written = records_.generation();
	}
	known->record->lastTicks.store(now, std::memory_order_relaxed);
	add(known->record->count, count);
}

} // namespace autoamp::trace
