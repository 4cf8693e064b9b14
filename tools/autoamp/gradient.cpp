#include "tools/autoamp/gradient.h"

#include "tools/autoamp/text.h"
#include "tools/autoamp/timeline.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace autoamp::tool {

namespace {

constexpr uint64_t warmUp = 100, fewSteps = 20; // steps
constexpr double muchSkipped = 0.05;

// Steps that were skipped after the warm-up, as a share of the steps after it; 0: too few steps.
double skippedLater(const Gradient &gradient)
{
	const auto &info = *gradient.info;
	if (info.steps < warmUp + fewSteps)
		return 0;
	const auto early = std::count_if(gradient.steps.begin(), gradient.steps.end(), [](const GradientStep &step) {
		return step.isSkipped() && step.event->step <= warmUp;
	});
	return (double(info.skipped) - double(early)) / double(info.steps - warmUp);
}

// The rules of DeepSpeed and of MindSpore's manager count on after a growth. autoamp's scaler can have them.
bool isClearedByGrowth(const trace::GradientScalerInfo &info)
{
	return !info.name.starts_with("deepspeed") && !info.name.starts_with("autoamp") && info.how != "autoamp";
}

std::vector<GradientFinding> findingsOf(const trace::Trace &run, const Gradient &gradient)
{
	const auto &info = *gradient.info;
	std::vector<GradientFinding> findings;
	if (info.scaleLast == 0)
		findings.push_back({"scale_zero", "the scale is 0, and an update cannot change it"});
	else if (std::isinf(info.scaleLast))
		findings.push_back({"scale_infinite", "the scale is infinite, so every step is skipped"});
	else if (info.scaleLeast < 1 && info.scaleLeast < info.scaleFirst)
		findings.push_back({"scale_below_one", fmt::format("the scale fell to {}", scaleText(info.scaleLeast))});
	if (info.interval > 0 && info.tracker >= int64_t{info.interval} && isClearedByGrowth(info))
		findings.push_back(
		    {"growth_stopped", fmt::format("the growth tracker ({}) is beyond the interval ({}): no growth before the "
		                                   "next overflow",
		                                   info.tracker, info.interval)});
	if (const double part = skippedLater(gradient); part > muchSkipped)
		findings.push_back(
		    {"many_skipped", fmt::format("{} of the steps after the first {} were skipped", share(part, 1), warmUp)});
	if (info.refusals > 0)
		findings.push_back({"growth_refused", fmt::format("{} {} refused at the largest scale",
		                                                  plural(info.refusals, "growth", "growths"),
		                                                  info.refusals == 1 ? "was" : "were")});
	if (info.unseen > 0)
		findings.push_back({"values_lost", fmt::format("the values of {} were lost", plural(info.unseen, "step"))});
	// The first event is in addition to those of the totals.
	const uint64_t events = (info.steps > 0) + info.growths + info.backoffs + info.sets + info.refusals + info.holds;
	if (gradient.steps.size() < events)
		findings.push_back({"events_left_out", fmt::format("only the first {} of {} events are listed",
		                                                   count(gradient.steps.size()), count(events))});
	if (info.how != "python" && areLastUpdatesLost(run))
		findings.push_back({"last_lost", "the last steps can be missing: no normal exit"});
	return findings;
}

// "1-2, 50 and 3 more": the skipped steps, as ranges.
std::string rangesOf(const Gradient &gradient, size_t most)
{
	std::vector<std::pair<uint64_t, uint64_t>> ranges;
	uint64_t shown = 0;
	for (const auto &step : gradient.steps) {
		if (!step.isSkipped())
			continue;
		if (!ranges.empty() && ranges.back().second + 1 == step.event->step)
			ranges.back().second++;
		else if (ranges.size() < most)
			ranges.emplace_back(step.event->step, step.event->step);
		else
			break;
		shown++;
	}
	std::string text;
	for (const auto &[first, last] : ranges)
		text += fmt::format("{}{}{}", text.empty() ? "" : ", ", count(first), last > first ? "-" + count(last) : "");
	const uint64_t more = gradient.info->skipped > shown ? gradient.info->skipped - shown : 0;
	return more == 0 || text.empty() ? text : text + fmt::format(" and {} more", count(more));
}

// scaler torch#0: scale 2^15; 3 of 120 steps skipped: 1-2, 50 (12.1 ms to 1.20 s)
std::string describe(const Gradient &gradient, const std::string &ofRun)
{
	const auto &info = *gradient.info;
	if (!gradient.areSkipsKnown())
		return fmt::format("scaler {}{}: scale unknown; {}, skipped steps unknown", info.name, ofRun,
		                   plural(info.steps, "step"));
	auto text = fmt::format("scaler {}{}: scale {}; {} of {} skipped", info.name, ofRun,
	                        std::isnan(info.scaleLast) ? "unknown" : scaleText(info.scaleLast), count(info.skipped),
	                        plural(info.steps, "step"));
	const auto isSkipped = [](const GradientStep &step) { return step.isSkipped(); };
	const auto first = std::find_if(gradient.steps.begin(), gradient.steps.end(), isSkipped);
	if (first == gradient.steps.end())
		return text;
	const auto last = std::find_if(gradient.steps.rbegin(), gradient.steps.rend(), isSkipped);
	const double lastNs = std::isnan(info.lastSkippedNs) ? last->event->timeNs : info.lastSkippedNs;
	text += fmt::format(": {} ({}", rangesOf(gradient, 2), duration(first->event->timeNs));
	return text + (info.skipped == 1 ? ")" : fmt::format(" to {})", duration(lastNs)));
}

} // namespace

bool Gradient::areSkipsKnown() const
{
	return info->skipped > 0 || !std::isnan(info->scaleLast);
}

bool GradientStep::isSkipped() const
{
	return event->kind == "backoff" || event->kind == "hold";
}

bool areLastUpdatesLost(const trace::Trace &run)
{
	return run.ended != "running" && !run.ended.starts_with("exit");
}

std::vector<Gradient> gradientsOf(const Runs &runs)
{
	std::vector<Gradient> gradients;
	for (size_t run = 0; run < runs.size(); run++) {
		std::map<uint32_t, Gradient> ofRun; // by id; of equal ids, in a damaged trace, the first
		for (const auto &info : runs[run].gradientScalers)
			ofRun.try_emplace(info.id, Gradient{run, &info, {}, {}});
		for (const auto &event : runs[run].gradientEvents)
			if (const auto found = ofRun.find(event.scaler); found != ofRun.end())
				found->second.steps.push_back({&event, {}});
		std::map<std::pair<uint32_t, uint64_t>, std::vector<const trace::GradientCauseInfo *>> causes;
		for (const auto &cause : runs[run].gradientCauses)
			causes[{cause.scaler, cause.step}].push_back(&cause);
		for (auto &[id, gradient] : ofRun) {
			for (auto &step : gradient.steps)
				if (const auto found = causes.find({id, step.event->step}); step.isSkipped() && found != causes.end())
					step.causes = found->second;
			gradient.findings = findingsOf(runs[run], gradient);
			gradients.push_back(std::move(gradient));
		}
	}
	return gradients;
}

std::vector<std::pair<double, double>> curveOf(const Gradient &gradient)
{
	const auto &info = *gradient.info;
	std::vector<std::pair<double, double>> points = {{info.firstNs, info.scaleFirst}};
	for (const auto &step : gradient.steps)
		points.emplace_back(step.event->timeNs, step.event->scaleAfter);
	points.emplace_back(info.lastNs, info.scaleLast);
	std::erase_if(points, [](auto &point) { return !std::isfinite(point.first) || !std::isfinite(point.second); });
	return points;
}

std::string describeSkip(const GradientStep &step)
{
	return fmt::format("step {} skipped, {} to {}", count(step.event->step), scaleText(step.event->scaleBefore),
	                   scaleText(step.event->scaleAfter));
}

Consequences::Consequences(const Runs &runs)
{
	for (const auto &gradient : gradientsOf(runs))
		for (const auto &cause : runs[gradient.run].gradientCauses)
			if (cause.scaler == gradient.info->id)
				ledTo_.try_emplace({gradient.run, cause.row, cause.operand, cause.kind, std::llround(cause.timeNs)},
				                   LedTo{gradient.info, cause.step});
}

LedTo Consequences::of(size_t run, const trace::ScalerInfo &event) const
{
	const auto found = ledTo_.find({run, event.row, event.operand, event.kind, std::llround(event.timeNs)});
	return found == ledTo_.end() ? LedTo{} : found->second;
}

namespace {

// The reason in a note, why values of a scaler are missing; "": the note is about something else.
std::string textOf(const trace::NoteInfo &note)
{
	return note.kind == trace::noteOfGradient ? note.text
	       : note.kind == trace::noteOfLayout ? demangled(note.text) + " has unknown parameters"
	                                          : std::string();
}

// The reason why values are missing although update kernels ran. `some`: number of the launches; 0: all.
std::string whyUnread(const trace::Trace &run, uint64_t some)
{
	for (const auto &note : run.notes)
		if (const auto why = textOf(note); !why.empty())
			return why;
	return some ? fmt::format("the launches of {} were not intercepted (static CUDA runtime, driver API)",
	                          plural(some, "update kernel"))
	            : "the launches of the update kernel were not intercepted (static CUDA runtime, driver API)";
}

} // namespace

std::string whyNoValues(const trace::Trace &run, const trace::ObservedScaler &observed)
{
	uint64_t scalers = 0, steps = 0; // those of the framework, and the updates by its kernel
	bool isPython = false;
	for (const auto &info : run.gradientScalers) {
		const bool isOfFramework = info.name.starts_with(observed.framework + '#');
		scalers += isOfFramework;
		steps += isOfFramework && info.how == "update_kernel" ? info.steps : 0;
		isPython |= info.how == "python";
	}
	if (observed.step == "update" && steps && steps < observed.count && run.ended.starts_with("exit"))
		return whyUnread(run, observed.count - steps);
	// Megatron-LM and others unscale by torch's kernels and update on the host.
	if (scalers || (observed.framework == "torch" && observed.step == "unscale" && isPython))
		return {};
	const bool isUpdated = std::any_of(run.observed.begin(), run.observed.end(), [&](const auto &other) {
		return other.framework == observed.framework && other.step == "update";
	});
	if (isUpdated)
		return whyUnread(run, 0);
	if (observed.framework == "apex")
		return "apex amp keeps the scale in Python";
	if (observed.framework == "paddle")
		return "Paddle computes the scale on the host; autoamp run --watch-python records it";
	return fmt::format("{}; autoamp run --watch-python records the scalers of Megatron-LM and DeepSpeed",
	                   areLastUpdatesLost(run)
	                       ? "no update kernel was recorded before the process ended"
	                       : "no update kernel ran: the program updates the scale on the host, or not at all");
}

std::vector<std::string> describeGradients(const Runs &runs)
{
	constexpr size_t most = 3;
	auto gradients = gradientsOf(runs);
	std::stable_sort(gradients.begin(), gradients.end(), [](const Gradient &x, const Gradient &y) {
		return std::pair(x.findings.size(), x.info->skipped) > std::pair(y.findings.size(), y.info->skipped);
	});
	std::vector<std::string> lines;
	for (size_t i = 0; i < std::min(most, gradients.size()); i++) {
		lines.push_back(describe(gradients[i], runs.size() > 1 ? ", " + nameOf(runs[gradients[i].run]) : ""));
		for (const auto &finding : gradients[i].findings)
			lines.push_back(fmt::format("scaler {}: {}", gradients[i].info->name, finding.text));
	}
	if (gradients.size() > most)
		lines.push_back(
		    fmt::format("and {} (--report scaler)", plural(gradients.size() - most, "more gradient scaler")));
	for (const auto &run : runs)
		for (const auto &note : run.notes)
			if (const auto why = textOf(note); !why.empty())
				lines.push_back("gradient scaler: values are missing: " + why);
	const auto isTold = [&lines](const std::string &why) {
		return std::any_of(lines.begin(), lines.end(), [&why](const auto &line) { return line.ends_with(why); });
	};
	for (const auto &run : runs)
		for (const auto &observed : run.observed)
			if (const auto why = whyNoValues(run, observed);
			    !why.empty() && (gradients.empty() || observed.step == "update") && !isTold(why)) {
				lines.push_back(fmt::format("gradient scaler of {}: {}", observed.framework, why));
				return lines; // one is enough for a summary
			}
	return lines;
}

} // namespace autoamp::tool
