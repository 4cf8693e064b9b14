// Scaler events and notes: exact totals, and the first single events. All functions need the lock of the recorder.
#pragma once

#include "src/trace/write/rows.h"

namespace autoamp::trace {

class Events
{
public:
	constexpr Events(Records &records, base::Arena &arena, Texts &texts, RowTable &rows)
	    : records_(records), arena_(arena), texts_(texts), rows_(rows)
	{
	}

	void scaler(const ScalerEvent &event);
	void note(const char *kind, const char *text, RowId row, uint64_t count);

private:
	struct KnownScaler {
		uint32_t row, kind, operand, written;
		uint64_t singles;
		ScalerTotalRecord *total;
	};
	struct KnownNote {
		uint32_t kind, text, row, written;
		NoteRecord *record;
	};
	Records &records_;
	base::Arena &arena_;
	Texts &texts_;
	RowTable &rows_;
	base::Index<KnownScaler> scalers_;
	base::Index<KnownNote> notes_;
};

} // namespace autoamp::trace
