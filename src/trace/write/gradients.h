// Updates of gradient scalers: totals, and the first single events of each scaler. All functions need the lock of the
// recorder.
#pragma once

#include "src/trace/write/rows.h"

#include <span>

namespace autoamp::trace {

class Gradients
{
public:
	constexpr Gradients(Records &records, base::Arena &arena, Texts &texts, RowTable &rows)
	    : records_(records), arena_(arena), texts_(texts), rows_(rows)
	{
	}

	void add(const GradientScaler &scaler, const GradientUpdate &update, std::span<const GradientCause> causes);

private:
	struct Known {
		uint32_t key[3]; // number of the framework's string, and two parts of identity and device
		uint32_t id, number, written;
		uint64_t singles, steps, skipped, skippedInARow;
		double scale; // after the latest update
		OwnedGradientScalerRecord *record;
	};
	struct Framework { // counts its scalers
		uint32_t name, scalers;
	};

	Known *find(const GradientScaler &scaler);
	bool write(Known &known, const GradientScaler &scaler, const GradientUpdate &update);
	void addEvents(Known &known, const GradientUpdate &update, bool isFirst);
	void addEvent(Known &known, const char *kind, const GradientUpdate &update);

	Records &records_;
	base::Arena &arena_;
	Texts &texts_;
	RowTable &rows_;
	base::Index<Known> index_;
	Framework frameworks_[16] = {}; // name 0: not used yet
	uint32_t scalers_ = 0;
};

} // namespace autoamp::trace
