#!/usr/bin/env python3
"""README.md has the variables as the options table of the source has them, and links to files that exist.

usage: readme.py ROOT PROGRAM   (PROGRAM prints the table)
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text()
table = subprocess.run([sys.argv[2]], capture_output=True, text=True, check=True).stdout
wrong = []
if table not in readme:
    wrong.append(f"README.md must have this table, word for word:\n{table}")
rows = re.findall(r"^\| `AUTOAMP_\w+`", readme, re.M)
if len(rows) != table.count("\n") - 2:
    wrong.append(f"README.md has {len(rows)} rows of variables, the source {table.count(chr(10)) - 2}")
for target in re.findall(r"\]\(([^)#:]+)\)", readme):
    if not (root / target).exists():
        wrong.append(f"README.md links to {target}, which does not exist")
print("\n".join(wrong) or "README.md agrees")
sys.exit(bool(wrong))
