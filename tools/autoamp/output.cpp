#include "tools/autoamp/output.h"

#include "tools/autoamp/failure.h"
#include "tools/autoamp/interruption.h"
#include "tools/autoamp/text.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

void checkSignals()
{
	if (const int signal = interruption())
		fail(static_cast<Status>(128 + signal), "interrupted: nothing was written");
}

} // namespace

std::string checkedTarget(const std::string &given, bool mayReplace, const std::string &mark)
{
	std::error_code ignored;
	if (given.empty() || given.ends_with("/") || given == "-")
		fail(Status::wrong, "-o '{}' is not a file name", given);
	const bool isLink = fs::is_symlink(given, ignored) && fs::exists(given, ignored);
	const std::string path = isLink ? fs::canonical(given, ignored).string() : given;
	if (!mayReplace && fs::exists(fs::symlink_status(path, ignored)))
		fail(Status::wrong, "{} exists; --force overwrites it", path);
	if (fs::is_directory(path, ignored) && (mark.empty() || !fs::exists(path + "/" + mark, ignored)))
		fail(Status::wrong, "{} is a folder with other content; not overwritten", path);
	if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored) && !fs::is_directory(path, ignored))
		fail(Status::wrong, "{} is not a regular file; not overwritten", path);
	return path;
}

Output::Output(const std::string &path, bool mayReplace, const std::string &mark)
    : path_(checkedTarget(path, mayReplace, mark)), part_(fmt::format("{}.part-{}", path_, ::getpid())),
      // false also protects a file that another process creates meanwhile
      mayReplace_(fs::exists(fs::symlink_status(path_)))
{
	noteInterruptions();
	::signal(SIGPIPE, SIG_IGN); // a helper may have closed the pipe
}

Output::~Output()
{
	std::error_code ignored;
	fs::remove_all(part_, ignored);
}

void Output::finish()
{
	checkSignals();
	std::error_code error;
	if (mayReplace_ && fs::is_directory(path_, error))
		fs::remove_all(path_, error);
	if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), mayReplace_ ? 0 : RENAME_NOREPLACE) != 0 &&
	    (errno != EINVAL || ::rename(part_.c_str(), path_.c_str()) != 0)) // the file system supports no rename flags
		fail(Status::failed, "{}: {}", path_, std::strerror(errno));
}

Progress::Progress(const char *what, uint64_t whole) : what_(what), whole_(whole), isTerminal_(::isatty(STDERR_FILENO))
{
}

Progress::~Progress()
{
	if (shown_ >= 0)
		complain("\r\033[K");
}

void Progress::show()
{
	checkSignals();
	const int percent = whole_ > 0 ? static_cast<int>(std::min<uint64_t>(100, 100 * done_ / whole_)) : 0;
	if (isTerminal_ && percent != shown_)
		complain(
		    fmt::format("\r{} [{:<40}] {} %", what_, std::string(static_cast<size_t>(percent) * 2 / 5, '#'), percent));
	shown_ = isTerminal_ ? percent : -1;
}

} // namespace autoamp::tool
