#!/usr/bin/env python3
"""The C++ sources are as clang-format 14 leaves them (other versions differ).  usage: format.py ROOT; exit 77 without it"""
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
    for top in ("inject", "kernels", "src", "tools", "tests")
    for file in sorted((root / top).rglob("*"))
    if file.suffix in (".h", ".cpp", ".c", ".cu")
]
said = subprocess.run([program, "--style=file", "--dry-run", "-Werror", *files], capture_output=True, text=True).stderr
wrong = sorted(set(re.findall(r"^(/[^:\n]+):\d", said, re.M)))
print("\n".join(f"{program} -i {file}" for file in wrong) or "all formatted")
sys.exit(bool(wrong))
