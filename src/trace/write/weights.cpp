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
		known->record = records_.append<ComparedWeightsRecord>(RecordType::weights);
		if (!known->record)
			return;
		known->record->row = known->row;
		known->record->how = known->how;
		known->record->reason = known->reason;
		records_.commit();
		known->bytes = 0; // a forked child has no copies
		known->written = records_.generation();
	}
	ComparedWeightsRecord &record = *known->record;
	trace::add(record.served, counts.served);
	trace::add(record.converted, counts.converted);
	trace::add(record.made, counts.made);
	trace::add(record.recast, counts.recast);
	trace::add(record.givenUp, counts.givenUp);
	trace::add(record.changed, counts.changed);
	trace::add(record.refused, counts.refused);
	trace::add(record.compared, counts.compared);
	trace::add(record.repeated, counts.repeated);
	known->bytes += (counts.made + counts.refused) * counts.bytes;
	if (counts.made)
		known->bytes = std::min(known->bytes, counts.held); // some copies of the row may have been released
	known->bytes -= std::min(known->bytes, counts.givenUp * counts.bytes);
	const uint64_t bytes = std::max({record.bytes.load(std::memory_order_relaxed), known->bytes, counts.bytes});
	record.bytes.store(bytes, std::memory_order_relaxed);
}

} // namespace autoamp::trace
