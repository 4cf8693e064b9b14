// Gradient scalers of the traced programs: their events with causes, and findings. Values that refer to the traces,
// which must outlive them; main thread. The fields are described in docs/report-json.md.
#pragma once

#include "tools/autoamp/traces.h"

#include <map>
#include <string>
#include <vector>

namespace autoamp::tool {

// One event, and the scaler events that preceded it; empty unless it is a skipped step.
struct GradientStep {
	const trace::GradientEvent *event = nullptr;
	std::vector<const trace::GradientCauseInfo *> causes;
	bool isSkipped() const;
};

struct GradientFinding {
	const char *name; // scale_zero
	std::string text;
};

struct Gradient {
	size_t run = 0;
	const trace::GradientScalerInfo *info = nullptr;
	std::vector<GradientStep> steps; // in the order written
	std::vector<GradientFinding> findings;
	bool areSkipsKnown() const; // false: neither flag nor scale could be read
};

std::vector<Gradient> gradientsOf(const Runs &runs); // in the order of the runs
// Scale by time: ns since the start of the trace, and the scale from then on; finite values only.
std::vector<std::pair<double, double>> curveOf(const Gradient &gradient);
std::string describeSkip(const GradientStep &step); // step 6 skipped, 2^14 to 2^13

// Updates of the device arrive at later launches, and at exit: without one, the last updates are not in the trace.
bool areLastUpdatesLost(const trace::Trace &run);

// Update that followed a scaler event of an operand (trace::ScalerInfo); null scaler: none, or unknown.
struct LedTo {
	const trace::GradientScalerInfo *scaler = nullptr;
	uint64_t step = 0;
};
class Consequences
{
public:
	explicit Consequences(const Runs &runs);
	LedTo of(size_t run, const trace::ScalerInfo &event) const;
	bool isEmpty() const { return ledTo_.empty(); }

private:
	using Key = std::tuple<size_t, uint32_t, char, std::string, long long>; // run, row, operand, kind, ns
	std::map<Key, LedTo> ledTo_;
};

// The reason why the values of a scaler whose kernels ran are not in the trace; "": they are.
std::string whyNoValues(const trace::Trace &run, const trace::ObservedScaler &observed);

// Lines for summary and receipt: scale, skipped steps and findings of each scaler, worst first.
std::vector<std::string> describeGradients(const Runs &runs);

} // namespace autoamp::tool
