/* The exported names: jump slots as a PLT has them, and the two lookup hooks.
 * A jump leaves the return address in place, so the target can identify the caller. */
#include <cet.h> /* _CET_ENDBR, and the note that says it was used */

	.section .note.GNU-stack, "", @progbits

	.section .data.rel.local, "aw"
	.balign 8
	.globl autoamp_front_slots
	.hidden autoamp_front_slots
autoamp_front_slots: /* current target of each entry point */

	.section .rodata
	.balign 8
	.globl autoamp_front_entries
	.hidden autoamp_front_entries
autoamp_front_entries:
.Lentries: /* results of lookups, as offsets: without relocations at program start */

	.text
	.set index, 0

	.macro slot name, version, library, part
	.balign 16
	.globl \name\()_\version
	.type \name\()_\version, @function
\name\()_\version:
.Lentry_\name\()_\version:
	.cfi_startproc
	_CET_ENDBR
	jmp *.Lslot_\name\()_\version(%rip)
.Llazy_\name\()_\version:
	_CET_ENDBR
	push $index
	.cfi_adjust_cfa_offset 8
	jmp autoamp_front_lazy
	.cfi_endproc
	.size \name\()_\version, . - \name\()_\version
	.ifnc \part, \library /* the same slot under a second version */
	.globl \name\()_\part
	.type \name\()_\part, @function
	.set \name\()_\part, \name\()_\version
	.symver \name\()_\part, \name\()@lib\part\().so.\version, remove
	.endif
	.ifc \version, any
	.symver \name\()_\version, \name\()@@autoamp, remove
	.else
	.symver \name\()_\version, \name\()@lib\library\().so.\version, remove
	.endif

	.pushsection .data.rel.local
.Lslot_\name\()_\version:
	.quad .Llazy_\name\()_\version
	.popsection
	.pushsection .rodata
	.long .Lentry_\name\()_\version - .Lentries
	.popsection
	.set index, index + 1
	.endm

/* Three slots per entry point and launch function. The loader selects one by the symbol version of the reference: none, CUDA 13 or cuDNN 9,
 * CUDA 12 or cuDNN 8. */
#define ENTRY(name, library, soname, part, olderPart, newer, older) slot name, any, soname, soname
#include "inject/entries.inc"
#include "inject/launches.inc"
#undef ENTRY
#define ENTRY(name, library, soname, part, olderPart, newer, older) slot name, newer, soname, part
#include "inject/entries.inc"
#include "inject/launches.inc"
#undef ENTRY
#define ENTRY(name, library, soname, part, olderPart, newer, older) slot name, older, soname, olderPart
#include "inject/entries.inc"
#include "inject/launches.inc"

#include "inject/lazy.inc"

/* dlsym(handle, name), dlvsym(handle, name, version). RTLD_NEXT means the next object after the caller, which the
 * original function finds by its return address: it is jumped to, never called. If autoamp_front_passes is set, lookups
 * of other names jump to it directly. Names are compared byte by byte: a short name may end at the end of its page. */
	.hidden autoamp_front_lookup, autoamp_front_next_dlsym, autoamp_front_next_dlvsym, autoamp_front_passes
	.macro hook name, version
	.balign 16
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	_CET_ENDBR
	cmpb $0, autoamp_front_passes(%rip)
	je 2f
	test %rsi, %rsi
	je 2f
	cmpb $'I', (%rsi)
	je 2f
	cmpb $'_', (%rsi)
	je 4f
	cmpb $'c', (%rsi)
	jne 3f
	cmpb $'u', 1(%rsi)
	jne 3f
	cmpb $'b', 2(%rsi)
	je 2f
	cmpb $'P', 2(%rsi)
	je 2f
	cmpb $'d', 2(%rsi)
	jne 3f
	cmpb $'n', 3(%rsi)
	je 2f
	cmpb $'a', 3(%rsi)
	jne 3f
	cmpb $'P', 4(%rsi)
	je 2f
	cmpb $'L', 4(%rsi)
	je 2f
	cmpb $'G', 4(%rsi)
	jne 3f
2:	save rdi
	save rsi
	save rdx
	.ifnb \version
	xor %edx, %edx
	.endif
	mov 24(%rsp), %rcx
	call autoamp_front_lookup
	test %rdx, %rdx
	restore rdx
	restore rsi
	restore rdi
	jnz 1f
3:	jmp *autoamp_front_next_\name(%rip)
4:	cmpb $'_', 1(%rsi)
	jne 3b
	cmpb $'c', 2(%rsi)
	je 2b
	jmp 3b
1:	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	hook dlsym, none
	hook dlvsym
