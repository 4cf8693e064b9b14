#!/usr/bin/env python3
"""Records what a framework does with its ops under mixed precision, for tests/cli/test_lists.py. Not run by CI.

record.py FIXTURE SYSTEM AUTOAMP: SYSTEM is torch, torch_cpu (torch's lists for the CPU), paddle or mindspore, which this
Python must have (a private venv: pip install torch, or paddlepaddle, or mindspore; no GPU is needed). AUTOAMP is the command-line program; it names the ops
on no list, which are also run. The part of SYSTEM in FIXTURE is rewritten. README.md in this folder describes the
contents.
"""
import collections
import datetime
import importlib
import json
import logging
import pathlib
import subprocess
import sys
import warnings

MODULES = {"torch": "torch_autocast", "torch_cpu": "torch_cpu", "paddle": "paddle_amp", "mindspore": "mindspore_amp"}


def main(fixture, system, autoamp):
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    framework = importlib.import_module(MODULES[system])
    lists, _, device = system.partition("_")
    told = subprocess.run([autoamp, "lists", "--lists", lists, "--device", device or "cuda", "--format", "json"],
                          capture_output=True, check=True, text=True)
    names = [row["op"] for row in json.loads(told.stdout)["ops"]]
    cells = {}
    for level in framework.CELLS:
        for dtype in ("float16", "bfloat16"):
            groups = collections.defaultdict(list)
            for op, (category, seen) in framework.cell(level, dtype, names).items():
                groups[f"{category}: {seen}"].append(op)
            cells[f"{level} {dtype}"] = {group: " ".join(sorted(ops)) for group, ops in sorted(groups.items())}
    path = pathlib.Path(fixture)
    whole = json.loads(path.read_text()) if path.exists() else {}
    whole[system] = {"version": framework.VERSION, "date": datetime.date.today().isoformat(), "how": framework.HOW, "cells": cells}
    path.write_text(json.dumps(dict(sorted(whole.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
