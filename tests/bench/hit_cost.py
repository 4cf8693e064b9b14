#!/usr/bin/env python3
"""Time in the calling thread of a product with a kept weight, relative to conversion at each call. No time of a device.

hit_cost.py BUILD [ROUNDS]: rounds of interleaved processes on the emulated device. Prints the time with conversion and, for
checked and frozen, the median of the ratio with its range. Each process reports the least of its repeats.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODES = ("off", "checked", "frozen")


def measure(build, folder, dtype, trace, mode):
    environment = os.environ | {"LD_PRELOAD": f"{build}/inject/libautoamp.so", "LD_LIBRARY_PATH": f"{build}/tools/emulated",
                                "AUTOAMP_STRATEGY": "cast", "AUTOAMP_DTYPE": dtype, "AUTOAMP_TRACE": trace, "AUTOAMP_WEIGHTS": mode,
                                "AUTOAMP_TRACE_FILE": f"{folder}/%p.aat"}
    done = subprocess.run([build / "tests/bench/hit_cost"], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[1])


def main(build, rounds="9"):
    build = pathlib.Path(build).resolve()
    print("| type | trace | conversion, ns | checked, ratio | frozen, ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float16", "bfloat16"):
            for trace in ("off", "summary", "ops"):
                found = [{mode: measure(build, folder, dtype, trace, mode) for mode in MODES} for _ in range(int(rounds))]
                text = [f"{statistics.median(each['off'] for each in found):.0f}"]
                for mode in MODES[1:]:
                    ratios = [each[mode] / each["off"] for each in found]
                    text.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})")
                print(f"| {dtype} | {trace} | " + " | ".join(text) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
