// Writes that neither wait nor send the application a signal. Front and core, any thread; errno may change.
#pragma once

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <poll.h>
#include <sys/uio.h>
#include <time.h>

namespace autoamp::base {

// Blocks SIGPIPE and SIGXFSZ during a write of this thread, which can then fail with EPIPE or EFBIG. Signals that were
// pending before stay pending. On Linux, sigprocmask affects only this thread; its symbol version exists on old
// systems.
class WriteSignals
{
public:
	WriteSignals()
	{
		sigemptyset(&signals_);
		sigaddset(&signals_, SIGPIPE);
		sigaddset(&signals_, SIGXFSZ);
		sigpending(&pending_);
		sigprocmask(SIG_BLOCK, &signals_, &before_);
	}
	~WriteSignals()
	{
		sigset_t now;
		sigpending(&now);
		for (const int signal : {SIGPIPE, SIGXFSZ})
			if (sigismember(&now, signal) && !sigismember(&pending_, signal)) {
				sigset_t ours;
				sigemptyset(&ours);
				sigaddset(&ours, signal);
				const timespec atOnce = {};
				sigtimedwait(&ours, nullptr, &atOnce);
			}
		sigprocmask(SIG_SETMASK, &before_, nullptr);
	}
	WriteSignals(const WriteSignals &) = delete;
	WriteSignals &operator=(const WriteSignals &) = delete;

private:
	sigset_t signals_, pending_, before_;
};

// Writes one line of at most PIPE_BUF bytes to a terminal, file or pipe. Writes nothing to a pipe that is full or has
// no reader.
inline void writeLine(int file, const iovec *parts, int count)
{
	pollfd target = {file, POLLOUT, 0};
	if (poll(&target, 1, 0) != 1 || target.revents != POLLOUT)
		return;
	const WriteSignals signals;
	[[maybe_unused]] const ssize_t written = writev(file, parts, count);
}

} // namespace autoamp::base
