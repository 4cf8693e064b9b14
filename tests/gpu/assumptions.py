"""assumptions.py PAGE PROGRAM...: the steps named in docs/assumptions.md and the cases of the programs agree. Each named
case exists, and each row of `hardware` is named."""
import fnmatch
import pathlib
import re
import subprocess
import sys

PAGE, *PROGRAMS = sys.argv[1:]
# The programs of each step.
STEPS = {"hardware": {"hardware"}, "clients": {"semantics", "numerics", "capture", "places"},
         "dnn": {"convolutions", "dnn_graph", "rnn"}}

cases = {step: [] for step in STEPS}
for program in PROGRAMS:
    name = pathlib.Path(program).name
    listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    cases[next(step for step, programs in STEPS.items() if name in programs)] += listed
wrong, named = [], []
for line in pathlib.Path(PAGE).read_text().splitlines():
    cells = re.split(r"(?<!\\)\|", line)
    if len(cells) != 6:
        continue
    if not re.search("`|none: |none, because", cells[4]) and cells[4].strip() not in ("step", "---"):
        wrong.append(f"{PAGE}: no step and no reason: {cells[1].strip()}")
    for step in cells[4].split("; "):
        names = re.findall("`([^`]+)`", step)
        if not names or names[0] not in cases:
            continue
        for pattern in names[1:]:
            if not fnmatch.filter(cases[names[0]], pattern):
                wrong.append(f"{PAGE}: {names[0]} has no case {pattern}")
        if names[0] == "hardware":
            named += names[1:]
for case in cases["hardware"]:
    if not any(fnmatch.fnmatch(case, pattern) for pattern in named):
        wrong.append(f"{PAGE}: {case} of hardware is not named")
print("\n".join(wrong) or f"{len(cases['hardware'])} rows, {len(named)} names")
sys.exit(bool(wrong) or not named)
