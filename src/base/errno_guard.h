// errno as the application left it, whatever system calls are made in between.
// Any thread.
#pragma once

#include <cerrno>

namespace autoamp::base {

class ErrnoGuard
{
public:
	ErrnoGuard() : saved_(errno) {}
	~ErrnoGuard() { errno = saved_; }
	ErrnoGuard(const ErrnoGuard &) = delete;
	ErrnoGuard &operator=(const ErrnoGuard &) = delete;

private:
	int saved_;
};

} // namespace autoamp::base
