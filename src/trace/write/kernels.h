// Kernels and CUPTI's overhead: totals, and single kernels up to the size cap. All functions need the lock of the
// recorder.
#pragma once

#include "src/trace/write/rows.h"

#include <span>

namespace autoamp::trace {

class Kernels
{
public:
	constexpr Kernels(Records &records, base::Arena &arena, Texts &texts, RowTable &rows)
	    : records_(records), arena_(arena), texts_(texts), rows_(rows)
	{
	}

	void add(std::span<const KernelEvent> events, const KernelLosses &losses, bool areSingles);
	void addOverhead(const char *kind, uint64_t ns, bool isEmulated);
	void forget(); // in a forked child

private:
	struct KnownKernel {
		uint32_t row, name, place, written; // place: device and flags
		KernelTotalRecord *total;
	};
	struct KnownOverhead {
		uint32_t kind, written;
		CuptiOverheadRecord *record;
	};
	void add(const KernelEvent &event, bool isSingle);

	Records &records_;
	base::Arena &arena_;
	Texts &texts_;
	RowTable &rows_;
	base::Index<KnownKernel> index_;
	KnownOverhead overheads_[16] = {}; // kind 0: not used yet
	Chunk *chunk_ = nullptr;           // chunk of the next single kernel
	KernelLossRecord *losses_ = nullptr;
};

} // namespace autoamp::trace
