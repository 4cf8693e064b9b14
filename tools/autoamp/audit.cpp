// The errors that AUTOAMP_AUDIT measured: the view `audit` and the line of the summary.
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace autoamp::tool {

namespace {

struct AuditRow {
	size_t run = 0;
	const trace::RowInfo *row = nullptr;
	std::string skipped; // reasons why calls were not audited
};

std::string skippedOf(const trace::Trace &run, const trace::RowInfo &row)
{
	std::set<std::string> reasons;
	for (const auto &note : run.notes)
		if (note.kind == trace::noteOfAudit && note.row == row.id)
			reasons.insert(note.text);
	return fmt::format("{}", fmt::join(reasons, "; "));
}

Json toJson(const AuditRow &place)
{
	static const trace::RowInfo none = {};
	const auto &row = place.row ? *place.row : none;
	const auto &audit = row.audit;
	const auto known = [&](double error) { return orNull(audit.orUnknown(error)); };
	return {{"run", place.run},
	        {"site", orNull(row.site)},
	        {"entry", orNull(row.entry)},
	        {"op", orNull(row.op)},
	        {"shape", shapeOf(row)},
	        {"transa", std::string(1, row.transa)},
	        {"transb", std::string(1, row.transb)},
	        {"dtype_compute", orNull(row.dtypeCompute)},
	        {"strategy", orNull(row.strategy)},
	        {"decision", orNull(row.decision)},
	        {"calls", row.calls},
	        {"audited", audit.audited},
	        {"recomputed", audit.recomputed},
	        {"lost", audit.lost},
	        {"unmeasured", audit.unmeasured},
	        {"partial", audit.partial},
	        {"overflowed", audit.overflowed},
	        {"mean_error", known(audit.sum / static_cast<double>(audit.measured()))},
	        {"median_error", orNull(audit.quantile(0.5))},
	        {"p95_error", orNull(audit.quantile(0.95))},
	        {"max_error", known(audit.most)},
	        {"worst_row", known(audit.worstRow)},
	        {"worst_column", known(audit.worstColumn)},
	        {"skipped", orNull(place.skipped)}};
}

Column errors(const char *heading, const char *field)
{
	return {heading, field, 'r', [field = std::string(field)](const Json &row) {
		        return row[field].is_null() ? "-" : fmt::format("{:.1e}", row[field].get<double>());
	        }};
}

} // namespace

Sheet auditSheet(const Runs &runs)
{
	std::vector<AuditRow> rows;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &row : runs[run].rows) {
			AuditRow place = {run, &row, skippedOf(runs[run], row)};
			if (row.audit.audited > 0 || !place.skipped.empty())
				rows.push_back(std::move(place));
		}
	const auto rank = [](const AuditRow &place) {
		const auto &audit = place.row->audit;
		return audit.overflowed ? INFINITY : audit.measured() ? audit.most : -1;
	};
	const bool hasOverflowed =
	    std::any_of(rows.begin(), rows.end(), [](auto &row) { return row.row->audit.overflowed; });
	std::stable_sort(rows.begin(), rows.end(), [&](auto &x, auto &y) { return rank(x) > rank(y); });
	std::vector<Column> columns = {texts("entry point", "entry"),
	                               shapes(),
	                               errors("max error", "max_error"),
	                               errors("p95 error", "p95_error"),
	                               errors("median error", "median_error"),
	                               errors("of a row", "worst_row"),
	                               errors("of a column", "worst_column"),
	                               counts("audited", "audited"),
	                               counts("calls", "calls"),
	                               texts("type", "dtype_compute"),
	                               texts("strategy", "strategy"),
	                               texts("not audited", "skipped")};
	if (hasOverflowed)
		columns.insert(columns.begin() + 8, counts("overflowed", "overflowed"));
	return Sheet::of(
	    "audit", "Measured errors of lowered calls", std::move(rows), [](const AuditRow &row) { return toJson(row); },
	    std::move(columns));
}

AuditSum auditSum(const Runs &runs)
{
	AuditSum sum;
	for (const auto &run : runs)
		for (const auto &row : run.rows) {
			if (row.audit.measured() && (!sum.worst || row.audit.most > sum.all.most))
				sum.worst = &row;
			sum.all.add(row.audit);
		}
	return sum;
}

std::string describeAudits(const Runs &runs)
{
	const auto [all, worst] = auditSum(runs);
	if (all.audited == 0)
		return {};
	auto line = plural(all.audited, "call");
	if (all.overflowed > 0) // results with an Inf or NaN that fp32 does not have
		line += fmt::format(", {} overflowed", count(all.overflowed));
	if (worst)
		line += fmt::format(", largest error {:.1e} ({} {})", all.most, worst->entry, shapeOf(*worst));
	return line;
}

} // namespace autoamp::tool
