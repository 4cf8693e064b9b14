// What can be shown of traces: their rows as lists, and as whole documents. Values; main thread.
// Views write to a stream and know nothing of files; tools/autoamp/account.h has the numbers.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/sheet.h"
#include "tools/autoamp/traces.h"

#include <optional>

namespace autoamp::tool {

// `places`: what to give `report` to see these runs again.
void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places);
// One row of a list, of one run; of several where rows were merged: 0.
struct OpsRow {
	size_t run = 0;
	const trace::RowInfo *row = nullptr;
	double planNs = NAN; // what building a plan of cuDNN for it took; NaN: nothing was built
};
Json describe(size_t id, const trace::Trace &run);
Json describe(const OpsRow &place);
Sheet opsSheet(std::vector<OpsRow> list, const Account &account);
Sheet groupsSheet(std::vector<Group> list, const Account &account);
Sheet reasonsSheet(const Account &account);
Sheet scalerSheet(const Runs &runs);      // its history
Sheet scalerSitesSheet(const Runs &runs); // and how often what happened where
Sheet observedSheet(const Runs &runs);    // what the program's own gradient scaler did
Sheet kernelsSheet(const Runs &runs, bool isMerged);
Sheet lossSheet(const Runs &runs);

void writeReasons(std::FILE *out, const Terminal &terminal, const Sheet &reasons, const Account &account);
void writeConfig(std::FILE *out, const Terminal &terminal, const Runs &runs);
// All lists of some runs.
struct Lists {
	std::optional<Sheet> groups; // of --by
	Sheet ops, reasons, kernels, sites, events, observed, losses;
};
// The whole document, and one self-contained page: charts, and the lists.
void writeJson(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists);
void writeHtml(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists, const std::string &places);

} // namespace autoamp::tool
