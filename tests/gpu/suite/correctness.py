"""Steps that find wrong results and wrong assumptions."""
import concurrent.futures
import json
import os
import re
import sys

from suite.bundle_files import AUTOAMP, DRIVERS, LIBRARY
from suite.section import NOT_MEASURED

# Ways to reach cuBLAS, each bare and preloaded.
CALLERS = [["linked"], ["linked_now"], ["looked"], ["looked_version"], ["linked", "threads"], ["looked", "threads"],
           ["linked", "fork"], ["linked", "exec"], ["plugin_host", "libplugin.so"], ["early_main"], ["lookup.py"]]
# Drivers of a step, and the parts that run with --small.
PRODUCTS = {"semantics": ["-k", "test_programs_are_content", "-k", "Choice"], "numerics": ["-k", "Events"],
            "capture": ["-k", "First"], "places": ["-k", "Overlapping"], "strict": ["-k", "test_uncured"],
            "audit": ["-k", "test_the_same_audits"]}
SCALERS = {"scaler": ["-k", "Stages", "-k", "graph"], "gradients": ["-k", "test_graph_replays", "-k", "test_first_torch"]}
LAYERS = {"convolutions": ["-k", "Others.test_capture", "-k", "test_threads"], "dnn_graph": ["-k", "Captured", "-k", "Tf32"],
          "rnn": ["-k", "Policy"], "network": ["-k", "test_it_classifies"],
          "weights": ["-k", "SameBfloat16.test_filters", "-k", "ChangesHalf.test_audits"]}


def self_test(step):
    section = step.section("self-test of autoamp doctor", "method", "result", "calls", "lowered", "largest error", "limit", "reason")
    done = step.run([AUTOAMP, "doctor", "--self-test", "--format", "json", *["--device", "emulated"] * step.is_emulated])
    try:
        methods = json.loads(done.stdout)["methods"]
    except ValueError:
        methods = []
    for row in methods:
        section.check(row["result"] != "failed", f"{row['method']}: {row['reason']}, error {row['largest_error']}")
        section.answers[row["method"]] = row["result"]
        section.add(row["method"], row["result"], row["calls"], row["lowered"], row["largest_error"], row["limit"], row["reason"] or "")
    if done.returncode != 0 and not section.failures or not methods:
        section.failures.append(f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return section


def hardware(step):
    section = step.section("assumptions: answers of this device", "question", "here", "emulated", "")
    done = step.run([step.program("hardware")], {**step.environment, "AUTOAMP_EMU_MEMORY": "1G"})  # one test fills the memory
    for line in done.stdout.splitlines():
        name, *pairs = line.split()
        row = dict(pair.split("=", 1) for pair in pairs)
        differs = row["answer"] not in (row["emulated"], "absent")
        section.rows.append([name, row["answer"], row["emulated"], "DIFFERS" if differs else ""])
        if row["answer"] != "absent":  # without its library
            section.answers[name] = row["answer"]
        section.check(row["ok"] == "1", f"{name}: autoamp needs the other answer")
        if differs and step.is_emulated:
            section.failures.append(f"{name}: the emulated device differs from its description")
    if done.returncode not in (0, 1) or not section.rows:
        section.failures.append(f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    return section


def drive(step, name, part):
    """Runs a driver of tests/preload. The answers are those of its client programs, by case."""
    record = os.path.join(step.folder, name + ".jsonl")
    command = [sys.executable, str(DRIVERS / f"{name}.py"), "--preload", LIBRARY, "--autoamp", AUTOAMP, "--clients", step.programs,
               "--record", record]
    command += ["--emulated", step.environment["LD_LIBRARY_PATH"]] if step.is_emulated else []
    done = step.run([*command, *(part if step.is_small else [])], limit=400)
    count = re.search(r"^Ran (\d+) tests?", done.stderr, re.M)
    answers = {}
    if os.path.exists(record):
        with open(record, encoding="utf-8") as file:
            answers = dict(json.loads(line) for line in file)
    return name, int(count[1]) if count else 0, re.findall(r"^(?:FAIL|ERROR): (.*)$", done.stderr, re.M), done.returncode, answers


def drivers(step, section, parts):
    # Most of the time passes on the host, in checks in fp64.
    with concurrent.futures.ThreadPoolExecutor(2 if step.is_emulated else 4) as pool:
        for name, count, failed, status, answers in pool.map(lambda item: drive(step, *item), parts.items()):
            section.passed += max(0, count - len(failed))
            section.failures += [f"{name}: {what}" for what in failed]
            if not count or (status and not failed):
                section.failures.append(f"{name}: exit status {status} after {count} tests")
            section.answers.update(answers)
            section.add(name, count, max(0, count - len(failed)), len(failed))


def reach(step, caller):
    command = [sys.executable, step.program(caller[0])] if caller[0].endswith(".py") else \
              [step.program(caller[0]), *(step.program(word) if word.endswith(".so") else word for word in caller[1:])]
    environment, trace = step.preloaded({"STRATEGY": "cast"})
    statuses = [step.run(command, environment, limit=60).returncode for environment in (step.environment, environment)]
    report = step.report(trace)
    return " ".join(caller), statuses, report["totals"]["lowered"] if report else 0


def clients(step):
    section = step.section("products: programs of tests/preload", "program", "tests", "passed", "failed")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, statuses, lowered in pool.map(lambda caller: reach(step, caller), CALLERS):
            is_fine = statuses == [0, 0] and lowered
            section.check(is_fine, f"{name}: exit statuses {statuses}, {lowered} calls lowered")
            section.rows.append([name, 1, int(bool(is_fine)), int(not is_fine)])
    drivers(step, section, PRODUCTS)
    return section


def dnn(step):
    section = step.section("convolutions, plans and RNNs: programs of tests/preload", "program", "tests", "passed", "failed")
    if "libcudnn.so.9" not in step.libraries:
        section.missing = "libcudnn.so.9"
    else:
        drivers(step, section, LAYERS)
    return section


def scalers(step):
    section = step.section("gradient scalers: programs of tests/preload", "program", "tests", "passed", "failed")
    if step.cuda == 12 and not step.is_emulated:
        section.missing = "a driver for PTX of CUDA 13"
    else:
        drivers(step, section, SCALERS)
    return section


def inner(step):
    section = step.section("products inside NVIDIA libraries, which autoamp does not lower", "library", "result", "calls")
    for what in ("cublas", "cusolver", "cudnn"):
        environment, trace = step.preloaded({"STRATEGY": "cast"})
        command = [step.program("inner_calls"), what]
        bare = None if step.is_emulated else step.run(command)  # such calls are not emulated
        if not bare or bare.returncode == 77:
            section.rows.append([what, "not emulated" if step.is_emulated else "missing", ""])
            continue
        run, report = step.run(command, environment), step.report(trace)
        lowered = report["totals"]["lowered"] if report else 0
        is_same = (bare.returncode, run.returncode) == (0, 0) and bare.stdout == run.stdout
        section.check(is_same and not lowered, f"{what}: {'same' if is_same else 'other'} bits, {lowered} calls lowered")
        section.add(what, "same bits" if is_same else "OTHER BITS", f"{lowered} lowered")
    return section


def demo(step):
    section = step.section("demo", "run", "result")
    if step.is_small:
        section.notes.append(NOT_MEASURED)  # the quickstart runs it
        return section
    command = [step.program("digits")]
    trace = os.path.join(step.folder, "demo.aat")
    device = "emulated" if step.is_emulated else "cuda"
    lowered = [AUTOAMP, "run", "--device", device, "--strategy", "cast", "-o", trace, "--force", "--", *command]
    for name, how in (("fp32", command), ("float16", lowered)):
        done = step.run(how)
        accuracy = re.search(r"accuracy ([\d.]+)", done.stdout)
        section.add(name, f"{accuracy[1]} % right" if accuracy else "no answer")
        section.check(done.returncode == 0 and accuracy and float(accuracy[1]) > 90, f"{name}: {done.stderr.strip()[-200:]}")
    return section
