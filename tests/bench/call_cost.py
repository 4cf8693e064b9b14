#!/usr/bin/env python3
"""What autoamp adds to a call that it passes through or keeps, in nanoseconds.

call_cost.py BUILD [ROUNDS]: rounds of interleaved pairs, bare and preloaded; the added cost is the median over the rounds
of (preloaded - bare), with the smallest and the largest.
"""
import os
import pathlib
import statistics
import subprocess
import sys

CASES = {
    "O0, trace off": {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "off"},
    "O0, summary": {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "summary"},
    "O0, ops": {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "ops"},
}
KEPT = {
    "kept at O1, emulated driver, trace off": {"AUTOAMP_TRACE": "off"},
    "kept at O1, emulated driver, summary": {"AUTOAMP_TRACE": "summary"},
}


def time(program, environment):
    run = subprocess.run([program, "16", "9"], env=os.environ | environment, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[0])


def main(build, rounds=7):
    build = pathlib.Path(build).resolve()
    program = str(build / "tests/bench/call_cost")
    common = {"LD_PRELOAD": str(build / "inject/libautoamp.so"), "AUTOAMP_TRACE_FILE": "/dev/shm/call_cost.%p.aat"}
    for cases, libraries in ((CASES, ""), (KEPT, str(build / "tools/emulated"))):
        # The empty cuBLAS by the program's own path; of the emulated device only libcuda, which cuBLAS here never calls.
        for name, variables in cases.items():
            added = []
            for _ in range(int(rounds)):
                where = {"LD_LIBRARY_PATH": libraries} if libraries else {}
                bare = time(program, where)
                added.append(time(program, where | common | variables) - bare)
            print(f"{name:42} {statistics.median(added):7.1f} ns  ({min(added):.1f} ... {max(added):.1f})")
    for trace in pathlib.Path("/dev/shm").glob("call_cost.*.aat"):
        trace.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
