"""Products in every form that an application may ask for: lowered with the vendor's semantics, or left alone."""
import runner
from runner import ETA, bare, run

PROGRAM = "semantics"
CASES = ("[!s]*", "s[!i]*")  # all but size.*
SIZES = ("size.*",)

# What is kept whatever the strategy, and why. Everything else is lowered.
KEPT = {
    "scalars.alpha_zero_nan": "zero_size", "zero.m": "zero_size", "zero.n": "zero_size", "zero.k": "zero_size",
    "zero.k_beta_zero": "zero_size", "zero.batch": "zero_size",
    "mode.pedantic": "pedantic", "mode.pedantic_ex": "pedantic", "mode.pedantic_compute": "pedantic",
    "mode.pedantic_strided": "pedantic", "mode.pedantic_lt": "pedantic",
    "mode.emulated": "emulated_fp32", "mode.emulated_compute": "emulated_fp32", "mode.emulated_lt": "emulated_fp32",
}
TF32 = {"mode.tf32", "mode.tf32_compute", "mode.tf32_lt"}
# m of the cases that make several calls: how many are lowered (per device).
CALLS = {301: [1], 302: [1], 303: [1], 304: [1], 305: [1], 306: [2], 307: [3], 308: [3], 309: [1], 310: [16], 311: [16], 312: [32],
         313: [8, 8], 314: [2, 2], 315: [6]}


class Lowered:
    dtype = None

    def setUp(self):
        self.bare = bare(PROGRAM, *CASES)
        self.run = run(PROGRAM, *CASES, STRATEGY="cast", DTYPE=self.dtype)

    def test_programs_are_content(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)
        self.assertEqual(self.run.cases.keys(), self.bare.cases.keys())

    def test_statuses_are_the_vendors(self):
        for key in ("status", "statuses"):
            self.assertEqual({name: case.get(key) for name, case in self.run.cases.items()},
                             {name: case.get(key) for name, case in self.bare.cases.items()})

    def test_kept_calls_are_the_vendors_to_the_bit(self):
        for name, reason in KEPT.items():
            with self.subTest(name):
                case = self.run.cases[name]
                self.assertEqual(case["bits"], self.bare.cases[name]["bits"])
                rows = self.run.rows_of(case)
                self.assertEqual([(row["decision"], row["reason"], row["calls"]) for row in rows], [("kept", reason, 1)])

    def test_lowered_calls_are_as_exact_as_the_type(self):
        for name, case in self.run.cases.items():
            if name in KEPT or "eta" not in case:
                continue
            with self.subTest(name):
                bits = case["bits"], self.bare.cases[name]["bits"]
                if name == "scalars.device_alpha_zero":
                    self.assertEqual(*bits)
                    continue
                if name == "alias.same_operands":  # the squares on the diagonal are large and all of one sign
                    self.assertWithin(case["eta"], [end * factor for end, factor in zip(ETA[self.dtype], (0.5, 1))], "eta")
                else:
                    self.assertWithin(case["eta"], ETA[self.dtype], "eta")
                if name not in TF32 or self.dtype != "float16":  # as many bits, rounded alike: sums may be the same
                    self.assertNotEqual(*bits)
                if "entry" in case and int(case["m"]) not in CALLS:
                    row = self.assertLowered(self.run, case, self.dtype)
                    self.assertEqual(row["dtype_asked"], "tf32" if name in TF32 else "float32")

    def test_bare_runs_are_exact(self):
        for name, case in self.bare.cases.items():
            if "eta" in case and name not in TF32:
                with self.subTest(name):
                    self.assertLess(float(case["eta"]), 1e-6)

    def test_every_call_of_the_longer_cases_is_lowered(self):
        for m, calls in CALLS.items():
            if m in (313, 314) and "skipped" in self.run.cases["devices.two"]:
                continue
            with self.subTest(m=m):
                self.assertEqual([row["calls"] for row in self.run.rows(m=m, decision="lowered")], calls)

    def test_nothing_falls_back(self):
        self.assertEqual(self.run.report["totals"]["fallbacks"], 0)

    def test_labels(self):
        by_case = {name: self.run.rows_of(self.run.cases[name])[0] for name in
                   ("door.sgemm", "door.sgemm_strided", "lt.bias", "lt.relu", "lt.batched", "trans.tc", "trans.cn")}
        self.assertEqual({name: row["op"] for name, row in by_case.items()},
                         {"door.sgemm": "mm", "door.sgemm_strided": "bmm", "lt.bias": "addmm", "lt.relu": "mm",
                          "lt.batched": "bmm", "trans.tc": "mm", "trans.cn": "mm"})
        self.assertEqual((by_case["trans.tc"]["transa"], by_case["trans.tc"]["transb"]), ("T", "C"))
        self.assertEqual((by_case["trans.cn"]["transa"], by_case["trans.cn"]["transb"]), ("C", "N"))
        self.assertEqual((by_case["lt.bias"]["library"], by_case["door.sgemm"]["library"]), ("cublaslt", "cublas"))
        row = by_case["door.sgemm_strided"]
        self.assertEqual(row["flops"], 2 * row["m"] * row["n"] * row["k"] * 3)


class LoweredHalf(Lowered, runner.Test):
    dtype = "float16"


class LoweredBfloat16(Lowered, runner.Test):
    dtype = "bfloat16"


class Untouched(runner.Test):
    """What runs as asked runs as if nobody were there."""

    def check(self, **variables):
        result = run(PROGRAM, *CASES, **variables)
        self.assertFine(result)
        self.assertEqual(result.bits(), bare(PROGRAM, *CASES).bits())
        return result

    def test_observed(self):
        result = self.check(LEVEL="O0", STRATEGY="cast")
        totals = result.report["totals"]
        self.assertEqual((totals["lowered"], totals["fallbacks"], totals["kept"]), (0, 0, 0))
        self.assertEqual(totals["observed"], totals["calls"])
        row = result.rows_of(result.cases["door.sgemm"])[0]
        self.assertEqual((row["decision"], row["reason"], row["strategy"]), ("observed", "white_list", "cast"))

    def test_disabled(self):
        self.assertIsNone(self.check(ENABLED="0", STRATEGY="cast").report)

    def test_control_run(self):
        result = self.check(STRATEGY="fp32")
        self.assertEqual(result.report["totals"]["lowered"], 0)
        row = result.rows_of(result.cases["door.sgemm"])[0]
        self.assertEqual((row["decision"], row["reason"]), ("kept", "disabled"))

    def test_bad_setting(self):
        result = run(PROGRAM, "door.*", STRATEGY="quick")
        self.assertEqual(result.status, 0)
        self.assertEqual(len(result.errors.splitlines()), 1)
        self.assertIn("quick", result.errors)
        self.assertEqual(result.bits(), bare(PROGRAM, "door.*").bits())


class Choice(runner.Test):
    """What the cost model, the lists and the budget make of it."""

    def decisions(self, *cases, **variables):
        result = run(PROGRAM, *cases, GPU_MODEL="h100", **variables)
        self.assertFine(result)
        reference = bare(PROGRAM, *cases)
        found = {}
        for name, case in result.cases.items():
            asked = "tf32" if "tf32" in name else "float32"
            rows = [row for row in result.rows_of(case) if row["dtype_asked"] == asked]
            self.assertEqual(len(rows), 1, name)
            found[name] = rows[0]
            if asked == "float32":
                self.assertEqual(case["bits"] == reference.cases[name]["bits"], rows[0]["decision"] != "lowered", name)
        return found

    def reasons(self, *cases, **variables):
        return {name: (row["decision"], row["reason"]) for name, row in self.decisions(*cases, **variables).items()}

    def test_auto_lowers_the_large_and_keeps_the_small(self):
        found = self.reasons(*SIZES)
        self.assertEqual(found["size.small"], ("kept", "too_small"))
        self.assertEqual(found["size.large"], ("lowered", "white_list"))

    def test_a_handle_that_allows_tf32_is_compared_with_tf32(self):
        found = self.decisions(*SIZES)
        plain, tf32 = found["size.large"], found["size.large_tf32"]
        self.assertEqual(plain["est_lowered_ns"], tf32["est_lowered_ns"])
        self.assertLess(tf32["est_ns"], 0.6 * plain["est_ns"])
        self.assertEqual(tf32["reason"], "not_profitable")

    def test_tf32_override_of_the_vendor(self):
        result = run(PROGRAM, "mode.tf32", STRATEGY="cast", _NVIDIA_TF32_OVERRIDE="0")
        self.assertEqual(self.assertLowered(result, result.cases["mode.tf32"], "float16")["dtype_asked"], "float32")

    def test_cast_lowers_whatever_the_gain(self):
        for name, found in self.reasons(*SIZES, STRATEGY="cast").items():
            self.assertEqual(found, ("lowered", "white_list"), name)

    def test_custom_black_list_by_op(self):
        found = self.reasons("door.*", "lt.bias", STRATEGY="cast", CUSTOM_BLACK_LIST="mm")
        self.assertEqual(found["door.sgemm"], ("kept", "custom_black_list"))
        self.assertEqual(found["door.gemm_ex_64"], ("kept", "custom_black_list"))
        self.assertEqual(found["door.sgemm_strided"], ("lowered", "white_list"))
        self.assertEqual(found["lt.bias"], ("lowered", "white_list"))

    def test_custom_black_list_by_entry(self):
        found = self.reasons("door.*", STRATEGY="cast", CUSTOM_BLACK_LIST="cublasSgemm*")
        for name, reason in found.items():
            kept = name.startswith("door.sgemm")
            self.assertEqual(reason, ("kept", "custom_black_list") if kept else ("lowered", "white_list"), name)

    def test_custom_white_list(self):
        found = self.reasons("door.sgemm", "door.sgemm_strided", STRATEGY="cast", CUSTOM_WHITE_LIST="torch:bmm")
        self.assertEqual(found, {"door.sgemm": ("lowered", "white_list"),
                                 "door.sgemm_strided": ("lowered", "custom_white_list")})

    def test_a_white_list_does_not_make_small_calls_pay(self):
        self.assertEqual(self.reasons("size.small", CUSTOM_WHITE_LIST="mm")["size.small"], ("kept", "too_small"))

    def test_a_name_on_both_lists(self):
        result = run(PROGRAM, "door.sgemm", STRATEGY="cast", CUSTOM_WHITE_LIST="mm", CUSTOM_BLACK_LIST="mm")
        self.assertEqual((result.status, len(result.errors.splitlines())), (0, 1))
        self.assertEqual(result.bits(), bare(PROGRAM, "door.sgemm").bits())

    def test_memory_budget(self):
        found = self.reasons("size.large", STRATEGY="cast", MEMORY="64K")
        self.assertEqual(found["size.large"], ("fallback", "memory_budget"))


if __name__ == "__main__":
    runner.main()
