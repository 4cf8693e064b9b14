// Signals of the calling thread, which wait as long as an object of this class exists. Front and core, any thread; two
// system calls.
#pragma once

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::base {

// A handler that forks, or does not return, would meet locks that its own thread holds. Faults are not held: the
// program can provide memory in their handlers. The two signals of libc are not held: setuid waits for each thread.
// System calls, because the functions may be those of a sanitizer, which do not work yet.
class HeldSignals
{
public:
	HeldSignals() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &held, &before_, sizeof before_); }
	~HeldSignals() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
	HeldSignals(const HeldSignals &) = delete;
	HeldSignals &operator=(const HeldSignals &) = delete;

private:
	static constexpr uint64_t held = [] {
		uint64_t signals = ~uint64_t{0};
		for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, 32, 33})
			signals &= ~(uint64_t{1} << (signal - 1));
		return signals;
	}();

	uint64_t before_;
};

} // namespace autoamp::base
