#!/usr/bin/env python3
"""Nanoseconds that autoamp adds to a cuDNN call on libraries that do nothing, kept and lowered.

graph_cost.py BUILD [ROUNDS]: rounds of interleaved pairs, without autoamp and preloaded. The added cost is the least
preloaded time of all rounds minus the least bare one, because another program on the CPU can only add time. It also
prints the median and the largest difference of a round. Measured: a variant pack made, executed and destroyed; the
execution alone; the pack alone; a legacy convolution.
"""
import os
import pathlib
import statistics
import subprocess
import sys

WAYS = {"kept": {"AUTOAMP_STRATEGY": "fp32"}, "lowered, bfloat16": {"AUTOAMP_STRATEGY": "cast", "AUTOAMP_DTYPE": "bfloat16"},
        "lowered, float16": {"AUTOAMP_STRATEGY": "cast"}}


def time(program, environment):
    run = subprocess.run([program, "9"], env=os.environ | environment, capture_output=True, text=True, check=True)
    return [float(line.split()[1]) for line in run.stdout.splitlines()]


def main(build, rounds=7):
    build = pathlib.Path(build).resolve()
    program = str(build / "tests/bench/graph_cost")
    driver = f"{build}/tests/bench/empty_vendor/libcuda.so.1"
    for name, variables in WAYS.items():
        for trace in ("off", "summary"):
            bares, preloadeds = [], []
            for _ in range(int(rounds)):
                bares.append(time(program, {"LD_PRELOAD": driver}))
                preloadeds.append(time(program, variables | {"LD_PRELOAD": f"{build}/inject/libautoamp.so:{driver}",
                                                       "AUTOAMP_TRACE": trace, "AUTOAMP_TRACE_FILE": "/dev/shm/graph_cost.%p.aat"}))
            columns = []
            for bare, preloaded in zip(zip(*bares), zip(*preloadeds)):
                rounds_added = [a - b for a, b in zip(preloaded, bare)]
                columns.append(f"{min(preloaded) - min(bare):6.0f} ({statistics.median(rounds_added):.0f}, {max(rounds_added):.0f})")
            print(f"{name + ', trace ' + trace:32} call {columns[0]}   execute {columns[1]}   pack {columns[2]}   convolution {columns[3]}")
    for trace in pathlib.Path("/dev/shm").glob("graph_cost.*.aat"):
        trace.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
