// The shortest path of a CPU BLAS: without a trace, a product that runs unchanged for its sizes jumps to the original
// function. Assembly, because g++ saves registers and copies the stack arguments. Uses the state of the calling thread
// only.
#pragma once

#include "src/place/region/shared.h"
#include "src/state/thread.h"

#include <cstddef>

namespace autoamp::core {

static_assert(sizeof(Thread::Passed) == 64 && sizeof(Thread::passed) == 0x3fc0 + 64); // in the assembly

// Sizes are compared as 32 bits: their width is known only after the lookup. A larger size with the same lower half
// runs unchanged, too.
[[gnu::noinline]] inline void rememberPassed(Thread &thread, const void *original, uint32_t m, uint32_t n, uint32_t k,
                                             unsigned slot, const void *address, uint32_t region, unsigned closes)
{
	const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address));
	replace(thread.passed[(m + 3 * n + 8 * k + low) * 0x9e3779b1 >> 6 & 0xff],
	        {address, original, m, n, k, slot, region, closes});
}

// The wrapper of the entry point with that slot. `find`: the function for all other calls. The registers that it
// changes belong to no argument, so all operands are constants: the compiler must not use any other register.
#define AT(member) [member] "i"(offsetof(Thread::Passed, member))
#define PASS(name, hash, compare)                                                                                      \
	template <unsigned number, auto *find>                                                                             \
	[[gnu::naked]] void name()                                                                                         \
	{                                                                                                                  \
		asm("mov autoamp_front_thread@gottpoff(%%rip), %%r11\n\t"                                                      \
		    "mov %%fs:%c[passed](%%r11), %%rax\n\t"                                                                    \
		    "test %%rax, %%rax\n\t"                                                                                    \
		    "je 1f\n\t"                                                                                                \
		    "mov %%fs:%c[ownEpoch](%%r11), %%r10d\n\t"                                                                 \
		    "cmp %%r10d, %c[epoch](%%rip)\n\t"                                                                         \
		    "jne 1f\n\t" hash /* of the sizes */                                                                       \
		    "add (%%rsp), %%r10d\n\t"                                                                                  \
		    "imul $0x9e3779b1, %%r10d, %%r10d\n\t"                                                                     \
		    "and $0x3fc0, %%r10d\n\t"                                                                                  \
		    "mov %%fs:%c[ownRegion](%%r11), %%r11d\n\t"                                                                \
		    "add %%rax, %%r10\n\t"                                                                                     \
		    "mov %c[version](%%r10), %%eax\n\t" /* a signal handler may replace the memo */                            \
		    "cmp %%r11d, %c[region](%%r10)\n\t"                                                                        \
		    "jne 1f\n\t"                                                                                               \
		    "mov (%%rsp), %%r11\n\t"                                                                                   \
		    "cmp %%r11, %c[address](%%r10)\n\t"                                                                        \
		    "jne 1f\n\t" compare /* sizes */                                                                           \
		    "cmpl %[number], %c[slot](%%r10)\n\t"                                                                      \
		    "jne 1f\n\t"                                                                                               \
		    "mov autoamp_cpu_closes@GOTPCREL(%%rip), %%r11\n\t"                                                        \
		    "mov (%%r11), %%r11d\n\t"                                                                                  \
		    "cmp %%r11d, %c[closes](%%r10)\n\t"                                                                        \
		    "jne 1f\n\t"                                                                                               \
		    "mov %c[original](%%r10), %%r11\n\t"                                                                       \
		    "cmp %%eax, %c[version](%%r10)\n\t"                                                                        \
		    "jne 1f\n\t"                                                                                               \
		    "jmp *%%r11\n"                                                                                             \
		    "1:\tjmp %c[find]\n"                                                                                       \
		    :                                                                                                          \
		    : [epoch] "i"(&regionEpoch), [find] "i"(find), [number] "i"(number),                                       \
		      [passed] "i"(offsetof(front::ThreadBlock, passed)), [ownEpoch] "i"(offsetof(front::ThreadBlock, epoch)), \
		      [ownRegion] "i"(offsetof(front::ThreadBlock, region) +                                                   \
		                      sizeof(unsigned) * static_cast<unsigned>(DeviceType::cpu)),                              \
		      AT(address), AT(m), AT(n), AT(k), AT(slot), AT(region), AT(closes), AT(version), AT(original));          \
	}

// C: sizes in registers.
PASS(passValues,
     "lea (%%r8, %%r8, 2), %%r10d\n\t"
     "add %%ecx, %%r10d\n\t"
     "lea (%%r10, %%r9, 8), %%r10d\n\t",
     "cmp %%ecx, %c[m](%%r10)\n\t"
     "jne 1f\n\t"
     "cmp %%r8d, %c[n](%%r10)\n\t"
     "jne 1f\n\t"
     "cmp %%r9d, %c[k](%%r10)\n\t"
     "jne 1f\n\t")
// Fortran: sizes in memory.
PASS(passReferences,
     "mov (%%r8), %%r10d\n\t"
     "shl $3, %%r10d\n\t"
     "add (%%rcx), %%r10d\n\t"
     "add (%%rcx), %%r10d\n\t"
     "add (%%rcx), %%r10d\n\t"
     "add (%%rdx), %%r10d\n\t",
     "mov (%%rdx), %%r11d\n\t"
     "cmp %%r11d, %c[m](%%r10)\n\t"
     "jne 1f\n\t"
     "mov (%%rcx), %%r11d\n\t"
     "cmp %%r11d, %c[n](%%r10)\n\t"
     "jne 1f\n\t"
     "mov (%%r8), %%r11d\n\t"
     "cmp %%r11d, %c[k](%%r10)\n\t"
     "jne 1f\n\t")
#undef PASS
#undef AT

} // namespace autoamp::core
