// The state of the calling thread that belongs to the application: errno, the cancellation state and the floating-point
// environment. autoamp's code must neither be changed by it nor change it. Any thread; no system call, no C++ runtime.
#pragma once

#include <cerrno>
#include <cstdint>
#include <pthread.h>

namespace autoamp::base {

// While one of these lives, the thread runs autoamp's code: it cannot be cancelled, so that no lock stays held and no
// start-up remains half done, and it computes in the default floating-point environment. The destructor restores what
// the application had. The caller must not compute in floating point in the function that holds it: the compiler does
// not know that such code depends on the environment.
class CallerState
{
public:
	CallerState() { take(); }
	~CallerState()
	{
		if (isTaken_)
			giveBack();
	}
	CallerState(const CallerState &) = delete;
	CallerState &operator=(const CallerState &) = delete;

	// Gives the state back for the time of a call that is the application's own.
	class Restored
	{
	public:
		explicit Restored(CallerState &state) : state_(state) { state_.giveBack(); }
		~Restored() { state_.take(); }
		Restored(const Restored &) = delete;
		Restored &operator=(const Restored &) = delete;

	private:
		CallerState &state_;
	};

	// For a frame that is left by an exception: the destructor does not run then.
	void abandon()
	{
		if (isTaken_)
			giveBack();
	}

private:
	// As a program finds them: all exceptions masked, to nearest, no flush to zero.
	static constexpr uint32_t defaultControl = 0x1f80, flags = 0x3f;
	static constexpr uint16_t defaultX87Control = 0x37f, x87Flags = 0xff;

	void take()
	{
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelState_);
		isTaken_ = true;
		errno_ = errno;
		control_ = __builtin_ia32_stmxcsr();
		if ((control_ & ~flags) != defaultControl)
			__builtin_ia32_ldmxcsr(defaultControl | (control_ & flags));
		// libc rounds decimal numbers as the x87 unit is set, but computes nothing there: flags matter to traps alone.
		asm volatile("fnstcw %0" : "=m"(x87Control_));
		if (x87Control_ != defaultX87Control)
			asm volatile("fnstsw %0\n\tfldcw %1" : "=a"(x87Status_) : "m"(defaultX87Control));
	}
	void giveBack()
	{
		if (x87Control_ != defaultX87Control) {
			uint16_t status;
			asm volatile("fnstsw %0" : "=a"(status));
			if ((status ^ x87Status_) & x87Flags)
				resetX87Flags();
			asm volatile("fldcw %0" : : "m"(x87Control_));
		}
		__builtin_ia32_ldmxcsr(control_);
		errno = errno_;
		isTaken_ = false;
		// Last: a pending asynchronous cancellation acts here.
		pthread_setcancelstate(cancelState_, nullptr);
	}
	// Before exceptions are unmasked again: a flag that is set would be one.
	void resetX87Flags() const
	{
		struct {
			uint32_t control, status, rest[5];
		} environment;
		asm volatile("fnstenv %0" : "=m"(environment));
		environment.control = (environment.control & 0xffff0000) | defaultX87Control;
		environment.status = (environment.status & ~uint32_t{x87Flags}) | (x87Status_ & x87Flags);
		asm volatile("fldenv %0" : : "m"(environment));
	}

	int cancelState_, errno_;
	uint32_t control_;
	uint16_t x87Control_, x87Status_;
	bool isTaken_;
};

} // namespace autoamp::base
