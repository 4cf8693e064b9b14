#include "tools/autoamp/recorded.h"

#include "tools/autoamp/account.h"
#include "tools/autoamp/executable.h"
#include "tools/autoamp/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace autoamp::tool {

using Kind = policy::CaptureRange::Kind;

std::optional<Recorded> recordedOf(const trace::Trace &run)
{
	if (!run.capture)
		return std::nullopt;
	Recorded recorded;
	recorded.text = configOf(run, "capture_range");
	policy::parseCaptureRange(recorded.text, recorded.range);
	const auto seconds = [&run](const char *name) {
		uint64_t time = 0;
		return policy::parseTime(configOf(run, name), time) && time ? double(time) / 1e9 : NAN;
	};
	recorded.delay = seconds("delay"), recorded.limit = seconds("duration");
	for (const auto &row : run.rows)
		recorded.calls += row.calls;
	recorded.outside = run.capture->outside, recorded.begun = run.capture->begun;
	for (const auto &note : run.notes)
		if (note.kind == trace::noteOfRange)
			recorded.unseen = note.text;
	if (recorded.range.kind == Kind::profiler && recorded.begun == 0 && !run.command.empty())
		recorded.hasStaticRuntime = inspect(run.command.front()).carriesRuntime();
	return recorded;
}

std::string whyNothing(const Recorded &recorded)
{
	if (recorded.calls > 0)
		return {};
	if (!recorded.unseen.empty() && recorded.begun == 0)
		return recorded.unseen;
	if (recorded.begun > 0)
		return "the range began, but contains no call" +
		       std::string(std::isnan(recorded.delay) ? "" : " after the delay");
	switch (recorded.range.kind) {
	case Kind::profiler:
		return recorded.hasStaticRuntime ? "the range never began: the program's static CUDA runtime hides "
		                                   "cudaProfilerStart; use nvtx:NAME or calls:A:B"
		                                 : "the range never began: the program did not call cudaProfilerStart";
	case Kind::nvtx:
		return "the range never began: the program opened no NVTX range of that name";
	case Kind::calls:
		return fmt::format("the range never began: the program made only {}", plural(recorded.outside, "call"));
	case Kind::none:
		break;
	}
	return "the program made its last call before the delay was over";
}

std::string describeRecorded(const std::vector<trace::Trace> &runs)
{
	Recorded sum;
	size_t limited = 0;
	for (const auto &run : runs)
		if (auto recorded = recordedOf(run)) {
			const uint64_t calls = sum.calls, outside = sum.outside, begun = sum.begun;
			if (limited++ == 0 || !recorded->unseen.empty())
				sum = *recorded;
			else
				sum.calls = recorded->calls, sum.outside = recorded->outside, sum.begun = recorded->begun;
			sum.calls += calls, sum.outside += outside, sum.begun += begun;
		}
	if (limited == 0)
		return {};
	std::vector<std::string> settings;
	if (!sum.text.empty())
		settings.push_back("capture range " + sum.text);
	if (!std::isnan(sum.delay))
		settings.push_back(fmt::format("delay {:g} s", sum.delay));
	if (!std::isnan(sum.limit))
		settings.push_back(fmt::format("duration {:g} s", sum.limit));
	const uint64_t all = sum.calls + sum.outside, last = std::min(sum.range.last, all);
	const bool isByNumber =
	    limited == 1 && sum.range.kind == Kind::calls && sum.calls && sum.calls == last - sum.range.first + 1;
	auto text = isByNumber ? fmt::format("calls {} to {} of {}", count(sum.range.first), count(last), count(all))
	                       : fmt::format("{} of {}", count(sum.calls), plural(all, "call"));
	text += fmt::format(" ({})", fmt::join(settings, ", "));
	if (const auto why = whyNothing(sum); !why.empty())
		text += "; " + why;
	return text;
}

} // namespace autoamp::tool
