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
	const auto known = reasonOf(reason.reason);
	return {{"reason", orNull(reason.reason)},
	        {"decision", orNull(reason.decision)},
	        {"calls", reason.calls},
	        {"flops", reason.flops},
	        {"host_ns", reason.hostNs > 0 ? nanoseconds(reason.hostNs) : Json()}, // only of timed calls
	        {"kernel_ns", nanoseconds(reason.kernelNs)},
	        {"est_ns", orNull(reason.estNs)},
	        {"est_lowered_ns", orNull(reason.estLoweredNs)},
	        {"means", known ? Json(policy::meaning(*known)) : Json()},
	        {"causes", orNull(fmt::format("{}", fmt::join(reason.causes, ", ")))},
	        {"advice", orNull(adviceOn(reason.reason))}};
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

// The time in fp32 relative to the actual time, of the audited calls.
const Column ratios = {"gain", "fp32_ns", 'r', [](const Json &row) {
	                       return row["fp32_ns"].is_null()
	                                  ? std::string("-")
	                                  : fmt::format("{:.2f}x", row["fp32_ns"].get<double>() /
	                                                               std::max(1.0, row["audited_ns"].get<double>()));
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
	        {"est_best_ns", orNull(row.estBestNs * double(row.calls))},
	        {"best_precision", orNull(row.bestPrecision)},
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

Sheet opsSheet(std::vector<OpsRow> list, const Account &account)
{
	const auto word = [](const Json &row, const char *field) {
		return row[field].is_string() ? row[field].get<std::string>() : std::string();
	};
	std::vector<Column> columns = {amounts("FLOP", "flops"), shares("share", "flops", account.all.flops)};
	if (account.times == Times::host)
		columns.insert(columns.end(), {durations("host", "host_ns"), ratios, counts("audited", "audited")});
	else
		columns.insert(columns.end(), {durations("est", "est_ns"), durations("est lowered", "est_lowered_ns")});
	if (account.times == Times::kernels)
		columns.insert(columns.end(), {durations("kernels", "kernel_ns"), durations("casting", "cast_ns")});
	if (!account.weights.isEmpty())
		columns.push_back({"kept copies", "weights", 'l', weightsOf});
	columns.insert(columns.end(), {counts("calls", "calls"),
	                               {"decision", "decision", 'l',
	                                [word](const Json &row) {
		                                const auto reason = word(row, "reason");
		                                return word(row, "decision") + (reason.empty() ? "" : ": " + reason);
	                                }},
	                               texts("entry", "entry"),
	                               {"m x n x k", "shape", 'l',
	                                [word](const Json &row) {
		                                return word(row, "transa") + word(row, "transb") + " " + word(row, "shape");
	                                }},
	                               {"types", "dtype_compute", 'l',
	                                [word](const Json &row) {
		                                const auto in = word(row, "dtype_in"), compute = word(row, "dtype_compute");
		                                return compute.empty() || compute == in ? in : in + " > " + compute;
	                                }},
	                               texts("op", "op")});
	return Sheet::of(
	    "ops", "Calls by signature and decision", std::move(list), [](const OpsRow &row) { return toJson(row); },
	    columns);
}

Sheet groupsSheet(std::vector<Group> list, const Account &account)
{
	std::vector<Column> columns = {amounts("FLOP", "flops"), shares("share", "flops", account.all.flops)};
	if (account.times != Times::host)
		columns.insert(columns.end(), {durations("est", "est_ns"), durations("est lowered", "est_lowered_ns")});
	if (account.times == Times::kernels)
		columns.push_back(durations("kernels", "kernel_ns"));
	columns.push_back(durations("host", "host_ns"));
	columns.push_back(counts("calls", "calls"));
	columns.push_back({"lowered", "lowered_flops", 'r', [](const Json &row) {
		                   return share(row["lowered_flops"].get<double>(), row["flops"].get<double>());
	                   }});
	Group none;
	none.by = list.empty() ? "group" : list.front().by;
	columns.push_back(texts(none.by.c_str(), none.by.c_str()));
	auto sheet = Sheet::of(
	    "groups", "Calls in groups", std::move(list), [](const Group &group) { return toJson(group); }, columns);
	sheet.sample = toJson(none); // the name of the first field is the grouping
	return sheet;
}

Sheet reasonsSheet(const Account &account)
{
	return Sheet::of("reasons", "Reasons, most time first", account.reasons,
	                 [](const ReasonSum &reason) { return toJson(reason); },
	                 {texts("decision", "decision"),
	                  texts("reason", "reason"),
	                  counts("calls", "calls"),
	                  amounts("FLOP", "flops"),
	                  account.times == Times::kernels ? durations("kernels", "kernel_ns")
	                  : account.times == Times::host  ? durations("host", "host_ns")
	                                                  : durations("est", "est_ns"),
	                  durations("est lowered", "est_lowered_ns"),
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
	    {durations("time", "time_ns"), texts("event", "kind"), texts("site", "site"), texts("operand", "operand"),
	     scales("before", "scale_before"), scales("after", "scale_after"),
	     column("amax", "amax", [](double number) { return fmt::format("{:.3g}", number); }),
	     column("excess", "excess", [](double number) { return fmt::format("{:.2g}", number); }),
	     column("rows", "lost_rows", [](double number) { return fmt::format("{:.0f}", number); }),
	     column("columns", "lost_columns", [](double number) { return fmt::format("{:.0f}", number); }), callColumn});
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
			return std::find(std::begin(harmless), std::end(harmless), total.info.kind) == std::end(harmless);
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
	                 {counts("times", "count"), texts("event", "kind"), texts("site", "site"),
	                  texts("operand", "operand"), callColumn});
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
	                 {durations("time", "kernel_ns"), counts("count", "count"), texts("tc", "tc"),
	                  texts("type", "dtype"), texts("decision", "decision"), callColumn, texts("kernel", "demangled")});
}

Sheet lossSheet(const Runs &runs)
{
	std::vector<std::pair<size_t, const trace::Trace *>> list;
	for (size_t run = 0; run < runs.size(); run++)
		list.emplace_back(run, &runs[run]);
	return Sheet::of("losses", "Data that the traces do not contain", list,
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
	                 {counts("calls", "calls_lost"), counts("events", "events_dropped"),
	                  counts("events missing", "events_missing"), counts("kernels", "kernels_dropped"),
	                  counts("missing", "kernels_missing"), counts("unattributed", "kernels_unattributed"),
	                  counts("not single", "kernels_capped"), counts("bad times", "invalid_timestamps"),
	                  durations("CUPTI's own", "cupti_ns"), texts("disk full", "disk_full"),
	                  texts("size limit", "size_limit"), texts("cut", "truncated"), texts("file", "file")});
}

} // namespace autoamp::tool
