#include "tools/autoamp/report.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/next.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"
#include "tools/autoamp/whatif.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

const std::vector<std::string> views = {"summary",  "ops",   "reasons", "kernels", "scaler",
                                        "gradient", "audit", "loss",    "config"};
const std::vector<std::string> formats = {"table", "json", "csv", "jsonl", "md", "html"};

namespace {

// The request to `report`: the view, its format and its selection.
struct Request {
	const ReportOptions &options;
	bool isRows, isMerged; // formats that hold exactly one list; rows of all runs are merged, for people to read
	std::string view;

	explicit Request(const ReportOptions &asked)
	    : options(asked), isRows(is("csv") || is("jsonl")), isMerged(!isRows && !is("json"))
	{
		const auto &selection = options.selection;
		const bool isList = !selection.by.empty() || !selection.sort.empty() || selection.top > 0 || isRows;
		view = !options.view.empty() ? options.view : isList && !is("html") ? "ops" : "summary";
		if ((view == "summary" || view == "config") && isList && !is("html"))
			fail(Status::wrong, "report: --by, --sort, --top, csv and jsonl need a list: --report ops, reasons, ...");
		if (view != "ops" && !is("html") && !selection.by.empty())
			fail(Status::wrong, "report: --by groups the rows of --report ops and does not apply to --report {}", view);
	}
	bool is(std::string_view format) const { return options.format == format; }
	const char *gap() const { return is("md") ? "\n" : ""; } // between two paragraphs
};

Lists listsOf(const Request &request, const Runs &runs, const Account &account, std::vector<trace::RowInfo> &merged)
{
	std::vector<OpsRow> rows;
	if (request.isMerged)
		merged = mergedRows(runs);
	for (const auto &row : merged)
		rows.push_back({0, &row});
	for (size_t id = 0; !request.isMerged && id < runs.size(); id++)
		for (const auto &row : runs[id].rows)
			if (row.calls > 0)
				rows.push_back({id, &row, planNsOf(runs[id], row)});
	Lists lists = {std::nullopt,           opsSheet(std::move(rows), account),
	               reasonsSheet(account),  kernelsSheet(runs, request.isMerged),
	               scalerSitesSheet(runs), scalerSheet(runs),
	               gradientSheet(runs),    gradientEventsSheet(runs),
	               observedSheet(runs),    lossSheet(runs),
	               auditSheet(runs)};
	if (const auto &by = request.options.selection.by; !by.empty())
		lists.groups = groupsSheet(groupsOf(runs, by), account);
	return lists;
}

Sheet &listOf(const std::string &view, Lists &lists)
{
	return view == "reasons"    ? lists.reasons
	       : view == "kernels"  ? lists.kernels
	       : view == "scaler"   ? lists.events
	       : view == "gradient" ? lists.gradientEvents
	       : view == "audit"    ? lists.audits
	       : view == "loss"     ? lists.losses
	       : lists.groups       ? *lists.groups
	                            : lists.ops;
}

void writeList(const Request &request, const Terminal &terminal, const Account &account, const Sheet &sheet)
{
	if (request.is("md"))
		writeMarkdown(stdout, sheet);
	else if (request.view == "reasons")
		writeReasons(stdout, terminal, sheet, account);
	else
		writeTable(stdout, terminal, sheet);
	if (sheet.hidden > 0)
		fmt::print("{}and {}\n", request.gap(), plural(sheet.hidden, "more row"));
}

void writeScaler(const Request &request, const Terminal &terminal, const Runs &runs, const Account &account,
                 const Lists &lists)
{
	const char *gap = "";
	std::vector<const Sheet *> sheets = {&lists.sites, &lists.events};
	if (lists.gradient.size() > 0)
		sheets.insert(sheets.end(), {&lists.gradient, &lists.gradientEvents});
	if (lists.gradient.size() == 0 || lists.observed.size() > 0)
		sheets.push_back(&lists.observed);
	for (const auto *sheet : sheets) {
		// Reports "nothing" only if the traces would contain the events; otherwise "unknown".
		const bool isObserved = sheet == &lists.observed, isOfProgram = sheet != sheets[0] && sheet != sheets[1];
		const auto unknown = !account.whatIf.empty() ? std::string("nothing was run")
		                     : isOfProgram           ? std::string()
		                                             : fmt::format("{}", fmt::join(scalerGaps(runs), "; "));
		const std::string none = !unknown.empty() ? ": unknown, " + unknown
		                         : isObserved && !account.hasKernels
		                             ? ": not recorded; AUTOAMP_TRACE=kernels records it"
		                         : isObserved && std::any_of(runs.begin(), runs.end(), areLastUpdatesLost)
		                             ? ": nothing; the last updates can be missing: no normal exit"
		                             : ": nothing";
		const auto partly = unknown.empty() ? "" : fmt::format(" ({})", unknown);
		fmt::print("{}{}\n{}", std::exchange(gap, "\n"),
		           wrap(sheet->caption + (sheet->size() ? partly : none), request.is("md") ? 0 : terminal.width, 2),
		           request.gap());
		if (sheet->size() > 0)
			writeList(request, terminal, account, *sheet);
	}
}

void writeText(const Request &request, const Runs &runs, const Account &account, Lists &lists,
               const std::string &places)
{
	const Terminal terminal(STDOUT_FILENO, request.options.colour);
	if (request.view == "summary" || request.view == "config") {
		const char *fence = request.is("md") ? "```\n" : "";
		std::fputs(fence, stdout);
		if (request.view == "summary")
			writeSummary(stdout, terminal, runs, account, places);
		else
			writeConfig(stdout, terminal, runs);
		std::fputs(fence, stdout);
		return;
	}
	const bool isKernels = request.view == "kernels";
	const size_t width = request.is("md") ? 0 : terminal.width;
	for (const auto &line : warnings(account))
		fmt::print("{}\n{}", wrap(shown(line), width, 0), request.gap());
	if (isKernels && !account.hasKernels)
		fmt::print("{}\n", wrap("this trace contains no kernels; AUTOAMP_TRACE=kernels records them unless the summary "
		                        "reports a failure (kernels_off)",
		                        width, 2));
	if (request.view == "audit" && lists.audits.size() == 0)
		fmt::print("{}\n", wrap("no call was audited; AUTOAMP_AUDIT=0.01 measures the error of one lowered call in 100",
		                        width, 2));
	else if (request.view == "scaler")
		writeScaler(request, terminal, runs, account, lists);
	else
		writeList(request, terminal, account, listOf(request.view, lists));
	if (request.view == "audit" && lists.audits.size() > 0)
		fmt::print(
		    "{}{}\n", request.gap(),
		    wrap("errors are relative to the norm of the result; those of a row or column to its own norm", width, 2));
	if (const auto launches = describeLaunches(account); isKernels && !launches.empty())
		fmt::print("{}{}\n", request.gap(), wrap(launches, width, 10));
	if (hasLoss(account.loss))
		fmt::print("{}{}\n", request.gap(), wrap("lost: " + textOf(account.loss), width, 6));
}

Account accountOf(const Runs &runs, const std::string &whatIf)
{
	auto account = add(runs);
	account.whatIf = whatIf;
	if (!whatIf.empty())
		account.gain.asRunNs = NAN; // of other decisions
	return account;
}

// The next step after the main one of several launches. The others are set aside meanwhile.
NextStep nextOfMain(Runs &runs, const std::vector<size_t> &places, const std::string &whatIf,
                    const std::string &command)
{
	Runs main;
	for (const size_t place : places)
		main.push_back(std::move(runs[place]));
	auto next = chooseNext(main, accountOf(main, whatIf), againFrom(main), command);
	for (size_t i = 0; i < places.size(); i++)
		runs[places[i]] = std::move(main[i]);
	return next;
}

} // namespace

Status report(const ReportOptions &options, const policy::Options &configuration, std::span<const char *const> entries)
{
	const Request request(options);
	Status status = Status::done;
	auto runs = gather(options.places, configuration, status);
	if (runs.empty())
		return Status::wrong;
	std::vector<std::string> assumed;
	if (!options.whatIf.empty())
		assumed = redecide(runs, options.whatIf, entries);
	findBest(runs, entries);
	std::string places; // the traces as typed on the command line; a page may be read elsewhere
	for (const auto &place : options.places.empty() ? std::vector{runs.front().path} : options.places)
		places += (places.empty() ? "" : " ") +
		          quoted(request.is("html") ? std::filesystem::absolute(place).string() : here(place));
	const auto command = fmt::format("{} report {}", invocation, places);
	size_t launches = 0;
	const auto ofMain = mainLaunch(runs, launches);
	NextStep next;
	if (launches > 1) {
		next = nextOfMain(runs, ofMain, options.whatIf, command);
		next.why += fmt::format("; the command repeats one of {} launches", count(launches));
	}
	auto account = accountOf(runs, options.whatIf);
	account.next = launches > 1 ? std::move(next) : chooseNext(runs, account, againFrom(runs), command);
	account.assumed = std::move(assumed);
	std::vector<trace::RowInfo> merged; // the lists refer to its rows
	Lists lists = listsOf(request, runs, account, merged);
	auto &list = listOf(request.view, lists);
	auto selection = options.selection;
	if (request.isMerged && selection.sort.empty() && list.sample.contains("as_run_ns"))
		selection.sort = "as_run_ns"; // people look for time first
	list.select(selection);

	if (options.places.empty() && request.isMerged)
		complain(message("autoamp: using this user's newest trace here, {}: {}, pid {}\n", here(runs.front().path),
		                 runs.front().program, runs.front().pid));
	if (request.isRows && request.view == "scaler" && lists.gradientEvents.size() > 0)
		complain("autoamp: these rows are events of operands; --report gradient lists those of gradient scalers\n");
	if (request.is("json"))
		writeJson(stdout, runs, account, lists);
	else if (request.is("html"))
		writeHtml(stdout, runs, account, lists, !options.selection.sort.empty());
	else if (request.is("csv"))
		writeCsv(stdout, list);
	else if (request.is("jsonl"))
		writeJsonLines(stdout, list);
	else
		writeText(request, runs, account, lists, places);
	return status;
}

} // namespace autoamp::tool
