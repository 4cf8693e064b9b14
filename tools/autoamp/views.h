// What can be shown of traces: their rows as lists, and as whole documents. Values; main thread.
// Views write to a stream and know nothing of files; tools/autoamp/account.h has the numbers.
#pragma once

#include "tools/autoamp/sheet.h"

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
// The whole document; `groups`: of --by, null without.
void writeJson(std::FILE *out, const Runs &runs, const Account &account, const Sheet &ops, const Sheet *groups,
               const Sheet &reasons);

// One self-contained page: charts, and these lists.
void writeHtml(std::FILE *out, const Runs &runs, const Account &account, const std::vector<Sheet> &sheets,
               const std::string &places);

} // namespace autoamp::tool
