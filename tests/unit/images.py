#!/usr/bin/env python3
"""The table of the kernel images against the images in the core: images.py CORE TABLE KERNEL_SOURCES CUOBJDUMP.

Each image in the core must be a cubin or PTX for the architecture of its row, in the format that the oldest driver of the
row reads. cuobjdump, where it is installed, must agree, and lists the registers and the stack of each kernel."""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

CORE, TABLE, SOURCES, CUOBJDUMP = (pathlib.Path(argument) for argument in sys.argv[1:5])
CUDA = 190  # e_machine
ROW = re.compile(r"\{(\d+), (true|false), (\d+), (\d+), (\d+)\},")


def images():
    """Architecture, kind, oldest driver and bytes of each row, the bytes from the core."""
    symbol = re.search(r"\b([0-9a-f]{16})\b.* autoamp_kernel_images$", subprocess.check_output(["readelf", "-sW", CORE], text=True), re.M)
    address, core = int(symbol[1], 16), CORE.read_bytes()
    start, entry_size, count = (*struct.unpack_from("<Q", core, 32), *struct.unpack_from("<HH", core, 54))
    for number in range(count):
        kind, _, offset, virtual, _, size = struct.unpack_from("<IIQQQQ", core, start + number * entry_size)
        if kind == 1 and virtual <= address < virtual + size:  # PT_LOAD
            begin = address - virtual + offset
    for row in ROW.findall(TABLE.read_text()):
        architecture, oldest, offset, size = (int(word) for word in (row[0], *row[2:]))
        yield architecture, row[1] == "true", oldest, core[begin + offset:begin + offset + size], core[begin + offset + size]


class Images(unittest.TestCase):
    kernels = set(re.findall(r"__global__ void(?: __launch_bounds__\([^)]*\))?\s+(autoamp_\w+)",
                             "".join(file.read_text() for file in SOURCES.glob("*.cuh"))))

    def test_formats(self):
        rows = list(images())
        self.assertEqual([is_ptx for _, is_ptx, *_ in rows], [False] * (len(rows) - 1) + [True])
        self.assertGreater(len(rows), 1)
        self.assertGreaterEqual(len(self.kernels), 11)
        for architecture, is_ptx, oldest, data, after in rows:
            with self.subTest(architecture=architecture, is_ptx=is_ptx):
                if is_ptx:
                    text = data.decode().rstrip("\0")
                    self.assertEqual(after, 0)  # the driver reads PTX to a zero byte
                    self.assertEqual(re.search(r"^\.target sm_(\d+)$", text, re.M)[1], str(architecture))
                    version = re.search(r"^\.version (\d+)\.(\d+)$", text, re.M)
                    self.assertEqual(int(version[1]), oldest // 1000 - 4)
                    self.assertTrue(oldest > 12000 or version[2] == "0")
                    self.assertEqual(set(re.findall(r"\.entry (autoamp_\w+)", text)), self.kernels)
                    continue
                self.assertEqual((data[:6], struct.unpack_from("<H", data, 18)[0]), (b"\x7fELF\x02\x01", CUDA))
                abi, flags = data[7:9], struct.unpack_from("<I", data, 48)[0]
                self.assertIn(abi, (b"\x33\x07", b"\x41\x08"))
                # The older format, which drivers of CUDA 12.0 read. Later GPUs need a later driver in any case.
                self.assertTrue(oldest >= 13000 or architecture > 90 or abi == b"\x33\x07", abi)
                self.assertEqual(flags >> (8 if abi[0] == 0x41 else 0) & 0xFF, architecture)
                sections, each, count = (struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58))
                self.assertLessEqual(sections + each * count, len(data))

    def test_listing(self):
        if not CUOBJDUMP.is_file():
            self.skipTest("cuobjdump is not installed")
        for architecture, is_ptx, _, data, _ in images():
            if is_ptx:
                continue
            with self.subTest(architecture=architecture), tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(data)
                file.flush()
                header = subprocess.check_output([CUOBJDUMP, "-elf", file.name], text=True)
                self.assertEqual(re.search(r"\bsm=(\d+)", header)[1], str(architecture))
                usage = subprocess.check_output([CUOBJDUMP, "-res-usage", file.name], text=True)
                found = {name: (registers, stack) for name, registers, stack in
                         re.findall(r"Function (autoamp_\w+):\s+REG:(\d+) STACK:(\d+)", usage)}
                self.assertEqual(set(found), self.kernels)
                for name, (registers, stack) in sorted(found.items()):
                    print(f"sm_{architecture:<4} {name:30} {registers:>4} registers, {stack:>4} bytes of stack")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
