// Two runs, compared signature by signature. Values that refer to the runs; main thread.
#pragma once

#include "tools/autoamp/failure.h"
#include "tools/autoamp/selection.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autoamp::tool {

struct DiffOptions {
	std::string before, after, format = "table"; // files or folders
	Selection selection;
	std::optional<double> slower, error; // limits whose excess fails the command: percent, max_error
	bool all = false;                    // md, html: with the signatures that did not change
	Colour colour = Colour::automatic;
};

// The calls of one signature in one of the runs.
struct Side {
	uint64_t calls = 0;
	double hostNs = 0, kernelNs = NAN;
	double modelNs = 0; // as run, by the cost model; NaN: it has no estimate
	trace::AuditInfo audit;
	std::map<std::string, uint64_t> ways;      // calls by "lowered float16 (white_list)"
	std::map<std::string, double> modelByType; // part of modelNs by type of the multiplication
	std::map<std::string, double> timeByType;  // the same of kernelNs or hostNs

	double timeNs(bool isMeasured) const { return isMeasured ? kernelNs : hostNs; }
	std::string way() const;
};

struct Pair {
	trace::RowInfo row = {};
	Side sides[2];
	double ratio = NAN;      // time per call, after divided by before
	double modelRatio = NAN; // the same by the cost model
	bool isCommon() const { return sides[0].calls > 0 && sides[1].calls > 0; }
	bool isWayChanged() const; // precision or reason: other ways than before, whatever their numbers of calls
};
Json toJson(const Pair &pair);

// A setting, version or device whose values differ.
struct Difference {
	std::string name, before, after;
};

struct Comparison {
	const DiffOptions &options;
	const Runs &before, &after;
	std::vector<Pair> pairs;
	std::vector<Difference> settings;
	bool isEmulated = false, isMeasured = true; // times are not real; all kernels were timed
	bool isOnCpu = true;                        // all calls are those of a CPU BLAS
	size_t common = 0, changed = 0;             // signatures of both runs; those with another precision or reason
	double slowerPercent = NAN;                 // calls of both runs; NaN: none has a time
	double modelSlowerPercent = NAN;            // the same by the cost model
	trace::AuditInfo audit;                     // those of the second run

	Comparison(const DiffOptions &options, const Runs &before, const Runs &after);

private:
	void rate(std::map<std::string, Pair> &bySignature);
	double weightOf(const Pair &pair) const; // flops where times are not real
};

// The limits of a command and whether the runs keep them.
struct Gate {
	std::string option;  // --fail-if-slower 5
	Status status;       // done: passed
	std::string failure; // "": passed
};
std::vector<Gate> gatesOf(const Comparison &comparison);

} // namespace autoamp::tool
