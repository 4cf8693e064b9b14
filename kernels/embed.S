// The fat binary between two hidden symbols. The build defines FATBIN as its path.
	.section .rodata
	.balign 64
	.globl autoamp_kernels_fatbin
	.hidden autoamp_kernels_fatbin
autoamp_kernels_fatbin:
	.incbin FATBIN
	.globl autoamp_kernels_fatbin_end
	.hidden autoamp_kernels_fatbin_end
autoamp_kernels_fatbin_end:
	.byte 0
	// Without this note the linker gives the whole library an executable stack.
	.section .note.GNU-stack,"",@progbits
