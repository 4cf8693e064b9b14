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

struct ReportOptions {
	std::vector<std::string> places; // files and folders; none: the newest trace
	std::string view = "summary";    // summary, ops, reasons
	std::string format = "table";    // table, json
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
void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account);
void writeOps(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account);
void writeReasons(std::FILE *out, const Terminal &terminal, const Account &account);
void writeJson(std::FILE *out, const Runs &runs, const Account &account);

} // namespace autoamp::tool
