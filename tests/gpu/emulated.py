"""emulated.py BUNDLE.PY BUILD: the whole bundle on the emulated device, with small sizes. It must pass, report that it is
emulated, and have rows in every table of figures; no row may contain a figure. Linked for CUDA 12, it gives the same
answers."""
import json
import pathlib
import subprocess
import sys
import tempfile

FIGURES = ("cast", "speed", "weights", "cost", "convolutions", "choice", "traced")
ABSENT = {"frameworks", "models"}  # they need a GPU
WORDS = {"auto", "auto on TF32", "products", "chosen"}  # columns without figures


def figures(step, columns, rows):
    if not rows:
        yield f"{step}: no rows"
    for row in rows:
        for column, cell in list(zip(columns, row))[1:]:
            if column not in WORDS and cell != "not measured":
                yield f"{step}, {row[0]}, {column}: {cell}"


def check(results):
    steps = results["steps"]
    if not results["is_emulated"] or "EMULATED" not in "".join(results["machine"]):
        yield "the results do not contain that they are emulated"
    for name in FIGURES:
        yield from figures(name, steps[name]["columns"], steps[name]["rows"])
    yield from (f"{name}: {step['status']} {step['failures']}" for name, step in steps.items()
                if step["status"] != "passed" and not (name in ABSENT and step["status"] == "not available"))
    for name, least in (("hardware", 20), ("clients", 500), ("dnn", 100), ("speed", 8), ("choice", 8)):
        if len(steps[name]["answers"]) < least:
            yield f"{name}: only {len(steps[name]['answers'])} answers"


with tempfile.TemporaryDirectory() as scratch:
    bundle, out = scratch + "/bundle", scratch + "/out"
    subprocess.run([sys.executable, sys.argv[1], "build", bundle, "--build", sys.argv[2], "--no-build", "--emulated"], check=True)
    wrong = list(check(json.loads(pathlib.Path(bundle, "emulated.json").read_text())))
    command = [sys.executable, bundle + "/run.py", "--device", "emulated", "--cuda", "12", "--small", "--out", out, "--steps",
               "hardware", "speed", "convolutions"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    wrong += [f"CUDA 12: exit status {done.returncode}"] if done.returncode else []
    again = json.loads(pathlib.Path(out, "results.json").read_text())
    wrong += [f"CUDA 12, {name}: {difference}" for name, step in again["steps"].items() for difference in step["differences"]]
    page, = pathlib.Path(out).glob("autoamp-emulated-*.md")
    if "| 256^3 | not measured |" not in page.read_text():
        wrong.append(f"{page.name} has no table")
    subprocess.run([sys.executable, sys.argv[1], "build", scratch + "/bundle.tar.gz", "--build", sys.argv[2], "--no-build",
                    "--answers", "none"], check=True)  # at most 40 MiB
print("\n".join(wrong))
sys.exit(bool(wrong))
