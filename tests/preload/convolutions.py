"""Legacy convolutions of cuDNN under the library: as exact as the type allows in every direction and layout, where the vendor
has an engine; as they were asked where it has none."""
import math

import runner
from runner import CAST_BFLOAT16, CAST_HALF, ETA, bare, run

PROGRAM = "convolutions"
# A bfloat16 result is rounded once more.
NARROW = (ETA["bfloat16"][0], math.hypot(ETA["bfloat16"][1], 2**-9))
TABLE = ("wide.*", "narrow.*", "fused.*")
# Of `narrow`, what float16 has an engine for: forward, where channels of a group are even or there are no groups.
FORWARD = {"narrow.groups.forward", "narrow.groups_c3.forward", "narrow.3d_strided.forward",
           "narrow.strided_dilated.forward", "narrow.3d_strided.filter", "narrow.strided_dilated.filter"}


class Table:
    way = None

    def setUp(self):
        self.bare = bare(PROGRAM, *TABLE)
        self.run = run(PROGRAM, *TABLE, **self.way.variables)

    def is_wide(self, name):
        return not name.startswith("narrow.") or name in FORWARD

    def test_as_bare(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)
        self.assertGreater(len(self.run.cases), 80)
        for name, case in self.run.cases.items():
            self.assertEqual(case["status"], self.bare.cases[name]["status"], name)
            self.assertEqual(case["nonfinite"], "0", name)
            self.assertLess(float(case["lost"]), 0.05, name)

    def test_bits_are_its_own(self):
        again = run(PROGRAM, *TABLE, **self.way.variables, LOG="warn")
        self.assertEqual(again.bits(), self.run.bits())


class Half(Table, runner.Test):
    way = CAST_HALF

    def test_errors(self):
        for name, case in self.run.cases.items():
            with self.subTest(name):
                if self.is_wide(name):
                    self.assertWithin(case["eta"], ETA["float16"], "eta")
                else:
                    self.assertEqual(case["bits"], self.bare.cases[name]["bits"])

    def test_decisions(self):
        decided = {(row["decision"], row["reason"]): 0 for row in self.run.report["ops"]}
        for row in self.run.report["ops"]:
            decided[row["decision"], row["reason"]] += row["calls"]
        lowered = sum(self.is_wide(name) for name in self.run.cases)
        self.assertEqual(decided, {("lowered", "white_list"): lowered,
                                   ("kept", "no_fp32_output"): len(self.run.cases) - lowered})

    def test_without_scaling_large_values_overflow(self):
        unscaled = run(PROGRAM, "wide.large.*", **CAST_HALF.variables, SCALING="off")
        self.assertEqual(len(unscaled.cases), 3)
        for case in unscaled.cases.values():
            self.assertNotEqual(case["nonfinite"], "0")


class Bfloat16(Table, runner.Test):
    way = CAST_BFLOAT16

    def test_errors(self):
        for name, case in self.run.cases.items():
            with self.subTest(name):
                self.assertWithin(case["eta"], NARROW if name.startswith("narrow.") else ETA["bfloat16"], "eta")

    def test_all_are_lowered(self):
        totals = self.run.report["totals"]
        self.assertEqual(totals["lowered"], totals["calls"])


class Others(runner.Test):
    def test_capture(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            with self.subTest(way.precision):
                result = run(PROGRAM, "capture.*", **way.variables)
                self.assertFine(result)
                totals = result.report["totals"]
                self.assertEqual(totals["lowered"], totals["calls"])

    def test_captured_before_its_plan_is_built(self):
        result = run(PROGRAM, "capture_first", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual([(row["decision"], row["reason"]) for row in result.report["ops"]],
                         [("fallback", "capture_unready")])

    def test_threads(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "threads", **way.variables)
            self.assertFine(result)
            self.assertEqual(result.report["totals"]["lowered"], 40)

    def test_memory_stays_flat(self):
        result = run(PROGRAM, "memory", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.report["totals"]["lowered"], 10500)
        self.assertEqual(len(result.report["ops"]), 3)
        self.assertLess(int(result.cases["memory"]["grown"]), 4096)
        self.assertEqual(result.cases["memory"]["device"], "0")

    def test_strategies_that_have_no_engine(self):
        for strategy, reason in (("tf32", "already_low"), ("library", "unsupported")):
            result = run(PROGRAM, "wide.nchw.*", STRATEGY=strategy, SCALING="off")
            self.assertEqual({(row["decision"], row["reason"]) for row in result.report["ops"]}, {("kept", reason)})

    def test_what_the_model_finds_too_small_is_kept(self):
        result = run(PROGRAM, "wide.nchw.*")
        self.assertEqual({row["decision"] for row in result.report["ops"]}, {"kept"})
        self.assertEqual(result.bits(), bare(PROGRAM, "wide.nchw.*").bits())


if __name__ == "__main__":
    runner.main()
