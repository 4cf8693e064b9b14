/* The exported names of the front for a CPU BLAS: jump slots, and the two lookup hooks. A jump leaves the return address
 * in place: it identifies the caller, and the caller determines the library. */
#include <cet.h> /* _CET_ENDBR, and the note that says it was used */

	.section .note.GNU-stack, "", @progbits

	.section .data.rel.local, "aw"
	.balign 8
	.globl autoamp_front_slots
	.hidden autoamp_front_slots
autoamp_front_slots: /* current target of each slot */

	.section .rodata
	.balign 8
	.globl autoamp_front_entries
	.hidden autoamp_front_entries
autoamp_front_entries:
.Lentries: /* results of lookups, as offsets: without relocations at program start */

	.text
	.set index, 0

	.macro slot name, copy
	.balign 16
	.ifeq \copy
	.globl \name
	.type \name, @function
\name:
	.endif
.Lentry_\name\()_\copy:
	.cfi_startproc
	_CET_ENDBR
	jmp *.Lslot_\name\()_\copy(%rip)
.Llazy_\name\()_\copy:
	_CET_ENDBR
	push $index
	.cfi_adjust_cfa_offset 8
	jmp autoamp_front_lazy
	.cfi_endproc
	.ifeq \copy
	.size \name, . - \name
	.endif

	.pushsection .data.rel.local
.Lslot_\name\()_\copy:
	.quad .Llazy_\name\()_\copy
	.popsection
	.pushsection .rodata
	.long .Lentry_\name\()_\copy - .Lentries
	.popsection
	.set index, index + 1
	.endm

#define BLAS(name, style, routine) slot name, 0
#include "inject/blas.inc"
#undef BLAS
#define BLAS(name, style, routine) slot name, 1
#include "inject/blas.inc"
#undef BLAS
#define BLAS(name, style, routine) slot name, 2
#include "inject/blas.inc"
#undef BLAS
#define BLAS(name, style, routine) slot name, 3
#include "inject/blas.inc"
#undef BLAS
#define BLAS(name, style, routine) slot name, 4
#include "inject/blas.inc"

#include "inject/lazy.inc"

/* dlsym(handle, name), dlvsym(handle, name, version). RTLD_NEXT means the next object after the caller, which the
 * original function finds by its return address: it is jumped to, never called. If autoamp_front_passes is set, lookups
 * of names with another first letter jump to it directly, except those in a handle. */
	.hidden autoamp_front_lookup, autoamp_front_next_dlsym, autoamp_front_next_dlvsym, autoamp_front_passes
	.macro hook name, version
	.balign 16
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	_CET_ENDBR
	lea 1(%rdi), %r11 /* a handle, neither RTLD_DEFAULT nor RTLD_NEXT: a plug-in may be new */
	cmp $1, %r11
	ja 2f
	cmpb $0, autoamp_front_passes(%rip)
	je 2f
	test %rsi, %rsi
	je 3f
	.irp letter, 99, 115, 100, 122, 83, 68, 67, 90 /* c s d z S D C Z */
	cmpb $\letter, (%rsi)
	je 2f
	.endr
	jmp 3f
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
1:	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	hook dlsym, none
	hook dlvsym
