#include "tools/autoamp/traces.h"

#include "src/trace/read/files.h"
#include "src/trace/tail_name.h"
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

// The tail of a trace that was removed or replaced while its program ran: it contains the totals and all data that were
// not yet written. "": there is none.
std::string orphanOf(const std::string &path)
{
	char name[4096];
	const auto tail = trace::tailName(path.c_str(), name, sizeof name) ? trace::writerOf(name) : std::nullopt;
	std::error_code error;
	const auto writer = fs::is_regular_file(path, error) ? trace::writerOf(path) : std::nullopt;
	const bool isIts = tail && writer && tail->pid == writer->pid && tail->startedNs == writer->startedNs;
	return tail && !isIts ? name : "";
}

// The traces of a folder and tails without their trace, oldest first.
std::vector<std::string> tracesIn(const std::string &folder)
{
	std::vector<std::pair<fs::file_time_type, std::string>> found;
	std::error_code error;
	for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
		std::error_code gone; // the file may disappear after the listing
		const auto name = entry->path().filename().string();
		const bool isTail = name.starts_with(".") && name.ends_with(".aat.tail");
		const auto trace = entry->path().parent_path() / name.substr(isTail, name.size() - isTail * sizeof ".tail");
		if (entry->is_regular_file(gone) && (isTail ? !orphanOf(trace).empty() : entry->path().extension() == ".aat"))
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
	fail(Status::wrong, "no trace (*.aat) here or in {}; record one with {} run -- APP",
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
		if (place.empty())
			fail(Status::wrong, "'' is not the name of a file or folder");
		const bool isFolder = fs::is_directory(place, error);
		if (const auto tail = orphanOf(place); !tail.empty())
			complain(fmt::format("autoamp: {} was replaced while its program ran; the rest of its trace is in {}\n",
			                     shown(place), shown(here(tail))));
		const auto found = isFolder ? tracesIn(place) : trace::family(place);
		if (isFolder && found.empty())
			fail(Status::wrong, "{}: no trace (*.aat) in this folder; record one with {} run -- APP", place,
			     invocation);
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
