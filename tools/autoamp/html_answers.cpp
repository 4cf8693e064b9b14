#include "tools/autoamp/html_answers.h"

#include "tools/autoamp/escape.h"
#include "tools/autoamp/html_charts.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace autoamp::tool::page {

namespace {

constexpr size_t mostOps = 5, mostShapes = 3;

// A change of less than 0.5 % does not count.
bool isFaster(double gain)
{
	return gain > 1.005;
}

bool isSlower(double gain)
{
	return gain < 0.995;
}

std::string gainTag(const Account &account)
{
	return tag(html(sourceOf(account.gain, account.isEmulated)));
}

std::string loweredSentence(const Account &account)
{
	const auto &lowered = account.lowered.calls > 0 ? account.lowered : account.wouldLower;
	if (account.eligible.calls == 0)
		return "";
	return fmt::format(
	    "<p>{} {} of {} fp32 products, {} of their FLOP.</p>\n",
	    account.lowered.calls > 0 || account.observed.calls == 0 ? "autoamp lowered" : "Level O1 would lower",
	    count(lowered.calls), count(account.eligible.calls), html(share(lowered.flops, account.eligible.flops)));
}

std::string gainCard(const Account &account)
{
	const auto &gain = account.gain;
	const auto title = headline(account);
	std::string body = "<div class=\"answer\"><h2>What was gained?</h2>\n";
	if (account.eligible.calls == 0 || !gain.isKnown())
		return body + "<p class=\"big\">" + html(title) + "</p>\n" + loweredSentence(account) + "</div>\n";
	const auto &sum = gain.sum();
	body += fmt::format("<p class=\"big{}\">{}</p>\n<p>{}</p>\n", isSlower(sum.gain()) ? " bad" : "", html(title),
	                    gainTag(account));
	body += fmt::format("<p>The fp32 products take {} unchanged, {} as run, and {} ({:.2f}×) {}.</p>\n",
	                    time(sum.asAskedNs), time(sum.asRunNs), time(sum.bestNs), sum.bestGain(),
	                    gain.isMeasured() ? "with the faster precision of each shape" : "with the best strategy");
	if (!gain.isMeasured() && gain.asRunNs > 0)
		body +=
		    fmt::format("<p>Measured as run: <b>{}</b> {}. There is no measured time of the unchanged program.</p>\n",
		                time(gain.asRunNs), account.times == Times::host ? "on the CPU" : "in kernels");
	body += loweredSentence(account);
	if (sum.unknown > 0)
		body += "<p class=\"mut\">" + plural(sum.unknown, "call") + " of unknown time left out.</p>\n";
	return body + "</div>\n";
}

std::string whereCard(const Account &account)
{
	const auto timeOf = [&](const Sum &sum) { return sum.timeNs(account.times); };
	const double all = timeOf(account.eligible);
	if (!(all > 0))
		return "<div class=\"answer\"><h2>Where does fp32 time go?</h2>\n<p class=\"big\">Unknown</p>\n"
		       "<p>The traces contain no times.</p></div>\n";
	std::map<std::string, double> byOp;
	for (const auto &shape : account.heaviest)
		byOp[shape.op] += shape.ns;
	const auto &op = *std::max_element(byOp.begin(), byOp.end(), [](auto &x, auto &y) { return x.second < y.second; });
	auto body = fmt::format("<div class=\"answer\"><h2>Where does fp32 time go?</h2>\n<p class=\"big\">{} in "
	                        "{}</p>\n<p>{}</p>\n<ol>",
	                        html(share(op.second, all)), html(op.first), tag(headingOf(account.times)));
	for (size_t i = 0; i < account.heaviest.size() && i < mostShapes; i++)
		body += fmt::format("<li><span>{}</span><span>{}</span></li>", html(account.heaviest[i].name),
		                    html(share(account.heaviest[i].ns, all)));
	body += "</ol>\n";
	const ReasonSum *first = nullptr;
	double kept = 0;
	for (const auto &reason : account.reasons) {
		if (!reason.isKept() || !(timeOf(reason.eligible) > 0))
			continue;
		kept += timeOf(reason.eligible);
		if (!first || timeOf(reason.eligible) > timeOf(first->eligible))
			first = &reason;
	}
	if (first)
		body +=
		    fmt::format("<p>{} of the time is in calls that run unchanged, mostly for the reason <code>{}</code>: {} "
		                "(<a href=\"#reasons\">reasons</a>).</p>\n",
		                html(share(kept, all)), html(first->reason), html(first->meaning()));
	else if (account.observed.calls > 0)
		body += fmt::format("<p>{} of the time is in calls that run unchanged, because level O0 changes no call.</p>\n",
		                    html(share(timeOf(account.eligibleObserved), all)));
	else
		body += "<p>No call runs unchanged.</p>\n";
	return body + "</div>\n";
}

std::string capitalized(std::string text)
{
	if (!text.empty())
		text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
	return text;
}

std::string nextCard(const NextStep &step)
{
	std::string body = "<div class=\"answer next\"><h2>What next?</h2>\n";
	if (step.command.empty())
		return body + "<p class=\"step\">Nothing to do</p>\n<p>No known change saves a significant time.</p></div>\n";
	body += "<p class=\"step\">" + html(capitalized(step.title)) + "</p>\n";
	if (step.savesNs > 0)
		body += fmt::format("<p>Saves {} {}</p>\n", time(step.savesNs), tag(html(step.source)));
	if (!step.why.empty())
		body += "<p>" + html(capitalized(step.why)) + ".</p>\n";
	return body + "<pre id=\"command\"><code>" + html(step.command) +
	       "</code></pre>\n<button type=\"button\" data-copy=\"command\" hidden>Copy command</button>\n</div>\n";
}

std::string valueOf(double ns, double unchanged)
{
	const double gain = unchanged / ns;
	return fmt::format("<b>{}</b>{}", time(ns),
	                   std::isfinite(gain) && (isFaster(gain) || isSlower(gain))
	                       ? fmt::format("<small class=\"{}\"> {:.2f}×{}</small>", isFaster(gain) ? "good" : "bad",
	                                     gain, isFaster(gain) ? "" : ", slower")
	                       : "");
}

std::string barsOf(const OpWork &op, const std::string &title, const Axis &axis)
{
	const double actual = sumOf(op.actual), best = sumOf(op.best);
	const auto subtitle =
	    fmt::format("<small>{}, {}</small>", plural(op.signatures, "signature"), plural(op.calls, "call"));
	return bars(title + " " + subtitle,
	            {{"Unchanged", op.unchanged, {}, "<b>" + time(op.unchanged) + "</b>"},
	             {"As run", 0, op.actual, valueOf(actual, op.unchanged)},
	             {"Best", 0, op.best, valueOf(best, op.unchanged)}},
	            axis);
}

} // namespace

std::string headline(const Account &account)
{
	const auto &gain = account.gain;
	const auto &sum = gain.sum();
	if (account.all.calls == 0)
		return "No library call was intercepted";
	if (account.eligible.calls == 0)
		return fmt::format("Nothing to lower: none of {} is an fp32 product", plural(account.all.calls, "call"));
	if (!gain.isKnown())
		return "Unknown: the cost model has no estimate";
	if (account.lowered.calls == 0)
		return isFaster(sum.bestGain()) ? fmt::format("{:.2f}× possible", sum.bestGain())
		                                : "No gain: nothing was lowered";
	if (isSlower(sum.gain()))
		return fmt::format("{:.2f}×: slower than unchanged", sum.gain());
	return isFaster(sum.gain()) ? fmt::format("{:.2f}× faster", sum.gain()) : "As fast as unchanged";
}

std::string answers(const Account &account)
{
	auto body = "<div class=\"answers\">\n" + gainCard(account);
	if (account.eligible.calls > 0)
		body += whereCard(account);
	return body + nextCard(account.next) + "</div>\n";
}

std::string workChart(const Account &account, const Work &work)
{
	if (work.ops.empty() || !(work.all.unchanged > 0))
		return "";
	const Axis axis(std::max(work.all.unchanged, sumOf(work.all.actual)), 3);
	ByPrecision shown = work.all.actual;
	for (size_t p = 0; p < precisions.size(); p++)
		shown[p] += work.all.best[p];
	const char *best =
	    work.isMeasured ? "each signature in its faster precision" : "the fastest strategy by the cost model";
	auto body =
	    fmt::format("<figure><figcaption><b>Time of the fp32 products by op</b> {}<br>Best: {}.</figcaption>\n{}"
	                "<table class=\"chart\"><caption class=\"vh\">Time of the fp32 products by op</caption>\n",
	                gainTag(account), best, legend(shown));
	body += barsOf(work.all, "All fp32 products", axis);
	for (size_t i = 0; work.ops.size() > 1 && i < work.ops.size() && i < mostOps; i++)
		body += barsOf(work.ops[i], work.ops[i].op, axis);
	body += barAxis(axis) + "</table></figure>\n";
	if (work.ops.size() > mostOps)
		body += fmt::format("<p class=\"mut\">and {}</p>\n", plural(work.ops.size() - mostOps, "more op"));
	return body;
}

} // namespace autoamp::tool::page
