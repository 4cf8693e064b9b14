"""Numeric results: as exact as the type allows at every magnitude, and no Inf or NaN that fp32 does not have."""
import math
import subprocess
import tempfile

import runner
from runner import CAST_BFLOAT16, CAST_HALF, ETA, LIBRARY_BFLOAT16, LIBRARY_HALF, TF32, bare, run

PROGRAM = "numerics"
CAST = {"STRATEGY": "cast"}
# Largest error of an element over |A||B|: two roundings of an operand, and the sum's.
UNIT = {"float16": 2**-11, "tf32": 2**-11, "bfloat16": 2**-8}


def omega_bound(dtype, k):
    return 2 * UNIT[dtype] + UNIT[dtype] ** 2 + k * 2**-23


def uniform_eta(dtype, k):
    expected = {"float16": 3.4e-4, "tf32": 3.4e-4, "bfloat16": 2.7e-3}[dtype] / math.sqrt(k)
    truncated = 0 if runner.PLACE.emulated else 2 * (k / 4) * 2**-24  # by the accumulators of the hardware
    return 0.7 * expected, 1.35 * expected + truncated


class Scaled(runner.Test):
    def setUp(self):
        self.bare = bare(PROGRAM)
        self.run = run(PROGRAM, **CAST)

    def test_programs_are_content(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)

    def test_every_product_is_lowered(self):
        totals = self.run.report["totals"]
        self.assertEqual(totals["lowered"], totals["calls"])

    def test_magnitudes(self):
        measured = 0
        for name, case in self.run.cases.items():
            if name.startswith(("magnitude.", "doors.")):
                with self.subTest(name):
                    self.assertEqual(case["spoiled"], "0")
                    if "eta" in case:
                        measured += 1
                        self.assertWithin(case["eta"], ETA["float16"], "eta")
        self.assertGreater(measured, 30)

    def test_what_is_beside_a_product_is_of_its_magnitude(self):
        beside = {name[9:]: float(case["beside"]) for name, case in self.run.cases.items() if "beside" in case}
        self.assertEqual(sorted(beside), ["bgrada", "bgradb", "drelu_apart", "drelu_bgrad", "relu_aux"])
        self.assertEqual(beside["relu_aux"], 0)  # a mask
        for name in ("drelu_apart", "drelu_bgrad"):
            self.assertWithin(beside[name], (2e-4, 4.5e-4), name)
        for name in ("bgrada", "bgradb"):  # sums of the operand that the application passed
            self.assertLess(beside[name], 1e-6)

    def test_growth_and_mixed_calls(self):
        self.assertWithin(self.run.cases["growth"]["least_eta"], ETA["float16"], "least eta")
        for name in ("growth", "mixed"):
            self.assertWithin(self.run.cases[name]["eta"], ETA["float16"], name)
            self.assertEqual(self.run.cases[name]["spoiled"], "0")

    def test_alpha(self):
        for name in ("alpha.host", "alpha.device"):
            case = self.run.cases[name]
            self.assertEqual(case["spoiled"], "0")
            self.assertWithin(case["eta"], ETA["float16"], name)
            self.assertGreater(int(case["measured"]), 40)
        self.assertEqual(self.run.cases["alpha.host"]["bits"], self.run.cases["alpha.device"]["bits"])
        self.assertEqual(self.run.cases["alpha.strange"]["classes"], self.bare.cases["alpha.strange"]["classes"])

    def test_inputs_that_are_not_finite(self):
        for name, case in self.run.cases.items():
            if name.startswith("nonfinite."):
                self.assertEqual(case["classes"], self.bare.cases[name]["classes"], name)
                self.assertNotEqual(case["nonfinite"], "0", name)
        rows = self.run.rows(m=72)
        self.assertEqual(len(rows), 1)
        self.assertEqual(self.run.scaler_totals(rows[0]["site"])["nonfinite_input"], 5)

    def test_data(self):
        cases = {name[5:]: case for name, case in self.run.cases.items() if name.startswith("data.")}
        for name, case in cases.items():
            with self.subTest(name):
                self.assertEqual((case["spoiled"], case["nonfinite"]), ("0", "0"))
                if name.startswith("uniform"):
                    self.assertWithin(case["eta"], uniform_eta("float16", int(case["k"])), "eta")
                elif name.startswith(("gaussian", "subnormal", "rows_apart")):
                    self.assertWithin(case["eta"], ETA["float16"], "eta")
                # Beyond 28 binades below the largest element, half underflows: single products may be lost there.
                if "omega" in case and name != "lognormal_4":
                    self.assertLessEqual(float(case["omega"]), omega_bound("float16", int(case["k"])))
        self.assertEqual(cases["zeros"]["bits"], self.bare.cases["data.zeros"]["bits"])

    def test_bfloat16_keeps_finite_operands_finite(self):
        """A mask of -FLT_MAX times zeros is not NaN; each call that clamps is reported once, with the operand; replays
        are not."""
        for way in (CAST_BFLOAT16.variables, {"DTYPE": "bfloat16", "GPU_MODEL": "rtx4090"}):  # `auto` would choose `library`
            run_ = run(PROGRAM, "mask.*", "data.gaussian_512", **way)
            self.assertFine(run_)
            clamped = {total["site"]: (total["operand"], total["count"]) for total in run_.report["scaler"]["totals"]
                       if total["kind"] == "clamped"}
            masks = [case for name, case in run_.cases.items() if name.startswith("mask.")]
            self.assertEqual(len(masks), 5)
            for case in masks:
                self.assertEqual((case["nonfinite"], case["spoiled"]), ("0", "0"))
                self.assertLess(float(case["eta"]), 1e-2)
            lowered = {row["site"] for case in masks for row in run_.rows_of(case) if row["strategy"] == "cast"}
            self.assertTrue(lowered or "GPU_MODEL" in way)
            self.assertEqual(clamped, {site: ("A", 2) for site in lowered})
            for event in run_.report["scaler"]["events"]:
                self.assertEqual((event["kind"], event["operand"], event["scale_before"], event["scale_after"]), ("clamped", "A", None, 1.0))
                self.assertGreater(event["amax"], 3.4e38)
            self.assertEqual({row["strategy"] for row in run_.report["ops"]} & {"library"}, set())

    def test_float16_tells_of_a_mask(self):
        """One -FLT_MAX reduces the exponent so far that everything else is lost."""
        masks = run(PROGRAM, "mask.*", **CAST)
        sites = {row["site"] for case in masks.cases.values() for row in masks.rows_of(case)}
        told = {total["site"] for total in masks.report["scaler"]["totals"] if total["kind"] == "underflow"}
        self.assertEqual((told, len(told)), (sites, 5))

    def test_losses_are_told_where_they_are(self):
        """Exactly the cases that lose are reported, with the operand that causes most of it; the first two calls of a
        site are checked, later ones by sample."""
        operands = {"loss.rows": "A", "loss.rows_transposed": "A", "loss.columns": "B", "loss.later": "A", "loss.by_rows": "A",
                    "loss.opposed": "AB", "loss.batched": "AB", "loss.lt": "AB", "loss.feature": "A", "loss.sentinel": "A"}
        checked = {"loss.later": (3, 4), "loss.feature": (2, 2), "loss.sentinel": (2, 2)}
        sites = {self.run.rows_of(self.run.cases[name])[0]["site"]: name for name in operands}
        totals = [total for total in self.run.report["scaler"]["totals"] if total["kind"] == "underflow"]
        self.assertEqual({total["site"] for total in totals}, set(sites))
        for name in operands:
            found = [total for total in totals if sites[total["site"]] == name]
            self.assertLessEqual({total["operand"] for total in found}, set(operands[name]), name)
            least, most = checked.get(name, (1, 1))
            self.assertTrue(least <= sum(total["count"] for total in found) <= most, name)
        rules, losses = set(), {}
        for event in self.run.report["scaler"]["events"]:
            if event["kind"] == "underflow":
                entry = next(row["entry"] for row in self.run.report["ops"] if row["site"] == event["site"])
                self.assertIn(f'entry = "{entry}"', event["rule"])
                rules.add(event["rule"])
                self.assertEqual(event["scale_before"], event["scale_after"])
                losses[sites[event["site"]]] = (event["excess"], event["lost_rows"], event["lost_columns"])  # the last one
            else:
                self.assertEqual((event["excess"], event["lost_rows"], event["lost_columns"]), (None, None, None))
        for name in ("loss.rows", "loss.rows_transposed", "loss.by_rows", "loss.columns"):
            excess, rows, columns = losses[name]
            self.assertLess(excess, 1e-6, name)
            self.assertEqual((rows > 0, columns > 0), (name != "loss.columns", name == "loss.columns"), name)
        for name in ("loss.opposed", "loss.batched", "loss.lt", "loss.feature", "loss.sentinel"):
            case = self.run.cases[name]
            self.assertGreater(losses[name][0], 4e-4, name)
            if "eta" in case:  # the reported error equals the measured one, to within the noise of the signs
                self.assertTrue(0.4 < losses[name][0] / float(case["eta"]) < 2.5, (name, losses[name], case["eta"]))
        # Maxima do not show this: all rows are lost, and so are the columns without the large feature.
        self.assertEqual(losses["loss.feature"][1], 112)
        self.assertGreater(losses["loss.feature"][2], 80)
        # The loss is real, and the rule fixes it.
        self.assertGreater(float(self.run.cases["loss.opposed"]["eta"]), 0.1)
        self.assertGreater(float(self.run.cases["loss.lt"]["eta"]), 0.1)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("\n".join(sorted(rules)))
            file.flush()
            subprocess.run([runner.PLACE.autoamp, "check", file.name], capture_output=True, check=True)
            mended = run(PROGRAM, *operands, "data.gaussian*", CONFIG=file.name, **CAST)
        for name, case in mended.cases.items():
            row = mended.rows_of(case)[0]
            if name in operands:
                self.assertEqual((row["decision"], row["reason"]), ("kept", "rule"), name)
                self.assertLess(float(case.get("eta", 0)), 1e-6)
            else:
                self.assertEqual(row["decision"], "lowered", name)
        self.assertNotIn("underflow", mended.scaler_totals())

    def test_history(self):
        # The program itself compares many histories; this test compares processes with and without earlier calls.
        alone = run(PROGRAM, "history", **CAST)
        self.assertFine(alone)
        self.assertEqual(alone.cases["history"]["bits"], self.run.cases["history"]["bits"])
        self.assertNotEqual(alone.cases["history"]["bits"], self.bare.cases["history"]["bits"])

    def test_the_same_run_twice(self):
        again = run(PROGRAM, **CAST, LOG="warn")
        self.assertEqual(again.bits(), self.run.bits())


class Unscalable:
    """Types that have the range of fp32."""
    way = None

    def setUp(self):
        self.bare = bare(PROGRAM)
        self.run = run(PROGRAM, **self.way.variables)
        self.dtype = self.way.precision

    def test_as_exact_as_the_type(self):
        self.assertFine(self.run)
        totals = self.run.report["totals"]
        # Batches by pointers and sums of an operand are lowered only by cast.
        kept = [] if self.way is CAST_BFLOAT16 else ["doors.batched", "doors.lt_arrays", "doors.lt_bgrada", "doors.lt_bgradb"]
        self.assertEqual(totals["lowered"], totals["calls"] - len(kept))
        for name, case in self.run.cases.items():
            if name in kept:
                continue
            with self.subTest(name):
                wide = ("loss.opposed", "loss.batched", "loss.lt", "kept.opposed")  # cases that float16 loses, or nearly
                if name.startswith(("magnitude.", "doors.", "data.gaussian", "data.rows_apart", *wide)) and "eta" in case:
                    self.assertWithin(case["eta"], self.way.eta(), "eta")
                if name.startswith("data.uniform"):
                    low, high = uniform_eta(self.way.rounding(), int(case["k"]))
                    self.assertWithin(case["eta"], (0 if self.way.is_permission() else low, high), "eta")
                if name.startswith("data.") and "subnormal" not in name and "omega" in case:
                    self.assertLessEqual(float(case["omega"]), omega_bound(self.dtype, int(case["k"])))

    def test_no_inf_or_nan_that_fp32_does_not_have(self):
        for name, case in self.run.cases.items():
            if name.startswith("magnitude."):  # sums that overflow temporarily may do so elsewhere
                self.assertLessEqual(int(case["nonfinite"]), int(self.bare.cases[name]["nonfinite"]), name)
            elif "classes" in case:
                self.assertEqual(case["classes"], self.bare.cases[name]["classes"], name)

    def test_no_scales(self):
        self.assertEqual(self.run.scaler_totals(), {})


class Bfloat16(Unscalable, runner.Test):
    way = CAST_BFLOAT16


class Tf32(Unscalable, runner.Test):
    way = TF32


class LibraryBfloat16(Unscalable, runner.Test):
    way = LIBRARY_BFLOAT16


class Unscaled(runner.Test):
    """The same programs show what the scaling is for."""

    def setUp(self):
        self.run = run(PROGRAM, SCALING="off", **CAST)

    @runner.emulated_only("may be half")
    def test_the_library_computes_in_tf32(self):
        library = run(PROGRAM, **LIBRARY_HALF.variables)
        self.assertEqual(library.bits(), run(PROGRAM, **TF32.variables).bits())
        self.assertEqual(library.scaler_totals(), {})

    def test_failures_show(self):
        for name in ("magnitude.1e10_1e-10", "magnitude.1e-10_1e10", "doors.sgemm", "doors.lt_batched", "growth", "mixed"):
            self.assertNotEqual(self.run.cases[name]["spoiled"], "0", name)
        lost = self.run.cases["magnitude.1e-20_1e20"]
        self.assertTrue(lost["spoiled"] != "0" or float(lost["eta"]) > 0.1)
        self.assertWithin(self.run.cases["magnitude.1e0_1e0"]["eta"], ETA["float16"], "within the precision of half")

    def test_overflows_are_told(self):
        self.assertGreater(self.run.scaler_totals()["overflow"], 10)


class Events(runner.Test):
    """A sequence whose rare events are known (see numerics.cpp)."""

    def totals(self, **variables):
        result = run(PROGRAM, "events", **CAST, **variables)
        self.assertEqual((result.status, result.cases["events"]["calls"]), (0, "13"))
        way = CAST_BFLOAT16 if "DTYPE" in variables else CAST_HALF
        row = self.assertLowered(result, result.cases["events"], way, calls=13)
        self.assertEqual({total["site"] for total in result.report["scaler"]["totals"]} - {row["site"]}, set())
        return result

    def test_scaled(self):
        result = self.totals()
        self.assertEqual(result.scaler_totals(), {"init": 2, "rescale": 9, "scale_range": 1, "nonfinite_input": 2})
        events = [(event["kind"], event["operand"]) for event in result.report["scaler"]["events"]]
        self.assertEqual([event for event in events if event[0] == "init"], [("init", "A"), ("init", "B")])
        self.assertEqual([event[1] for event in events if event[0] == "rescale"], list("AAABABAAB"))
        self.assertEqual([event[1] for event in events if event[0] == "nonfinite_input"], list("AB"))
        self.assertEqual(len(events), 14)
        first = result.report["scaler"]["events"][0]
        self.assertEqual((first["scale_before"], first["scale_after"], first["amax"]), (None, 2.0**14, 1.0))
        grown = [event for event in result.report["scaler"]["events"] if event["kind"] == "rescale"][0]
        self.assertEqual((grown["scale_before"], grown["scale_after"], grown["amax"]), (2.0**14, 2.0**-6, 2.0**20))

    def test_unscaled(self):
        self.assertEqual(self.totals(SCALING="off").scaler_totals(), {"overflow": 4, "nonfinite_input": 2})

    def test_bfloat16(self):
        self.assertEqual(self.totals(DTYPE="bfloat16").scaler_totals(), {})


if __name__ == "__main__":
    runner.main()
