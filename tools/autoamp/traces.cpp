#include "tools/autoamp/traces.h"

#include "tools/autoamp/commands.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/text.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// The traces of a folder, oldest first.
std::vector<std::string> tracesIn(const std::string &folder)
{
	std::vector<std::pair<fs::file_time_type, std::string>> found;
	std::error_code error;
	for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
		std::error_code gone; // the file may disappear after the listing
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

// The newest trace that this user owns. Traces of other users in a shared folder are not candidates.
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
			take(place); // if it is missing, opening it reports the error
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

} // namespace autoamp::tool
