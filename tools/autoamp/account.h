// Sums over the traces of a run: the numbers behind receipt, tables and JSON. Values; main thread. Terms (call,
// eligible, flops, decision) are defined in docs/glossary.md and docs/report-json.md.
#pragma once

#include "src/policy/decision.h"
#include "src/trace/read/trace.h"
#include "tools/autoamp/gain.h"
#include "tools/autoamp/missing.h"
#include "tools/autoamp/next_step.h"
#include "tools/autoamp/weights.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autoamp::tool {

// The times that a report compares. host: those of the calling thread, which computes the products of a CPU BLAS.
enum class Times { model, kernels, host };
const char *nameOf(Times times);    // model, kernels, host
const char *headingOf(Times times); // heading of a column: time (model), ...

bool isOnCpu(const trace::RowInfo &row); // a call of a CPU BLAS: its host time is that of the computation

struct Sum {
	uint64_t calls = 0;
	double flops = 0, hostNs = 0;
	double kernelNs = NAN;                  // measured on the device, conversions included; NaN: no measurement
	double estNs = NAN, estLoweredNs = NAN; // cost model, for the calls that it knows; NaN: none
	double modelNs = 0;                     // the estimate for the decision that was made, of the same calls
	void add(const trace::RowInfo &row);
	double timeNs(Times times) const
	{
		return times == Times::host ? hostNs : times == Times::model ? modelNs : std::isnan(kernelNs) ? 0 : kernelNs;
	}
};

struct ReasonSum : Sum {
	std::string reason, decision;
	std::set<std::string> causes;   // modes, variables and features behind the reason
	std::set<std::string> switches; // settings behind the reason `disabled`
	Sum eligible;                   // the part with a lower-precision form
	bool isLower = false;           // lowered, or would have been
	bool isOnCpu = true;            // all calls are those of a CPU BLAS

	std::string meaning() const; // "": the reason is newer than this program
	std::string advice() const;

	bool isKept() const { return decision == "kept" || decision == "fallback"; }
};

struct ScalerSum {
	std::string kind;
	uint64_t count = 0;
	std::vector<std::string> sites;
	std::string example; // the call of the first site, as text; for `underflow`, of the worst site
	double excess = -1, lostRows = 0, lostColumns = 0; // largest values of the `underflow` events
	std::set<std::string> rules;                       // rules that would keep these calls
};

// A rule for a configuration file that keeps calls like this one in fp32.
std::string ruleFor(const trace::RowInfo &row);

struct Shape {
	std::string op, name; // name: the op and the shape
	double ns = 0;        // time of its calls
};

struct Account {
	Sum all, eligible, lowered, kept, raised, fallback, observed;
	Sum eligibleKept, eligibleRaised, eligibleObserved;
	Sum wouldLower, wouldKeep;          // observed fp32 products, by the decision of O1
	std::set<std::string> loweredTo;    // precisions of the lowered products
	std::set<std::string> wouldLowerBy; // strategies that O1 would use
	std::vector<ReasonSum> reasons;     // sorted by time, longest first
	Times times = Times::model;         // host: all calls are those of a CPU BLAS
	std::vector<Shape> heaviest;        // fp32 products by shape, most time first
	std::vector<ScalerSum> scaler;
	uint64_t notes = 0;
	std::string firstNote;
	std::map<std::string, uint64_t>
	    notEmulated;                  // launches of kernels that the emulated device could not run, by mangled name
	std::string whatIf;               // settings of --what-if, as typed
	std::vector<std::string> assumed; // all settings of the new decisions, one line per configuration
	uint64_t plans = 0;               // cuDNN plans built for the first call of each signature
	double planMs = 0;
	trace::Loss loss;
	std::vector<trace::OverheadInfo> overhead; // overhead that CUPTI reports, by kind
	std::vector<Missing> missing;              // missing traces of the same runs and jobs
	Gain gain;
	NextStep next; // set by chooseNext(), which needs the other values
	WeightsSum weights;
	WeightsEstimate weightsEstimate;
	uint64_t memoryForWeights = 0; // MiB; 0: no copy was refused
	trace::LaunchInfo launches;
	bool isEmulated = false, hasKernels = false;

	// At least one percent of the fp32 work.
	bool matters(const ReasonSum &reason) const
	{
		return reason.eligible.flops >= 0.01 * eligible.flops && eligible.flops > 0;
	}
};

Account add(const std::vector<trace::Trace> &runs);

// Sum over all rows with the same value of one property.
struct Group : Sum {
	std::string by, key; // property and value: op, mm
	Sum eligible, lowered;
	void add(const trace::RowInfo &row);
};
extern const std::vector<std::string> groupings;                                           // allowed values of `by`
std::vector<Group> groupsOf(const std::vector<trace::Trace> &runs, const std::string &by); // by flops, largest first
// Rows with the same signature and decision, from any process or device, merged into one; sorted by flops, largest
// first.
std::vector<trace::RowInfo> mergedRows(const std::vector<trace::Trace> &runs);

double planNsOf(const trace::Trace &run, const trace::RowInfo &row); // NaN: no cuDNN plan was built for this row
// The reason with this name; nothing if a newer autoamp wrote the trace and the name is unknown.
std::optional<policy::Reason> reasonOf(const std::string &word);
// For calls on a GPU, or of a CPU BLAS. Advice "": no action is necessary.
std::string meaningOf(policy::Reason reason, bool isOnCpu);
std::string adviceOn(policy::Reason reason, bool isOnCpu);
std::string shapeOf(const trace::RowInfo &row);                  // 512x512x64 b16
std::string configName(std::string variable);                    // AUTOAMP_LEVEL: level
std::string configOf(const trace::Trace &run, const char *name); // by configName; "": unknown
std::string dtypeOf(const trace::Trace &run); // the type of lowered calls; calls on a CPU have another default
// A setting as a table shows it: "-" if it is empty; the type of calls on a CPU where it is another one.
std::string shownSetting(const trace::Trace &run, const std::string &name, const std::string &value);
// The first lines of every report: emulated times, --what-if settings, missing traces.
std::vector<std::string> warnings(const Account &account);
// How many kernels were launched and received; "": kernels were not recorded.
std::string describeLaunches(const Account &account);
bool hasLoss(const trace::Loss &loss);
uint64_t kernelsMissing(const trace::Loss &loss); // missing for any cause
uint64_t graphsMissing(const trace::Loss &loss);
std::string textOf(const trace::Loss &loss);

constexpr const char *emulatedLine = "EMULATED: precision and decisions are real, times are not";

} // namespace autoamp::tool
