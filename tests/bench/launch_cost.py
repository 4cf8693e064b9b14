#!/usr/bin/env python3
"""Time that autoamp adds to the launch of a kernel by the program: launch_cost.py BUILD [ROUNDS]. Each round runs every way once;
the table has the median of the rounds and their extremes, in nanoseconds of CPU time."""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BUILD, ROUNDS = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 11
WAYS = {"without autoamp": None, "trace off": "off", "trace ops": "ops", "trace kernels": "kernels"}


def measure(trace, folder):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "tools/emulated"), "XDG_STATE_HOME": folder}
    preload = [str(BUILD / "tests/bench/libempty_launch.so")]
    if trace:
        environment |= {"AUTOAMP_TRACE": trace, "AUTOAMP_TRACE_FILE": folder + "/%p.aat"}
        preload.insert(0, str(BUILD / "inject/libautoamp.so"))
    environment["LD_PRELOAD"] = ":".join(preload)
    done = subprocess.run([BUILD / "tests/bench/launch_cost"], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def main():
    times = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for way, trace in WAYS.items():
                times[way].append(measure(trace, folder))
    print("| way | ns per launch | more than without autoamp |\n|---|---|---|")
    for way, values in times.items():
        more = [value - bare for value, bare in zip(values, times["without autoamp"])]
        print(f"| {way} | {statistics.median(values):.1f} | {statistics.median(more):.1f} ({min(more):.1f} to {max(more):.1f}) |")


if __name__ == "__main__":
    main()
