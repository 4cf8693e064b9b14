#!/usr/bin/env python3
"""The suite for real devices: runs the contents of the bundle on this machine's CUDA libraries, and prints a summary.

run.py [--device auto|cuda|emulated] [--out DIR] [--minutes N] [--only STEP...]
Results go to DIR, else $OUT, else ./results: summary.txt, results.json, log.txt. Exit status: 0 all passed, 1 something
failed, 2 wrong usage, 77 no usable GPU. Ratios compare processes that ran interleaved. On the emulated device the same
programs run with smaller sizes and print no times.
"""
import argparse
import concurrent.futures
import glob
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = str(HERE / "lib/autoamp/libautoamp.so")
EMULATED = str(HERE / "lib/autoamp/emulated")
AUTOAMP = str(HERE / "bin/autoamp")
PROGRAMS = HERE / "programs"

NOT_MEASURED = "not measured"
NEEDED = ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13")
WELCOME = ("libcusolver.so.12", "libcusparse.so.12", "libnvJitLink.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libcupti.so.13")
PROBE = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
version, count, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
assert driver.cuDriverGetVersion(ctypes.byref(version)) == 0 and driver.cuDeviceGetName(name, 256, 0) == 0
print(version.value, name.value.decode())
"""

SHAPES = {
    "256^3": "256x256x256x1", "512^3": "512x512x512x1", "1024^3": "1024x1024x1024x1", "2048^3": "2048x2048x2048x1",
    "4096^3": "4096x4096x4096x1", "8192^3": "8192x8192x8192x1", "16384^3": "16384x16384x16384x1",
    "BERT-L QKV": "4096x3072x1024x1", "BERT-L FFN1": "4096x4096x1024x1", "BERT-L FFN2": "4096x1024x4096x1",
    "LLM FFN": "4096x16384x4096x1", "wgrad": "4096x16384x8192x1", "MLP": "512x4096x4096x1",
    "decode 1": "1x4096x4096x1", "decode 64": "64x4096x4096x1", "QK^T": "512x512x64x128", "64^3 batched": "64x64x64x1024",
}
SMALL_SHAPES = {"256^3": "256x256x256x1", "64^3 batched": "64x64x64x16"}
# Name: math mode of the program's handle, and autoamp's settings (None: without autoamp).
ROOM = {"MEMORY": "4G"}  # 16384^3 needs more for its 16-bit operands than the default allows
WAYS = {
    "bare": ("default", None),
    "bare TF32": ("tf32", None),
    "fp32": ("default", {"STRATEGY": "fp32", **ROOM}),
    "cast fp16": ("default", {"STRATEGY": "cast", "DTYPE": "float16", **ROOM}),
    "cast bf16": ("default", {"STRATEGY": "cast", "DTYPE": "bfloat16", **ROOM}),
    "tf32": ("default", {"STRATEGY": "tf32", **ROOM}),
    "library bf16": ("default", {"STRATEGY": "library", "DTYPE": "bfloat16", **ROOM}),
    "auto": ("default", {"STRATEGY": "auto", **ROOM}),
    "auto on TF32": ("tf32", {"STRATEGY": "auto", **ROOM}),
}
# Column: numerator and denominator of the ratio of times.
RATIOS = {
    "TF32/bare": ("bare TF32", "bare"), "fp32/bare": ("fp32", "bare"), "fp16/bare": ("cast fp16", "bare"),
    "bf16/bare": ("cast bf16", "bare"), "tf32/TF32": ("tf32", "bare TF32"), "library/TF32": ("library bf16", "bare TF32"),
    "auto/bare": ("auto", "bare"), "fp16/TF32": ("cast fp16", "bare TF32"),
    "bf16/TF32": ("cast bf16", "bare TF32"), "auto/TF32": ("auto on TF32", "bare TF32"),
}
TRACES = {name: ("default", {"STRATEGY": "cast", "TRACE": name, **ROOM}) for name in ("off", "ops", "kernels")}
LEAST_ON_TF32 = 0.98
LEAST_ATTRIBUTED = 0.99
COSTS = {
    "bare": ("default", None),
    "O0, trace off": ("default", {"LEVEL": "O0", "TRACE": "off"}),
    "O0, summary": ("default", {"LEVEL": "O0", "TRACE": "summary"}),
    "O0, ops": ("default", {"LEVEL": "O0", "TRACE": "ops"}),
    "O1, kept, summary": ("default", {"STRATEGY": "fp32", "TRACE": "summary"}),
}
SIZES = [64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20, 1 << 30]
# Ways to reach cuBLAS, each bare and preloaded.
CALLERS = [["linked"], ["linked_now"], ["looked"], ["looked_version"], ["linked", "threads"], ["looked", "threads"],
           ["linked", "fork"], ["linked", "exec"], ["plugin_host", str(PROGRAMS / "libplugin.so")], ["early_main"],
           [sys.executable, str(HERE / "drivers/lookup.py")]]
DRIVERS = {"semantics": ["-k", "test_programs_are_content", "-k", "Choice"], "numerics": ["-k", "Events"],
           "capture": ["-k", "First"], "places": ["-k", "Overlapping"]}  # parts that run here


class Section:
    """The results of one step: a table and its failures."""

    def __init__(self, title):
        self.title, self.columns, self.rows, self.notes, self.failures = title, [], [], [], []
        self.passed = 0
        self.raw = {}  # for results.json: every round, in ns

    def check(self, is_right, what):
        self.passed += bool(is_right)
        if not is_right:
            self.failures.append(what)

    def text(self):
        lines = ["", f"== {self.title}: {self.passed} passed, {len(self.failures)} failed"]
        table = [self.columns, *self.rows] if self.rows else []
        widths = [max(len(str(row[i])) for row in table) for i in range(len(self.columns))] if table else []
        for row in table:
            lines.append("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        return "\n".join(lines + self.notes + [f"FAILED {failure}" for failure in self.failures])


class Suite:
    def __init__(self, device, environment, plain, folder, log, deadline):
        self.device, self.environment, self.plain = device, environment, plain
        self.folder, self.log, self.deadline = folder, log, deadline
        self.is_emulated = device == "emulated"
        self.traces = itertools.count()

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def note(self, title, text):
        self.log.write(f"---- {title}\n{text.rstrip()}\n")
        self.log.flush()

    def preloaded(self, variables):
        """The environment with the library and these settings, and the path of the trace."""
        if variables is None:
            return self.environment, None
        trace = os.path.join(self.folder, str(next(self.traces)))
        return {**self.environment, "LD_PRELOAD": LIBRARY, "AUTOAMP_TRACE_FILE": trace + "/%n.%p.aat",
                **{"AUTOAMP_" + key: value for key, value in variables.items()}}, trace

    def run(self, command, environment=None, limit=240):
        title = " ".join(map(str, command))
        try:
            done = subprocess.run(command, env=environment or self.environment, stdout=subprocess.PIPE, cwd=self.folder,
                                  stderr=subprocess.PIPE, text=True, timeout=min(limit, self.left()), check=False)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, 124, "", "out of time")
        self.note(f"{title}: exit status {done.returncode}", done.stdout + done.stderr)
        return done

    def report(self, trace):
        if not trace or not glob.glob(trace + "/*.aat"):
            return None
        return json.loads(self.run([AUTOAMP, "report", "--format", "json", trace]).stdout)


# ---- correctness


def drive(suite, name):
    command = [sys.executable, str(HERE / f"drivers/{name}.py"), "--preload", LIBRARY, "--autoamp", AUTOAMP, "--clients",
               str(PROGRAMS)]
    if suite.is_emulated:
        command += ["--emulated", EMULATED, *DRIVERS[name]]
    done = suite.run(command, limit=300)
    count = re.search(r"^Ran (\d+) tests?", done.stderr, re.M)
    return name, int(count[1]) if count else 0, re.findall(r"^(?:FAIL|ERROR): (.*)$", done.stderr, re.M), done.returncode


def reach(suite, caller):
    command = caller if caller[0] == sys.executable else [str(PROGRAMS / caller[0]), *caller[1:]]
    environment, trace = suite.preloaded({"STRATEGY": "cast"})
    statuses = suite.run(command, limit=60).returncode, suite.run(command, environment, limit=60).returncode
    report = suite.report(trace)
    return " ".join(caller), statuses, report["totals"]["lowered"] if report else 0


def clients(suite):
    section = Section("clients")
    section.columns = ["program", "tests", "passed", "failed"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        driven = [pool.submit(drive, suite, name) for name in DRIVERS]
        reached = [pool.submit(reach, suite, caller) for caller in CALLERS]
    for name, ran, wrong, status in (future.result() for future in driven):
        failing = len({failure.split(")")[0] for failure in wrong})  # subtests count once
        section.rows.append([name, ran, max(0, ran - failing), failing])
        section.passed += max(0, ran - failing)
        section.failures += [f"{name}: {failure}" for failure in wrong]
        section.check(status == 0 or wrong, f"{name}: exit status {status}")
    right = 0
    for caller, statuses, lowered in (future.result() for future in reached):
        is_right = statuses == (0, 0) and lowered > 0
        right += is_right
        section.check(is_right, f"{caller}: bare and preloaded ended with {statuses}, {lowered} calls lowered")
    section.rows.append(["ways to cuBLAS", len(CALLERS), right, len(CALLERS) - right])
    return section


def inner(suite):
    """Products inside NVIDIA's own libraries are unchanged, to the bit."""
    section = Section("inner calls of vendor libraries")
    for what in ("cublas", "cusolver", "cudnn"):
        if suite.is_emulated:
            section.rows.append([what, "not there", ""])
            continue
        environment, trace = suite.preloaded({"STRATEGY": "cast"})
        command = [str(PROGRAMS / "inner_calls"), what]
        bare, run = suite.run(command), suite.run(command, environment)
        if bare.returncode == 77:
            section.rows.append([what, "not there", ""])
            continue
        report = suite.report(trace)
        lowered = report["totals"]["lowered"] if report else 0
        is_same = (bare.returncode, run.returncode) == (0, 0) and bare.stdout == run.stdout
        section.check(is_same and not lowered, f"{what}: {'same' if is_same else 'other'} bits, {lowered} calls lowered")
        section.rows.append([what, "same bits" if is_same else "OTHER BITS", f"{lowered} lowered"])
    section.columns = ["library", "result", "calls"]
    return section


def hardware(suite):
    section = Section("answers that need a device")
    done = suite.run([str(PROGRAMS / "hardware")], {**suite.environment, "AUTOAMP_EMU_MEMORY": "1G"})  # one test fills the memory
    section.columns = ["question", "here", "emulated", ""]
    for line in done.stdout.splitlines():
        name, *pairs = line.split()
        row = dict(pair.split("=", 1) for pair in pairs)
        differs = row["answer"] != row["emulated"]
        section.rows.append([name, row["answer"], row["emulated"], "DIFFERS" if differs else ""])
        section.check(row["ok"] == "1", f"{name}: the product needs the other answer")
        if differs and suite.is_emulated:
            section.failures.append(f"{name}: the emulated device differs from its description")
    if done.returncode not in (0, 1) or not section.rows:
        section.failures.append(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return section


def demo(suite):
    section = Section("demo")
    section.columns = ["run", "result"]
    command = [str(PROGRAMS / "digits")]
    trace = os.path.join(suite.folder, "demo.aat")
    lowered = [AUTOAMP, "run", "--device", suite.device, "--strategy", "cast", "-o", trace, "--", *command]
    for name, how in (("fp32", command), ("float16", lowered)):
        done = suite.run(how)
        accuracy = re.search(r"accuracy ([\d.]+)", done.stdout)
        section.rows.append([name, f"{accuracy[1]} % right" if accuracy else "no answer"])
        section.check(done.returncode == 0 and accuracy and float(accuracy[1]) > 90, f"{name}: {done.stderr.strip()[-200:]}")
    return section


# ---- speed


class Asked:
    """Processes of `speed` that are measured in turn, so that all ways run on the machine in the same state."""

    def __init__(self, suite, ways):
        self.suite, self.processes, self.traces = suite, {}, {}
        for name, (mode, variables) in ways.items():
            environment, self.traces[name] = suite.preloaded(variables)
            self.processes[name] = subprocess.Popen([str(PROGRAMS / "speed"), mode], env=environment, text=True,
                                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=suite.log)
        # A hung process never answers: unless it is killed, the whole suite would wait forever.
        self.watch = threading.Timer(suite.left(), self.kill)
        self.watch.start()

    def kill(self):
        for process in self.processes.values():
            process.kill()

    def ask(self, name, what):
        """Nanoseconds; None: not measured. Any other answer of the program is raised as an error."""
        process = self.processes[name]
        try:
            process.stdin.write(what + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = process.stdout.readline().split()
        self.suite.note(f"speed, {name}", " ".join(answer))
        if len(answer) < 2:
            raise RuntimeError(f"{name} did not answer {what}")
        if answer[1].startswith("ns=") and not self.suite.is_emulated:
            return float(answer[1][3:])
        if answer[1] == "not_measured" and self.suite.is_emulated:
            return None
        raise RuntimeError(f"{name}, {what}: {answer[1]}")

    def rounds(self, what, count):
        """A dict per round. The last ways of one round come right before the first of the next, so order does not
        matter."""
        rounds = []
        for index in range(count):
            names = list(self.processes)
            start = index % len(names)
            rounds.append({name: self.ask(name, what) for name in names[start:] + names[:start]})
        return rounds

    def close(self):
        for process in self.processes.values():
            process.stdin.close()
        for process in self.processes.values():
            process.wait()
        self.watch.cancel()
        return {name: self.suite.report(trace) for name, trace in self.traces.items()}


def spread(values, form):
    """Median and range, or that there is no value."""
    if any(value is None for value in values):
        return None, NOT_MEASURED
    return statistics.median(values), f"{form % statistics.median(values)} ({form % min(values)}..{form % max(values)})"


def decided(report, shape):
    rows = [row for row in report["ops"] if [row[key] for key in ("m", "n", "k", "batch")] == shape]
    return "+".join(sorted({row["decision"] if row["decision"] == "lowered" else row["reason"] for row in rows}))


def speed(suite):
    section = Section("products: how many times as fast (one run, interleaved; median and ends of the rounds)")
    section.columns = ["shape", "bare us", *RATIOS, "auto", "auto on TF32"]
    asked, shapes = Asked(suite, WAYS), SMALL_SHAPES if suite.is_emulated else SHAPES
    found = {}
    for name, what in shapes.items():
        try:
            m, n, k, batch = map(int, what.split("x"))
            found[name] = asked.rounds(what, 2 if suite.is_emulated else 5 if m * n * k * batch > 1e11 else 11)
        except RuntimeError as error:
            (section.notes if "no_memory" in str(error) else section.failures).append(f"{name}: {error}")
            if "did not answer" in str(error):
                break
    reports, section.raw = asked.close(), found
    for name, rounds in found.items():
        shape = [int(size) for size in shapes[name].split("x")]
        row = [name, spread([r["bare"] and r["bare"] / 1e3 for r in rounds], "%.1f")[1].split(" (")[0]]
        for column, (way, base) in RATIOS.items():
            ratio, text = spread([r[way] and r[base] / r[way] for r in rounds], "%.2f")
            row.append(text)
            if column == "auto/TF32" and ratio is not None:
                section.check(ratio >= LEAST_ON_TF32, f"{name}: auto on a handle that allows TF32 is {ratio:.3f} of bare")
        for way in ("cast fp16", "cast bf16"):
            decision = decided(reports[way], shape) if reports[way] else "nothing"
            section.check(decision == "lowered", f"{name}, {way}: {decision}, not lowered")
        for way in ("auto", "auto on TF32"):
            row.append(decided(reports[way], shape) if reports[way] else "nothing")
        section.rows.append(row)
    return section


def cost(suite):
    section = Section("added to a call that is passed on, ns on the calling thread (median and ends of paired rounds)")
    section.columns = ["library", "call the vendor returns from at once", "16^3 product"]
    asked, texts = Asked(suite, COSTS), {name: [name] for name in COSTS}
    for what in ("call:0", "call:16"):
        rounds = section.raw[what] = asked.rounds(what, 2 if suite.is_emulated else 9)
        for name in COSTS:
            values = [r[name] if name == "bare" or r[name] is None else r[name] - r["bare"] for r in rounds]
            texts[name].append(spread(values, "%.0f")[1])
    reports = asked.close()
    section.rows = list(texts.values())
    section.check(reports["O0, ops"] and reports["O0, ops"]["totals"]["lowered"] == 0, "O0 lowered something")
    return section


def cast(suite):
    section = Section("conversion: share of the bandwidth of a copy of as many bytes (median, minimum and maximum of the rounds)")
    kinds = ["bfloat16", "float16_unsettled", "float16"]
    section.columns = ["layout, fp32 bytes", "copy GB/s", *kinds]
    sizes = SIZES[:1] if suite.is_emulated else SIZES
    done = suite.run([str(PROGRAMS / "cast_bandwidth"), *map(str, sizes)])
    section.check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    for line in done.stdout.splitlines():
        layout, size, kind, moved, number, answer, *_ = line.split()
        ns = float(answer[3:]) if answer.startswith("ns=") and not suite.is_emulated else None
        name = f"{layout}, {int(size) >> 10} KiB"
        section.raw.setdefault(name, {}).setdefault(number, {"moved": int(moved)})[kind] = ns
    for name, rounds in section.raw.items():
        rounds = list(rounds.values())
        row = [name, spread([r["copy"] and r["moved"] / r["copy"] for r in rounds], "%.0f")[1]]
        section.rows.append(row + [spread([r[kind] and r["copy"] / r[kind] for r in rounds], "%.2f")[1] for kind in kinds])
    return section


def attribute(section, name, report):
    """Share of a trace's kernels that are known to belong to a call, or to no call."""
    count = sum(kernel["count"] for kernel in report.get("kernels", [])) if report else 0
    unknown = report["loss"]["kernels_unattributed"] if report else None
    section.check(count and unknown is not None and count - unknown >= LEAST_ATTRIBUTED * count,
                  f"{name}: {unknown} of {count} kernels belong to no call")
    section.notes.append(f"{name}: {count} kernels, {unknown} of them without a call; dropped {report and report['loss']['kernels_dropped']}")


def traced(suite):
    section = Section("kernels by CUPTI: cost of a trace (speed relative to no trace; median, minimum and maximum), and its times")
    section.columns = ["shape", *(f"{name}/off" for name in TRACES if name != "off"), "product us", "casts us", "both by events us"]
    asked = Asked(suite, TRACES)
    shapes = SMALL_SHAPES if suite.is_emulated else {name: SHAPES[name] for name in ("256^3", "1024^3", "4096^3", "QK^T")}
    for name, what in shapes.items():
        section.raw[name] = asked.rounds(what, 2 if suite.is_emulated else 7)
    report = asked.close()["kernels"]
    for name, what in shapes.items():
        rounds, shape = section.raw[name], [int(size) for size in what.split("x")]
        rows = [row for row in report["ops"] if [row[key] for key in ("m", "n", "k", "batch")] == shape] if report else []
        per_call = [spread([row[key] and row[key] / row["calls"] / 1e3 for row in rows] or [None], "%.1f")[1].split(" (")[0]
                    for key in ("kernel_ns", "cast_ns")]
        section.rows.append([name, *(spread([r[way] and r["off"] / r[way] for r in rounds], "%.2f")[1] for way in TRACES if way != "off"),
                             *per_call, spread([r["off"] and r["off"] / 1e3 for r in rounds], "%.1f")[1].split(" (")[0]])
    attribute(section, "speed", report)
    if python := python_with_torch(suite):
        trace = os.path.join(suite.folder, "traced.aat")
        done = suite.run([AUTOAMP, "run", "--trace", "kernels", "-o", trace, "--", python, str(HERE / "torch_demo.py")], suite.plain)
        section.check(done.returncode == 0, f"torch: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        attribute(section, "torch", json.loads(suite.run([AUTOAMP, "report", "--format", "json", trace], suite.plain).stdout))
        section.notes.append(suite.run([AUTOAMP, "report", "--report", "kernels", trace], suite.plain).stdout.rstrip())
    return section


def python_with_torch(suite):
    return next((python for python in (sys.executable, "python3") if not suite.is_emulated and
                 suite.run([python, "-c", "import torch"], suite.plain).returncode == 0), None)


def torch(suite):
    section = Section("an fp32 PyTorch program")
    script, trace = str(HERE / "torch_demo.py"), os.path.join(suite.folder, "torch.aat")
    python = python_with_torch(suite)
    if not python:
        section.notes.append("no PyTorch here" if not suite.is_emulated else NOT_MEASURED)
        return section
    # With its own CUDA libraries, unmodified.
    for name, command in (("bare", [python, script]),
                          ("preloaded", [AUTOAMP, "run", "--trace", "ops", "-o", trace, "--", python, script])):
        done = suite.run(command, suite.plain)
        section.notes += [f"-- {name}", done.stdout.rstrip()]
        section.check(done.returncode == 0, f"{name}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    for arguments in ([], ["--report", "ops"], ["--report", "reasons"]):
        section.notes += ["", suite.run([AUTOAMP, "report", *arguments, trace], suite.plain).stdout.rstrip()]
    done = suite.run([AUTOAMP, "report", "--format", "json", trace], suite.plain)
    section.check(done.returncode == 0 and json.loads(done.stdout)["totals"]["lowered"] > 0, "nothing was lowered")
    return section


STEPS = {step.__name__: step for step in (clients, inner, hardware, cast, speed, cost, traced, torch, demo)}

# ---- the machine


def folders(environment):
    """Folders that may contain CUDA libraries, the likeliest first."""
    yield from filter(None, environment.get("LD_LIBRARY_PATH", "").split(":"))
    for home in filter(None, [environment.get("CUDA_HOME"), *sorted(glob.glob("/usr/local/cuda*"))]):
        yield from (home + "/lib64", home + "/lib", home + "/targets/x86_64-linux/lib")
    places = list(sys.path)
    told = subprocess.run(["python3", "-c", "import sys; print('\\n'.join(sys.path))"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False)
    for place in dict.fromkeys(filter(None, places + told.stdout.splitlines())):
        yield from sorted(glob.glob(place + "/nvidia/*/lib"))
    for ldconfig in ("ldconfig", "/sbin/ldconfig"):
        try:
            told = subprocess.run([ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=False)
        except OSError:
            continue
        yield from (os.path.dirname(path) for path in re.findall(r"=> (\S+)", told.stdout) if "libcu" in path)
        break
    yield from ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                "/usr/lib/wsl/lib")


def find(environment, libraries):
    places = [folder for folder in dict.fromkeys(folders(environment)) if os.path.isdir(folder)]
    return {name: next((p for p in places if os.path.exists(os.path.join(p, name))), None) for name in libraries}


def probe(environment, driver="libcuda.so.1"):
    """(CUDA version of the driver, name of the device), or None. Uses a separate process: a driver may not survive fork."""
    done = subprocess.run([sys.executable, "-c", PROBE, driver], env=environment, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout.strip().split(" ", 1) if done.returncode == 0 else None


def machine(device):
    """(environment, driver's version, device's name), or a line that names the missing part."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("AUTOAMP_") and name not in ("LD_PRELOAD", "NVIDIA_TF32_OVERRIDE")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if device == "emulated":
        environment["LD_LIBRARY_PATH"] = EMULATED
        found = probe(environment)
        return (environment, *found) if found and "emulated" in found[1] else "the bundle has no emulated device"
    found, paths = probe(environment), []
    if not found:
        folder = find(environment, ["libcuda.so.1"])["libcuda.so.1"]
        found = folder and probe(environment, folder + "/libcuda.so.1")
        paths.append(folder)
    if not found or "emulated" in found[1]:
        return "no usable NVIDIA driver and device here; --device emulated runs the same programs without one"
    if int(found[0]) < 13000:
        return f"the driver is for CUDA {int(found[0]) // 1000}; the suite's libraries need one for CUDA 13"
    libraries = find(environment, NEEDED + WELCOME)
    missing = [name for name in NEEDED if not libraries[name]]
    if missing:
        return f"{', '.join(missing)}: not found; say where with LD_LIBRARY_PATH"
    paths += [libraries[name] for name in NEEDED + WELCOME] + [environment.get("LD_LIBRARY_PATH")]
    environment["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(filter(None, paths)))
    return (environment, *found)


def main():
    parser = argparse.ArgumentParser(description="The suite for real devices; docs/bench/README.md explains it.")
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    parser.add_argument("--out", default=os.environ.get("OUT", "results"))
    parser.add_argument("--minutes", type=float, default=8, help="Limit in minutes; sections that did not start by then fail")
    parser.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    options = parser.parse_args()
    if re.search("[ :]", str(HERE)):
        parser.error(f"{HERE}: the loader takes no LD_PRELOAD with a space or a colon")
    found = machine(options.device)
    if isinstance(found, str):
        print(found, file=sys.stderr)
        return 77
    environment, version, name = found
    started = time.monotonic()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    about = {**json.loads((HERE / "bundle.json").read_text()), "device": name, "driver_cuda": int(version),
             "is_emulated": "emulated" in name, "libraries": environment["LD_LIBRARY_PATH"],
             "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    plain = {key: value for key, value in environment.items() if key != "LD_LIBRARY_PATH"}
    if os.environ.get("LD_LIBRARY_PATH"):
        plain["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    sections = []
    with tempfile.TemporaryDirectory() as folder, open(out / "log.txt", "w") as log, \
         open(out / "summary.txt", "w") as summary:

        def say(text):
            print(text, flush=True)
            print(text, file=summary, flush=True)

        say(f"autoamp {about['commit']} on {name}, driver for CUDA {int(version) // 1000}.{int(version) % 1000 // 10}")
        if about["is_emulated"]:
            say("EMULATED: precision and decisions are real, times are not")
        suite = Suite("emulated" if about["is_emulated"] else "cuda", environment, plain, folder, log,
                      started + 60 * options.minutes)
        # The demo takes long there, and the quickstart already runs it.
        for step in options.only or [step for step in STEPS if step != "demo" or not suite.is_emulated]:
            begun = time.monotonic()
            try:
                if begun > suite.deadline:
                    raise RuntimeError("not run: out of time")
                section = STEPS[step](suite)
            except Exception as error:  # a step that fails must not lose the results of the others
                section = Section(step)
                section.failures.append(f"{type(error).__name__}: {error}")
            sections.append({"step": step, "seconds": round(time.monotonic() - begun, 1), **vars(section)})
            say(section.text())
        passed, failed = sum(s["passed"] for s in sections), sum(len(s["failures"]) for s in sections)
        say(f"\n{passed} passed, {failed} failed, {time.monotonic() - started:.0f} s of suite; more in {out}/log.txt")
    (out / "results.json").write_text(json.dumps({**about, "sections": sections}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
