// Lists of the gradient scalers of the program: values, events, and kernels.
#include "tools/autoamp/account.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <cmath>

namespace autoamp::tool {

namespace {

// found_inf is a number of optimizers, or a flag.
Json wholeOrScale(double number)
{
	return number >= 0 && number < 1e9 && number == std::floor(number) ? wholeOrNull(number) : scaleOrNull(number);
}

Json unlessNegative(int64_t number)
{
	return number < 0 ? Json() : Json(number);
}

Json toJson(const trace::Trace &run, const trace::GradientCauseInfo &cause)
{
	const auto *row = run.row(cause.row);
	return {{"kind", orNull(cause.kind)},
	        {"time_ns", nanoseconds(cause.timeNs)},
	        {"site", row ? orNull(row->site) : Json()},
	        {"operand", std::string(1, cause.operand)},
	        {"entry", row ? orNull(row->entry) : Json()},
	        {"shape", row ? Json(shapeOf(*row)) : Json()}};
}

// Without an event, a sample.
Json toJson(const trace::Trace *run, const GradientStep &step)
{
	static const trace::GradientEvent none = {};
	const auto &event = step.event ? *step.event : none;
	Json causes = Json::array();
	for (const auto *cause : step.causes)
		causes.push_back(toJson(*run, *cause));
	return {{"kind", orNull(event.kind)},
	        {"step", event.step},
	        {"time_ns", nanoseconds(event.timeNs)},
	        {"scale_before", scaleOrNull(event.scaleBefore)},
	        {"scale_after", scaleOrNull(event.scaleAfter)},
	        {"tracker_before", unlessNegative(event.trackerBefore)},
	        {"tracker_after", unlessNegative(event.trackerAfter)},
	        {"found_inf", wholeOrScale(event.foundInf)},
	        {"hysteresis", unlessNegative(event.hysteresis)},
	        {"causes", causes}};
}

struct GradientRow {
	size_t run = 0;
	const trace::Trace *trace = nullptr; // null, like the scaler: a sample
	const trace::GradientScalerInfo *scaler = nullptr;
	GradientStep step;
};

// The text of each object of a list in a field.
Column several(const char *heading, const char *field, std::string (*show)(const Json &))
{
	return {heading, field, 'l', [field, show](const Json &row) {
		        std::string text;
		        for (const auto &each : row[field])
			        text += (text.empty() ? "" : "; ") + show(each);
		        return text.empty() ? "-" : text;
	        }};
}

std::string causeText(const Json &cause)
{
	const auto word = [&cause](const char *field) {
		return cause[field].is_null() ? "?" : cause[field].get<std::string>();
	};
	return fmt::format("{} in {} of {} {}", word("kind"), word("operand"), word("entry"), word("shape"));
}

} // namespace

Sheet observedSheet(const Runs &runs)
{
	struct Row {
		size_t run = 0;
		trace::ObservedScaler observed = {};
		std::string why;
	};
	std::vector<Row> list;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &observed : runs[run].observed)
			list.push_back({run, observed, whyNoValues(runs[run], observed)});
	const bool isAnyMissing = std::any_of(list.begin(), list.end(), [](const Row &row) { return !row.why.empty(); });
	auto sheet = Sheet::of("observed", "The program's own gradient scaler", std::move(list),
	                       [](const Row &each) {
		                       const auto &[run, observed, why] = each;
		                       return Json{{"run", run},
		                                   {"framework", orNull(observed.framework)},
		                                   {"step", orNull(observed.step)},
		                                   {"count", observed.count},
		                                   {"first_ns", nanoseconds(observed.firstNs)},
		                                   {"last_ns", nanoseconds(observed.lastNs)},
		                                   {"why_no_values", orNull(why)}};
	                       },
	                       {texts("framework", "framework"), texts("step", "step"), counts("kernels", "count"),
	                        durations("first", "first_ns"), durations("last", "last_ns")});
	if (isAnyMissing)
		sheet.columns.push_back(texts("values are missing because", "why_no_values"));
	return sheet;
}

Sheet gradientSheet(const Runs &runs)
{
	const auto show = [&runs](const Gradient &gradient) {
		static const trace::GradientScalerInfo none = {};
		const auto &info = gradient.info ? *gradient.info : none;
		const bool areSkipsKnown = gradient.info && gradient.areSkipsKnown();
		const Json skippedPercent =
		    info.steps && areSkipsKnown ? Json(100.0 * double(info.skipped) / double(info.steps)) : Json();
		Json events = Json::array(), findings = Json::array();
		for (const auto &step : gradient.steps)
			events.push_back(toJson(&runs[gradient.run], step));
		for (const auto &finding : gradient.findings)
			findings.push_back({{"finding", finding.name}, {"text", finding.text}});
		return Json{{"run", gradient.run},
		            {"scaler", info.name},
		            {"how", orNull(info.how)},
		            {"device", info.device},
		            {"steps", info.steps},
		            {"skipped", areSkipsKnown ? Json(info.skipped) : Json()},
		            {"skipped_percent", skippedPercent},
		            {"longest_skipped", areSkipsKnown ? Json(info.longestSkipped) : Json()},
		            {"growths", info.growths},
		            {"backoffs", info.backoffs},
		            {"sets", info.sets},
		            {"refusals", info.refusals},
		            {"holds", info.holds},
		            {"unseen", info.unseen},
		            {"scale_first", scaleOrNull(info.scaleFirst)},
		            {"scale_least", scaleOrNull(info.scaleLeast)},
		            {"scale_most", scaleOrNull(info.scaleMost)},
		            {"scale_last", scaleOrNull(info.scaleLast)},
		            {"growth", orNull(info.growth)},
		            {"backoff", orNull(info.backoff)},
		            {"interval", info.interval ? Json(info.interval) : Json()},
		            {"tracker", unlessNegative(info.tracker)},
		            {"first_ns", nanoseconds(info.firstNs)},
		            {"last_ns", nanoseconds(info.lastNs)},
		            {"device_times", info.hasDeviceTimes},
		            {"findings", findings},
		            {"events", events}};
	};
	const auto percent = [](const Json &row) {
		return row["skipped_percent"].is_null() ? "-" : fmt::format("{:.1f} %", row["skipped_percent"].get<double>());
	};
	return Sheet::of(
	    "gradient", "Gradient scalers of the program", gradientsOf(runs), show,
	    {texts("scaler", "scaler"),
	     scales("scale", "scale_last"),
	     counts("steps", "steps"),
	     counts("skipped", "skipped"),
	     {"share", "skipped_percent", 'r', percent},
	     counts("in a row", "longest_skipped"),
	     counts("growths", "growths"),
	     counts("backoffs", "backoffs"),
	     counts("sets", "sets"),
	     counts("refused", "refusals"),
	     counts("held", "holds"),
	     scales("first", "scale_first"),
	     scales("least", "scale_least"),
	     scales("most", "scale_most"),
	     counts("interval", "interval"),
	     texts("values from", "how"),
	     several("findings", "findings", [](const Json &each) { return each["text"].get<std::string>(); })});
}

Sheet gradientEventsSheet(const Runs &runs)
{
	std::vector<GradientRow> list;
	for (const auto &gradient : gradientsOf(runs))
		for (const auto &step : gradient.steps)
			list.push_back({gradient.run, &runs[gradient.run], gradient.info, step});
	const auto show = [](const GradientRow &row) {
		Json json = {{"run", row.run}, {"scaler", row.scaler ? row.scaler->name : ""}};
		json.update(toJson(row.trace, row.step));
		return json;
	};
	return Sheet::of("gradient_events", "Events of the gradient scalers", std::move(list), show,
	                 {texts("scaler", "scaler"), counts("step", "step"), durations("since start", "time_ns"),
	                  texts("event", "kind"), scales("scale before", "scale_before"),
	                  scales("scale after", "scale_after"), counts("tracker", "tracker_after"),
	                  texts("found_inf", "found_inf"), several("after events of", "causes", causeText)});
}

} // namespace autoamp::tool
