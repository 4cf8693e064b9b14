// The gain that was measured on a CPU: audited calls are also computed in fp32, so both times are known. And the work
// that kept copies of converted operands saved. Values; main thread.
#pragma once

#include "src/trace/read/content.h"
#include "tools/autoamp/sheet.h"

#include <map>
#include <set>
#include <string>

namespace autoamp::tool {

// Times of all fp32 products. The time of an audited signature is the mean of its audited calls times its number of
// calls. Calls that were not lowered count with their own time on both sides.
struct Gain {
	uint64_t lowered = 0;    // calls of audited signatures
	uint64_t audited = 0;    // lowered calls that were also computed in fp32 and timed
	uint64_t unmeasured = 0; // lowered calls of other signatures: in no time
	double asAskedNs = 0, asRunNs = 0;
	double bestNs = 0; // if each signature had run in its faster precision

	void add(const trace::RowInfo &row); // a row of CPU calls
	bool isKnown() const { return audited > 0; }
};
std::string describeGain(const Gain &gain); // "": unknown
Json toJson(const Gain &gain);              // null: unknown

// Totals of kept copies of converted operands (trace::WeightsInfo).
struct WeightsSum {
	std::set<std::string> how;
	uint64_t served = 0, converted = 0, made = 0, recast = 0, givenUp = 0, bytes = 0;
	std::map<std::string, uint64_t> reasons; // products whose operand was not kept, by reason

	void add(const trace::RowInfo &row);
	bool isEmpty() const { return how.empty() && reasons.empty(); }
};
std::string describeWeights(const WeightsSum &sum); // "": no product of these traces could use a kept copy
Json toJson(const WeightsSum &sum);                 // null: likewise

} // namespace autoamp::tool
