// The state of the calling thread that belongs to the application: errno, the cancellation state and the floating-point
// environment. autoamp's code must not depend on it and must not change it. Any thread; no system call, no C++ runtime.
#pragma once

#include <cerrno>
#include <cstdint>
#include <pthread.h>

namespace autoamp::base {

// Disables cancellation of the thread during autoamp's code, so that no lock stays held and no start-up remains half
// done, and sets the default floating-point environment. The destructor restores the application's state. The function
// that holds this object must not compute in floating point: the compiler does not know that such code depends on the
// environment.
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

	// Restores the application's state during a call that belongs to the application.
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

	// For a frame that an exception leaves: the destructor does not run then.
	void abandon()
	{
		if (isTaken_)
			giveBack();
	}

private:
	// Values at the start of a program: all exceptions masked, round to nearest, no flush to zero.
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
		// libc uses the x87 rounding mode to convert decimal numbers, but does not compute there: its flags matter only
		// for traps.
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
	// Needed before exceptions are unmasked: a flag that is set would raise one.
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
