#!/usr/bin/env python3
"""Writes kernels_loss.inc: results of the model of the loss check (docs/adr/0034) for operands that kernels_loss.cpp
makes again, bit for bit. judge() and its parts are those of the published model (loss_verdict.py), with the sums in
float64. Needs NumPy.

    tests/unit/kernels_loss.py > tests/unit/kernels_loss.inc
"""
import math

import numpy as np

np.seterr(all="ignore")
F32, F64 = np.float32, np.float64
EXCESS, LINE, LINES, PROBES = 4e-4, 1e-2, 1024, 4
MOST = float(np.finfo(F32).max)


# ---- the model

def right_exponent(amax):
    return 0 if amax == 0 else min(127, 14 + ((-(math.frexp(float(amax))[1] - 1)) & ~3))


def finite_max(x):
    y = np.abs(x[np.isfinite(x)])
    return float(y.max()) if y.size else 0.0


def signs(count, salt):
    h = (np.arange(count, dtype=np.uint64) + np.uint64(1 + salt)) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    return (1 - 2 * ((h[:, None] >> np.arange(PROBES, dtype=np.uint64)) & np.uint64(1)).astype(np.int64)).astype(F64)


def clean(x):
    return np.where(np.isfinite(x), x, 0).astype(F32)


def excess(x, e):
    """The scaled x, and TF32 minus half: 0 unless 0 < |x 2^e| < 2^-14."""
    y = clean(x) * F32(math.ldexp(1.0, e))
    u = y.view(np.uint32)
    tf32 = ((u + np.uint32(0xfff) + ((u >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xffffe000)).view(F32)
    return y.astype(F64), np.where(np.abs(y) < 2.0**-14, tf32.astype(F64) - y.astype(np.float16).astype(F64), 0)


def judge(a, b, first):
    """X/Y, and per side the lost lines at 0.999 and 1.001 of the limit, and the number of lines that are not empty."""
    (ya, la), (yb, lb) = (excess(x, right_exponent(finite_max(x))) for x in (a, b))
    v, u = signs(b.shape[1], 0), signs(a.shape[0], 1).T
    w, z = yb @ v, u @ ya
    rows = ya @ w, la @ w + (0 if first else ya @ (lb @ v))
    columns = (z @ yb).T, (z @ lb + (0 if first else (u @ la) @ yb)).T
    squares = [[(x**2).sum(1) for x in side] for side in (rows, columns)]
    lines = [[int(((x > (LINE * f) ** 2 * y) & (y > 0)).sum()) for f in (1.001, 0.999)] + [int((y > 0).sum())] for y, x in squares]
    (ry, rx), (cy, cx) = ([x.sum() for x in side] for side in squares)
    return math.sqrt((rx + cx if first else (rx + cx) / 2) / ((ry + cy) / 2 or 1e-300)), lines


# ---- operands: identical to those of the C++ test

class Random:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        return z ^ z >> 31

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53

    def whole(self, low, high):
        return low + self.next() % (high - low + 1)

    def gaussian(self):
        total = 0.0
        for _ in range(12):
            total += self.uniform()
        return total - 6

    def heavy(self, width):
        return math.ldexp(self.gaussian(), math.floor(width * self.gaussian()))


FAMILIES = ["gaussian", "rows", "columns", "opposed", "heavy_opposed", "feature", "sentinel", "cancelling", "one_row", "outlier", "pruned",
            "mask", "subnormal", "nonfinite", "heavy", "positive"]


def operands(family, power, seed, m, n, k):
    r = Random(seed)
    rows = [r.whole(-power, power) for _ in range(m)]
    columns = [r.whole(-power, power) for _ in range(n)]
    along = [power if r.next() & 1 else -power for _ in range(k)]
    a = [[r.gaussian() for _ in range(k)] for _ in range(m)]
    b = [[r.gaussian() for _ in range(n)] for _ in range(k)]
    for i in range(m):
        for l in range(k):
            x = a[i][l]
            if family == "rows" or family == "nonfinite": x = math.ldexp(x, rows[i])
            elif family == "opposed": x = math.ldexp(x, along[l])
            elif family == "heavy_opposed": x = math.ldexp(r.heavy(2), along[l])
            elif family == "feature": x = math.ldexp(abs(x) + 0.125, 36 if l == 0 else 0)
            elif family == "sentinel": x = (16384 if i == 0 else 2.0**-7) if l == 0 else math.ldexp(abs(x) + 0.5, -27)
            elif family == "cancelling":
                h = k // 3
                x = math.ldexp(x, 14) if l < h else a[i][l - h] if l < 2 * h else math.ldexp(x, -power)
            elif family == "one_row": x = math.ldexp(x, -40 if i == m // 2 else 0)
            elif family == "outlier": x = math.ldexp(1, power) if i == 0 and l == 0 else x
            elif family == "pruned": x = math.ldexp(x, r.whole(-power, 0)) if r.next() % 16 == 0 else 0.0
            elif family == "mask": x = -MOST if l == k // 2 else x
            elif family == "subnormal": x = math.ldexp(x, -133)
            elif family == "heavy": x = r.heavy(power)
            elif family == "positive": x = math.ldexp(x, power) if l < 2 else abs(x) + 0.125
            a[i][l] = x
    for l in range(k):
        for j in range(n):
            y = b[l][j]
            if family == "columns": y = math.ldexp(y, columns[j])
            elif family == "opposed": y = math.ldexp(y, -along[l])
            elif family == "heavy_opposed": y = math.ldexp(r.heavy(2), -along[l])
            elif family == "feature": y = (math.ldexp(abs(y), -power) if j < 4 else 0.0) if l == 0 else abs(y)
            elif family == "sentinel": y = (2.0**-8 if j == 0 else 0.0) if l == 0 else 4096 * (abs(y) + 0.5)
            elif family == "cancelling":
                h = k // 3
                y = math.ldexp(b[l][j], -14) if l < h else -b[l - h][j] if l < 2 * h else y
            elif family == "mask": y = 0.0 if l == k // 2 else y
            elif family == "subnormal": y = math.ldexp(y, 100)
            elif family == "heavy": y = r.heavy(power)
            elif family == "positive": y = math.ldexp(y, -power) if l < 2 else abs(y) + 0.125
            b[l][j] = y
    a, b = np.array(a).astype(F32), np.array(b).astype(F32)
    if family == "nonfinite":
        a[m // 2, k // 2], b[k // 3, n // 2] = -np.inf, np.nan
    return a, b


def main():
    print("// Made by kernels_loss.py. Family, power, seed, m, n, k; X/Y for a first call, then for a predicted one; least and most lost")
    print("// rows and columns, 0 silent, 1 reported, 2 at the limit, 3 not judged.")
    powers = {"rows": (8, 14, 30), "columns": (9, 15, 30), "opposed": (6, 12, 13, 15), "heavy_opposed": (8, 11, 13), "feature": (20, 22, 30),
              "cancelling": (10, 14, 20), "outlier": (12, 26, 34), "pruned": (4, 20), "heavy": (1, 4, 7), "positive": (10, 20, 30), "nonfinite": (3, 30)}
    shapes = [(64, 48, 96), (17, 130, 33), (130, 5, 300), (70, 66, 40)]
    seed = 0
    for family in FAMILIES:
        for power in powers.get(family, (14,)):
            for m, n, k in shapes:
                seed += 1
                a, b = operands(family, power, seed, m, n, k)
                found = []
                for first in (True, False):
                    x, lines = judge(a, b, first)
                    told = x > EXCESS or any(most * LINES > filled for _, most, filled in lines)
                    sure = all((low * LINES > filled) == (most * LINES > filled) for low, most, filled in lines)
                    limit = not told and x > 0.99 * EXCESS or told and not any(low * LINES > filled for low, _, filled in lines) and (
                        x < 1.01 * EXCESS)
                    inexact = first and min(finite_max(a), finite_max(b)) < 2.0**-86
                    found.append("{%.6e, %d, %d, %d, %d, %d}" % (x, *lines[0][:2], *lines[1][:2], 3 if inexact else 2 if limit or not (
                        sure or x > 1.01 * EXCESS) else told))
                print("{Family::%s, %d, %d, %d, %d, %d, %s}," % (family, power, seed, m, n, k, ", ".join(found)))


main()
