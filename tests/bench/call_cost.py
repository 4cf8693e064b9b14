#!/usr/bin/env python3
"""Nanoseconds that autoamp adds to a call that it passes through or keeps, and to a dlsym.

call_cost.py BUILD [ROUNDS]: rounds of interleaved pairs, without autoamp and preloaded. The added cost is the median
over the rounds of (preloaded - bare), with the smallest and the largest. Then the same calls with a region open are
compared with those without a region, as a ratio of the added costs. At last it prints the cost of opening and closing a
region.
"""
import os
import pathlib
import statistics
import subprocess
import sys

RULES = "/dev/shm/call_cost.toml"  # rules of every kind; none matches
MATCHERS = ('entry = "cublasLt*"', 'm = ">1000000"', 'caller = "lib*"', 'thread = "worker-{}"', 'region = "step {}*"')

# Name, program, variables. The program finds the empty cuBLAS by its own path. The emulated device provides only the
# runtime and the driver.
CASES = [
    ("O0, trace off", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "off"}),
    ("O0, summary", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "summary"}),
    ("O0, ops", "call_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_TRACE": "ops"}),
    ("kept at O1, emulated driver, trace off", "call_cost_driver", {"AUTOAMP_TRACE": "off"}),
    ("kept at O1, emulated driver, trace off, 50 rules", "call_cost_driver", {"AUTOAMP_TRACE": "off", "AUTOAMP_CONFIG": RULES}),
    ("kept at O1, emulated driver, summary", "call_cost_driver", {"AUTOAMP_TRACE": "summary"}),
    ("fp64, counted, summary", "call_cost fp64", {}),
    ("fp64, counted, ops", "call_cost fp64", {"AUTOAMP_TRACE": "ops"}),
    ("dlsym of another name", "lookup_cost", {"AUTOAMP_LEVEL": "O0"}),
    ("dlsym of another name, HOOK_DLSYM=got", "lookup_cost", {"AUTOAMP_LEVEL": "O0", "AUTOAMP_HOOK_DLSYM": "got"}),
]


def time(program, environment, *how):
    run = subprocess.run([program, "16", "9", *how], env=os.environ | environment, capture_output=True, text=True, check=True)
    numbers = run.stdout.split()
    return float(numbers[0]), float(numbers[-1])


def main(build, rounds=7):
    build = pathlib.Path(build).resolve()
    pathlib.Path(RULES).write_text("".join(f'[[rule]]\n{MATCHERS[i % 5].format(i)}\nprecision = "bfloat16"\n' for i in range(50)))
    preloaded = {"LD_PRELOAD": str(build / "inject/libautoamp.so"), "AUTOAMP_TRACE_FILE": "/dev/shm/call_cost.%p.aat"}
    for name, program, variables in CASES:
        program, *how = program.split()
        driver = f":{build}/tools/emulated/libcuda.so.1" if program == "call_cost_driver" else ""
        program = str(build / "tests/bench" / program)
        added, bare, inside, regions = [], [], [], []
        for _ in range(int(rounds)):
            bare.append(time(program, {"LD_PRELOAD": driver}, *how)[0])
            environment = preloaded | variables | {"LD_PRELOAD": preloaded["LD_PRELOAD"] + driver}
            added.append(time(program, environment, *how)[0] - bare[-1])
            if not how:
                call, region = time(program, environment, "region")
                inside.append(call - bare[-1])
                regions.append(region)
        print(f"{name:50} {statistics.median(added):7.1f} ns  ({min(added):.1f} ... {max(added):.1f})"
              f"   bare {statistics.median(bare):.1f} ns" +
              (f"   in a region x{statistics.median(inside) / statistics.median(added):.2f}"
               f"   push and pop {statistics.median(regions):.0f} ns" if inside else ""))
    pathlib.Path(RULES).unlink()
    for trace in pathlib.Path("/dev/shm").glob("call_cost.*.aat"):
        trace.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
