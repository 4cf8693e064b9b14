// Kept copies of converted operands: their use in a run, and the benefit that they would have had in a GPU run without
// them. Values; main thread.
#pragma once

#include "src/trace/read/trace.h"
#include "tools/autoamp/sheet.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace autoamp::tool {

// Totals of kept copies (trace::WeightsInfo).
struct WeightsSum {
	std::set<std::string> how;
	uint64_t served = 0, converted = 0, made = 0, recast = 0, changed = 0, givenUp = 0, refused = 0;
	uint64_t compared = 0, repeated = 0;
	uint64_t bytes = 0, refusedBytes = 0;    // of kept copies, and of those that found no memory
	std::map<std::string, uint64_t> reasons; // conversions of operands that are not kept, by reason

	void add(const trace::RowInfo &row);
	bool isEmpty() const { return how.empty() && reasons.empty(); }
	bool isOff() const; // no copy could be kept, because the settings keep none
};
// The share of the calls of a row whose weight had a copy; NaN: unknown.
double keptShare(const trace::RowInfo &row);
// True for a scaler event of a kept copy: it has no scale.
bool isOfWeights(const std::string &kind);

std::string describeWeights(const WeightsSum &sum); // "": no product of these traces could use a kept copy
Json toJson(const WeightsSum &sum);                 // null: likewise

// The benefit that AUTOAMP_WEIGHTS=checked would have had, from the fingerprints of a run that kept no copies.
struct WeightsEstimate {
	uint64_t compared = 0, repeated = 0; // conversions with a fingerprint, and those that had an equal one before
	double fromNs = 0, toNs = 0;         // model: all calls with such an operand, as they ran and with kept copies
	// Calls that ran unchanged because a conversion at each call does not pay, and their times with copies of constant
	// weights.
	uint64_t unchangedCalls = 0;
	double unchangedFromNs = 0, unchangedToNs = 0;

	void add(const trace::RowInfo &row);
	double savedNs() const { return fromNs - toNs; }
	bool isKnown() const { return compared > 0 && fromNs > 0; }
	bool isLarge() const { return isKnown() && savedNs() >= 0.05 * fromNs; }
	double unchangedSavedNs() const { return unchangedFromNs - unchangedToNs; }
};
std::string describe(const WeightsEstimate &estimate); // "": the benefit is small, or unknown
Json toJson(const WeightsEstimate &estimate);          // null: unknown

// MiB of AUTOAMP_MEMORY that hold all kept and refused copies of a device; 0: none was refused.
uint64_t memoryForWeights(const std::vector<trace::Trace> &runs);

// Lines about copies that were refused, and about changed weights that AUTOAMP_WEIGHTS=frozen did not allow.
std::vector<std::string> weightWarnings(const WeightsSum &sum, uint64_t memory, const std::string &firstChanged);

} // namespace autoamp::tool
