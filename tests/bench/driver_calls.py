#!/usr/bin/env python3
"""Kernel launches and driver calls of autoamp per lowered product, on the emulated device, as two Markdown tables: by
precision, and by AUTOAMP_WEIGHTS for a product with a weight.

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

WEIGHTS = {"weight.observed": "observed", "weight": "hit"}


def counts(build, core, variables):
    """Text by case: launches and driver calls."""
    # The emulated device takes the kernels of the library that it belongs to.
    environment = os.environ | variables | {"LD_PRELOAD": f"{core}/inject/libautoamp.so", "AUTOAMP_TRACE": "off",
                                            "LD_LIBRARY_PATH": f"{core}/tools/emulated"}
    done = subprocess.run([build / "tests/preload/clients/driver_calls"], env=environment, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, *pairs = line.split()
        made = {key: int(value) for key, value in (pair.split("=") for pair in pairs) if key == "total" or key.startswith("cu")}
        yield name, f"{made.get('cuLaunchKernel', 0) + made.get('cuLaunchKernelEx', 0)} of {made['total']}"


def table(title, columns, rows):
    print(f"| {title} | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


def main(build, core=None):
    build, core = pathlib.Path(build).resolve(), pathlib.Path(core or build).resolve()
    rows = {}
    for way, variables in WAYS.items():
        for name, text in counts(build, core, variables):
            if name in PRODUCTS:
                is_kept = way == "TF32" and name.startswith("batch")  # reads no operands behind pointers
                rows.setdefault(PRODUCTS[name], []).append("kept" if is_kept else text)
    table("product", WAYS, rows)
    rows, modes = {}, ("off", "checked", "frozen")
    for way in ("float16", "bfloat16"):
        for mode in modes:
            for name, text in counts(build, core, WAYS[way] | {"AUTOAMP_WEIGHTS": mode}):
                if name in WEIGHTS and (mode, name) != ("off", "weight.observed"):
                    rows.setdefault(f"{way}, {WEIGHTS[name]}", {})[mode] = text
    print()
    table("product with a weight", modes, {name: [cells.get(mode, "") for mode in modes] for name, cells in rows.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
