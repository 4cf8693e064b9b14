#include "src/trace/write/rows.h"

#include <cstring>

namespace autoamp::trace {

RowId RowTable::add(const Row &row)
{
	CauseRowRecord record = {};
	record.type = RecordType::row;
	record.size = sizeof(RowRecord);
	if (rows_.size() + 1 >= kMaxRows)
		record.entry = texts_.intern("(more signatures)");
	else {
#define X(field, ...) record.field = texts_.intern(row.field);
		AUTOAMP_ROW_TEXTS(X)
		AUTOAMP_ROW_ADDED_TEXTS(X)
#undef X
#define X(field) record.field = row.field;
		AUTOAMP_ROW_NUMBERS(X)
#undef X
		record.estNs = row.estNs;
		record.estLoweredNs = row.estLoweredNs;
		record.flags = (row.eligible ? rowEligible : 0) | (row.isCounted ? rowCounted : 0);
		if (record.cause)
			record.size = sizeof record;
		else if (record.region || record.shape)
			record.size = sizeof(RegionRowRecord);
	}
	uint64_t site = base::hashBytes(row.entry, row.entry ? strlen(row.entry) : 0);
	site = base::hashBytes(&record.m, 4 * sizeof record.m, site);
	site = base::hashByte(static_cast<unsigned char>(record.transa), site);
	site = base::hashByte(static_cast<unsigned char>(record.transb), site);
	site = base::hashBytes(row.caller, row.caller ? strlen(row.caller) : 0, site);
	site = base::hashBytes(row.region, row.region ? strlen(row.region) : 0, site);
	site = base::hashBytes(row.shape, row.shape ? strlen(row.shape) : 0, site);
	record.site = static_cast<uint32_t>(site ^ (site >> 32));

	constexpr size_t from = sizeof(Record) + 2 * sizeof(uint32_t); // after id and site
	auto key = [](const CauseRowRecord &known) { return reinterpret_cast<const char *>(&known) + from; };
	const uint64_t hash = base::hashBytes(key(record), sizeof record - from);
	KnownRow *known = index_.find(
	    hash, [&](const KnownRow &other) { return memcmp(key(other.record), key(record), sizeof record - from) == 0; });
	if (known)
		return known->record.id;
	known = arena_.make<KnownRow>();
	if (!known || !rows_.push(known))
		return 0;
	record.id = static_cast<uint32_t>(rows_.size());
	known->record = record;
	index_.add(hash, known);
	return record.id;
}

bool RowTable::write(RowId row)
{
	if (row == 0 || row > rows_.size())
		return false;
	KnownRow *known = rows_[row - 1];
	if (known->written == records_.generation())
		return true;
	const CauseRowRecord &record = known->record;
#define X(field, ...) texts_.write(record.field);
	AUTOAMP_ROW_TEXTS(X)
	AUTOAMP_ROW_ADDED_TEXTS(X)
#undef X
	auto *written = records_.append<Record>(RecordType::row, record.size - sizeof(Record));
	if (!written)
		return false;
	memcpy(written, &record, record.size);
	records_.commit();
	known->written = records_.generation();
	return true;
}

bool Properties::add(const char *group, const char *name, const char *value, const char *origin)
{
	const Property added = {texts_.intern(group), texts_.intern(name), texts_.intern(value), texts_.intern(origin)};
	for (const Property &known : properties_)
		if (memcmp(&known, &added, sizeof added) == 0)
			return false;
	return properties_.push(added);
}

void Properties::write(const Property &property)
{
	for (uint32_t text : {property.group, property.name, property.value, property.origin})
		texts_.write(text);
	if (auto *record = records_.append<PropertyRecord>(RecordType::property)) {
		record->group = property.group;
		record->name = property.name;
		record->value = property.value;
		record->origin = property.origin;
		records_.commit();
	}
}

void Properties::writeAll()
{
	for (size_t i = 0; i < properties_.size(); ++i)
		write(properties_[i]);
}

} // namespace autoamp::trace
