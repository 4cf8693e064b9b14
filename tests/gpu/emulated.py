"""emulated.py COMMAND...: the suite's bundle on the emulated device. It must pass, report at its top that it is
emulated, and have rows in every table of figures; no row may contain a figure."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FIGURES = ("cast", "speed", "cost", "traced")
DECISIONS = {"auto", "auto on TF32"}


with tempfile.TemporaryDirectory() as out:
    done = subprocess.run([*sys.argv[1:], "--device", "emulated", "--out", out], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    wrong = [f"exit status {done.returncode}"] if done.returncode else []
    if "EMULATED" not in "\n".join(done.stdout.splitlines()[:3]):
        wrong.append("the output does not contain that it is emulated")
    results = json.loads((pathlib.Path(out) / "results.json").read_text())
    sections = {section["step"]: section for section in results["sections"]}
    for step in FIGURES:
        section = sections[step]
        if not section["rows"]:
            wrong.append(f"{step}: no rows")
        for row in section["rows"]:
            for column, cell in list(zip(section["columns"], row))[1:]:
                if column not in DECISIONS and cell != "not measured":
                    wrong.append(f"{step}, {row[0]}, {column}: {cell}")
    if re.search(r"\bns=", (pathlib.Path(out) / "log.txt").read_text()):
        wrong.append("a program printed a time")
print("\n".join(wrong))
sys.exit(bool(wrong))
