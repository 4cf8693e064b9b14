// Times of the fp32 products for the HTML page: unchanged, as run and best, from the rows of `ops`. Values; main
// thread.
#pragma once

#include "tools/autoamp/html_parts.h"

#include <map>
#include <string>
#include <vector>

namespace autoamp::tool::page {

// Times of the calls of one row in ns, all from one source. NaN: unknown.
struct RowTimes {
	double unchanged = NAN, actual = NAN, best = NAN;
	bool areKnown() const { return unchanged >= 0 && actual >= 0 && best >= 0; }
};
// isMeasured: those of audited calls on a CPU. Otherwise those of the cost model.
RowTimes timesOf(const Json &row, bool isMeasured);
size_t bestPrecisionOf(const Json &row, bool isMeasured); // index in `precisions`

struct OpWork {
	std::string op; // escaped; "": all ops
	size_t signatures = 0;
	uint64_t calls = 0;
	double unchanged = 0;
	ByPrecision actual = {}, best = {};
	void add(const Json &row, const RowTimes &times, bool isMeasured);
};

struct Work {
	bool isMeasured;
	OpWork all;
	std::vector<OpWork> ops; // most time first
	explicit Work(bool isMeasured) : isMeasured(isMeasured) {}
	void add(const Json &row);
	void finish();

private:
	std::map<std::string, OpWork> byOp_;
};

} // namespace autoamp::tool::page
