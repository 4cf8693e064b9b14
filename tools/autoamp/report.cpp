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
	const auto relative = fs::path(path).lexically_relative(fs::current_path(ignored));
	return relative.empty() || relative.string().starts_with("..") ? path : "./" + relative.lexically_normal().string();
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

	const auto account = add(runs);
	const Terminal terminal(STDOUT_FILENO, options.colour);
	if (options.format == "json")
		writeJson(stdout, runs, account);
	else if (options.view == "ops")
		writeOps(stdout, terminal, runs, account);
	else if (options.view == "reasons")
		writeReasons(stdout, terminal, account);
	else
		writeSummary(stdout, terminal, runs, account);
	return status;
}

} // namespace autoamp::tool
