#!/usr/bin/env python3
"""exits.py CLIENT [RUNS]: each way to end, several times; status 0 and nothing on stderr each time."""
import subprocess
import sys

bad = []
for how in ("return", "exit", "quick", "last", "cancel"):
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
        try:
            ran = subprocess.run([sys.argv[1], how], capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            bad.append(f"{how}: does not end")
            continue
        if ran.returncode or ran.stderr:
            bad.append(f"{how}: status {ran.returncode}, {ran.stderr!r}")
print("\n".join(bad) or "all ended")
sys.exit(1 if bad else 0)
