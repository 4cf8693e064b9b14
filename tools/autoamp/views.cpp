// The views: their rows, with the fields of docs/report-json.md, and the columns of their tables.
#include "tools/autoamp/views.h"

#include "tools/autoamp/gradient.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

namespace autoamp::tool {

namespace {

std::string date(double ns)
{
	const auto seconds = static_cast<std::time_t>(ns / 1e9);
	std::tm parts = {};
	gmtime_r(&seconds, &parts);
	char text[32];
	return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Json toJson(const ReasonSum &reason)
{
	return {{"reason", orNull(reason.reason)},
	        {"decision", orNull(reason.decision)},
	        {"calls", reason.calls},
	        {"flops", reason.flops},
	        {"host_ns", reason.hostNs > 0 ? nanoseconds(reason.hostNs) : Json()}, // only of timed calls
	        {"kernel_ns", nanoseconds(reason.kernelNs)},
	        {"est_ns", orNull(reason.estNs)},
	        {"est_lowered_ns", orNull(reason.estLoweredNs)},
	        {"means", orNull(reason.meaning())},
	        {"causes", orNull(fmt::format("{}", fmt::join(reason.causes, ", ")))},
	        {"advice", orNull(reason.advice())}};
}

Json toJson(const Group &group)
{
	return {{group.by, orNull(group.key)},
	        {"calls", group.calls},
	        {"eligible", group.eligible.calls},
	        {"lowered", group.lowered.calls},
	        {"flops", group.flops},
	        {"lowered_flops", group.lowered.flops},
	        {"host_ns", group.hostNs > 0 ? nanoseconds(group.hostNs) : Json()}, // only of timed calls
	        {"kernel_ns", nanoseconds(group.kernelNs)},
	        {"est_ns", orNull(group.estNs)},
	        {"est_lowered_ns", orNull(group.estLoweredNs)}};
}

// A record of one run with its row.
template <typename Info>
struct Of {
	size_t run = 0;
	Info info = {};
	const trace::RowInfo *row = nullptr;
};

template <typename Info>
std::vector<Of<Info>> ofAll(const Runs &runs, std::vector<Info> trace::Trace::*list)
{
	std::vector<Of<Info>> all;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &info : runs[run].*list)
			all.push_back({run, info, runs[run].row(info.row)});
	return all;
}

std::string nameOf(const Json &row)
{
	return row["entry"].is_null() ? "-" : row["entry"].get<std::string>() + " " + row["shape"].get<std::string>();
}

Json ruleOf(const std::string &kind, const trace::RowInfo *row)
{
	return kind == "underflow" && row ? Json(ruleFor(*row)) : Json();
}

Json tensorCoresOf(trace::TensorCores known)
{
	return known == trace::TensorCores::unknown ? Json() : Json(known == trace::TensorCores::yes);
}

// The time of a call in fp32, of which only that of audited calls is known, relative to the actual time of all calls.
const Column ratios = {"gain (measured)", "fp32_ns", 'r', [](const Json &row) {
	                       if (row["fp32_ns"].is_null() || row["host_ns"].is_null())
		                       return std::string("-");
	                       const double fp32Ns = row["fp32_ns"].get<double>() / row["audited"].get<double>();
	                       return fmt::format("{:.2f}x", fp32Ns * row["calls"].get<double>() /
	                                                         std::max(1.0, row["host_ns"].get<double>()));
                       }};

// "watched 98.0 %", or the reasons why operands are not kept.
std::string weightsOf(const Json &row)
{
	const auto &weights = row["weights"];
	if (weights.is_null())
		return "-";
	std::string text;
	if (!weights["how"].is_null())
		text = fmt::format("{} {}", weights["how"].get<std::string>(),
		                   share(weights["served"].get<double>(),
		                         weights["served"].get<double>() + weights["converted"].get<double>()));
	for (const auto &[reason, calls] : weights["reasons"].items())
		if (calls > 0 || weights["how"].is_null())
			text += (text.empty() ? "" : ", ") + reason;
	return text;
}

const Column callColumn = {"call", "entry", 'l', nameOf};

Json toJson(const Recorded &recorded)
{
	return {{"range", orNull(recorded.text)},
	        {"delay_s", orNull(recorded.delay)},
	        {"duration_s", orNull(recorded.limit)},
	        {"begun", recorded.begun},
	        {"calls", recorded.calls},
	        {"calls_outside", recorded.outside},
	        {"why_nothing", orNull(whyNothing(recorded))}};
}

} // namespace

Json toJson(size_t id, const trace::Trace &run)
{
	Json versions = {{"autoamp", nullptr}, {"cublas", nullptr}, {"cudnn", nullptr}, {"cuda_driver", nullptr}};
	for (const auto &property : run.versions)
		versions[property.name] = orNull(property.value);
	Json config = Json::object(), origins = Json::object(), rules = Json::array();
	for (const auto &property : run.config)
		config[configName(property.name)] = property.value, origins[configName(property.name)] = property.origin;
	for (const auto &property : run.rules)
		rules.push_back({{"rule", property.value}, {"origin", property.origin}});
	Json capabilities = Json::array();
	for (const int capability : run.capabilities)
		capabilities.push_back(capability > 0 ? Json(capability) : Json());
	const auto recorded = recordedOf(run);
	const bool isNumber =
	    !run.rank.empty() && run.rank.find_first_not_of("0123456789") == std::string::npos && run.rank.size() < 10;
	const bool isSignalled = run.conclusion.ended >= trace::Ended::signalled;
	return {{"id", id},
	        {"file", run.path},
	        {"run_id", run.run.inner ? Json(fmt::format("{:016x}", run.run.inner)) : Json()},
	        {"host", orNull(run.host)},
	        {"pid", run.pid},
	        {"rank", isNumber ? Json(std::stoi(run.rank)) : orNull(run.rank)},
	        {"command", run.command},
	        {"launched", orNull(run.launched)},
	        {"folder", orNull(run.folder)},
	        {"emulated", run.emulated},
	        {"device", run.devices},
	        {"compute_capability", capabilities},
	        {"started", run.startedNs > 0 ? Json(date(run.startedNs)) : Json()},
	        {"ended", orNull(run.ended)},
	        {"died_inside", orNull(run.diedInside)},
	        {"signal", isSignalled ? Json(run.conclusion.value) : Json()},
	        {"status", run.conclusion.ended == trace::Ended::exited ? Json(run.conclusion.value) : Json()},
	        {"process", run.number > 0 ? Json(run.number) : Json()},
	        {"processes", run.conclusion.processes > 0 ? Json(run.conclusion.processes) : Json()},
	        {"capture", recorded ? toJson(*recorded) : Json()},
	        {"scaler_gap", orNull(scalerGap(run))},
	        {"expected_kernels", run.launches ? Json(run.launches->kernels) : Json()},
	        {"received_kernels", run.launches ? Json(run.launches->kernelsReceived) : Json()},
	        {"graph_launches", run.launches ? Json(run.launches->graphs) : Json()},
	        {"received_graphs", run.launches ? Json(run.launches->graphsReceived) : Json()},
	        {"versions", versions},
	        {"config", config},
	        {"config_origin", origins},
	        {"rules", rules}};
}

Json toJson(const OpsRow &place)
{
	static const trace::RowInfo none = {};
	const auto &row = place.row ? *place.row : none;
	const bool isSized = row.shape != "unknown";
	WeightsSum weights;
	weights.add(row);
	const auto size = [isSized](int64_t number) { return isSized ? Json(number) : Json(); };
	return {{"run", place.run},
	        {"device", row.device != trace::kNoDevice ? Json(row.device) : Json()},
	        {"thread", nullptr},
	        {"library", orNull(row.library)},
	        {"entry", orNull(row.entry)},
	        {"op", orNull(row.op)},
	        {"m", size(row.m)},
	        {"n", size(row.n)},
	        {"k", size(row.k)},
	        {"batch", size(row.batch)},
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
	        {"cause", orNull(row.cause)},
	        {"strategy", orNull(row.strategy)},
	        {"eligible", row.eligible},
	        {"calls", row.calls},
	        {"captured", row.isCounted ? Json() : Json(row.captured)},
	        {"flops", row.flops()},
	        {"host_ns", row.isCounted ? Json() : nanoseconds(row.hostNs)},
	        {"kernel_ns", nanoseconds(row.kernelNs)},
	        {"cast_ns", nanoseconds(row.castNs)},
	        {"tc", tensorCoresOf(row.tensorCores)},
	        {"est_ns", orNull(row.estNs * double(row.calls))}, // total of the row, like host_ns
	        {"est_lowered_ns", orNull(row.estLoweredNs * double(row.calls))},
	        {"est_source", "model"},
	        {"plan_ns", orNull(place.planNs)},
	        {"max_error", orNull(row.audit.orUnknown(row.audit.most))},
	        {"audited", row.audit.timed}, // with both times
	        {"fp32_ns", row.audit.timed > 0 ? nanoseconds(row.audit.fp32Ns) : Json()},
	        {"audited_ns", row.audit.timed > 0 ? nanoseconds(row.audit.actualNs) : Json()},
	        {"weights", toJson(weights)},
	        {"region", orNull(row.region)},
	        {"caller", orNull(row.caller)},
	        {"site", orNull(row.site)}};
}

Json toJsonWithBest(const OpsRow &place)
{
	static const trace::RowInfo none = {};
	const auto &row = place.row ? *place.row : none;
	auto object = toJson(place);
	object.update(Json{{"est_best_ns", orNull(row.estBestNs * double(row.calls))},
	                   {"best_precision", orNull(row.bestPrecision)}});
	return object;
}

namespace {

Json knownTime(const Sum &sum, Times times)
{
	return times == Times::model && std::isnan(sum.estNs) ? Json() : orNull(sum.timeNs(times));
}

// The time of the calls of a row as they ran.
double asRunNs(const trace::RowInfo &row, Times times)
{
	switch (times) {
	case Times::host:
		return row.isCounted ? NAN : row.hostNs;
	case Times::kernels:
		return std::isnan(row.castNs) ? row.kernelNs : row.kernelNs + row.castNs;
	case Times::model:
		break;
	}
	return modelTimes(row).asRunNs;
}

} // namespace

Sheet opsSheet(std::vector<OpsRow> list, const Account &account)
{
	const auto word = [](const Json &row, const char *field) {
		return row[field].is_string() ? row[field].get<std::string>() : std::string();
	};
	const auto times = account.times;
	double whole = 0;
	for (const auto &place : list)
		if (const double ns = asRunNs(*place.row, times); ns > 0)
			whole += ns;
	std::vector<Column> columns = {texts("entry point", "entry"),
	                               shapes(),
	                               durations(headingOf(times), "as_run_ns"),
	                               shares("share", "as_run_ns", whole),
	                               counts("calls", "calls"),
	                               {"decision", "decision", 'l',
	                                [word](const Json &row) {
		                                const auto reason = word(row, "reason");
		                                return word(row, "decision") + (reason.empty() ? "" : ": " + reason);
	                                }},
	                               {"types", "dtype_compute", 'l', [word](const Json &row) {
		                                const auto in = word(row, "dtype_in"), compute = word(row, "dtype_compute");
		                                return compute.empty() || compute == in ? in : in + " > " + compute;
	                                }}};
	if (times == Times::host)
		columns.insert(columns.end(), {ratios, counts("audited", "audited")});
	else
		columns.insert(columns.end(),
		               {durations("unchanged (model)", "est_ns"), durations("best (model)", "est_best_ns")});
	if (times == Times::kernels)
		columns.push_back(durations("conversions", "cast_ns"));
	if (!account.weights.isOff())
		columns.push_back({"kept copies", "weights", 'l', weightsOf});
	columns.insert(columns.end(), {amounts("FLOP", "flops"), texts("op", "op")});
	return Sheet::of(
	    "ops", "Calls by signature and decision", std::move(list),
	    [times](const OpsRow &place) {
		    static const trace::RowInfo none = {};
		    const auto &row = place.row ? *place.row : none;
		    auto object = toJsonWithBest(place);
		    object.update(Json{{"as_run_ns", orNull(asRunNs(row, times))}, {"as_run_source", nameOf(times)}});
		    return object;
	    },
	    columns);
}

Sheet groupsSheet(std::vector<Group> list, const Account &account)
{
	Group none;
	none.by = list.empty() ? "group" : list.front().by;
	const auto times = account.times;
	double whole = 0;
	for (const auto &group : list)
		whole += group.timeNs(times);
	std::vector<Column> columns = {texts(none.by.c_str(), none.by.c_str()),
	                               durations(headingOf(times), "as_run_ns"),
	                               shares("share", "as_run_ns", whole),
	                               counts("calls", "calls"),
	                               amounts("FLOP", "flops"),
	                               {"FLOP lowered", "lowered_flops", 'r', [](const Json &row) {
		                                return share(row["lowered_flops"].get<double>(), row["flops"].get<double>());
	                                }}};
	if (times != Times::host)
		columns.insert(columns.end(), {durations("unchanged (model)", "est_ns"), durations("host thread", "host_ns")});
	const auto describe = [times](const Group &group) {
		auto object = toJson(group);
		object.update(Json{{"as_run_ns", knownTime(group, times)}});
		return object;
	};
	auto sheet = Sheet::of("groups", "Calls in groups", std::move(list), describe, columns);
	sheet.sample = describe(none); // the name of the first field is the grouping
	return sheet;
}

Sheet reasonsSheet(const Account &account)
{
	const auto times = account.times;
	return Sheet::of("reasons", "Reasons, most time first", account.reasons,
	                 [times](const ReasonSum &reason) {
		                 auto object = toJson(reason);
		                 object.update(Json{{"as_run_ns", knownTime(reason, times)}});
		                 return object;
	                 },
	                 {texts("reason", "reason"),
	                  texts("decision", "decision"),
	                  durations(headingOf(times), "as_run_ns"),
	                  counts("calls", "calls"),
	                  amounts("FLOP", "flops"),
	                  {"which means", "means", 'l',
	                   [](const Json &row) {
		                   const auto text = row["means"].is_null() ? "-" : row["means"].get<std::string>();
		                   return row["causes"].is_null() ? text : text + ": " + row["causes"].get<std::string>();
	                   }},
	                  texts("try", "advice")});
}

Sheet scalerSheet(const Runs &runs)
{
	using Event = Of<trace::ScalerInfo>;
	const auto column = [](const char *heading, const char *field, std::string (*show)(double)) {
		return Column{heading, field, 'r', [field, show](const Json &row) {
			              return row[field].is_null() ? "-" : show(row[field].get<double>());
		              }};
	};
	const auto consequences = std::make_shared<Consequences>(runs);
	auto sheet = Sheet::of(
	    "events", "History of the scales", ofAll(runs, &trace::Trace::scaler),
	    [consequences](const Event &event) {
		    const auto &info = event.info;
		    const auto ledTo = consequences->of(event.run, info);
		    return Json{{"run", event.run},
		                {"time_ns", nanoseconds(info.timeNs)},
		                {"kind", info.kind},
		                {"site", orNull(info.site)},
		                {"operand", std::string(1, info.operand)},
		                {"scale_before", orNull(info.scaleBefore)},
		                {"scale_after", orNull(info.scaleAfter)},
		                {"amax", orNull(info.amax)},
		                {"excess", orNull(info.excess)},
		                {"lost_rows", wholeOrNull(info.lostRows)},
		                {"lost_columns", wholeOrNull(info.lostColumns)},
		                {"entry", event.row ? orNull(event.row->entry) : Json()},
		                {"shape", event.row ? Json(shapeOf(*event.row)) : Json()},
		                {"rule", ruleOf(info.kind, event.row)},
		                {"led_to", ledTo.scaler ? Json{{"scaler", ledTo.scaler->name}, {"step", ledTo.step}} : Json()}};
	    },
	    {callColumn, texts("operand", "operand"), durations("since start", "time_ns"), texts("event", "kind"),
	     scales("scale before", "scale_before"), scales("scale after", "scale_after"),
	     column("largest value", "amax", [](double number) { return fmt::format("{:.3g}", number); }),
	     column("error", "excess", [](double number) { return fmt::format("{:.2g}", number); }),
	     column("rows lost", "lost_rows", [](double number) { return fmt::format("{:.0f}", number); }),
	     column("columns lost", "lost_columns", [](double number) { return fmt::format("{:.0f}", number); }),
	     texts("site", "site")});
	if (!consequences->isEmpty())
		sheet.columns.push_back({"led to", "led_to", 'l', [](const Json &row) {
			                         const auto &to = row["led_to"];
			                         return to.is_null() ? std::string("-")
			                                             : fmt::format("{} step {}", to["scaler"].get<std::string>(),
			                                                           to["step"].get<uint64_t>());
		                         }});
	return sheet;
}

Sheet scalerSitesSheet(const Runs &runs)
{
	using Total = Of<trace::ScalerTotal>;
	auto totals = ofAll(runs, &trace::Trace::scalerTotals);
	// Sites that lost values come first.
	static constexpr const char *harmless[] = {"init", "rescale"};
	std::stable_sort(totals.begin(), totals.end(), [](const Total &x, const Total &y) {
		const auto isWorry = [](const Total &total) {
			const auto &kind = total.info.kind;
			return isOfWeights(kind) ? kind == "changed"
			                         : std::find(std::begin(harmless), std::end(harmless), kind) == std::end(harmless);
		};
		return std::pair(isWorry(x), x.info.count) > std::pair(isWorry(y), y.info.count);
	});
	return Sheet::of("totals", "Scaler events by operand", std::move(totals),
	                 [](const Total &total) {
		                 return Json{{"run", total.run},
		                             {"kind", total.info.kind},
		                             {"site", orNull(total.info.site)},
		                             {"operand", std::string(1, total.info.operand)},
		                             {"count", total.info.count},
		                             {"entry", total.row ? orNull(total.row->entry) : Json()},
		                             {"shape", total.row ? Json(shapeOf(*total.row)) : Json()},
		                             {"rule", ruleOf(total.info.kind, total.row)}};
	                 },
	                 {callColumn, texts("operand", "operand"), texts("event", "kind"), counts("times", "count"),
	                  texts("site", "site")});
}

Sheet kernelsSheet(const Runs &runs, bool isMerged)
{
	using Total = Of<trace::KernelTotal>;
	auto totals = ofAll(runs, &trace::Trace::kernels);
	const auto isMore = [](const Total &x, const Total &y) {
		const auto rank = [](const Total &each) {
			return std::tuple(std::isnan(each.info.ns) ? 0 : each.info.ns, each.info.count);
		};
		return rank(x) > rank(y);
	};
	if (isMerged) {
		std::map<std::string, Total> merged;
		for (const auto &total : totals) {
			const auto call = total.row ? total.row->entry + shapeOf(*total.row) : "";
			const auto [found, isNew] = merged.emplace(total.info.name + '\n' + call, total);
			if (!isNew)
				found->second.info.count += total.info.count, found->second.info.ns += total.info.ns;
		}
		totals.clear();
		for (auto &[key, total] : merged)
			totals.push_back(std::move(total));
	}
	std::stable_sort(totals.begin(), totals.end(), isMore);
	return Sheet::of("kernels", "Kernels of the device, by the call that launched them", std::move(totals),
	                 [](const Total &total) {
		                 const auto *row = total.row;
		                 return Json{{"run", total.run},
		                             {"device", total.info.device},
		                             {"kernel", orNull(total.info.name)},
		                             {"demangled", orNull(demangled(total.info.name))},
		                             {"count", total.info.count},
		                             {"kernel_ns", nanoseconds(total.info.ns)},
		                             {"cast", total.info.isOurs},
		                             {"copy", total.info.isMemory},
		                             {"tc", tensorCoresOf(total.info.facts.tensorCores)},
		                             {"dtype", total.info.facts.dtype ? Json(total.info.facts.dtype) : Json()},
		                             {"entry", row ? orNull(row->entry) : Json()},
		                             {"shape", row ? Json(shapeOf(*row)) : Json()},
		                             {"decision", row ? orNull(row->decision) : Json()},
		                             {"site", row ? orNull(row->site) : Json()}};
	                 },
	                 {callColumn, durations("time (kernels)", "kernel_ns"), counts("launches", "count"),
	                  texts("decision", "decision"), texts("tensor cores", "tc"), texts("type", "dtype"),
	                  texts("kernel", "demangled")});
}

Sheet lossSheet(const Runs &runs)
{
	std::vector<std::pair<size_t, const trace::Trace *>> list;
	for (size_t run = 0; run < runs.size(); run++)
		list.emplace_back(run, &runs[run]);
	return Sheet::of(
	    "losses", "Data that the traces do not contain", list,
	    [](const std::pair<size_t, const trace::Trace *> &each) {
		    static const trace::Loss none;
		    const auto &loss = each.second ? each.second->loss : none;
		    const auto known = [&](uint64_t number) {
			    return each.second && each.second->hasKernels ? Json(number) : Json();
		    };
		    double own = NAN; // CUPTI overhead; NaN: CUPTI reported none
		    if (each.second)
			    for (const auto &overhead : each.second->overhead)
				    own = std::isnan(own) ? overhead.ns : own + overhead.ns;
		    return Json{{"run", each.first},
		                {"file", each.second ? Json(each.second->path) : Json()},
		                {"calls_lost", loss.callsLost},
		                {"events_dropped", loss.eventsDropped},
		                {"events_missing", loss.eventsMissing},
		                {"kernels_dropped", known(loss.kernelsDropped)},
		                {"kernels_missing", known(kernelsMissing(loss))},
		                {"kernels_capped", known(loss.kernelsCapped)},
		                {"kernels_unattributed", known(loss.kernelsUnattributed)},
		                {"invalid_timestamps", known(loss.invalidTimestamps)},
		                {"cupti_ns", nanoseconds(own)},
		                {"disk_full", loss.diskFull},
		                {"size_limit", loss.sizeLimit},
		                {"truncated", loss.truncated}};
	    },
	    {texts("file", "file"), durations("CUPTI's own time", "cupti_ns"), counts("calls lost", "calls_lost"),
	     counts("events dropped", "events_dropped"), counts("events missing", "events_missing"),
	     counts("kernels dropped", "kernels_dropped"), counts("kernels missing", "kernels_missing"),
	     counts("kernels unattributed", "kernels_unattributed"), counts("kernels only in totals", "kernels_capped"),
	     counts("kernels untimed", "invalid_timestamps"), texts("disk full", "disk_full"),
	     texts("size limit", "size_limit"), texts("truncated", "truncated")});
}

} // namespace autoamp::tool
