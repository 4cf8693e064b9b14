#include "tools/autoamp/output.h"

#include "tools/autoamp/failure.h"
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

constexpr int ending[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t signalled = 0;

void note(int signal)
{
	signalled = signal;
}

void checkSignals()
{
	if (signalled)
		fail(static_cast<Status>(128 + signalled), "interrupted: nothing was written");
}

} // namespace

Output::Output(std::string path, bool mayReplace, std::string mark)
    : path_(std::move(path)), part_(fmt::format("{}.part-{}", path_, ::getpid())), mark_(std::move(mark)),
      mayReplace_(mayReplace)
{
	std::error_code ignored;
	if (path_.empty() || path_.ends_with("/") || path_ == "-")
		fail(Status::wrong, "-o '{}' is not a file name", path_);
	if (fs::is_symlink(path_, ignored) && fs::exists(path_, ignored)) // write to the target and keep the link
		path_ = fs::canonical(path_, ignored), part_ = fmt::format("{}.part-{}", path_, ::getpid());
	if (!fs::exists(fs::symlink_status(path_, ignored)))
		mayReplace_ = false; // also protects a file that another process creates meanwhile
	else if (!mayReplace_)
		fail(Status::wrong, "{} exists; --force overwrites it", path_);
	else if (fs::is_directory(path_, ignored) && (mark_.empty() || !fs::exists(path_ + "/" + mark_, ignored)))
		fail(Status::wrong, "{} is a folder with other content; not overwritten", path_);
	if (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored) && !fs::is_directory(path_, ignored))
		fail(Status::wrong, "{} is not a regular file; not overwritten", path_);
	for (const int signal : ending) {
		struct sigaction action = {};
		action.sa_handler = note;
		sigaction(signal, &action, nullptr);
	}
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
