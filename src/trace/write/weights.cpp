#include "src/trace/write/weights.h"

#include "src/trace/write/counter.h"

#include <algorithm>

namespace autoamp::trace {

void Weights::add(const WeightCounts &counts)
{
	const uint32_t key[3] = {counts.row, texts_.intern(counts.how), texts_.intern(counts.reason)};
	Known *const known = knownOf(index_, arena_, key);
	if (!known)
		return;
	if (known->written != records_.generation()) {
		texts_.write(known->how);
		texts_.write(known->reason);
		rows_.write(known->row);
		known->record = records_.append<WeightsRecord>(RecordType::weights);
		if (!known->record)
			return;
		known->record->row = known->row;
		known->record->how = known->how;
		known->record->reason = known->reason;
		records_.commit();
		known->written = records_.generation();
	}
	WeightsRecord &record = *known->record;
	trace::add(record.served, counts.served);
	trace::add(record.converted, counts.converted);
	trace::add(record.made, counts.made);
	trace::add(record.recast, counts.recast);
	trace::add(record.givenUp, counts.givenUp);
	record.bytes.store(std::max(record.bytes.load(std::memory_order_relaxed), counts.bytes), std::memory_order_relaxed);
}

} // namespace autoamp::trace
