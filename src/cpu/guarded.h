// Calls of a C++ library whose exceptions must end here. Any thread.
//
// A `catch` would not do: the core has its own copies of libstdc++ and libgcc, which cannot handle an exception that is
// thrown by those of another library. The functions of that library end it.
#pragma once

#include <unwind.h>

namespace autoamp::cpu {

// Functions of the libstdc++ and libgcc that a library uses. Null: the library cannot throw.
struct Catch {
	void *(*begin)(void *) = nullptr;                        // __cxa_begin_catch
	void (*end)() = nullptr;                                 // __cxa_end_catch
	void (*setIp)(_Unwind_Context *, _Unwind_Ptr) = nullptr; // _Unwind_SetIP
};

// False if work(context) threw an exception. Frames of `work` have no destructors.
bool callGuarded(const Catch &by, void (*work)(void *), void *context);

} // namespace autoamp::cpu
