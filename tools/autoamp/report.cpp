#include "tools/autoamp/report.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

std::string invocation = "autoamp";

std::string quoted(const std::string &word)
{
	static constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
	if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
		return word;
	const bool isShown = shown(word) == word;
	std::string result = isShown ? "'" : "$'"; // $'...' of bash, zsh and ksh: \x1b is that character
	for (const char c : word) {
		const auto byte = static_cast<unsigned char>(c);
		if (isShown)
			result += c == '\'' ? "'\\''" : std::string(1, c);
		else if (byte < ' ' || byte >= 127)
			result += fmt::format("\\x{:02x}", byte);
		else
			result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
	}
	return result + "'";
}

std::string here(const std::string &path)
{
	std::error_code ignored;
	const auto relative = fs::path(path).lexically_relative(fs::current_path(ignored)).lexically_normal().string();
	return relative.empty() || relative.starts_with("..") ? path : relative == "." ? relative : "./" + relative;
}

namespace {

// The traces of a folder, oldest first.
std::vector<std::string> tracesIn(const std::string &folder)
{
	std::vector<std::pair<fs::file_time_type, std::string>> found;
	std::error_code error;
	for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
		std::error_code gone; // between the listing and here
		if (entry->path().extension() == ".aat" && entry->is_regular_file(gone))
			if (const auto time = entry->last_write_time(gone); !gone)
				found.emplace_back(time, entry->path().string());
	}
	std::sort(found.begin(), found.end());
	std::vector<std::string> paths;
	for (auto &[time, path] : found)
		paths.push_back(std::move(path));
	return paths;
}

bool isOwn(const std::string &path)
{
	struct stat status;
	return ::stat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

// The newest trace that this user owns: in a folder shared with others, their runs are not meant.
std::string newestTrace(const policy::Options &options)
{
	std::string other;
	for (const std::string &folder : {std::string("."), options.directory}) {
		const auto paths = folder.empty() ? std::vector<std::string>() : tracesIn(folder);
		const auto own = std::find_if(paths.rbegin(), paths.rend(), isOwn);
		if (own != paths.rend())
			return *own;
		if (other.empty() && !paths.empty())
			other = paths.back();
	}
	if (!other.empty())
		fail(Status::wrong, "no trace of this user here; {} belongs to another user: {} report {}", here(other),
		     invocation, quoted(here(other)));
	fail(Status::wrong, "no trace (*.aat) here or in {}; make one: {} run -- APP",
	     options.directory.empty() ? "AUTOAMP_DIR, which is unset" : options.directory, invocation);
}

} // namespace

const std::vector<std::string> views = {"summary", "ops", "reasons", "kernels", "scaler", "loss", "config"};
const std::vector<std::string> formats = {"table", "json", "csv", "jsonl", "md", "html"};

Runs gather(const std::vector<std::string> &places, const policy::Options &configuration, Status &status)
{
	std::vector<std::string> paths;
	std::set<std::string> seen;
	const auto take = [&](const std::string &path) {
		if (seen.insert(fs::absolute(path).lexically_normal().string()).second)
			paths.push_back(path);
	};
	for (const auto &place : places) {
		std::error_code error;
		const bool isFolder = fs::is_directory(place, error);
		const auto found = isFolder ? tracesIn(place) : trace::family(place);
		if (isFolder && found.empty())
			fail(Status::wrong, "{}: no trace (*.aat) in this folder", place);
		std::for_each(found.begin(), found.end(), take);
		if (!isFolder)
			take(place); // if it is missing, opening it says so
	}
	if (places.empty())
		paths.push_back(newestTrace(configuration));

	Runs runs;
	for (const auto &path : paths) {
		std::string error;
		if (auto run = trace::Trace::open(path, error)) {
			runs.push_back(std::move(*run));
		} else {
			complain("autoamp: " + shown(error) + "\n");
			status = Status::wrong;
		}
	}
	return runs;
}

Status report(const ReportOptions &options, const policy::Options &configuration, std::span<const char *const> entries)
{
	const auto &selection = options.selection;
	const auto &format = options.format;
	const bool isRows = format == "csv" || format == "jsonl"; // one list and nothing else
	const bool isList = !selection.by.empty() || !selection.sort.empty() || selection.top > 0 || isRows;
	const auto view = !options.view.empty() ? options.view : isList && format != "html" ? "ops" : "summary";
	if ((view == "summary" || view == "config") && isList && format != "html")
		fail(Status::wrong, "report: --by, --sort, --top, csv and jsonl are for lists: --report ops, reasons, ...");
	if (view != "ops" && format != "html" && !selection.by.empty())
		fail(Status::wrong, "report: --by groups the rows of --report ops; {} has a report of its own", view);

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
	const bool isMerged = !isRows && format != "json"; // for people
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
		complain(message("autoamp: {} is this user's newest trace here: {}, pid {}\n", here(runs.front().path),
		                 runs.front().program, runs.front().pid));
	std::string places; // as typed
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
		fmt::print("no kernels in this trace: AUTOAMP_TRACE=kernels records them, unless the summary names a failure "
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
			// "nothing" is an answer only if the traces could have it.
			const bool isObserved = sheet == &lists.observed;
			const auto unknown = !account.whatIf.empty() ? std::string("nothing was run")
			                     : isObserved            ? std::string()
			                                             : fmt::format("{}", fmt::join(scalerGaps(runs), "; "));
			const std::string none = !unknown.empty()                    ? ": unknown, " + unknown
			                         : isObserved && !account.hasKernels ? ": not traced, AUTOAMP_TRACE=kernels does"
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
