// What the traces of a run add up to: the numbers behind receipt, tables and JSON. Values; main thread.
// Terms (call, eligible, flops, decision) are defined in docs/glossary.md and docs/report-json.md.
#pragma once

#include "src/policy/decision.h"
#include "src/trace/reader.h"
#include "tools/autoamp/missing.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Sum {
	uint64_t calls = 0;
	double flops = 0, hostNs = 0;
	double kernelNs = NAN;                  // measured on the device, casting included; NaN: nothing was
	double estNs = NAN, estLoweredNs = NAN; // of what the cost model knows; NaN: nothing
	double modelNs = 0;                     // its estimate of the way they ran
	void add(const trace::RowInfo &row);
	double timeNs(bool isMeasured) const { return isMeasured ? (std::isnan(kernelNs) ? 0 : kernelNs) : modelNs; }
};

struct ReasonSum : Sum {
	std::string reason, decision;
	std::set<std::string> causes; // modes, variables and features behind the reason
	Sum eligible;                 // the part of it that a lower form exists for
	bool isLower = false;         // lowered, or would have been

	bool isKept() const { return decision == "kept" || decision == "fallback"; }
};

struct ScalerSum {
	std::string kind;
	uint64_t count = 0;
	std::vector<std::string> sites;
	std::string example; // the call of the first site, in words; for `underflow`, of the worst site
	double excess = -1, lostRows = 0, lostColumns = 0; // largest values of the `underflow` events
	std::set<std::string> rules;                       // that keep its calls
};

// For a configuration file: calls like this one are not lowered.
std::string ruleFor(const trace::RowInfo &row);

struct Account {
	Sum all, eligible, lowered, kept, raised, fallback, observed;
	Sum eligibleKept, eligibleRaised, wouldLower;         // wouldLower: observed calls that O1 would have lowered
	std::set<std::string> loweredTo;                      // what lowered products multiplied in
	std::set<std::string> wouldLowerBy;                   // the strategies of what O1 would lower
	std::vector<ReasonSum> reasons;                       // most time first
	bool isMeasured = false;                              // times are those of kernels, else the cost model's
	std::vector<std::pair<std::string, double>> heaviest; // fp32 products by op and shape, with their time
	std::vector<ScalerSum> scaler;
	uint64_t notes = 0;
	std::string firstNote;
	std::map<std::string, uint64_t>
	    notEmulated;                  // launches of kernels that the emulated device could not run, by mangled name
	std::string whatIf;               // the settings that all of it was decided again with, as typed
	std::vector<std::string> assumed; // all settings of the new decisions, one line for each configuration
	uint64_t plans = 0;               // of cuDNN, built for the first call of each signature
	double planMs = 0;
	trace::Loss loss;
	std::vector<trace::OverheadInfo> overhead; // of CUPTI, by kind
	std::vector<Missing> missing;              // traces of the same runs and jobs
	trace::LaunchInfo launches;
	bool isEmulated = false, hasKernels = false;

	// Worth a user's time: one percent of the fp32 work.
	bool matters(const ReasonSum &reason) const
	{
		return reason.eligible.flops >= 0.01 * eligible.flops && eligible.flops > 0;
	}
};

Account add(const std::vector<trace::Trace> &runs);

// The calls of all rows that have something in common.
struct Group : Sum {
	std::string by, key; // op, mm
	Sum eligible, lowered;
	void add(const trace::RowInfo &row);
};
extern const std::vector<std::string> groupings;                                           // what `by` may be
std::vector<Group> groupsOf(const std::vector<trace::Trace> &runs, const std::string &by); // most flops first
// The same signature and decision in several processes or on several devices as one row; most flops first.
std::vector<trace::RowInfo> mergedRows(const std::vector<trace::Trace> &runs);

double planNsOf(const trace::Trace &run, const trace::RowInfo &row); // NaN: no plan of cuDNN was built for it
// A reason by its word in the trace; nothing for one that a newer autoamp wrote.
std::optional<policy::Reason> reasonOf(const std::string &word);
std::string adviceOn(const std::string &reason);                 // "": nothing to do
std::string shapeOf(const trace::RowInfo &row);                  // 512x512x64 b16
std::string configName(std::string variable);                    // AUTOAMP_LEVEL: level
std::string configOf(const trace::Trace &run, const char *name); // by configName; "": unknown
// What every report of these runs begins with: their times mean nothing, they never ran like this.
std::vector<std::string> warnings(const Account &account);
// How many kernels were launched and received; "": kernels were not recorded.
std::string describeLaunches(const Account &account);
bool hasLoss(const trace::Loss &loss);
uint64_t kernelsMissing(const trace::Loss &loss); // for any cause
uint64_t graphsMissing(const trace::Loss &loss);
std::string describe(const trace::Loss &loss);

constexpr const char *emulatedLine = "EMULATED: precision and decisions are real, times are not";

} // namespace autoamp::tool
