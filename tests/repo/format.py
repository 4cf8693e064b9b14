#!/usr/bin/env python3
"""The C++ sources are formatted by clang-format 14 (other versions differ).  usage: format.py ROOT; exit 77 without
it"""
import pathlib
import re
import shutil
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
for name in ("clang-format-14", "clang-format"):
    program = shutil.which(name)
    if program and re.search(r"version 14\.", subprocess.run([program, "--version"], capture_output=True, text=True).stdout):
        break
else:
    print("no clang-format 14")
    sys.exit(77)
files = [
    str(file)
    for top in ("glibc", "inject", "kernels", "src", "tools", "examples", "tests")
    for file in sorted((root / top).rglob("*"))
    if file.suffix in (".h", ".cpp", ".c", ".cu", ".cuh")  # .inc: tables made by scripts
]
done = subprocess.run([program, "--style=file", "--dry-run", "-Werror", *files], capture_output=True, text=True)
for file in sorted(set(re.findall(r"^(\S[^:\n]*):\d+:\d+: error", done.stderr, re.M))):
    print(f"{program} -i {file}")
sys.exit(done.returncode)
