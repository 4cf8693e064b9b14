#!/usr/bin/env python3
"""The machine code of the kernels: kernel_code.py CORE TABLE KERNEL_SOURCES CUOBJDUMP, the arguments of images.py.

Reads the cubins in the core without a disassembler, for all architectures: registers, local memory, the widths of loads and
stores, and the instructions of a cast for 512 elements. Prints them as a table. cuobjdump, where it is installed, must
agree about registers, and about which kernels have a stack."""
import collections
import heapq
import itertools
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import images

# Instructions have 16 bytes on all architectures. These are bits 0 to 8 of the first word; bits 9 to 11 select operands.
LOADS = {0x180: "LD", 0x181: "LDG", 0x183: "LDL", 0x184: "LDS"}
STORES = {0x185: "ST", 0x186: "STG", 0x187: "STL", 0x188: "STS"}
BRANCH, EXIT, RETURN = 0x147, 0x14D, 0x150
WAIT = 0x2E  # ACQBULK: for the earlier kernel of the stream (griddepcontrol.wait)
WIDTHS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
FMA_PIPE = {0x20, 0x21, 0x23, 0x24, 0x25, 0x27}  # FMUL FADD FFMA IMAD: have a pipe of their own
CONVERSIONS = range(0x100, 0x113)
REGISTER_COUNT = 0x2F  # an attribute of a kernel in .nv.info


class Instruction:
    def __init__(self, address, word, architecture):
        self.opcode = word & 0x1FF
        self.name = LOADS.get(self.opcode) or STORES.get(self.opcode)
        self.width = WIDTHS.get(word >> 73 & 7)
        self.is_predicated = word >> 12 & 15 != 7
        # Arithmetic, logic, comparison, selection, move: opcodes below those of the uniform pipe. Conversions count too.
        self.is_alu = self.opcode < 0x80 and self.opcode not in FMA_PIPE or self.opcode in CONVERSIONS
        self.successors = [address + 1]
        if self.opcode == BRANCH:
            offset = word >> 34 & (1 << 48) - 1
            offset -= (offset & 1 << 47) << 1
            if architecture >= 90:
                offset = offset << 8 | word >> 16 & 0xFF
            is_conditional = self.is_predicated or word >> 87 & 15 != 7 or word >> 9 & 7 == 2
            self.successors = [address + 1 + offset * 4 // 16] + ([address + 1] if is_conditional else [])
        elif self.opcode in (EXIT, RETURN) and not self.is_predicated:
            self.successors = []


def kernels(architecture, data):
    """Name, registers and instructions of each kernel of a cubin."""
    start, each, count, names = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HHH", data, 58))
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + number * each) for number in range(count)]
    texts, registers = [], {}
    for name, _, _, _, offset, size, _, info, _, _ in sections:
        begin = sections[names][4] + name
        text = data[begin:data.index(0, begin)].decode()
        if text.startswith(".text.autoamp_"):
            texts.append((text[6:], info & 0xFFFFFF, offset, size))
        elif text == ".nv.info":
            at = offset
            while at < offset + size:
                form, attribute, length = struct.unpack_from("<BBH", data, at)
                if (form, attribute) == (4, REGISTER_COUNT):
                    symbol, registers_of_symbol = struct.unpack_from("<II", data, at + 4)
                    registers[symbol] = registers_of_symbol
                at += 4 + (length if form == 4 else 0)
    for name, symbol, offset, size in texts:
        words = [int.from_bytes(data[at:at + 16], "little") for at in range(offset, offset + size, 16)]
        yield name, registers[symbol], [Instruction(i, word, architecture) for i, word in enumerate(words)]


def vector_loops(code):
    """Instructions of the cheapest turn of each loop with four loads and two stores of 16 bytes: 16 elements in each lane
    of a warp, 512 in all. Calls are not followed."""
    for last, instruction in enumerate(code):
        first = instruction.successors[0] if instruction.opcode == BRANCH else len(code)
        if first > last:
            continue
        queue, seen, order = [(0, 0, 0, first, 0, 0, ())], set(), itertools.count()
        while queue:
            cost, length, _, at, loads, stores, path = heapq.heappop(queue)
            if (at, loads, stores) in seen:
                continue
            seen.add((at, loads, stores))
            here = code[at]
            loads = min(loads + (here.name in ("LD", "LDG") and here.width == 128), 4)
            stores = min(stores + (here.name in ("ST", "STG") and here.width == 128), 2)
            cost, length, path = cost + here.is_alu, length + 1, (path, here)
            if at == last:
                if (loads, stores) == (4, 2):
                    turn = []
                    while path:
                        path, here = path
                        turn.append(here)
                    yield turn
                    break
                continue
            for following in here.successors:
                if at < following <= last:
                    heapq.heappush(queue, (cost, length, next(order), following, loads, stores, path))


def widths(code):
    return collections.Counter((each.name, each.width) for each in code if each.name)


def listing(architecture, data):
    """Lines of the table."""
    for name, registers, code in sorted(kernels(architecture, data), key=lambda kernel: kernel[0]):
        turns = [(sum(each.is_alu for each in turn), len(turn)) for turn in vector_loops(code)]
        found = widths(code)
        accesses = ", ".join(f"{kind} " + " ".join(f"{found[kind, width]}x{width}" for width in (128, 64, 32, 16)
                                                   if found[kind, width])
                             for kind in ("LD", "LDG", "STG") if any(kind == key for key, _ in found))
        local = sum(count for (kind, _), count in found.items() if kind in ("LDL", "STL"))
        alu = "".join(f"; ALU {count} of {all} per 512" for count, all in [max(turns, default=(0, 0))] if all)
        yield f"sm_{architecture:<4} {name:30} {registers:>3} registers, {local:>3} local; {accesses}{alu}"


# Four blocks of 256 threads then fit in the 65,536 registers of a multiprocessor; three for kept operands, two of an audit.
MOST_REGISTERS = 64
MORE_REGISTERS = {"audit": 128, "kept": 80, "cast_kept_bfloat16_tensor": 128}
CAST_HALF, CAST_BFLOAT16, PLACE = "autoamp_cast_half", "autoamp_cast_bfloat16", "autoamp_place"
TENSOR_CASTS = ("autoamp_cast_tensor_half", "autoamp_cast_tensor_bfloat16", "autoamp_settle_tensor")
HAVE_STACK = (CAST_HALF, "autoamp_settle", "autoamp_mend", "autoamp_audit_after", "autoamp_cast_kept_half",
              "autoamp_settle_kept_half")  # in checks, which are separate functions


class KernelCode(unittest.TestCase):
    def setUp(self):
        self.cubins = [(architecture, data) for architecture, is_ptx, _, data, _ in images.images() if not is_ptx]
        self.assertTrue(self.cubins)

    def each(self, check):
        """Calls check(architecture, name, registers, code) for all kernels."""
        for architecture, data in self.cubins:
            found = list(kernels(architecture, data))
            self.assertEqual({name for name, _, _ in found}, images.Images.kernels)
            for kernel in found:
                with self.subTest(architecture=architecture, kernel=kernel[0]):
                    check(architecture, *kernel)

    def test_listing(self):
        for architecture, data in self.cubins:
            print(*listing(architecture, data), sep="\n")
            if not images.CUOBJDUMP.is_file():
                continue
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(data)
                file.flush()
                usage = subprocess.check_output([images.CUOBJDUMP, "-res-usage", file.name], text=True)
            found = re.findall(r"Function (autoamp_\w+):\s+REG:(\d+) STACK:(\d+)", usage)
            self.assertEqual({(name, int(registers)) for name, registers, _ in found},
                             {(name, registers) for name, registers, _ in kernels(architecture, data)})
            self.assertEqual({name for name, _, stack in found if int(stack)}, set(HAVE_STACK))

    def test_registers(self):
        def check(architecture, name, registers, code):
            self.assertGreater(registers, 0)
            most = max((count for part, count in MORE_REGISTERS.items() if part in name), default=MOST_REGISTERS)
            self.assertLessEqual(registers, most)
        self.each(check)

    def test_local_memory(self):
        def check(architecture, name, registers, code):
            for turn in vector_loops(code) if name in HAVE_STACK else [code]:
                self.assertEqual([each.name for each in turn if each.name in ("LDL", "STL")], [])
        self.each(check)

    def test_widths(self):
        def check(architecture, name, registers, code):
            found = widths(code)
            if name in TENSOR_CASTS:  # two loads and a store for each operand
                self.assertGreaterEqual(found["LDG", 128], 4)
                self.assertGreaterEqual(found["STG", 128], 2)
            if name == PLACE:  # two loads of floats, one of bfloat16
                self.assertGreaterEqual(found["LDG", 128], 3)
        self.each(check)

    def test_settle_waits_first(self):
        """The host launches these kernels early on the architectures where they wait (kernels/launch.h)."""
        def check(architecture, name, registers, code):
            waits = [i for i, each in enumerate(code) if each.opcode == WAIT]
            self.assertEqual(len(waits), name.startswith("autoamp_settle") and architecture >= 90)
            for i in waits:
                self.assertFalse(code[i].is_predicated)
                self.assertEqual([each.name for each in code[:i] if each.name or each.opcode in (BRANCH, EXIT)], [])
        self.each(check)

    def test_instructions(self):
        def check(architecture, name, registers, code):
            if name not in (CAST_HALF, CAST_BFLOAT16):
                return
            turns = list(vector_loops(code))
            self.assertEqual(len(turns), 2)  # A and B
            if name == CAST_HALF or architecture >= 80:  # sm_75 has no conversion to bfloat16
                for turn in turns:
                    self.assertLessEqual(sum(each.is_alu for each in turn), 100)
        self.each(check)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
