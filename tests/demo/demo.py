#!/usr/bin/env python3
"""The demo as the quickstart runs it: accuracy in fp32 and float16, and the calls that the cost model lowers and keeps.

usage: demo.py BUILD   (runs on the emulated device)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

build = pathlib.Path(sys.argv.pop()).resolve()
autoamp = build / "tools/autoamp"
digits, scaler = build / "tools/demo/digits", build / "tools/demo/scaler"
clean = {name: value for name, value in os.environ.items() if not name.startswith("AUTOAMP_")}


def run(*options, program=digits):
    """The program's output and the report about it."""
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/demo.aat"
        command = [autoamp, "run", "--device", "emulated", "--quiet", "--trace-file", trace, *options, "--", program]
        said = subprocess.run(command, env=clean, check=True, capture_output=True, text=True)
        report, page = (subprocess.run([autoamp, "report", "--format", form, trace], check=True, capture_output=True, text=True).stdout
                        for form in ("json", "html"))
    assert said.stderr == "", said.stderr
    report = json.loads(report)
    best = report["totals"]["gain"]["best_ns"]
    assert abs(best_in_chart(page) - best) < 1e-2 * best, (best_in_chart(page), best)
    return said.stdout, report


def best_in_chart(page):
    """The best time of all products in the chart of the HTML page, in ns."""
    number, unit = re.search(r">Best</th>.*?<b>([\d.]+) (µs|ms)</b>", page, re.S).groups()
    return float(number) * {"µs": 1e3, "ms": 1e6}[unit]


def run_next(report):
    """The same of the command that a report recommends, as a user types it."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(report["next"]["command"], shell=True, env={**clean, "AUTOAMP_TRACE_FILE": f"{folder}/%p.aat"}, check=True,
                              capture_output=True, text=True)
        printed = subprocess.run([autoamp, "report", "--format", "json", folder], check=True, capture_output=True, text=True)
    return said.stdout, json.loads(printed.stdout)


def accuracy(said):
    return float(re.search(r"^test accuracy ([\d.]+) %$", said, re.M)[1])


class Demo(unittest.TestCase):
    def test_both_precisions(self):
        emulated = {**clean, "LD_LIBRARY_PATH": str(build / "tools/emulated")}
        bare = subprocess.run([digits], env=emulated, check=True, capture_output=True, text=True).stdout
        fp32, kept = run("--strategy", "fp32")
        half, converted = run("--strategy", "cast")
        automatic, lowered = run_next(converted)  # with the strategy auto

        self.assertEqual(fp32, bare)  # every loss, every digit
        self.assertEqual(kept["totals"]["lowered"], 0)
        self.assertGreater(accuracy(fp32), 96)
        for said in (half, automatic):
            self.assertLess(abs(accuracy(said) - accuracy(fp32)), 1)
            self.assertNotEqual(said, fp32)  # at least the losses must show that something was rounded
        self.assertEqual(converted["totals"]["lowered"], kept["totals"]["eligible"])
        self.assertEqual({row["dtype_compute"] for row in converted["ops"] if row["eligible"]}, {"float16"})

        # It saves what was promised, and there is nothing more to save.
        before, after = converted["totals"]["gain"], lowered["totals"]["gain"]
        self.assertEqual((before["source"], before["measured_as_run_ns"]), ("model", None))
        for first, second in ((after["as_asked_ns"], before["as_asked_ns"]), (after["as_run_ns"], before["best_ns"]),
                              (after["best_ns"], after["as_run_ns"]), (converted["next"]["saves_ns"], before["as_run_ns"] - after["as_run_ns"])):
            self.assertAlmostEqual(first, second, delta=1e-3 * before["as_run_ns"])
        self.assertLess(after["as_run_ns"], 0.95 * before["as_run_ns"])
        self.assertIsNone(lowered["next"]["saves_ns"])

        totals = lowered["totals"]
        self.assertEqual(totals["fallbacks"], 0)
        self.assertEqual(totals["calls"], kept["totals"]["calls"])
        self.assertGreater(totals["lowered_flops"], 0.8 * totals["flops"])
        for row in lowered["ops"]:
            if row["reason"] == "zero_size" or row["dtype_in"] != "float32":
                continue
            large = min(row["m"], row["n"], row["k"]) >= 240
            small = min(row["m"], row["n"], row["k"]) <= 10
            if large or small:
                self.assertEqual(row["decision"], "lowered" if large else "kept", row)
        # Every call is in exactly one row.
        self.assertEqual(sum(row["calls"] for row in lowered["ops"]), totals["calls"])

    def test_scaler(self):
        """The scale starts too high: the first steps are skipped, then training works and the scale grows."""
        said, report = run("--dtype", "bfloat16", program=scaler)
        first, *_, last = re.findall(r"error +([\d.]+)  scale 2\^(\d+)  skipped (\d+)", said)
        self.assertEqual((first[1:], last[2]), (("127", "0"), "8"))
        self.assertLess(float(last[0]), 0.01 * float(first[0]))
        told, = report["scaler"]["gradient"]
        self.assertEqual((told["scaler"], told["how"], told["steps"], told["skipped"], told["backoffs"], told["growths"]),
                         ("demo#0", "autoamp", 120, 8, 8, 4))
        self.assertEqual([event["step"] for event in told["events"] if event["kind"] == "growth"], [33, 58, 83, 108])
        emulated = {**clean, "LD_LIBRARY_PATH": str(build / "tools/emulated")}
        bare = subprocess.run([scaler], env=emulated, check=True, capture_output=True, text=True).stdout
        self.assertTrue(bare.startswith("autoamp is not active: the scale is 1\n"))
        self.assertIn("scale 2^0  skipped 0", bare)


if __name__ == "__main__":
    unittest.main()
