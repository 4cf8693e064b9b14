#include "tools/autoamp/diff_document.h"

#include "tools/autoamp/commands.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/html_charts.h"

#include <algorithm>
#include <fmt/format.h>

namespace autoamp::tool {

namespace {

constexpr double leastChange = 0.05; // relative to the time per call
constexpr size_t mostRows = 500;

struct Row {
	Json json;            // as in `signatures`
	double before, after; // times; NaN: unknown, or no such calls
	double ratio;         // time per call, after divided by before
	bool isOneSided() const { return json["calls_before"].is_null() || json["calls_after"].is_null(); }
	bool isChanged() const
	{
		return isOneSided() || page::isTrue(json, "changed") || std::abs(ratio - 1) > leastChange;
	}
	double difference() const { return std::abs(std::fmax(after, 0) - std::fmax(before, 0)); }
};

// The rows and totals that both formats show.
struct Document {
	const Comparison &comparison;
	std::vector<Row> rows;      // to print
	std::vector<Row> unchanged; // to add up
	size_t changed = 0, hidden = 0;
	double before = 0, after = 0; // times of all calls
	uint64_t callsBefore = 0, callsAfter = 0;
	page::ByPrecision partsBefore = {}, partsAfter = {}; // times by precision

	Document(const Comparison &comparison, const Sheet &sheet) : comparison(comparison), hidden(sheet.hidden)
	{
		for (size_t i = 0; i < sheet.size(); i++) {
			auto row = rowOf(sheet.row(i));
			changed += row.isChanged();
			(row.isChanged() || comparison.options.all ? rows : unchanged).push_back(std::move(row));
		}
		if (comparison.options.selection.sort.empty())
			std::stable_sort(rows.begin(), rows.end(),
			                 [](const Row &x, const Row &y) { return x.difference() > y.difference(); });
		for (const auto &pair : comparison.pairs) {
			add(pair.sides[0], callsBefore, before, partsBefore);
			add(pair.sides[1], callsAfter, after, partsAfter);
		}
	}
	double slowerPercent() const
	{
		return comparison.isEmulated ? comparison.modelSlowerPercent : comparison.slowerPercent;
	}

private:
	Row rowOf(Json json) const
	{
		const auto time = [&](const char *side) {
			const char *field = comparison.isEmulated ? "model_ns" : comparison.isMeasured ? "kernel_ns" : "host_ns";
			return page::number(json, (std::string(field) + side).c_str());
		};
		const double before = time("_before"), after = time("_after");
		const double ratio = page::number(json, comparison.isEmulated ? "model_ratio" : "ratio");
		return {std::move(json), before, after, ratio};
	}
	void add(const Side &side, uint64_t &calls, double &time, page::ByPrecision &parts) const
	{
		calls += side.calls;
		const double ns = comparison.isEmulated ? side.modelNs : side.timeNs(comparison.isMeasured);
		time += std::fmax(ns, 0);
		for (const auto &[type, part] : comparison.isEmulated ? side.modelByType : side.timeByType)
			parts[page::precisionOf(type)] += part;
	}
};

// "model, nothing was timed"
std::string sourceOf(const Comparison &comparison)
{
	return comparison.isEmulated   ? "model, nothing was timed"
	       : comparison.isMeasured ? "measured, kernels"
	       : comparison.isOnCpu    ? "measured, CPU"
	                               : "measured, host time inside the calls";
}

// "1.21× faster", "1.09× slower", "same time"
std::string factorText(double ratio)
{
	if (std::isnan(ratio) || !(ratio > 0))
		return "–";
	if (std::abs(ratio - 1) < 0.005)
		return "same";
	return ratio < 1 ? fmt::format("{:.2f}× faster", 1 / ratio) : fmt::format("{:.2f}× slower", ratio);
}

std::string headlineOf(const Document &document)
{
	const double percent = document.slowerPercent();
	if (document.comparison.common == 0)
		return "no signature in common";
	if (std::isnan(percent))
		return "no common signature has a time";
	const auto factor = factorText(1 + percent / 100);
	const auto per = document.callsBefore == document.callsAfter ? "" : " per call";
	return (factor == "same" ? "the same time" : factor) + per;
}

std::string changedSentence(const Document &document)
{
	return fmt::format("{} of {} changed: precision, reason, or more than {:.0f} % of the time per call.",
	                   count(document.changed), plural(document.rows.size() + document.unchanged.size(), "signature"),
	                   100 * leastChange);
}

std::string gateText(const Gate &gate)
{
	return gate.failure.empty() ? "passed" : "failed: " + gate.failure;
}

std::string changeOf(const Row &row)
{
	return row.json["calls_before"].is_null()  ? "new"
	       : row.json["calls_after"].is_null() ? "gone"
	                                           : factorText(row.ratio);
}

std::string arrow(const std::string &before, const std::string &after)
{
	return before == after ? before : before + " → " + after;
}

std::string callsOf(const Row &row)
{
	const auto number = [](const Json &value) { return value.is_null() ? "0" : count(value.get<uint64_t>()); };
	return arrow(number(row.json["calls_before"]), number(row.json["calls_after"]));
}

std::string orDash(const std::string &text)
{
	return text.empty() ? "–" : text;
}

std::string signatureText(const Row &row) // plain text
{
	const auto &json = row.json;
	const auto op = page::plain(json, "op");
	return fmt::format("{} {}{} {}", op.empty() ? page::plain(json, "entry") : op, page::plain(json, "transa"),
	                   page::plain(json, "transb"), page::plain(json, "shape"));
}

struct Unchanged {
	uint64_t calls = 0;
	double before = 0, after = 0;
	explicit Unchanged(const std::vector<Row> &rows)
	{
		for (const auto &row : rows) {
			calls += row.json["calls_after"].get<uint64_t>();
			before += std::fmax(row.before, 0), after += std::fmax(row.after, 0);
		}
	}
};

} // namespace

void writeDiffMarkdown(std::FILE *out, const Comparison &comparison, const Sheet &sheet)
{
	const Document document(comparison, sheet);
	const auto &options = comparison.options;
	const auto line = [out](const std::vector<std::string> &cells) {
		fmt::print(out, "| {} |\n", fmt::join(cells, " | "));
	};
	if (comparison.isEmulated)
		fmt::print(out, "{}\n\n", emulatedLine);
	fmt::print(out, "**{} → {}: {}** ({}). {}", markdown(here(options.before)), markdown(here(options.after)),
	           headlineOf(document), sourceOf(comparison), changedSentence(document));
	for (const auto &gate : gatesOf(comparison))
		fmt::print(out, " Gate `{}`: {}.", gate.option, gateText(gate));
	fmt::print(out, "\n\n");
	line({"signature", "time before", "time after", "change", "calls", "before", "after"});
	line({"---", "---:", "---:", "---", "---:", "---", "---"});
	line({"**total**", page::time(document.before), page::time(document.after),
	      fmt::format("**{}**", factorText(1 + document.slowerPercent() / 100)),
	      arrow(count(document.callsBefore), count(document.callsAfter)), "", ""});
	for (const auto &row : document.rows)
		line({page::withCrosses(markdown(signatureText(row))), page::time(row.before), page::time(row.after),
		      changeOf(row), callsOf(row), orDash(markdown(page::plain(row.json, "way_before"))),
		      orDash(markdown(page::plain(row.json, "way_after")))});
	if (const Unchanged rest(document.unchanged); !document.unchanged.empty())
		line({fmt::format("{} unchanged", count(document.unchanged.size())), page::time(rest.before),
		      page::time(rest.after), "", count(rest.calls), "", ""});
	if (document.hidden > 0)
		fmt::print(out, "\nand {}\n", plural(document.hidden, "more row"));
	fmt::print(out, "\n{}\n",
	           comparison.settings.empty() ? "Settings, versions and devices are identical."
	                                       : "Different settings, versions and devices:\n");
	for (const auto &each : comparison.settings)
		fmt::print(out, "- {}: {} → {}\n", markdown(each.name), orDash(markdown(each.before)),
		           orDash(markdown(each.after)));
}

namespace {

std::string timeChart(const Document &document)
{
	const double most = std::max(page::sumOf(document.partsBefore), page::sumOf(document.partsAfter));
	if (!(most > 0))
		return "";
	page::ByPrecision both = document.partsBefore;
	for (size_t p = 0; p < both.size(); p++)
		both[p] += document.partsAfter[p];
	const page::Axis axis(most, 3);
	const auto value = [](double ns) { return "<b>" + page::time(ns) + "</b>"; };
	return fmt::format(
	    "<figure><figcaption><b>Time of all calls by precision</b> {}</figcaption>\n{}<table class=\"chart\">"
	    "<caption class=\"vh\">Time of all calls by precision</caption>\n{}{}</table></figure>\n",
	    page::tag(sourceOf(document.comparison)), page::legend(both),
	    page::bars(plural(document.comparison.pairs.size(), "signature"),
	               {{"Before", 0, document.partsBefore, value(document.before)},
	                {"After", 0, document.partsAfter, value(document.after)}},
	               axis),
	    page::barAxis(axis));
}

std::string changeCell(const Row &row)
{
	const char *style = row.ratio > 1.005 ? "bad" : row.ratio < 0.995 ? "good" : "mut";
	return page::cell(row.ratio, fmt::format("<span class=\"{}\">{}</span>", style, changeOf(row)));
}

std::string signatureTable(const Document &document)
{
	auto body = page::section("sigs", document.comparison.options.all ? "All signatures" : "Signatures that changed") +
	            page::tableStart("signatures", "Signatures",
	                             {{"Shape"},
	                              {"Op"},
	                              {"Time before", true},
	                              {"Time after", true},
	                              {"Change per call", true},
	                              {"Calls", true},
	                              {"Before"},
	                              {"After"}},
	                             "sticky");
	const size_t shown = std::min(document.rows.size(), mostRows);
	for (size_t i = 0; i < shown; i++) {
		const auto &row = document.rows[i];
		const auto &json = row.json;
		body +=
		    fmt::format("<tr><th scope=\"row\"><span class=\"id\">{}</span><small> {} {}</small></th><td>{}</td>"
		                "{}{}{}{}<td>{}</td><td>{}</td></tr>\n",
		                page::withCrosses(page::text(json, "shape")), page::text(json, "entry"), page::transposes(json),
		                orDash(page::text(json, "op")), page::cell(row.before, page::time(row.before)),
		                page::cell(row.after, page::time(row.after)), changeCell(row),
		                page::cell(page::number(json, "calls_after"), callsOf(row)),
		                orDash(page::text(json, "way_before")), orDash(page::text(json, "way_after")));
	}
	body += page::tableEnd;
	if (const Unchanged rest(document.unchanged); !document.unchanged.empty())
		body += fmt::format("<p>{} did not change: {} before, {} after. <code>--all</code> lists them.</p>\n",
		                    plural(document.unchanged.size(), "signature"), page::time(rest.before),
		                    page::time(rest.after));
	return body + page::more(document.rows.size() - shown + document.hidden) + "</section>\n";
}

std::string settingsTable(const Comparison &comparison)
{
	auto body = page::section("config", "Settings, versions and devices");
	if (comparison.settings.empty())
		return body + "<p>They are identical.</p></section>\n";
	body += page::tableStart("settings", "Different settings", {{"Name"}, {"Before"}, {"After"}}, "", "", false);
	for (const auto &each : comparison.settings)
		body += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"wrap\">{}</td><td class=\"wrap\">{}</td></tr>\n",
		                    html(each.name), orDash(html(each.before)), orDash(html(each.after)));
	return body + page::tableEnd + "</section>\n";
}

} // namespace

void writeDiffHtml(std::FILE *out, const Comparison &comparison, const Sheet &sheet)
{
	const Document document(comparison, sheet);
	const auto &options = comparison.options;
	const auto headline = headlineOf(document);
	const auto names = html(here(options.before)) + " → " + html(here(options.after));
	std::string gates;
	for (const auto &gate : gatesOf(comparison))
		gates += fmt::format("<p>Gate <code>{}</code>: <b class=\"{}\">{}</b></p>\n", html(gate.option),
		                     gate.failure.empty() ? "good" : "bad", html(gateText(gate)));
	fmt::print(
	    out,
	    "{}<header><h1>autoamp diff: {}</h1>\n<p class=\"meta\">{}</p>\n{}</header>\n<main>\n<section class=\"first\" "
	    "id=\"result\" aria-labelledby=\"h-result\"><h2 class=\"vh\" id=\"h-result\">Result</h2>\n<p "
	    "class=\"big{}\">{}</p>\n"
	    "<p>{}</p>\n<p>{}</p>\n{}{}</section>\n{}{}</main>\n<footer>Made by autoamp {}.</footer>",
	    page::documentStart(
	        fmt::format("{} → {}: {} (autoamp diff)", here(options.before), here(options.after), headline)),
	    names, html(comparison.before.front().program), comparison.isEmulated ? page::note(emulatedLine) : "",
	    document.slowerPercent() > 0.5 ? " bad" : "", "After: " + headline, page::tag(sourceOf(comparison)),
	    changedSentence(document), gates, timeChart(document), signatureTable(document), settingsTable(comparison),
	    AUTOAMP_VERSION);
	fmt::print(out, "{}", page::documentEnd());
}

} // namespace autoamp::tool
