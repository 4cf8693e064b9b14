#!/usr/bin/env python3
"""Rejects text that must not be in a tracked file: paths of one machine, unfinished marks, words about how the work is
organised.

usage: words.py ROOT; exit 77 if ROOT is not a git checkout
"""
import pathlib
import re
import subprocess
import sys

# Written so that this file does not match itself.
BANNED = {
    "a path of one machine": r"(^|[\s\"'=(:])/(wor[k]|roo[t]|tm[p]/bash_\w+)/",
    "an unfinished mark": r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|not ye[t] implemented|unimplemente[d]",
    "how the work is organised": r"(?i)\b(this sessio[n]|developer sessio[n]|previous sessio[n]|the CE[O]|the agen[t]|issue #?\d+)\b",
}
LARGEST = 1 << 20


def main(root):
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("no git checkout")
        return 77
    found = 0
    for name in filter(None, listed.decode().split("\0")):
        path = pathlib.Path(root) / name
        if not path.is_file():
            continue
        content = path.read_bytes()
        if len(content) > LARGEST:
            found += 1
            print(f"{name}: {len(content)} bytes; nothing over {LARGEST} is committed")
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            for what, pattern in BANNED.items():
                if re.search(pattern, line):
                    found += 1
                    print(f"{name}:{number}: {what}: {line.strip()[:120]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
