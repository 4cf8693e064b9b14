#!/usr/bin/env python3
"""Runs every client of `controls` right and wrong: the right one must succeed, the wrong one must fail, but not because
the emulator ended it with a message (the emulator prints nothing unless requested)."""
import resource
import subprocess
import sys


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


def main(program):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # some of them crash, which is expected
    names = run(program).stdout.split()
    bad = []
    for name in names:
        right, wrong = run(program, name, "right"), run(program, name, "wrong")
        if right.returncode != 0:
            bad.append(f"{name}: right, but ended with {right.returncode}")
        if wrong.returncode == 0:
            bad.append(f"{name}: its error was not detected")
        if right.stderr or wrong.stderr:
            bad.append(f"{name}: said {right.stderr + wrong.stderr!r}")
    print("\n".join(bad) or f"{len(names)} clients")
    return 1 if bad or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
