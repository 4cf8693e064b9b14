/* Preloaded, it makes dlsym return null for _dl_find_object, as glibc before 2.35 does. The version keeps libgcc from it. */
	.globl _dl_find_object
	.set _dl_find_object, 0
	.section .note.GNU-stack, "", @progbits
