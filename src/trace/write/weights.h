// Kept copies of converted operands: exact totals for each row. All functions need the lock of the recorder.
#pragma once

#include "src/trace/write/rows.h"

namespace autoamp::trace {

class Weights
{
public:
	constexpr Weights(Records &records, base::Arena &arena, Texts &texts, RowTable &rows)
	    : records_(records), arena_(arena), texts_(texts), rows_(rows)
	{
	}

	void add(const WeightCounts &counts);

private:
	struct Known {
		uint32_t row, how, reason, written;
		uint64_t bytes; // memory of the copies now
		ComparedWeightsRecord *record;
	};
	Records &records_;
	base::Arena &arena_;
	Texts &texts_;
	RowTable &rows_;
	base::Index<Known> index_;
};

} // namespace autoamp::trace
