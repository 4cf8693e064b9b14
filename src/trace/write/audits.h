// Measured errors and times of audited calls: exact totals for each row. All functions need the lock of the recorder.
#pragma once

#include "src/trace/write/rows.h"

namespace autoamp::trace {

class Audits
{
public:
	constexpr Audits(Records &records, base::Arena &arena, RowTable &rows)
	    : records_(records), arena_(arena), rows_(rows)
	{
	}

	void add(const AuditResult &result);

private:
	struct Known {
		uint32_t row, none[2], written;
		TimedAuditRecord *record;
	};
	Records &records_;
	base::Arena &arena_;
	RowTable &rows_;
	base::Index<Known> index_;
};

} // namespace autoamp::trace
