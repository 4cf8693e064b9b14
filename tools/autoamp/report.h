// `autoamp report`: which traces, which view, which format. Main thread.
// The views themselves: tools/autoamp/views.h.
#pragma once

#include "src/policy/options.h"
#include "src/trace/reader.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/text.h"

#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

// What of a list is shown, and in which order.
struct Selection {
	std::string by;   // one of groupings; empty: each row
	std::string sort; // a field: numbers from the largest, texts from A; empty: as the list is
	size_t top = 0;   // 0: all
};

struct ReportOptions {
	std::vector<std::string> places; // files and folders; none: the newest trace
	std::string view;                // one of views; empty: summary, or ops where a list is selected from
	std::string format = "table";    // one of formats
	Selection selection;
	std::string whatIf; // NAME=VALUE,...
	Colour colour = Colour::automatic;
};

extern const std::vector<std::string> views, formats;
Status report(const ReportOptions &options, const policy::Options &configuration, std::span<const char *const> entries);

// How this program was called, for commands to copy: autoamp, ./build/tools/autoamp.
extern std::string invocation;
// A word that a shell takes as one word, whatever it holds.
std::string quoted(const std::string &word);
// A path as one would type it here.
std::string here(const std::string &path);

using Runs = std::vector<trace::Trace>;
// The traces of files and folders; of nothing the newest one. A bad file among many does not hide the others, but it is
// said and the status tells.
Runs gather(const std::vector<std::string> &places, const policy::Options &configuration, Status &status);
// The runs as they would be with other settings: NAME=VALUE,... Their configuration becomes the assumed one. Returns
// the assumed settings that decide about calls, one line for each configuration of the runs.
std::vector<std::string> redecide(Runs &runs, const std::string &settings, std::span<const char *const> entries);
// What the user can do about it, best first: each one line.
std::vector<std::string> suggestions(const Account &account);
// Lines about the scaler events and the meaning of the worst one; empty: nothing that a user has to know.
std::vector<std::string> scalerWorries(const Account &account);
// Why scaler events can be missing in a trace, and in any of several; empty: all are recorded.
std::string scalerGap(const trace::Trace &run);
std::vector<std::string> scalerGaps(const Runs &runs);
// Lowered calls that ran by another strategy for lack of memory: one line for each reason.
std::vector<std::string> shortages(const Account &account);
// The kernels that the emulated device could not run, in one line; empty: none.
std::string describeNotEmulated(const Account &account);

} // namespace autoamp::tool
