"""Writes the table of the images of the kernels: images.py IMAGE... TABLE OBJECT COMPILER.

An image is a file sm_90.cubin or compute_80.ptx. TABLE gets one row for each, and OBJECT the assembly of an object file
with all of them. COMPILER is nvrtc or nvcc, on which the oldest driver depends."""
import pathlib
import re
import sys

ALIGNMENT = 64
OLDEST_DRIVER = {"nvrtc": 12000, "nvcc": 13000}  # cuDriverGetVersion

*images, table, assembly, compiler = sys.argv[1:]
rows, lines, offset = [], [], 0
for image in map(pathlib.Path, images):
    size = image.stat().st_size
    architecture = int(re.fullmatch(r"(?:sm|compute)_(\d+)", image.stem)[1])
    # The driver reads PTX to a zero byte. NVRTC writes one, nvcc does not; the padding has one in any case.
    with_padding = size + ALIGNMENT - size % ALIGNMENT
    rows.append(f"{{{architecture}, {str(image.suffix == '.ptx').lower()}, {OLDEST_DRIVER[compiler]}, {offset}, {size}}},\n")
    lines.append(f'\t.incbin "{image.resolve()}"\n\t.zero {with_padding - size}\n')
    offset += with_padding
pathlib.Path(table).write_text("".join(rows))
pathlib.Path(assembly).write_text(
    f"""	.section .rodata
	.balign {ALIGNMENT}
	.globl autoamp_kernel_images
	.hidden autoamp_kernel_images
autoamp_kernel_images:
{"".join(lines)}	// Without this note the linker gives the whole library an executable stack.
	.section .note.GNU-stack,"",@progbits
""")
