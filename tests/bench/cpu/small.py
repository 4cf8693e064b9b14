"""small.py FRONT SMALL FOLDER [ROUNDS [fortran]]: small products that run unchanged, with the BLAS of FOLDER, with the trace off.
Each round runs the program `small` without and with autoamp: many short runs, because other programs disturb them. Prints the times in ns and the ratio, with its quartiles."""
import os
import statistics
import subprocess
import sys

FRONT, SMALL, FOLDER = map(os.path.abspath, sys.argv[1:4])
ROUNDS, WAY = int(sys.argv[4]) if len(sys.argv) > 4 else 201, sys.argv[5:]
ENVIRONMENT = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": FOLDER, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def time(size, **variables):
    return float(subprocess.run([SMALL, str(size), *WAY], env=ENVIRONMENT | variables, capture_output=True, text=True, check=True).stdout)


for size in (16, 24, 32, 48, 64):
    pairs = [(time(size), time(size, LD_PRELOAD=FRONT, AUTOAMP_TRACE="off")) for _ in range(ROUNDS)]
    plain, added = (statistics.median(times) for times in zip(*pairs))
    low, middle, high = statistics.quantiles([one / other for one, other in pairs], n=4)
    print(f"{size}: {plain:.1f} ns, {added:.1f} ns, ratio {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)
