#include "src/trace/write/audits.h"

#include "src/trace/write/counter.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace autoamp::trace {

namespace {

double valueOf(const Counter &counter)
{
	return std::bit_cast<double>(counter.load(std::memory_order_relaxed));
}

void set(Counter &counter, double value)
{
	counter.store(std::bit_cast<uint64_t>(value), std::memory_order_relaxed);
}

void raise(Counter &counter, double value)
{
	if (value > valueOf(counter))
		set(counter, value);
}

size_t bucketOf(double error)
{
	if (!(error > 0))
		return 0;
	const double place = std::floor(2 * std::log2(error)) + 48;
	return static_cast<size_t>(std::clamp(place, 0.0, double{kErrorBuckets - 1}));
}

} // namespace

void Audits::add(const AuditResult &result)
{
	const uint32_t key[3] = {result.row};
	Known *const known = knownOf(index_, arena_, key);
	if (!known)
		return;
	if (known->written != records_.generation()) {
		rows_.write(known->row);
		known->record = records_.append<TimedAuditRecord>(RecordType::audit);
		if (!known->record)
			return;
		known->record->row = known->row;
		records_.commit();
		known->written = records_.generation();
	}
	TimedAuditRecord &record = *known->record;
	trace::add(record.audited, result.number);
	trace::add(record.lost, result.number - 1);
	trace::add(record.recomputed, result.isRecomputed);
	trace::add(record.partial, result.isPartial);
	trace::add(record.overflowed, result.hasOverflowed);
	if (result.fp32Ns) {
		trace::add(record.timed, 1);
		trace::add(record.fp32Ns, result.fp32Ns);
		trace::add(record.actualNs, result.actualNs);
	}
	if (std::isnan(result.error)) {
		trace::add(record.unmeasured, 1);
		return;
	}
	set(record.sum, valueOf(record.sum) + result.error);
	raise(record.most, result.error);
	raise(record.worstRow, result.worstRow);
	raise(record.worstColumn, result.worstColumn);
	trace::add(record.histogram[bucketOf(result.error)], 1);
}

} // namespace autoamp::trace
