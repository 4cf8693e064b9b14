// The report as JSON: interface.md section 5, field by field. Unknown is null.
#include "tools/autoamp/report.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

namespace autoamp::tool {

namespace {

using Json = nlohmann::ordered_json;

Json orNull(const std::string &text)
{
	return text.empty() ? Json() : Json(text);
}
Json orNull(double number)
{
	return std::isfinite(number) ? Json(number) : Json();
}

Json nanoseconds(double number)
{
	return std::isfinite(number) ? Json(std::llround(number)) : Json();
}

std::string date(double ns)
{
	const auto seconds = static_cast<std::time_t>(ns / 1e9);
	std::tm parts = {};
	gmtime_r(&seconds, &parts);
	char text[32];
	return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Json describe(size_t id, const trace::Trace &run)
{
	Json versions = {{"autoamp", nullptr}, {"cublas", nullptr}, {"cudnn", nullptr}, {"cuda_driver", nullptr}};
	for (const auto &property : run.versions)
		versions[property.name] = orNull(property.value);
	Json config = Json::object();
	for (const auto &property : run.config)
		config[configName(property.name)] = property.value;
	const bool isNumber =
	    !run.rank.empty() && run.rank.find_first_not_of("0123456789") == std::string::npos && run.rank.size() < 10;
	return {{"id", id},
	        {"file", run.path},
	        {"host", orNull(run.host)},
	        {"pid", run.pid},
	        {"rank", isNumber ? Json(std::stoi(run.rank)) : orNull(run.rank)},
	        {"command", run.command},
	        {"emulated", run.emulated},
	        {"device", run.devices},
	        {"started", run.startedNs > 0 ? Json(date(run.startedNs)) : Json()},
	        {"ended", orNull(run.ended)},
	        {"died_inside", orNull(run.diedInside)},
	        {"versions", versions},
	        {"config", config}};
}

Json describe(size_t run, const trace::RowInfo &row)
{
	return {{"run", run},
	        {"device", row.device},
	        {"thread", nullptr},
	        {"library", orNull(row.library)},
	        {"entry", orNull(row.entry)},
	        {"op", orNull(row.op)},
	        {"m", row.m},
	        {"n", row.n},
	        {"k", row.k},
	        {"batch", row.batch},
	        {"shape", shapeOf(row)},
	        {"transa", std::string(1, row.transa)},
	        {"transb", std::string(1, row.transb)},
	        {"dtype_in", orNull(row.dtypeIn)},
	        {"dtype_asked", orNull(row.dtypeAsked)},
	        {"dtype_compute", orNull(row.dtypeCompute)},
	        {"dtype_accumulate", orNull(row.dtypeAccumulate)},
	        {"dtype_out", orNull(row.dtypeOut)},
	        {"decision", orNull(row.decision)},
	        {"reason", orNull(row.reason)},
	        {"strategy", orNull(row.strategy)},
	        {"eligible", row.eligible},
	        {"calls", row.calls},
	        {"captured", row.captured},
	        {"flops", row.flops()},
	        {"host_ns", nanoseconds(row.hostNs)},
	        {"kernel_ns", nullptr}, // measured device times need CUPTI
	        {"cast_ns", nullptr},
	        {"est_ns", orNull(row.estNs * double(row.calls))}, // totals of the row, as host_ns
	        {"est_lowered_ns", orNull(row.estLoweredNs * double(row.calls))},
	        {"est_source", "model"},
	        {"max_error", nullptr},
	        {"region", nullptr},
	        {"caller", orNull(row.caller)},
	        {"site", orNull(row.site)}};
}

Json describe(const trace::ScalerInfo &event, const trace::RowInfo *row)
{
	const bool isLoss = event.kind == "underflow" && row;
	return {{"time_ns", nanoseconds(event.timeNs)},
	        {"kind", event.kind},
	        {"site", orNull(event.site)},
	        {"operand", std::string(1, event.operand)},
	        {"scale_before", orNull(event.scaleBefore)},
	        {"scale_after", orNull(event.scaleAfter)},
	        {"amax", orNull(event.amax)},
	        {"rule", isLoss ? Json(ruleFor({row->entry})) : Json()}};
}

// Text of the application (paths, arguments) may be no UTF-8: shown, never refused.
std::string dump(const Json &value)
{
	return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// One element after the other: a report can have more rows than a document in memory should.
class Elements
{
public:
	Elements(std::FILE *out, const char *opening, const char *closing) : out_(out), closing_(closing)
	{
		std::fputs(opening, out_);
	}
	~Elements() { std::fputs(closing_, out_); }
	void add(const Json &value)
	{
		fmt::print(out_, "{}\n  {}", isFirst_ ? "" : ",", dump(value));
		isFirst_ = false;
	}

private:
	std::FILE *out_;
	const char *closing_;
	bool isFirst_ = true;
};

} // namespace

void writeJson(std::FILE *out, const Runs &runs, const Account &account)
{
	std::fputs("{\"schema\": \"autoamp.report/1\",\n", out);
	{
		Elements list(out, "\"runs\": [", "],\n");
		for (size_t id = 0; id < runs.size(); id++)
			list.add(describe(id, runs[id]));
	}
	const Json totals = {{"calls", account.all.calls},
	                     {"eligible", account.eligible.calls},
	                     {"lowered", account.lowered.calls},
	                     {"kept", account.kept.calls},
	                     {"raised", account.raised.calls},
	                     {"fallbacks", account.fallback.calls},
	                     {"observed", account.observed.calls},
	                     {"flops", account.all.flops},
	                     {"eligible_flops", account.eligible.flops},
	                     {"lowered_flops", account.lowered.flops}};
	fmt::print(out, "\"totals\": {},\n", dump(totals));
	{
		Elements list(out, "\"ops\": [", "],\n");
		for (size_t id = 0; id < runs.size(); id++)
			for (const auto &row : runs[id].rows)
				if (row.calls > 0)
					list.add(describe(id, row));
	}
	{
		Elements list(out, "\"reasons\": [", "],\n");
		for (const auto &reason : account.reasons)
			list.add({{"reason", orNull(reason.reason)},
			          {"decision", orNull(reason.decision)},
			          {"calls", reason.calls},
			          {"flops", reason.flops},
			          {"kernel_ns", nullptr},
			          {"advice", orNull(adviceOn(reason.reason))}});
	}
	std::fputs("\"scaler\": {", out);
	{
		Elements list(out, "\"events\": [", "],\n");
		for (const auto &run : runs)
			for (const auto &event : run.scaler)
				list.add(describe(event, run.row(event.row)));
	}
	{
		Elements list(out, "\"totals\": [", "],\n\"observed\": []},\n");
		for (size_t id = 0; id < runs.size(); id++)
			for (const auto &total : runs[id].scalerTotals)
				list.add({{"run", id},
				          {"kind", total.kind},
				          {"site", orNull(total.site)},
				          {"operand", std::string(1, total.operand)},
				          {"count", total.count}});
	}
	const Json loss = {{"events_dropped", account.loss.eventsDropped},
	                   {"calls_lost", account.loss.callsLost},
	                   {"kernels_unattributed", nullptr}, // no kernel was traced: unknown
	                   {"invalid_timestamps", nullptr},
	                   {"truncated", account.loss.truncated}};
	fmt::print(out, "\"loss\": {}}}\n", dump(loss));
}

} // namespace autoamp::tool
