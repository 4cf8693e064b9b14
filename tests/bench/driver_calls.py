#!/usr/bin/env python3
"""Kernel launches and driver calls of autoamp per lowered product, on the emulated device, as a Markdown table.

driver_calls.py BUILD [CORE_BUILD]: the program and the libraries of BUILD, and autoamp of CORE_BUILD (default: BUILD).
The counts do not depend on the machine. The test `driver_calls` fails if they grow.
"""
import os
import pathlib
import subprocess
import sys

WAYS = {"float16": {"AUTOAMP_STRATEGY": "cast"}, "bfloat16": {"AUTOAMP_STRATEGY": "cast", "AUTOAMP_DTYPE": "bfloat16"},
        "TF32": {"AUTOAMP_STRATEGY": "tf32"}}
PRODUCTS = {"gemm": "`cublasSgemm`", "gemm.null_stream": "`cublasSgemm`, null stream", "lt": "`cublasLtMatmul`",
            "batch": "`cublasSgemmBatched`", "batch.device_scalars": "`cublasSgemmBatched`, scalars on the device"}


def main(build, core=None):
    build, core = pathlib.Path(build).resolve(), pathlib.Path(core or build).resolve()
    rows = {}
    for way, variables in WAYS.items():
        # The emulated device takes the kernels of the library that it belongs to.
        environment = os.environ | variables | {"LD_PRELOAD": f"{core}/inject/libautoamp.so", "AUTOAMP_TRACE": "off",
                                                "LD_LIBRARY_PATH": f"{core}/tools/emulated"}
        done = subprocess.run([build / "tests/preload/clients/driver_calls"], env=environment, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, *pairs = line.split()
            counts = {key: int(value) for key, value in (pair.split("=") for pair in pairs) if key == "total" or key.startswith("cu")}
            launches = counts.get("cuLaunchKernel", 0) + counts.get("cuLaunchKernelEx", 0)
            is_kept = way == "TF32" and name.startswith("batch")  # reads no operands behind pointers
            rows.setdefault(name, []).append("kept" if is_kept else f"{launches} of {counts['total']}")
    print("| product | " + " | ".join(WAYS) + " |\n|---" + "|---" * len(WAYS) + "|")
    for name, cells in rows.items():
        print(f"| {PRODUCTS[name]} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
