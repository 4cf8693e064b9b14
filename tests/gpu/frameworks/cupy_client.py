"""CuPy products compared with NumPy in fp64: one line of JSON for each, with the largest error relative to the largest
element."""
import json

import cupy
import numpy

RANDOM = numpy.random.default_rng(0)


def check(name, function, *shapes):
    values = [RANDOM.standard_normal(shape).astype(numpy.float32) for shape in shapes]
    exact = function(numpy, *(value.astype(numpy.float64) for value in values))
    found = cupy.asnumpy(function(cupy, *map(cupy.asarray, values)))
    print(json.dumps({"case": name, "error": float(abs(found - exact).max() / abs(exact).max())}), flush=True)


check("matmul", lambda module, a, b: module.matmul(a, b), (256, 128), (128, 192))
check("transposed", lambda module, a, b: module.matmul(a.T, b), (128, 256), (128, 192))
check("batched", lambda module, a, b: module.matmul(a, b), (4, 96, 64), (4, 64, 80))
check("tensordot", lambda module, a, b: module.tensordot(a, b, 2), (64, 16, 24), (16, 24, 48))
