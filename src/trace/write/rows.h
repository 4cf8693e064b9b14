// The rows of a trace, each written once per file, and the properties of the run. All functions need the lock of the
// recorder.
#pragma once

#include "src/trace/write/content.h"
#include "src/trace/write/texts.h"

namespace autoamp::trace {

class RowTable
{
public:
	constexpr RowTable(Records &records, base::Arena &arena, Texts &texts)
	    : records_(records), arena_(arena), texts_(texts)
	{
	}

	RowId add(const Row &row); // finds or creates it
	bool write(RowId row);     // unless this file contains it

private:
	struct KnownRow {
		CauseRowRecord record;
		uint32_t written;
	};
	Records &records_;
	base::Arena &arena_;
	Texts &texts_;
	base::Array<KnownRow *> rows_;
	base::Index<KnownRow> index_;
};

class Properties
{
public:
	constexpr Properties(Records &records, Texts &texts) : records_(records), texts_(texts) {}

	// Returns false if the property is known.
	bool add(const char *group, const char *name, const char *value, const char *origin);
	void writeNewest() { write(properties_[properties_.size() - 1]); }
	void writeAll();

private:
	struct Property {
		uint32_t group, name, value, origin;
	};
	void write(const Property &property);

	Records &records_;
	Texts &texts_;
	base::Array<Property> properties_;
};

} // namespace autoamp::trace
