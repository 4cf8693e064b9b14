// The report as JSON: interface.md section 5, field by field. Unknown is null. Its objects are the rows of CSV too, and
// what lists are sorted by: a column has one name and one value wherever it stands.
#include "tools/autoamp/report.h"

#include <algorithm>
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
	Json config = Json::object(), origins = Json::object(), rules = Json::array();
	for (const auto &property : run.config)
		config[configName(property.name)] = property.value, origins[configName(property.name)] = property.origin;
	for (const auto &property : run.rules)
		rules.push_back({{"rule", property.value}, {"origin", property.origin}});
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
	        {"config", config},
	        {"config_origin", origins},
	        {"rules", rules}};
}

Json describe(const OpsRow &place)
{
	static const trace::RowInfo none = {};
	const auto &row = place.row ? *place.row : none;
	return {{"run", place.run},
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
	        {"region", orNull(row.region)},
	        {"caller", orNull(row.caller)},
	        {"site", orNull(row.site)}};
}

Json describe(const ReasonSum &reason)
{
	return {{"reason", orNull(reason.reason)},
	        {"decision", orNull(reason.decision)},
	        {"calls", reason.calls},
	        {"flops", reason.flops},
	        {"kernel_ns", nullptr},
	        {"advice", orNull(adviceOn(reason.reason))}};
}

Json describe(const Group &group)
{
	return {{group.by, orNull(group.key)},
	        {"calls", group.calls},
	        {"eligible", group.eligible.calls},
	        {"lowered", group.lowered.calls},
	        {"flops", group.flops},
	        {"lowered_flops", group.lowered.flops},
	        {"host_ns", nanoseconds(group.hostNs)},
	        {"est_ns", orNull(group.estNs)},
	        {"est_lowered_ns", orNull(group.estLoweredNs)}};
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
	        {"rule", isLoss ? Json(ruleFor(*row)) : Json()}};
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

// Unknown last, numbers from the largest, texts from A.
bool isBefore(const Json &x, const Json &y)
{
	if (x.is_null() || y.is_null())
		return !x.is_null();
	return x.is_string() ? x < y : y < x;
}

std::string cell(const Json &value)
{
	if (!value.is_string())
		return value.is_null() ? "" : value.dump();
	auto text = Json::parse(dump(value)).get<std::string>(); // UTF-8 now
	if (text.find_first_of(",\"\r\n") == std::string::npos)
		return text;
	for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
		text.insert(at, 1, '"');
	return '"' + text + '"';
}

} // namespace

template <typename Item>
void select(std::vector<Item> &list, const Selection &selection)
{
	if (!selection.sort.empty() && !list.empty()) {
		std::vector<std::string> columns;
		const Json sample = describe(list.front());
		for (const auto &[name, value] : sample.items())
			columns.push_back(name);
		if (!sample.contains(selection.sort))
			fail(Status::wrong, "report: no column '{}' to sort by; there are {}", selection.sort,
			     fmt::join(columns, ", "));
		std::vector<std::pair<Json, Item>> keyed;
		for (auto &item : list) {
			Json key = describe(item)[selection.sort];
			keyed.emplace_back(std::move(key), std::move(item));
		}
		std::stable_sort(keyed.begin(), keyed.end(), [](auto &x, auto &y) { return isBefore(x.first, y.first); });
		std::transform(keyed.begin(), keyed.end(), list.begin(), [](auto &each) { return std::move(each.second); });
	}
	if (selection.top > 0 && list.size() > selection.top)
		list.resize(selection.top);
}

template <typename Item>
void writeCsv(std::FILE *out, const std::vector<Item> &list)
{
	const auto line = [&](const Item &item, bool isHeading) {
		const char *separator = "";
		const Json object = describe(item);
		for (const auto &[name, value] : object.items())
			fmt::print(out, "{}{}", std::exchange(separator, ","), isHeading ? name : cell(value));
		std::fputs("\r\n", out);
	};
	line(list.empty() ? Item{} : list.front(), true);
	for (const auto &item : list)
		line(item, false);
}

template void select(std::vector<OpsRow> &, const Selection &);
template void select(std::vector<Group> &, const Selection &);
template void select(std::vector<ReasonSum> &, const Selection &);
template void writeCsv(std::FILE *, const std::vector<OpsRow> &);
template void writeCsv(std::FILE *, const std::vector<Group> &);
template void writeCsv(std::FILE *, const std::vector<ReasonSum> &);

void writeJson(std::FILE *out, const Runs &runs, const Account &account, const std::vector<OpsRow> &ops,
               const std::vector<Group> &groups)
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
		for (const auto &row : ops)
			list.add(describe(row));
	}
	if (!groups.empty()) {
		Elements list(out, "\"groups\": [", "],\n");
		for (const auto &group : groups)
			list.add(describe(group));
	}
	{
		Elements list(out, "\"reasons\": [", "],\n");
		for (const auto &reason : account.reasons)
			list.add(describe(reason));
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
