#!/usr/bin/env python3
"""Writes kernels_scaling.inc: results of the rule of verified scaling, computed from its definition with frexp and
ldexp.

    tests/unit/kernels_scaling.py > tests/unit/kernels_scaling.inc
"""
import math
import random
import struct


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def number(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def exponent(x):
    return math.frexp(x)[1] - 1


def right(amax):
    return 0 if amax == 0 else min(127, 14 + 4 * (-exponent(amax) // 4))


def settle(amax_a, amax_b, alpha):
    a, b = right(amax_a), right(amax_b)
    if alpha == 0 or not math.isfinite(alpha) or amax_a == 0 or amax_b == 0:
        return a, b, alpha, 0
    limit = exponent(alpha) + 126
    if (d := a + b - limit) > 0:
        a = max(-126, a - (d + 1) // 2)
        b = max(-126, limit - a)
        a = min(a, limit - b)
    x = exponent(alpha) - (a + b)
    if x > 127:
        return a, b, math.ldexp(math.frexp(alpha)[0], 128), x - 127
    return a, b, math.ldexp(alpha, -(a + b)), 0


amaxes = [0, 1, 2, 3, 0x7fffff, 0x400000, 0x800000, 0x800001, 0x7f7fffff, 0x7f000000]
amaxes += [bits(2.0 ** e) - d for e in (-13, -12, -4, -1, 0, 1, 2, 3, 4, 5, 8, 100, -100) for d in (0, 1)]
alphas = [bits(v) for v in (0.0, -0.0, 1.0, -1.0, 0.3, 1e-40, -1e-44, 1e-30, 1e-4, 1e30, -3e38)]
alphas += [1, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff]

random.seed(1)
rows = [(a, b, bits(1.0)) for a in amaxes for b in amaxes[::9]]
rows += [(a, b, al) for a in amaxes[::7] for b in amaxes[1::9] for al in alphas]
rows += [(random.randrange(0x7f800000), random.randrange(0x7f800000), random.choice(alphas)) for _ in range(300)]
print("// Made by kernels_scaling.py: bits of amax A, amax B, alpha; exponents A, B, bits of alpha_eff, excess.")
for a, b, al in rows:
    ea, eb, effective, excess = settle(number(a), number(b), number(al))
    print("{0x%x, 0x%x, 0x%x, %d, %d, 0x%x, %d}," % (a, b, al, ea, eb, bits(effective), excess))
