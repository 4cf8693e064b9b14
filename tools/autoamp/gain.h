// The gain of a run: the time of its fp32 products in the unchanged program, in the run, and with the best strategy by
// the cost model. Values; main thread.
#pragma once

#include "src/trace/read/content.h"
#include "tools/autoamp/sheet.h"

#include <cmath>
#include <map>
#include <string>

namespace autoamp::tool {

// Times of the same calls. All three have the same source, so their ratios mix nothing.
struct GainTimes {
	double asAskedNs = 0, asRunNs = 0;
	double bestNs = 0; // if each signature ran in its fastest way

	void add(const GainTimes &more);
	double gain() const { return asAskedNs / asRunNs; }
	double bestGain() const { return asAskedNs / bestNs; }
};

struct GainSum : GainTimes {
	std::map<std::string, GainTimes> byOp;
	uint64_t calls = 0, unknown = 0; // calls in the times, and fp32 products in no time

	void add(const trace::RowInfo &row, const GainTimes &times);
};

// The model's time of one call as it ran; NaN: it has no estimate.
double runTime(const trace::RowInfo &row);
// The model's times of all calls of a row; NaN: it has no estimate. bestNs is RowInfo::estBestNs where it is known.
GainTimes modelTimes(const trace::RowInfo &row);

struct Gain {
	GainSum model;        // estimates of the cost model
	GainSum measured;     // CPU; unchanged: the mean time in fp32 of the audited calls of a signature, times its calls
	uint64_t lowered = 0; // calls of audited signatures
	uint64_t audited = 0; // lowered calls that were also computed in fp32 and timed
	uint64_t unmeasured = 0; // lowered calls of a CPU BLAS whose signatures have no audit: in no measured time
	double asRunNs = NAN;    // measured time of the fp32 products in the run (kernels, or CPU); NaN: unknown

	void add(const trace::RowInfo &row);
	bool isMeasured() const { return audited > 0; }
	bool isKnown() const { return isMeasured() || model.calls > 0; }
	const GainSum &sum() const { return isMeasured() ? measured : model; }
	const char *source() const { return isMeasured() ? "measured" : "model"; }
};
// "measured, 24 of 1,200 lowered calls" or "model, nothing was timed".
std::string sourceOf(const Gain &gain, bool isEmulated);
std::string ratioText(double ratio); // "1.18x", "0.53x, slower"
// One line; "": unknown.
std::string describeGain(const Gain &gain, bool isEmulated);
Json toJson(const Gain &gain); // null: unknown

} // namespace autoamp::tool
