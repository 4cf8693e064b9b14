// The views of traces: their rows as lists, and whole documents. Values; main thread. Views write to a stream and do
// not open files; tools/autoamp/account.h computes the numbers.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/sheet.h"
#include "tools/autoamp/traces.h"

#include <optional>

namespace autoamp::tool {

// `places`: arguments of `report` that select these runs.
void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places);
// Scaler events, failures, and missing data: one line each.
std::vector<std::string> remarks(const Runs &runs, const Account &account);
// A row of the ops list. run: index of its run; 0 for rows merged from several runs.
struct OpsRow {
	size_t run = 0;
	const trace::RowInfo *row = nullptr;
	double planNs = NAN; // time to build a cuDNN plan for the row; NaN: none was built
};
Json toJson(size_t id, const trace::Trace &run);
Json toJson(const OpsRow &place);
Json toJsonWithBest(const OpsRow &place); // for the rows of a report: after findBest
Sheet opsSheet(std::vector<OpsRow> list, const Account &account);
Sheet groupsSheet(std::vector<Group> list, const Account &account);
Sheet reasonsSheet(const Account &account);
Sheet scalerSheet(const Runs &runs);      // events in order
Sheet scalerSitesSheet(const Runs &runs); // number of events by site and kind
Sheet observedSheet(const Runs &runs);    // kernels of the program's own gradient scaler
Sheet gradientSheet(const Runs &runs);    // gradient scalers of the program
Sheet gradientEventsSheet(const Runs &runs);
// Errors that were measured, and the calls that could not be audited.
Sheet auditSheet(const Runs &runs);
struct AuditSum {
	trace::AuditInfo all;
	const trace::RowInfo *worst = nullptr; // with the largest error; null: no error was measured
};
AuditSum auditSum(const Runs &runs);
std::string describeAudits(const Runs &runs); // for the summary; "": no call was audited
Sheet kernelsSheet(const Runs &runs, bool isMerged);
Sheet lossSheet(const Runs &runs);

void writeReasons(std::FILE *out, const Terminal &terminal, const Sheet &reasons, const Account &account);
void writeConfig(std::FILE *out, const Terminal &terminal, const Runs &runs);
// All lists of some runs.
struct Lists {
	std::optional<Sheet> groups; // set if --by is given
	Sheet ops, reasons, kernels, sites, events, gradient, gradientEvents, observed, losses, audits;
};
// JSON: the whole document. HTML: one self-contained page with charts and the lists.
void writeJson(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists);
// isSorted: the user chose the order of the rows.
void writeHtml(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists, bool isSorted);

} // namespace autoamp::tool
