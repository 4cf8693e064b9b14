#include "tools/autoamp/html_tables.h"

#include "tools/autoamp/ending.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/timeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace autoamp::tool::page {

namespace {

constexpr size_t mostSignatures = 500, mostKernels = 200, mostProcesses = 200, nameLength = 300;

std::string code(const std::string &safe)
{
	return safe.empty() ? "–" : "<code>" + safe + "</code>";
}

// The time of a row of `reasons` or `ops` in the run itself, as far as it was measured.
double measuredNs(const Json &row, Times times)
{
	if (times == Times::host)
		return number(row, "host_ns");
	const double kernels = number(row, "kernel_ns"), casts = number(row, "cast_ns");
	return kernels + (std::isnan(casts) ? 0 : casts);
}

double reasonNs(const Json &row, Times times)
{
	return times != Times::model                 ? measuredNs(row, times)
	       : plain(row, "decision") == "lowered" ? number(row, "est_lowered_ns")
	                                             : number(row, "est_ns");
}

bool isKept(const Json &row)
{
	const auto decision = plain(row, "decision");
	return decision == "kept" || decision == "fallback";
}

} // namespace

std::string reasonsSection(const Sheet &reasons, Times times, double allFlops)
{
	if (reasons.size() == 0 && reasons.hidden == 0)
		return "";
	std::vector<Json> rows;
	double all = 0;
	for (size_t i = 0; i < reasons.size(); i++) {
		rows.push_back(reasons.row(i));
		if (const double ns = reasonNs(rows.back(), times); ns > 0)
			all += ns;
	}
	std::stable_partition(rows.begin(), rows.end(), isKept);
	auto body = section("reasons", "Reasons, by time " + tag(times == Times::model ? "model" : "measured")) +
	            "<p>Calls that run unchanged come first: lower precision did not touch this time.</p>\n" +
	            tableStart("reasons-list", "Reasons",
	                       {{"Decision and reason"},
	                        {"Time", true},
	                        {"Share", true},
	                        {"Calls", true},
	                        {"FLOP", true},
	                        {"Meaning"},
	                        {"Advice"}},
	                       "", "cards", false);
	for (const auto &row : rows) {
		const double ns = reasonNs(row, times);
		auto means = text(row, "means");
		if (const auto causes = text(row, "causes"); !causes.empty())
			means += (means.empty() ? "" : ": ") + code(causes);
		body += fmt::format(
		    "<tr><th scope=\"row\"><b>{}</b><small> {}</small></th><td class=\"num\" data-h=\"Time\">{}</td>"
		    "<td class=\"num\" data-h=\"Share\">{}</td><td class=\"num\" data-h=\"Calls\">{}</td>"
		    "<td class=\"num\" data-h=\"FLOP\">{}</td><td data-h=\"Meaning\">{}</td>"
		    "<td data-h=\"Advice\">{}</td></tr>\n",
		    text(row, "decision"), code(text(row, "reason")), time(ns), ns >= 0 ? share(ns, all) : "–",
		    count(row["calls"].get<uint64_t>()), share(number(row, "flops"), allFlops), means,
		    text(row, "advice").empty() ? "–" : text(row, "advice"));
	}
	return body + tableEnd + more(reasons.hidden) + "</section>\n";
}

namespace {

// A row of `ops` with its times.
struct Signature {
	Json row;
	RowTimes times;
	double measured = NAN;
	double actual() const { return std::isnan(times.actual) ? measured : times.actual; }
};

// The columns of the table of signatures that not every run needs.
struct Columns {
	bool hasMeasured, hasErrors = false, hasRegions = false, hasCallers = false;
	Columns(const std::vector<Signature> &list, bool hasMeasured) : hasMeasured(hasMeasured)
	{
		std::set<std::string> regions, callers;
		for (const auto &each : list) {
			hasErrors |= !std::isnan(number(each.row, "max_error"));
			regions.insert(plain(each.row, "region"));
			callers.insert(plain(each.row, "caller"));
		}
		hasRegions = regions.size() > 1, hasCallers = callers.size() > 1;
	}
	std::vector<Head> heads() const
	{
		std::vector<Head> list = {{"Shape"},           {"Op"},         {"Ran in"},    {"As run", true, "descending"},
		                          {"Unchanged", true}, {"Gain", true}, {"Best", true}};
		if (hasMeasured)
			list.push_back({"Measured", true});
		list.insert(list.end(), {{"Calls", true}, {"FLOP", true}});
		if (hasErrors)
			list.push_back({"Max error", true});
		if (hasRegions)
			list.push_back({"Region"});
		if (hasCallers)
			list.push_back({"Caller"});
		return list;
	}
};

std::string gainCell(const RowTimes &times)
{
	const double gain = times.unchanged / times.actual;
	if (!std::isfinite(gain))
		return cell(NAN, "–");
	return cell(gain, fmt::format("<span class=\"{}\">{:.2f}×</span>",
	                              gain > 1.005   ? "good"
	                              : gain < 0.995 ? "bad"
	                                             : "mut",
	                              gain));
}

std::string bestCell(const Signature &each, bool isMeasured)
{
	const auto &times = each.times;
	if (!(times.best < 0.995 * times.actual))
		return cell(times.best, times.areKnown() ? "<span class=\"mut\">as run</span>" : "–");
	return cell(times.best, fmt::format("{}<small> {}</small>", time(times.best),
	                                    precisions[bestPrecisionOf(each.row, isMeasured)].name));
}

std::string signatureRow(const Signature &each, const Columns &columns, const Work &work)
{
	const auto &row = each.row;
	const size_t precision = precisionOf(plain(row, "dtype_compute"));
	const double all = sumOf(work.all.actual);
	const auto op = text(row, "op").empty() || plain(row, "op") == "none" ? "–" : text(row, "op");
	const auto label = precisions[precision].field[0] ? precisions[precision].name : text(row, "dtype_compute");
	auto cells = fmt::format(
	    "<tr data-p=\"{}\"><th scope=\"row\"><span class=\"id\">{}</span><small> {} {}</small></th><td>{} {}</td>"
	    "<td>{}<small> {}: {}</small></td>",
	    precisions[precision].style, withCrosses(text(row, "shape")), text(row, "entry"), transposes(row), op,
	    transposes(row), chip(precision, label), text(row, "decision"), code(text(row, "reason")));
	const bool isShared = row.contains("eligible") && isTrue(row, "eligible") && each.times.areKnown();
	cells += cell(each.actual(), time(each.actual()) +
	                                 (isShared ? "<small> " + html(share(each.times.actual, all)) + "</small>" : ""));
	cells +=
	    cell(each.times.unchanged, time(each.times.unchanged)) + gainCell(each.times) + bestCell(each, work.isMeasured);
	if (columns.hasMeasured)
		cells += cell(each.measured, time(each.measured));
	cells += cell(number(row, "calls"), count(row["calls"].get<uint64_t>())) +
	         cell(number(row, "flops"), amount(number(row, "flops")));
	if (columns.hasErrors)
		cells += cell(number(row, "max_error"),
		              std::isnan(number(row, "max_error")) ? "–" : fmt::format("{:.2g}", number(row, "max_error")));
	if (columns.hasRegions)
		cells += "<td>" + text(row, "region") + "</td>";
	if (columns.hasCallers)
		cells += "<td>" + baseName(row, "caller") + "</td>";
	return cells + "</tr>\n";
}

std::string filterTools(const std::vector<Signature> &list)
{
	ByPrecision occurs = {};
	for (const auto &each : list)
		occurs[precisionOf(plain(each.row, "dtype_compute"))]++;
	std::string boxes;
	for (size_t p = 0; p < precisions.size(); p++)
		if (occurs[p] > 0)
			boxes += fmt::format("<label><input type=\"checkbox\" checked value=\"{}\">{}</label>", precisions[p].style,
			                     precisions[p].name);
	return "<div class=\"tools\" id=\"filter\" role=\"search\" hidden><label>Filter by op, shape, entry point, reason "
	       "or caller, for example mm 1024x240<br><input type=\"search\" autocomplete=\"off\"></label>"
	       "<fieldset><legend class=\"vh\">Precision</legend>" +
	       boxes + "</fieldset><span id=\"shown\" aria-live=\"polite\"></span></div>\n";
}

} // namespace

std::string signaturesSection(const Sheet &ops, const Work &work, Times times, bool isSorted)
{
	if (ops.size() == 0 && ops.hidden == 0)
		return "";
	std::vector<Signature> list;
	for (size_t i = 0; i < ops.size(); i++) {
		const Json row = ops.row(i);
		list.push_back({row, timesOf(row, work.isMeasured), measuredNs(row, times)});
	}
	if (!isSorted)
		std::stable_sort(list.begin(), list.end(), [](const Signature &x, const Signature &y) {
			return std::fmax(x.actual(), 0) > std::fmax(y.actual(), 0);
		});
	const size_t all = list.size();
	double rest = 0;
	for (size_t i = mostSignatures; i < all; i++)
		if (isTrue(list[i].row, "eligible") && list[i].times.areKnown())
			rest += list[i].times.actual;
	list.resize(std::min(all, mostSignatures));
	const Columns columns(list, times != Times::model && !work.isMeasured);
	auto body =
	    section("sigs", "Signatures " + tag(work.isMeasured ? "measured" : "model")) +
	    "<p>One row is one signature of calls with its decision. Times are totals of all its calls. A gain below "
	    "1.00× means slower than unchanged.";
	if (const auto caller = baseName(list.empty() ? Json() : list.front().row, "caller");
	    !columns.hasCallers && !caller.empty())
		body += " Caller: " + code(caller) + ".";
	body += "</p>\n" + filterTools(list) + tableStart("signatures", "Signatures", columns.heads(), "sticky");
	for (const auto &each : list)
		body += signatureRow(each, columns, work);
	const auto remark =
	    all > list.size() ? fmt::format(", {} of the time", html(share(rest, sumOf(work.all.actual)))) : "";
	return body + tableEnd + more(all - list.size() + ops.hidden, remark) + "</section>\n";
}

namespace {

std::string kernelRow(const Json &row)
{
	const auto dtype = plain(row, "dtype");
	const auto cores = row["tc"].is_boolean() ? isTrue(row, "tc") ? "tensor cores" : "CUDA cores" : "";
	const auto type =
	    dtype.empty() ? "–" : fmt::format("{}<small> {}</small>", chip(precisionOf(dtype), html(dtype)), cores);
	const auto call = text(row, "entry").empty()
	                      ? "–"
	                      : fmt::format("{}<small> {}</small>", withCrosses(text(row, "shape")), text(row, "entry"));
	const auto name = plain(row, "demangled").empty() ? plain(row, "kernel") : plain(row, "demangled");
	return fmt::format("<tr><th scope=\"row\" class=\"wrap\">{}</th>{}{}<td>{}</td><td>{}</td></tr>\n",
	                   code(html(fit(name, nameLength))),
	                   cell(number(row, "kernel_ns"), time(number(row, "kernel_ns"))),
	                   cell(number(row, "count"), count(row["count"].get<uint64_t>())), type, call);
}

std::string kernelGroup(const char *title, const std::vector<const Json *> &rows)
{
	if (rows.empty())
		return "";
	double ns = NAN;
	uint64_t launches = 0;
	for (const auto *row : rows) {
		launches += (*row)["count"].get<uint64_t>();
		if (const double more = number(*row, "kernel_ns"); !std::isnan(more))
			ns = std::isnan(ns) ? more : ns + more;
	}
	auto body = fmt::format("<tbody class=\"group\"><tr><th scope=\"rowgroup\">{}</th><td class=\"num\">{}</td>"
	                        "<td class=\"num\">{}</td><td></td><td></td></tr>\n",
	                        title, time(ns), count(launches));
	for (size_t i = 0; i < rows.size() && i < mostKernels; i++)
		body += kernelRow(*rows[i]);
	return body + "</tbody>\n";
}

} // namespace

std::string kernelsSection(const Sheet &kernels, bool isEmulated)
{
	if (kernels.size() == 0 && kernels.hidden == 0)
		return "";
	std::vector<Json> rows;
	for (size_t i = 0; i < kernels.size(); i++)
		rows.push_back(kernels.row(i));
	std::vector<const Json *> products, ours, others;
	for (const auto &row : rows)
		(isTrue(row, "cast") ? ours : row["dtype"].is_null() ? others : products).push_back(&row);
	auto body = section("kernels", "Kernels " + tag(isEmulated ? "not timed" : "measured by CUPTI")) +
	            tableStart("kernels-list", "Kernels of the device",
	                       {{"Kernel"}, {"Time", true, "descending"}, {"Count", true}, {"Type"}, {"Call"}}, "sticky");
	body.resize(body.size() - std::string_view("<tbody>\n").size());
	body += kernelGroup("Products and convolutions", products) + kernelGroup("autoamp: conversion and checks", ours) +
	        kernelGroup("Other: copies, fills, kernels of the program", others) + "</table></div>\n";
	size_t cut = kernels.hidden;
	for (const auto *group : {&products, &ours, &others})
		cut += group->size() - std::min(group->size(), mostKernels);
	return body + more(cut) + "</section>\n";
}

namespace {

struct Process {
	const trace::Trace *run;
	Work work;
	Sum eligible, lowered;
	double timeNs(Times times) const
	{
		return times == Times::model || work.isMeasured ? sumOf(work.all.actual) : eligible.timeNs(times);
	}
};

// "12 % slower than the median"; "": within 10 % of it.
std::string outlier(double ns, double median)
{
	const double percent = 100 * (ns / median - 1);
	if (!(std::abs(percent) > 10))
		return "";
	return fmt::format("<small class=\"{}\"> {:.0f} % {} than the median</small>", percent > 0 ? "bad" : "",
	                   std::abs(percent), percent > 0 ? "slower" : "faster");
}

std::vector<Process> processesOf(const Runs &runs, bool isMeasured)
{
	std::vector<Process> list;
	for (size_t id = 0; id < runs.size(); id++) {
		Process process = {&runs[id], Work(isMeasured), {}, {}};
		for (const auto &row : runs[id].rows) {
			if (row.calls == 0 || !row.eligible)
				continue;
			process.work.add(toJsonWithBest(OpsRow{id, &row}));
			process.eligible.add(row);
			if (row.decision == "lowered")
				process.lowered.add(row);
		}
		list.push_back(std::move(process));
	}
	return list;
}

} // namespace

std::string processesSection(const Runs &runs, bool isMeasured, Times times)
{
	if (runs.size() < 2)
		return "";
	auto list = processesOf(runs, isMeasured);
	std::stable_sort(list.begin(), list.end(),
	                 [times](const Process &x, const Process &y) { return x.timeNs(times) > y.timeNs(times); });
	const double median = list[list.size() / 2].timeNs(times);
	auto body = section("processes", "Processes, slowest first " + tag(times == Times::model ? "model" : "measured")) +
	            tableStart("processes-list", "Processes",
	                       {{"Process"},
	                        {"As run", true, "descending"},
	                        {"Gain", true},
	                        {"Lowered FLOP", true},
	                        {"Calls", true},
	                        {"End"},
	                        {"Losses"},
	                        {"Trace"}},
	                       "sticky");
	for (size_t i = 0; i < list.size() && i < mostProcesses; i++) {
		const auto &each = list[i];
		const double ns = each.timeNs(times);
		const RowTimes sums = {each.work.all.unchanged, sumOf(each.work.all.actual), 0};
		body += fmt::format(
		    "<tr><th scope=\"row\">{}</th>{}{}{}{}<td>{}</td><td>{}</td><td>{}</td></tr>\n", html(nameOf(*each.run)),
		    cell(ns, time(ns) + outlier(ns, median)), each.work.all.calls > 0 ? gainCell(sums) : cell(NAN, "–"),
		    cell(each.lowered.flops / each.eligible.flops, html(share(each.lowered.flops, each.eligible.flops))),
		    cell(double(each.eligible.calls), count(each.eligible.calls)), html(endingOf(*each.run)),
		    hasLoss(each.run->loss) ? html(textOf(each.run->loss)) : "none",
		    html(each.run->path.substr(each.run->path.rfind('/') + 1)));
	}
	return body + tableEnd + more(list.size() - std::min(list.size(), mostProcesses)) + "</section>\n";
}

namespace {

std::string settingRow(const std::string &name, const std::string &value, const std::string &origin)
{
	return fmt::format("<tr><th scope=\"row\">{}</th><td class=\"wrap\">{}</td><td class=\"wrap\">{}</td></tr>\n",
	                   code(name), code(value), origin);
}

} // namespace

std::string configurationSection(const Json &runs, const trace::Trace &first)
{
	const auto &run = runs.front();
	const auto &config = run["config"], &origins = run["config_origin"];
	std::string set, defaults, versions;
	size_t unchanged = 0, rule = 0;
	for (const auto &[name, value] : config.items()) {
		const auto shown = html(shownSetting(first, name, value.get<std::string>())),
		           origin = text(origins, name.c_str());
		if (origin != "default")
			set += settingRow(html(name), shown, origin);
		else
			defaults += (unchanged++ ? " · " : "") + code(html(name) + "=" + shown);
	}
	for (const auto &each : run["rules"])
		set += settingRow(fmt::format("rule {}", ++rule), text(each, "rule"), text(each, "origin"));
	for (const auto &[name, value] : run["versions"].items())
		if (value.is_string())
			versions += (versions.empty() ? "" : " · ") + html(name) + " " + html(value.get<std::string>());
	const bool differ = std::any_of(runs.begin(), runs.end(), [&](const Json &other) {
		return other["config"] != config || other["rules"] != run["rules"];
	});
	auto body = section("config", "Configuration");
	if (differ)
		body += "<p>The settings of the processes differ; these are those of the first. <code>--report config</code> "
		        "prints all.</p>\n";
	if (set.empty())
		body += "<p>All settings have their default.</p>\n";
	else
		body += tableStart("settings", "Settings without their default", {{"Setting"}, {"Value"}, {"From"}}, "", "",
		                   false) +
		        set + tableEnd;
	if (unchanged > 0)
		body += fmt::format("<details><summary>Settings at their default: {}</summary><p>{}</p></details>\n", unchanged,
		                    defaults);
	return body + "<p class=\"mut\">" + versions + "</p></section>\n";
}

std::string lossesSection(const Account &account, const Lists &lists)
{
	auto body = section("limits", "Losses and limits");
	const bool isLossy = hasLoss(account.loss) || !account.missing.empty();
	body += isLossy ? "<p><strong>Data is missing:</strong> " + html(textOf(account.loss)) + "</p>\n"
	                : fmt::format("<p><strong>Nothing was lost.</strong> The traces contain {}.</p>\n",
	                              plural(account.all.calls, "call"));
	if (lists.losses.size() + lists.losses.hidden > 1 || isLossy)
		body += table(lists.losses);
	body += "<ul class=\"plain\">";
	if (account.isEmulated)
		body += "<li>The emulated device estimates the times of a GPU. Measure on a GPU before you rely on them.</li>";
	if (account.times != Times::host)
		body +=
		    "<li>The model covers products, convolutions and their conversions. It does not cover other kernels, "
		    "transfers or gaps, so the gain of the whole program is smaller.</li>"
		    "<li>Only calls to shared cuBLAS, cuBLASLt and cuDNN are intercepted. Triton, CUTLASS and custom kernels "
		    "are not.</li>";
	else
		body += "<li>The times cover the products, not the whole program, so the gain of the program is smaller.</li>";
	return body + "</ul></section>\n";
}

} // namespace autoamp::tool::page
