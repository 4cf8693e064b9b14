#include "src/cpu/guarded.h"

#include <cstdint>

namespace autoamp::cpu {

namespace {

// The guarded call in progress.
struct Guard {
	const Catch &by;
	_Unwind_Exception *caught;
};
constinit thread_local Guard *guard = nullptr;

} // namespace

} // namespace autoamp::cpu

// bool autoamp_cpu_guard(work, context): true after work(context) returned. The personality routine makes an exception
// continue at autoamp_cpu_landing.
asm(R"(
	.text
	.balign 16
	.globl autoamp_cpu_guard
	.hidden autoamp_cpu_guard, autoamp_cpu_landing
	.type autoamp_cpu_guard, @function
autoamp_cpu_guard:
	.cfi_startproc
	.cfi_personality 0x1b, autoamp_cpu_unwind
	endbr64
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
	mov $1, %eax
1:	pop %rbp
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
	.globl autoamp_cpu_landing
autoamp_cpu_landing:
	endbr64
	xor %eax, %eax
	jmp 1b
	.cfi_endproc
	.size autoamp_cpu_guard, . - autoamp_cpu_guard
)");

extern "C" {

__attribute__((visibility("hidden"))) extern const char autoamp_cpu_landing[];
__attribute__((visibility("hidden"))) bool autoamp_cpu_guard(void (*work)(void *), void *context);

// A personality routine of the Itanium C++ ABI. The end of a thread by cancellation is not caught.
__attribute__((visibility("hidden"), used)) int
autoamp_cpu_unwind(int, int actions, uint64_t, _Unwind_Exception *exception, _Unwind_Context *context)
{
	using namespace autoamp::cpu;
	if (!guard || !guard->by.begin || !guard->by.end || !guard->by.setIp)
		return _URC_CONTINUE_UNWIND;
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	if (!(actions & _UA_HANDLER_FRAME))
		return _URC_CONTINUE_UNWIND;
	guard->caught = exception;
	guard->by.setIp(context, reinterpret_cast<_Unwind_Ptr>(autoamp_cpu_landing));
	return _URC_INSTALL_CONTEXT;
}

} // extern "C"

namespace autoamp::cpu {

bool callGuarded(const Catch &by, void (*work)(void *), void *context)
{
	Guard mine = {by, nullptr};
	guard = &mine;
	const bool hasReturned = autoamp_cpu_guard(work, context);
	guard = nullptr;
	if (!hasReturned) {
		by.begin(mine.caught);
		by.end();
	}
	return hasReturned;
}

} // namespace autoamp::cpu
