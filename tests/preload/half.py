"""Half sums: raised to fp32 if the black list names the op or the entry point, and unchanged otherwise."""
import runner
from runner import bare, run

PROGRAM = "half"
BLACK = {"CUSTOM_BLACK_LIST": "mm,bmm,addmm"}
KEPT = {"kept.pedantic_mode": "pedantic", "kept.pedantic_compute": "already_low", "kept.alpha_zero": "zero_size",
        "kept.zero_k": "zero_size", "kept.zero_m": "zero_size", "kept.zero_batch": "zero_size",
        "kept.sums_in_fp32": "already_low"}
# One rounding of a result to half, relative Frobenius: 2^-12 at most; half sums of k = 4096 lose ten times that.
RAISED, LOST = 2.5e-4, 1e-3


class Raised(runner.Test):
    def setUp(self):
        self.bare, self.run = bare(PROGRAM), run(PROGRAM, **BLACK)

    def products(self):
        return {name: case for name, case in self.run.cases.items() if "eta" in case}

    def test_programs_are_content(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)

    def test_statuses_are_the_vendors(self):
        for key in ("status", "statuses"):
            self.assertEqual({name: case.get(key) for name, case in self.run.cases.items()},
                             {name: case.get(key) for name, case in self.bare.cases.items()})

    def test_raised_sums_lose_nothing(self):
        count = 0
        for name, case in self.products().items():
            with self.subTest(name):
                rows = self.run.rows_of(case)
                if name in KEPT:
                    self.assertEqual(case["bits"], self.bare.cases[name]["bits"])
                    self.assertEqual([(row["decision"], row["reason"]) for row in rows], [("kept", KEPT[name])])
                    continue
                captured = name.startswith(("captured.", "first."))
                calls = 2 if name.startswith("captured.") else 1
                told = [[row[key] for key in ("decision", "reason", "calls", "captured", "dtype_in", "dtype_compute",
                                              "dtype_accumulate", "dtype_out")] for row in rows]
                self.assertEqual(told, [["raised", "custom_black_list", calls, int(captured), "float16", "float16", "float32",
                                         "float16"]])
                count += calls
                self.assertLess(float(case["eta"]), RAISED)
                if runner.PLACE.emulated:  # a device's sums may be more exact than requested
                    self.assertGreater(float(self.bare.cases[name]["eta"]), LOST)
        totals = self.run.report["totals"]
        self.assertEqual((totals["raised"], totals["fallbacks"], totals["eligible"]), (count, 0, 0))

    def test_raised_results_are_not_rounded_again(self):
        """Their results are in half: rounding them as floats would write beyond them."""
        for dtype in ("float16", "bfloat16"):
            result = run(PROGRAM, ROUND_OUTPUT="1", DTYPE=dtype, **BLACK)
            self.assertFine(result)
            self.assertEqual(result.bits(), self.run.bits())

    def test_captured_first(self):
        """autoamp has nothing set up yet: only calls that need no kernel are raised."""
        for name, told in (("first.host", ("raised", "custom_black_list")), ("first.device", ("fallback", "capture_unready"))):
            result = run(PROGRAM, name, **BLACK)
            self.assertFine(result)
            self.assertEqual([(row["decision"], row["reason"]) for row in result.rows_of(result.cases[name])], [told])
            self.assertEqual(result.bits() == bare(PROGRAM, name).bits(), told[0] == "fallback")

    def test_by_entry_point(self):
        result = run(PROGRAM, "door.*", CUSTOM_BLACK_LIST="cublasHgemm*")
        self.assertFine(result)
        for name, case in result.cases.items():
            row = result.rows_of(case)[0]
            isNamed = row["entry"].startswith("cublasHgemm")
            self.assertEqual((row["decision"], row["reason"]),
                             ("raised", "custom_black_list") if isNamed else ("kept", "already_low"), name)
            self.assertEqual(row["dtype_accumulate"], "float32" if isNamed else "float16")
            self.assertEqual(case["bits"] == self.bare.cases[name]["bits"], not isNamed)


class Untouched(runner.Test):
    def test_where_nobody_asks(self):
        for variables, decision, reason in (({}, "kept", "already_low"), ({"STRATEGY": "fp32", **BLACK}, "kept", "disabled"),
                                            ({"LEVEL": "O0", **BLACK}, "observed", "custom_black_list")):
            with self.subTest(**variables):
                result = run(PROGRAM, **variables)
                self.assertFine(result)
                self.assertEqual(result.bits(), bare(PROGRAM).bits())
                row = result.rows_of(result.cases["door.hgemm"])[0]
                self.assertEqual((row["decision"], row["reason"]), (decision, reason))

    @runner.emulated_only("other engines")
    def test_what_fails_runs_as_it_was_asked(self):
        for function, reason in (("cublasLtMatmulAlgoGetHeuristic", "unsupported"), ("cuLaunchKernel", "engine_failed"),
                                 ("cublasLtMatmul", "engine_failed"), ("cuMemAllocFromPoolAsync", "out_of_memory")):
            with self.subTest(function):
                result = run(PROGRAM, "scalars.device", EMU_FAIL=function + ":1", **BLACK)
                self.assertFine(result)
                row = result.rows_of(result.cases["scalars.device"])[0]
                self.assertEqual((row["decision"], row["reason"]), ("fallback", reason))
                self.assertEqual(result.bits(), bare(PROGRAM, "scalars.device").bits())


if __name__ == "__main__":
    runner.main()
