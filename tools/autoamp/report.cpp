#include "tools/autoamp/report.h"
#include "tools/autoamp/commands.h"
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

const std::vector<std::string> views = {"summary", "ops", "reasons", "kernels", "scaler", "loss", "config"};
const std::vector<std::string> formats = {"table", "json", "csv", "jsonl", "md", "html"};

Status report(const ReportOptions &options, const policy::Options &configuration, std::span<const char *const> entries)
{
	const auto &selection = options.selection;
	const auto &format = options.format;
	const bool isRows = format == "csv" || format == "jsonl"; // formats that hold exactly one list
	const bool isList = !selection.by.empty() || !selection.sort.empty() || selection.top > 0 || isRows;
	const auto view = !options.view.empty() ? options.view : isList && format != "html" ? "ops" : "summary";
	if ((view == "summary" || view == "config") && isList && format != "html")
		fail(Status::wrong, "report: --by, --sort, --top, csv and jsonl need a list: --report ops, reasons, ...");
	if (view != "ops" && format != "html" && !selection.by.empty())
		fail(Status::wrong, "report: --by groups the rows of --report ops and does not apply to --report {}", view);

	Status status = Status::done;
	auto runs = gather(options.places, configuration, status);
	if (runs.empty())
		return Status::wrong;
	std::vector<std::string> assumed;
	if (!options.whatIf.empty())
		assumed = redecide(runs, options.whatIf, entries);

	auto account = add(runs);
	account.whatIf = options.whatIf;
	account.assumed = std::move(assumed);
	const bool isMerged = !isRows && format != "json"; // human-readable formats merge the rows of all runs
	const auto merged = isMerged ? mergedRows(runs) : std::vector<trace::RowInfo>();
	std::vector<OpsRow> rows;
	for (const auto &row : merged)
		rows.push_back({0, &row});
	for (size_t id = 0; !isMerged && id < runs.size(); id++)
		for (const auto &row : runs[id].rows)
			if (row.calls > 0)
				rows.push_back({id, &row, planNsOf(runs[id], row)});
	const bool isGrouped = !selection.by.empty();
	Lists lists = {std::nullopt,           opsSheet(std::move(rows), account),
	               reasonsSheet(account),  kernelsSheet(runs, isMerged),
	               scalerSitesSheet(runs), scalerSheet(runs),
	               observedSheet(runs),    lossSheet(runs)};
	if (isGrouped)
		lists.groups = groupsSheet(groupsOf(runs, selection.by), account);
	auto &list = view == "reasons"   ? lists.reasons
	             : view == "kernels" ? lists.kernels
	             : view == "scaler"  ? lists.events
	             : view == "loss"    ? lists.losses
	             : isGrouped         ? *lists.groups
	                                 : lists.ops;
	list.select(selection);

	const Terminal terminal(STDOUT_FILENO, options.colour);
	if (format == "json") {
		writeJson(stdout, runs, account, lists);
		return status;
	}
	if (options.places.empty() && !isRows)
		complain(message("autoamp: using this user's newest trace here, {}: {}, pid {}\n", here(runs.front().path),
		                 runs.front().program, runs.front().pid));
	std::string places; // the traces as typed on the command line
	for (const auto &place : options.places.empty() ? std::vector{runs.front().path} : options.places)
		places += (places.empty() ? "" : " ") + quoted(here(place));
	if (format == "html") {
		writeHtml(stdout, runs, account, lists, places);
		return status;
	}
	if (view == "summary" || view == "config") {
		const char *fence = format == "md" ? "```\n" : "";
		std::fputs(fence, stdout);
		if (view == "summary")
			writeSummary(stdout, terminal, runs, account, places);
		else
			writeConfig(stdout, terminal, runs);
		std::fputs(fence, stdout);
		return status;
	}
	if (isRows) {
		format == "csv" ? writeCsv(stdout, list) : writeJsonLines(stdout, list);
		return status;
	}
	const size_t width = format == "md" ? 0 : terminal.width;
	for (const auto &line : warnings(account))
		fmt::print("{}\n{}", wrap(shown(line), width, 0), format == "md" ? "\n" : "");
	if (view == "kernels" && !account.hasKernels)
		fmt::print(
		    "this trace contains no kernels; AUTOAMP_TRACE=kernels records them unless the summary reports a failure "
		    "(kernels_off)\n");
	const auto write = [&](const Sheet &sheet) {
		if (format == "md")
			writeMarkdown(stdout, sheet);
		else if (view == "reasons")
			writeReasons(stdout, terminal, sheet, account);
		else
			writeTable(stdout, terminal, sheet);
		if (sheet.hidden > 0)
			fmt::print("{}and {}\n", format == "md" ? "\n" : "", plural(sheet.hidden, "more row"));
	};
	if (view != "scaler") {
		write(list);
	} else {
		const char *gap = "";
		for (const auto *sheet : {&lists.sites, &lists.events, &lists.observed}) {
			// Reports "nothing" only if the traces would contain the events; otherwise "unknown".
			const bool isObserved = sheet == &lists.observed;
			const auto unknown = !account.whatIf.empty() ? std::string("nothing was run")
			                     : isObserved            ? std::string()
			                                             : fmt::format("{}", fmt::join(scalerGaps(runs), "; "));
			const std::string none = !unknown.empty() ? ": unknown, " + unknown
			                         : isObserved && !account.hasKernels
			                             ? ": not recorded; AUTOAMP_TRACE=kernels records it"
			                             : ": nothing";
			const auto partly = unknown.empty() ? "" : fmt::format(" ({})", unknown);
			fmt::print("{}{}{}\n{}", std::exchange(gap, "\n"), sheet->caption, shown(sheet->size() ? partly : none),
			           format == "md" ? "\n" : "");
			if (sheet->size() > 0)
				write(*sheet);
		}
	}
	if (const auto launches = describeLaunches(account); view == "kernels" && !launches.empty())
		fmt::print("{}{}\n", format == "md" ? "\n" : "", wrap(launches, width, 10));
	if (hasLoss(account.loss))
		fmt::print("{}{}\n", format == "md" ? "\n" : "", wrap("lost: " + describe(account.loss), width, 6));
	return status;
}

} // namespace autoamp::tool
