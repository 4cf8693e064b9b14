"""Steps that measure: ratios of times within one process, whose ways run in turn. On the emulated device the same
programs run and nothing is timed."""
import itertools
import os
import subprocess

from suite import process, shapes
from suite.section import NOT_MEASURED, median, ratios, spread
from suite.step import note

ROOM = {"MEMORY": "4G"}  # 16384^3 needs more for its 16-bit operands than the default allows
# Regions of the programs whose precision a rule demands; the others follow the cost model.
RULES = "".join(f'[[rule]]\nregion = "{name}"\nprecision = "{name}"\n' for name in ("float16", "bfloat16", "tf32"))
RULES += "".join(f'[[rule]]\nregion = "{name}_{mode}"\nprecision = "{name}"\nweights = "{mode}"\n'
                 for name in ("float16", "bfloat16") for mode in ("checked", "frozen"))
LOWERED = ("float16", "bfloat16")
LEAST_ON_TF32 = 0.98
FOR_THE_REPORT = 10  # seconds
LEAST_ATTRIBUTED = 0.99
SIZES = [64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20, 1 << 30]
COSTS = {"O0, trace off": {"LEVEL": "O0", "TRACE": "off"}, "O0, summary": {"LEVEL": "O0", "TRACE": "summary"},
         "O0, ops": {"LEVEL": "O0", "TRACE": "ops"}, "kept, summary": {"STRATEGY": "fp32", "TRACE": "summary"},
         "float16, summary": {"STRATEGY": "cast", "TRACE": "summary"}}
TRACES = ("off", "ops", "kernels")


class Program:
    """A program that answers requests; all ways of one request run in one process. If the process ends, the next request
    starts another."""

    def __init__(self, step, name, variables):
        rules = os.path.join(step.folder, "rules.toml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(RULES)
        self.environment, self.trace = step.preloaded({"HOOK_DLSYM": "0", "CONFIG": rules, **ROOM, **variables})
        self.step, self.name, self.process = step, name, None
        self.start()

    def start(self):
        self.process = process.start([self.step.program(self.name)], env=self.environment, cwd=self.step.folder,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        """A dict per round: nanoseconds of each way, None if they are not measured."""
        request, rounds = " ".join(map(str, words)), []
        note(f"{self.name} {request}", "")
        if self.process.poll() is not None:
            self.start()
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        while (line := self.process.stdout.readline().split())[:1] != ["done"]:
            note(self.name, " ".join(line))
            if not line:
                raise RuntimeError(f"{request}: the program ended with status {self.process.wait()}")
            if len(line) < 2:
                raise RuntimeError(f"{request}: {line[0]}")
            if line[1].startswith("ns=") == self.step.is_emulated:
                raise RuntimeError(f"{request}: {' '.join(line)}")
            if not rounds or line[0] in rounds[-1]:
                rounds.append({})
            rounds[-1][line[0]] = None if self.step.is_emulated else float(line[1][3:])
        return rounds

    def close(self):
        self.process.stdin.close()
        status = self.process.wait()
        report = self.step.report(self.trace)
        if status or not report:
            raise RuntimeError(f"{self.name}: exit status {status}")
        return report


def measured(step, section, program, requests, row=None):
    """Rounds by name; with `row`, a function of the rounds, adds the row at once. A request for too much memory is noted. The
    rest is not measured if no time is left for it and the report."""
    found = {}
    for name, words in requests.items():
        if step.left() < FOR_THE_REPORT:
            section.failures.append(f"out of time before {name}")
            break
        try:
            found[name] = section.raw[name] = program.ask(*words)
        except RuntimeError as error:
            (section.notes if "no_memory" in str(error) else section.failures).append(f"{name}: {error}")
            continue
        if row:
            section.rows.append([name, *row(found[name])])
        section.store()
    return found


def decided(report, shape, region):
    rows = [row for row in report["ops"] if row["region"] == region and row["shape"] == shape]
    return "+".join(sorted({f"{row['strategy']} {row['dtype_compute']}" if row["decision"] == "lowered" else row["reason"]
                            for row in rows})) or "no call"


def cast(step):
    kinds = ["bfloat16", "bfloat16_sample", "float16_unsettled", "float16"]  # sample: reads 1/64 of two kept operands
    section = step.section("conversion: bandwidth over that of a device-to-device copy of as many bytes (median and range)",
                           "layout, fp32 bytes", "copy GB/s", *kinds)
    done = step.run([step.program("cast_bandwidth"), *map(str, SIZES[:1] if step.is_small else SIZES)])
    section.check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr.strip()[-200:]}")
    for line in done.stdout.splitlines():
        layout, size, kind, moved, number, answer, *_ = line.split()
        ns = float(answer[3:]) if answer.startswith("ns=") and not step.is_emulated else None
        section.raw.setdefault(f"{layout}, {int(size) >> 10} KiB", {}).setdefault(number, {"moved": int(moved)})[kind] = ns
    for name, rounds in section.raw.items():
        rounds = list(rounds.values())
        copies = spread([r["copy"] and r["moved"] / r["copy"] for r in rounds], "%.0f")
        section.rows.append([name, copies, *(spread(ratios(rounds, "copy", kind), "%.2f") for kind in kinds)])
    return section


def speed(step):
    columns = {"float16/fp32": ("bare", "float16"), "bfloat16/fp32": ("bare", "bfloat16"), "tf32/fp32": ("bare", "tf32"),
               "auto/fp32": ("bare", "auto"), "float16/TF32": ("bare_tf32", "float16"), "bfloat16/TF32": ("bare_tf32", "bfloat16"),
               "auto/TF32": ("bare_tf32", "auto_tf32"), "float16/half": ("bare_half", "float16")}
    section = step.section("products: how many times as fast (column A/B: autoamp's way A over B without autoamp; median and range)",
                           "product", "fp32 us", *columns, "auto", "auto on TF32")
    ways = ("bare", "bare_tf32", "bare_half", "float16", "bfloat16", "tf32", "auto", "auto_tf32")
    chosen = shapes.SMALL if step.is_small else shapes.PRODUCTS
    program = Program(step, "speed", {"SCOPE": "regions"})
    found = measured(step, section, program, {
        name: ("product", *words, 2 if step.is_small else 3 if work(words) > 1e11 else 7, *ways) for name, words in chosen.items()},
        lambda rounds: [microseconds(rounds), *(spread(ratios(rounds, *pair), "%.2f") for pair in columns.values())])
    report = program.close()
    for row, (name, rounds) in zip(section.rows, found.items()):
        shape = shapes.shape(chosen[name])
        if not step.is_emulated:
            gain = sorted(ratios(rounds, "bare_tf32", "auto_tf32"))[len(rounds) // 2]
            section.check(gain >= LEAST_ON_TF32, f"{name}: auto on a handle that allows TF32 is {gain:.3f} of the speed without autoamp")
        for way in LOWERED:
            decision = decided(report, shape, way)
            section.check(decision == f"cast {way}", f"{name}, {way}: {decision}")
        for way in ("auto", "auto_tf32"):
            row.append(decided(report, shape, way))
            section.answers[f"{name}, {way}"] = row[-1]
    return section


def weights(step):
    """A kept weight against conversion at each call and against TF32. The weights change in turn and exceed the caches."""
    ways = [f"{dtype}{mode}" for dtype in LOWERED for mode in ("", "_checked", "_frozen")]
    section = step.section("products with a kept weight: how many times as fast as TF32 without autoamp (float16, bfloat16: conversion at "
                           "each call; median and range), and time of a hit", "N, rows", "TF32 us", *ways, *(f"{way} us" for way in ways))
    chosen = shapes.SMALL_WEIGHTS if step.is_small else shapes.WEIGHTS
    program = Program(step, "speed", {"SCOPE": "regions"})
    found = measured(step, section, program, {name: ("weight", *words, 2 if step.is_small else 3, *reversed(ways), "bare_tf32")
                                              for name, words in chosen.items()},
                     lambda rounds: [microseconds(rounds, "bare_tf32"), *(spread(ratios(rounds, "bare_tf32", way), "%.2f") for way in ways),
                                     *(microseconds(rounds, way) for way in ways)])
    report = program.close()
    for name in found:
        m, n, k = chosen[name]
        for way in ways:
            rows = [row for row in report["ops"] if row["region"] == way and row["shape"] == f"{m}x{n}x{k}"]
            served = sum((row["weights"] or {}).get("served") or 0 for row in rows)
            calls = sum(row["calls"] for row in rows)
            section.check(0 < served <= calls if "_" in way else not served, f"{name}, {way}: {served} hits in {calls} calls")
            decision = decided(report, f"{m}x{n}x{k}", way)
            section.check(decision == f"cast {way.partition('_')[0]}", f"{name}, {way}: {decision}")
    return section


def microseconds(rounds, way="bare"):
    """Median time of a call; by default in fp32, without autoamp."""
    return median([r[way] and r[way] / 1e3 for r in rounds])


def work(words):
    return words[2] * words[3] * words[4] * words[5]


def choice(step):
    """auto over the best of its candidates, for shapes that no one has tuned for."""
    bases = {"auto": ("bare", "tf32", "float16"), "auto_tf32": ("bare_tf32", "float16")}
    section = step.section("the cost model's choice: time of the best candidate over that of auto (1: the best was chosen)",
                           "handle", "products", "median", "least", "below 0.95", "chosen")
    chosen = dict(itertools.islice(sorted(shapes.SPREAD.items(), key=lambda item: work(item[1])), 4 if step.is_small else 100))
    ways = ("bare", "bare_tf32", "float16", "tf32", "auto", "auto_tf32")
    program = Program(step, "speed", {"SCOPE": "regions"})
    found = measured(step, section, program, {name: ("product", *words, 2 if step.is_small else 3, *ways)
                                              for name, words in chosen.items()})
    report = program.close()
    for way, candidates in bases.items():
        values, counts = [], {}
        for name, rounds in found.items():
            decision = decided(report, shapes.shape(chosen[name]), way)
            counts[decision] = counts.get(decision, 0) + 1
            section.answers[f"{name}, {way}"] = decision
            medians = {each: None if step.is_emulated else sorted(r[each] for r in rounds)[len(rounds) // 2]
                       for each in (*candidates, way)}
            values.append(None if step.is_emulated else min(medians[each] for each in candidates) / medians[way])
        texts = [NOT_MEASURED] * 3 if step.is_emulated else [f"{sorted(values)[len(values) // 2]:.2f}", f"{min(values):.2f}",
                                                             f"{sum(value < 0.95 for value in values)}"]
        section.check(values, f"{way}: nothing was measured")
        section.add("TF32 allowed" if way == "auto_tf32" else "fp32", len(values), *texts,
                    ", ".join(f"{decision} {count}" for decision, count in sorted(counts.items())))
    return section


def convolutions(step):
    columns = {"float16/fp32": ("bare", "float16"), "bfloat16/fp32": ("bare", "bfloat16"),
               "float16/TF32": ("bare_tf32", "float16"), "bfloat16/TF32": ("bare_tf32", "bfloat16"),
               "auto/TF32": ("bare_tf32", "auto_tf32"), "float16/half": ("bare_half", "float16")}
    section = step.section("convolutions: how many times as fast (fp32: CUDNN_FMA_MATH, TF32: default, half: NHWC; median and range)",
                           "convolution", "fp32 us", *columns)
    if "libcudnn.so.9" not in step.libraries:
        section.missing = "libcudnn.so.9"
        return section
    chosen = shapes.SMALL_CONVOLUTIONS if step.is_small else shapes.CONVOLUTIONS
    ways = ("bare", "bare_tf32", "bare_half", "float16", "bfloat16", "auto_tf32")
    program = Program(step, "convolution_speed", {"SCOPE": "regions"})
    measured(step, section, program, {name: (*words, 2 if step.is_small else 3, *ways) for name, words in chosen.items()},
             lambda rounds: [microseconds(rounds), *(spread(ratios(rounds, *pair), "%.2f") for pair in columns.values())])
    report = program.close()
    for way in LOWERED:
        count = sum(row["calls"] for row in report["ops"] if row["region"] == way and row["decision"] == "lowered")
        section.check(count, f"{way}: nothing was lowered")
    return section


def cost(step):
    section = step.section("added to a call, ns on the calling thread (median and range of paired rounds)",
                           "settings", "call that the vendor returns from at once", "16^3 product", "256^3 product")
    rounds = {}
    for name, variables in COSTS.items():
        program = Program(step, "speed", {"SCOPE": "process", **variables})
        rounds[name] = [program.ask("call", size, 2 if step.is_small else 9, "bare", "linked") for size in (0, 16, 256)]
        lowered = program.close()["totals"]["lowered"] if variables["TRACE"] != "off" else 0
        section.check(bool(lowered) == (variables.get("STRATEGY") == "cast"), f"{name}: {lowered} calls lowered")
        section.raw[name] = rounds[name]
        section.add(name, *(spread([r["linked"] and r["linked"] - r["bare"] for r in each], "%.0f") for each in rounds[name]))
    section.rows.insert(0, ["without autoamp", *(spread([r["bare"] for r in each], "%.0f") for each in rounds["O0, summary"])])
    return section


def check_kernels(section, name, report):
    """Every kernel has arrived, and nearly all are known to belong to a call."""
    count = sum(kernel["count"] for kernel in report.get("kernels", []))
    loss = report["loss"]
    unknown = loss["kernels_unattributed"]
    section.check(count and unknown is not None and count - unknown >= LEAST_ATTRIBUTED * count,
                  f"{name}: {unknown} of {count} kernels belong to no call")
    for key in ("kernels_missing", "single_kernels_missing", "graphs_missing", "kernels_dropped"):
        section.check(loss[key] == 0, f"{name}: {key} is {loss[key]}")
    section.notes.append(f"{name}: {count} kernels, {unknown} of them without a call; " +
                         ", ".join(f"{key} {loss[key]}" for key in ("kernels_missing", "graphs_missing", "kernels_dropped")))


def traced(step):
    """Tracing is a setting of a process, so each of its values has one. They are alive at once and run in turn."""
    section = step.section("kernels by CUPTI: speed relative to no trace (processes in turn; median and range), and gaps between kernels",
                           "product", "ops/off", "kernels/off", "product us", "casts us", "both by events us", "gap us a kernel")
    programs = {name: Program(step, "speed", {"STRATEGY": "cast", "TRACE": name}) for name in TRACES}
    chosen = shapes.SMALL if step.is_small else shapes.TRACED
    rounds = {name: [] for name in chosen}
    for name, index in itertools.product(chosen, range(2 if step.is_small else 5)):
        order = [*TRACES[index % 3:], *TRACES[:index % 3]]
        rounds[name].append({trace: programs[trace].ask("product", *chosen[name], 1, "linked")[0]["linked"] for trace in order})
    section.raw = rounds
    programs["off"].process.stdin.close()  # no trace, no report
    section.check(programs["off"].process.wait() == 0, "off: the program failed")
    report = {name: programs[name].close() for name in ("ops", "kernels")}["kernels"]
    for name, each in rounds.items():
        rows = [row for row in report["ops"] if row["shape"] == shapes.shape(chosen[name])]
        calls = sum(row["calls"] for row in rows)
        kernels = sum(kernel["count"] for kernel in report["kernels"] if kernel["shape"] == shapes.shape(chosen[name])) / max(calls, 1)
        section.check(kernels, f"{name}: no kernels")
        us = [None, None] if step.is_emulated else [sum(row[key] or 0 for row in rows) / calls / 1e3 for key in ("kernel_ns", "cast_ns")]
        events = [r["off"] and r["off"] / 1e3 for r in each]
        gap = [] if step.is_emulated or not kernels else [(time - sum(us)) / kernels for time in events]
        section.add(name, *(spread(ratios(each, "off", trace), "%.2f") for trace in TRACES[1:]), *(median([time]) for time in us),
                    median(events), median(gap, "%.2f"))
    check_kernels(section, "speed", report)
    return section
