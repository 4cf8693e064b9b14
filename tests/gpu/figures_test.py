"""The steps with figures on a device that answers with known times: the programs are replaced, the rest runs as on a GPU."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from suite import figures, programs, section, shapes  # pylint: disable=wrong-import-position

# ns of a call. `round` makes each round slower by 1 % for all ways, so ratios have no range.
TIMES = {"bare": 8000, "bare_tf32": 4000, "bare_half": 1000, "linked": 8100, "float16": 2000, "bfloat16": 1600, "tf32": 4000,
         "auto": 2000, "auto_tf32": 4000, "float16_checked": 1250, "float16_frozen": 1000, "bfloat16_checked": 1250,
         "bfloat16_frozen": 1000}
DECISIONS = {"float16": ("cast", "float16"), "bfloat16": ("cast", "bfloat16"), "tf32": ("tf32", "tf32"), "auto": ("cast", "float16"),
             **{f"{name}_{mode}": ("cast", name) for name in ("float16", "bfloat16") for mode in ("checked", "frozen")}}
LOSS = {"kernels_unattributed": 0, "kernels_missing": 0, "single_kernels_missing": 0, "graphs_missing": 0, "kernels_dropped": 0}


class Program:
    """Instead of figures.Program."""
    times, loss, served = TIMES, LOSS, 9

    def __init__(self, step, name, variables):
        self.step, self.variables, self.calls = step, variables, []
        self.process = mock.Mock(wait=lambda: 0)

    def ask(self, *words):
        ways = [word for word in words if word in TIMES]
        if words[:2] == ("product", "T") and self.step.has_little_memory:
            raise RuntimeError("product: no_memory")
        if words[0] == "product":
            self.calls.append((shapes.shape(words[1:8]), ways))
        if words[0] == "weight":
            self.calls.append((f"{words[1]}x{words[2]}x{words[3]}", ways))
        count = int(words[words.index(ways[0]) - 1])
        return [{way: self.times[way] * (1 + index / 100) for way in ways} for index in range(count)]

    def close(self):
        if self.variables.get("TRACE") == "off":
            return None  # no trace was written
        ops, kernels = [], []
        for shape, ways in self.calls:
            for way in ways:
                if not way.startswith("bare"):
                    strategy, dtype = DECISIONS.get(way, ("fp32", "float32"))
                    ops.append({"shape": shape, "region": way if way != "linked" else None, "calls": 10, "strategy": strategy,
                                "dtype_compute": dtype, "decision": "lowered" if way in DECISIONS else "kept", "reason": "too_small",
                                "kernel_ns": 50000, "cast_ns": 10000, "weights": {"served": self.served} if "_" in way else None})
                    kernels.append({"shape": shape, "count": 30})
        if not ops:
            ops = [{"region": way, "calls": 3, "decision": "lowered"} for way in DECISIONS]
        lowered = 5 if self.variables.get("STRATEGY") == "cast" else 0
        return {"ops": ops, "kernels": kernels, "loss": self.loss, "totals": {"lowered": lowered}}


class Step:
    is_emulated = is_small = has_little_memory = False
    libraries, pythons, environment, plain = ("libcudnn.so.9",), {"torch": ("python3", "2")}, {}, {}
    folder, answer = "/tmp", ""

    def section(self, title, *columns):
        made = section.Section(title)
        made.columns = list(columns)
        return made

    def program(self, name):
        return name

    def preloaded(self, _, environment=None):
        return environment, "trace"

    def left(self):
        return 60.0

    def report(self, _):
        return {"ops": [{"region": "BERT-large forward", "decision": "lowered", "calls": 7, "eligible": True},
                        {"region": "BERT-large forward", "decision": "kept", "calls": 2, "eligible": True}], "kernels": [{"count": 9}],
                "loss": LOSS}

    def run(self, command, *_, **__):
        return subprocess.CompletedProcess(command, 0, self.answer, "")


ENDS = """#!/usr/bin/env python3
import sys
for line in sys.stdin:
    if "die" in line:
        sys.exit(3)
    print("bare ns=5 least=1", "done", sep="\\n", flush=True)
"""


class Processes(unittest.TestCase):
    def test_a_program_that_ends_is_started_again(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "program")
            script.write_text(ENDS)
            script.chmod(0o755)
            step = Step()
            step.folder, step.program = folder, lambda _: str(script)
            program = figures.Program(step, "speed", {})
            self.addCleanup(lambda: (program.process.stdin.close(), program.process.stdout.close(), program.process.wait()))
            made = step.section("")
            found = figures.measured(step, made, program, {"one": ["x", "bare"], "two": ["die"], "three": ["x", "bare"]})
            self.assertEqual(found, {"one": [{"bare": 5.0}], "three": [{"bare": 5.0}]})
            self.assertEqual(made.failures, ["two: die: the program ended with status 3"])


@mock.patch.object(figures, "Program", Program)
class Figures(unittest.TestCase):
    def rows(self, made, key=0):
        """For each row: cell by column."""
        self.assertEqual(made.failures, [])
        return {row[key]: dict(zip(made.columns, row, strict=True)) for row in made.rows}

    def test_products(self):
        made = figures.speed(Step())
        row = self.rows(made)["4096^3"]
        self.assertEqual(len(made.rows), len(shapes.PRODUCTS))
        self.assertEqual((row["fp32 us"], row["float16/fp32"], row["bfloat16/fp32"]), ("8.2", "4.00 (4.00..4.00)", "5.00 (5.00..5.00)"))
        self.assertEqual((row["auto/TF32"], row["float16/half"], row["auto"]), ("1.00 (1.00..1.00)", "0.50 (0.50..0.50)", "cast float16"))

    def test_auto_that_loses(self):
        with mock.patch.object(Program, "times", {**TIMES, "auto_tf32": 4200}):
            self.assertIn("0.952", figures.speed(Step()).failures[0])

    def test_a_product_without_memory(self):
        step = Step()
        step.has_little_memory = True
        made = figures.speed(step)
        self.assertIn("no_memory", made.notes[0])
        self.assertEqual(len(self.rows(made)), sum(words[0] != "T" for words in shapes.PRODUCTS.values()))

    def test_out_of_time(self):
        step = Step()
        step.left = lambda: 5.0
        self.assertIn("out of time before 64^3", figures.speed(step).failures)

    def test_weights(self):
        rows = self.rows(figures.weights(Step()))
        self.assertEqual(len(rows), len(shapes.WEIGHTS))
        row = rows["4096, 16 rows"]
        self.assertEqual((row["TF32 us"], row["bfloat16"], row["bfloat16_checked"], row["float16_frozen"], row["float16_frozen us"]),
                         ("4.0", "2.50 (2.50..2.50)", "3.20 (3.20..3.20)", "4.00 (4.00..4.00)", "1.0"))

    def test_weights_that_are_not_kept_and_inputs_that_are(self):
        for served in (0, 11):
            with mock.patch.object(Program, "served", served):
                self.assertEqual(len(figures.weights(Step()).failures), 4 * len(shapes.WEIGHTS))

    def test_choice(self):
        rows = self.rows(figures.choice(Step()))
        self.assertEqual(rows["fp32"]["products"], 100)
        self.assertEqual((rows["fp32"]["median"], rows["fp32"]["below 0.95"], rows["fp32"]["chosen"]), ("1.00", "0", "cast float16 100"))
        self.assertEqual((rows["TF32 allowed"]["least"], rows["TF32 allowed"]["below 0.95"]), ("0.50", "100"))

    def test_convolutions(self):
        row = self.rows(figures.convolutions(Step()))["U-Net 3x3 64 256 data"]
        self.assertEqual(row["bfloat16/TF32"], "2.50 (2.50..2.50)")

    def test_cost(self):
        rows = self.rows(figures.cost(Step()))
        self.assertEqual(rows["O0, trace off"]["16^3 product"], "104 (100..108)")
        self.assertEqual(rows["without autoamp"]["16^3 product"], "8320 (8000..8640)")

    def test_traces(self):
        row = self.rows(figures.traced(Step()))["4096^3"]
        self.assertEqual((row["kernels/off"], row["product us"], row["casts us"]), ("1.00 (1.00..1.00)", "5.0", "1.0"))
        self.assertEqual((row["both by events us"], row["gap us a kernel"]), ("8.1", "0.70"))  # (8.1 - 6) us in 3 kernels

    def test_kernels_that_are_missing(self):
        for key in ("kernels_missing", "graphs_missing", "kernels_dropped", "kernels_unattributed"):
            with mock.patch.object(Program, "loss", {**LOSS, key: 9}):
                self.assertEqual(len(figures.traced(Step()).failures), 1, key)

    def test_casts(self):
        step = Step()
        step.answer = "".join(f"nchw 65536 {kind} 98304 {number} ns={ns}.0 least=1 most=1 repeats=7 calls=9\n" for number in range(3)
                              for kind, ns in (("copy", 90), ("bfloat16", 100), ("bfloat16_sample", 9), ("float16_unsettled", 100), ("float16", 120)))
        row = self.rows(figures.cast(step))["nchw, 64 KiB"]
        self.assertEqual((row["copy GB/s"], row["bfloat16"], row["float16"]), ("1092 (1092..1092)", "0.90 (0.90..0.90)", "0.75 (0.75..0.75)"))

    def test_models(self):
        step = Step()
        step.answer = json.dumps({"model": "BERT-large", "pass": "forward", "difference": 1e-4, "modes": [],
                                  "rounds": [{"fp32": 0.4, "tf32": 0.2, "autocast": 0.08, "autoamp": 0.1}] * 3})
        row = self.rows(programs.models(step))["BERT-large"]
        self.assertEqual((row["fp32 ms"], row["autoamp/TF32"], row["autoamp/autocast"], row["calls lowered"]),
                         ("400.0", "2.00 (2.00..2.00)", "0.80 (0.80..0.80)", "7 of 9"))


if __name__ == "__main__":
    unittest.main()
