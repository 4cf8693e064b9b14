#include "tools/autoamp/report.h"
#include "tools/autoamp/text.h"

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
	std::string result = "'";
	for (const char c : word)
		result += c == '\'' ? "'\\''" : static_cast<unsigned char>(c) < ' ' ? "?" : std::string(1, c);
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

std::string newestTrace(const policy::Options &options)
{
	for (const std::string &folder : {std::string("."), options.directory})
		if (const auto paths = folder.empty() ? std::vector<std::string>() : tracesIn(folder); !paths.empty())
			return paths.back();
	fail(Status::wrong, "no trace (*.aat) here or in {}; make one: {} run -- APP",
	     options.directory.empty() ? "AUTOAMP_DIR, which is unset" : options.directory, invocation);
}

} // namespace

Status report(const ReportOptions &options, const policy::Options &configuration)
{
	const auto &selection = options.selection;
	const bool isList =
	    !selection.by.empty() || !selection.sort.empty() || selection.top > 0 || options.format == "csv";
	const auto view = !options.view.empty() ? options.view : isList ? "ops" : "summary";
	if ((view == "summary" || view == "config") && isList)
		fail(Status::wrong, "report: --by, --sort, --top and csv are for lists: --report ops or reasons");
	if (view == "reasons" && !selection.by.empty())
		fail(Status::wrong, "report: --by groups the rows of --report ops; reasons have a report of their own");
	std::vector<std::string> paths;
	std::set<std::string> seen;
	const auto take = [&](const std::string &path) {
		if (seen.insert(fs::absolute(path).lexically_normal().string()).second)
			paths.push_back(path);
	};
	for (const auto &place : options.places) {
		std::error_code error;
		const bool isFolder = fs::is_directory(place, error);
		const auto found = isFolder ? tracesIn(place) : trace::family(place);
		if (isFolder && found.empty())
			fail(Status::wrong, "{}: no trace (*.aat) in this folder", place);
		std::for_each(found.begin(), found.end(), take);
		if (!isFolder)
			take(place); // if it is missing, opening it says so
	}
	if (options.places.empty())
		paths.push_back(newestTrace(configuration));

	// One bad file among many does not hide the others, but it is said and the status tells.
	Runs runs;
	Status status = Status::done;
	for (const auto &path : paths) {
		std::string error;
		if (auto run = trace::Trace::open(path, error)) {
			runs.push_back(std::move(*run));
		} else {
			complain("autoamp: " + error + "\n");
			status = Status::wrong;
		}
	}
	if (runs.empty())
		return Status::wrong;

	auto account = add(runs);
	const bool isTable = options.format == "table";
	const auto merged = isTable ? mergedRows(runs) : std::vector<trace::RowInfo>();
	std::vector<OpsRow> ops;
	for (const auto &row : merged)
		ops.push_back({0, &row});
	for (size_t id = 0; !isTable && id < runs.size(); id++)
		for (const auto &row : runs[id].rows)
			if (row.calls > 0)
				ops.push_back({id, &row});
	auto groups = selection.by.empty() ? std::vector<Group>() : groupsOf(runs, selection.by);
	size_t hidden = 0;
	const auto cut = [&](auto &list) {
		hidden = list.size();
		select(list, selection);
		hidden -= list.size();
	};
	view == "reasons" ? cut(account.reasons) : selection.by.empty() ? cut(ops) : cut(groups);

	const Terminal terminal(STDOUT_FILENO, options.colour);
	if (options.format == "json") {
		writeJson(stdout, runs, account, ops, groups);
	} else if (options.format == "csv") {
		view == "reasons"      ? writeCsv(stdout, account.reasons)
		: selection.by.empty() ? writeCsv(stdout, ops)
		                       : writeCsv(stdout, groups);
	} else if (view == "summary") {
		std::string places; // as typed
		for (const auto &place : options.places.empty() ? paths : options.places)
			places += (places.empty() ? "" : " ") + quoted(here(place));
		writeSummary(stdout, terminal, runs, account, places);
	} else if (view == "config") {
		writeConfig(stdout, terminal, runs);
	} else {
		fmt::print("{}", account.isEmulated ? std::string(emulatedLine) + "\n" : "");
		view == "reasons"      ? writeReasons(stdout, terminal, account)
		: selection.by.empty() ? writeOps(stdout, terminal, ops, account)
		                       : writeGroups(stdout, terminal, groups, account);
		if (hidden > 0)
			fmt::print("and {}\n", plural(hidden, "more row"));
		if (hasLoss(account.loss))
			fmt::print("lost: {}\n", describe(account.loss));
	}
	return status;
}

} // namespace autoamp::tool
