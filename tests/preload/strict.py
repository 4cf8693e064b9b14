"""AUTOAMP_SCALING=strict: float16 products whose error is at most about twice that of TF32 or fp32, on operands of many families."""
import runner
from runner import CAST_BFLOAT16, CAST_HALF, TF32, run

PROGRAM = "strict"
STRICT = {**CAST_HALF.variables, "SCALING": "strict"}
DOORS = ("gemm_ex", "strided", "shared", "pointers", "lt", "by_rows")  # with the error of the last matrix


def errors(case, name="eta"):
    return float(case[name]), max(float(case["tf32"]), float(case["fp32"]))


def is_bad(case):
    """float16 loses more than the published check permits."""
    eta, best = errors(case)
    return eta > 2 * best and eta > 4e-4


class Strict(runner.Test):
    def setUp(self):
        self.plain = run(PROGRAM, **CAST_HALF.variables)
        self.run = run(PROGRAM, **STRICT)

    def families(self):
        return [name for name in self.run.cases if name.startswith(("family.", "example."))]

    def mended(self, name):
        """Totals of the sites of a case."""
        sites = {row["site"] for row in self.run.rows_of(self.run.cases[name])}
        return sum(total["count"] for total in self.run.report["scaler"]["totals"] if total["kind"] == "mended" and total["site"] in sites)

    def test_programs_are_content(self):
        """Also: no call has other bits because of earlier ones, or of another stream."""
        self.assertFine(self.run)
        self.assertEqual({row["decision"] for row in self.run.report["ops"] if row["reason"] != "uncured"}, {"lowered"})

    def test_bad_products_are_mended(self):
        bad = {name for name in self.families() if is_bad(self.plain.cases[name])}
        self.assertGreater(len(bad), 40)
        self.assertLess({name for name in self.families() if name.startswith("example.")} - {"example.cancelling"}, bad)  # fp32 is as bad
        for name in self.families():
            eta, best = errors(self.run.cases[name])
            with self.subTest(name, plain=self.plain.cases[name]["eta"], strict=eta, best=best):
                self.assertLessEqual(eta, max(2.2 * best, 4.4e-4))

    def test_good_products_keep_their_bits(self):
        changed = {name for name in self.families() if self.run.cases[name]["bits"] != self.plain.cases[name]["bits"]}
        fine = {name for name in self.families()
                if errors(self.plain.cases[name])[0] <= max(1.2 * errors(self.plain.cases[name])[1], 2e-4)}
        self.assertGreater(len(fine), 150)
        self.assertEqual({name for name in changed & fine if "cancelling" not in name}, set())
        self.assertLessEqual(len(changed & fine), 3)  # fp32 itself is wrong there

    def test_doors(self):
        for name in DOORS:
            with self.subTest(name):
                error, best = errors(self.run.cases["door." + name], "error")
                self.assertLess(error, 2.2 * best)
                self.assertGreater(errors(self.plain.cases["door." + name], "error")[0], 10 * best)
        for name, case in self.run.cases.items():
            if name.startswith("door."):
                self.assertGreater(self.mended(name), 0, name)
                self.assertEqual((case["nonfinite"], case["status"]), ("0", "0"))
                if "eta" in case:
                    self.assertLess(float(case["eta"]), 6e-4, name)
        self.assertLess(float(self.run.cases["door.bgrada"]["beside"]), 1e-6)

    def test_events(self):
        for name, calls in (("replay", 6), ("streams", 20)):  # the hard calls, of which `replay` has one before the graph
            self.assertEqual(self.mended(name), calls, name)
        events = [event for event in self.run.report["scaler"]["events"] if event["kind"] == "mended"]
        self.assertGreater(len(events), 40)
        for event in events:
            self.assertGreater(event["excess"], 4e-4)
            self.assertIsNone(event["rule"])
            self.assertIn(event["operand"], "AB")


class Others(runner.Test):
    def test_uncured_products(self):
        """The device tells them from mended ones, and the later calls of their signature avoid float16."""
        for variables, substitute in (({}, "tf32"), ({"_NVIDIA_TF32_OVERRIDE": "0"}, "fp32"),
                                      ({"CAPTURE_RANGE": "calls:1000:1001"}, None)):  # a call that is not recorded is checked too
            result = run(PROGRAM, "uncured.*", **STRICT, **variables)
            self.assertFine(result)
            for name, case in result.cases.items():
                first, best = errors(case, "first")
                with self.subTest(name, **variables):
                    self.assertGreater(first, 10 * best)
                    self.assertLess(float(case["eta"]), 1.2 * best)
                    if not substitute:
                        continue
                    is_large = name.endswith("256")
                    other = ("lowered", "tf32") if is_large and substitute == "tf32" else ("fallback", "fp32")
                    rows = result.rows_of(case)
                    self.assertEqual({(row["decision"], row["reason"], row["strategy"], row["calls"]) for row in rows},
                                     {("lowered", "white_list", "cast", 1), (other[0], "uncured", other[1], 2)})
                    totals = {total["kind"]: total["count"] for total in result.report["scaler"]["totals"]
                              if total["site"] in {row["site"] for row in rows}}
                    self.assertEqual((totals["uncured"], totals.get("mended")), (1, None))
            for event in result.report["scaler"]["events"]:
                if event["kind"] == "uncured":
                    self.assertGreater(event["excess"], 4e-4)
        plain = run(PROGRAM, "uncured.*", **CAST_HALF.variables)
        self.assertNotIn("uncured", {row["reason"] for row in plain.report["ops"]})

    def test_other_types_are_not_checked(self):
        for way in (CAST_BFLOAT16, TF32):
            strict = run(PROGRAM, "door.*", "replay", **way.variables, SCALING="strict")
            self.assertEqual(strict.bits(), run(PROGRAM, "door.*", "replay", **way.variables).bits())
            self.assertNotIn("mended", strict.scaler_totals())


if __name__ == "__main__":
    runner.main()
