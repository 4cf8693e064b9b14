"""shapes.py FRONT [ROUNDS]: products of 115 shapes in NumPy, most of them small or thin: unchanged, with the default strategy, and
all of them in bfloat16, without a trace and without kept weights. 60 us without a product come before each. Prints the medians in us
and the ratios to the unchanged time, smallest gain of the default strategy first. The threads are those of OPENBLAS_NUM_THREADS.
NumPy must be importable."""
import os
import random
import statistics
import subprocess
import sys
import time

random.seed(5)
SIDES = [8, 10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096]
SHAPES = [(512, 1024, 10), (512, 10, 1024), (1024, 10, 512), (512, 1024, 64), (64, 1024, 512)]
while len(SHAPES) < 115:
    shape = tuple(random.choice(SIDES) for _ in range(3))
    if 2**17 <= shape[0] * shape[1] * shape[2] <= 2**25 and shape not in SHAPES:
        SHAPES.append(shape)


def measure():
    import numpy as np

    place = np.random.default_rng()  # times depend on addresses

    def matrix(rows, columns):
        begin = 16 * place.integers(1024)
        return np.ones(begin + rows * columns, np.float32)[begin:].reshape(rows, columns)

    for m, n, k in SHAPES:
        a, b, c = matrix(m, k), matrix(k, n), matrix(m, n)
        times, end = [], time.perf_counter() + 0.06
        while len(times) < 25 or (time.perf_counter() < end and len(times) < 400):
            a[0, 0] = b[0, 0] = 1
            begin = time.perf_counter() + 60e-6
            while time.perf_counter() < begin:
                pass
            begin = time.perf_counter()
            np.matmul(a, b, out=c)
            times.append(time.perf_counter() - begin)
        print(statistics.median(times) * 1e6)


def run(**variables):
    done = subprocess.run([sys.executable, __file__], env=os.environ | variables, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def main():
    preloaded = {"LD_PRELOAD": os.path.abspath(sys.argv[1]), "AUTOAMP_TRACE": "off", "AUTOAMP_WEIGHTS": "off"}
    ways = ({}, preloaded, preloaded | {"AUTOAMP_STRATEGY": "cast"})
    rounds = [[run(**way) for way in ways] for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5)]
    rows = []
    for i, shape in enumerate(SHAPES):
        fp32, auto, cast = (statistics.median(one[way][i] for one in rounds) for way in range(3))
        rows.append((fp32 / auto, f"{'x'.join(map(str, shape))}: {fp32:.1f} us, auto {auto:.1f} ({fp32 / auto:.2f}), cast {cast:.1f} ({fp32 / cast:.2f})"))
    for _, line in sorted(rows):
        print(line)


if __name__ == "__main__":
    main() if len(sys.argv) > 1 else measure()
