// `autoamp report`: which traces, which view, which format. Main thread.
// Views write to a stream and know nothing of files; tools/autoamp/account.h has the numbers.
#pragma once

#include "src/policy/options.h"
#include "src/trace/reader.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/text.h"

#include <cstdio>
#include <string>
#include <vector>

namespace autoamp::tool {

// What of a list is shown, and in which order.
struct Selection {
	std::string by;   // one of groupings; empty: each row
	std::string sort; // a column by its name in JSON: numbers from the largest, texts from A; empty: as the list is
	size_t top = 0;   // 0: all
};

struct ReportOptions {
	std::vector<std::string> places; // files and folders; none: the newest trace
	std::string view;             // summary, ops, reasons, config; empty: summary, or ops where a list is selected from
	std::string format = "table"; // table, json, csv
	Selection selection;
	Colour colour = Colour::automatic;
};

Status report(const ReportOptions &options, const policy::Options &configuration);

// How this program was called, for commands to copy: autoamp, ./build/tools/autoamp.
extern std::string invocation;
// A word that a shell takes as one word, whatever it holds.
std::string quoted(const std::string &word);
// A path as one would type it here.
std::string here(const std::string &path);

using Runs = std::vector<trace::Trace>;
// What the user can do about it, best first: each one line.
std::vector<std::string> suggestions(const Account &account);
// What the scaler met, and what the worst of it means; empty: nothing that a user has to know.
std::vector<std::string> scalerWorries(const Account &account);
// `places`: what to give `report` to see these runs again.
void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places);
// One row of a list, of one run; of several where rows were merged: 0.
struct OpsRow {
	size_t run = 0;
	const trace::RowInfo *row = nullptr;
};
void writeOps(std::FILE *out, const Terminal &terminal, const std::vector<OpsRow> &list, const Account &account);
void writeGroups(std::FILE *out, const Terminal &terminal, const std::vector<Group> &list, const Account &account);
void writeReasons(std::FILE *out, const Terminal &terminal, const Account &account);
void writeConfig(std::FILE *out, const Terminal &terminal, const Runs &runs);
void writeJson(std::FILE *out, const Runs &runs, const Account &account, const std::vector<OpsRow> &ops,
               const std::vector<Group> &groups);

// Of OpsRow, Group and ReasonSum. Columns are named as in JSON.
template <typename Item>
void select(std::vector<Item> &list, const Selection &selection);
template <typename Item>
void writeCsv(std::FILE *out, const std::vector<Item> &list); // RFC 4180

} // namespace autoamp::tool
