#!/usr/bin/env python3
"""What autoamp adds to a call that it passes through or keeps, and to a dlsym, in nanoseconds.

call_cost.py BUILD [ROUNDS]: rounds of interleaved pairs, bare and preloaded; the added cost is the median over the rounds
of (preloaded - bare), with the smallest and the largest.
"""
import os
import pathlib
import statistics
import subprocess
import sys

# Name, program, variables. The empty cuBLAS is found by the program's own path; of the emulated device only the runtime and
# the driver are used.
CASES = [
    ("O0, trace off", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "off"}),
    ("O0, summary", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "summary"}),
    ("O0, ops", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "ops"}),
    ("kept at O1, emulated driver, trace off", "call_cost_driver", {"AUTOAMP_TRACE": "off"}),
    ("kept at O1, emulated driver, summary", "call_cost_driver", {"AUTOAMP_TRACE": "summary"}),
    ("dlsym of another name", "lookup_cost", {"AUTOAMP_LEVEL": "O0"}),
    ("dlsym of another name, HOOK_DLSYM=got", "lookup_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_HOOK_DLSYM": "got"}),
]


def time(program, environment):
    run = subprocess.run([program, "16", "9"], env=os.environ | environment, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[0])


def main(build, rounds=7):
    build = pathlib.Path(build).resolve()
    preloaded = {"LD_PRELOAD": str(build / "inject/libautoamp.so"), "AUTOAMP_TRACE_FILE": "/dev/shm/call_cost.%p.aat"}
    for name, program, variables in CASES:
        driver = f":{build}/tools/emulated/libcuda.so.1" if program == "call_cost_driver" else ""
        program = str(build / "tests/bench" / program)
        added, bare = [], []
        for _ in range(int(rounds)):
            bare.append(time(program, {"LD_PRELOAD": driver}))
            library = {"LD_PRELOAD": preloaded["LD_PRELOAD"] + driver}
            added.append(time(program, preloaded | library | variables) - bare[-1])
        print(f"{name:42} {statistics.median(added):7.1f} ns  ({min(added):.1f} ... {max(added):.1f})"
              f"   bare {statistics.median(bare):.1f} ns")
    for trace in pathlib.Path("/dev/shm").glob("call_cost.*.aat"):
        trace.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
