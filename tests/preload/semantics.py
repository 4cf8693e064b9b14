"""Products in every form that an application may request: lowered with the vendor's semantics, or unchanged."""
import tempfile

import runner
from runner import (CAST_BFLOAT16, CAST_HALF, LIBRARY_BFLOAT16, LIBRARY_HALF, TF32, TF32_AS_TYPE, bare, run)

PROGRAM = "semantics"
CASES = ("[!s]*", "s[!i]*")  # all except size.* and sized.*
SIZES = ("size.*",)

# Cases that every strategy keeps, and the reason. Everything else is lowered.
KEPT = {
    "scalars.alpha_zero_nan": "zero_size", "zero.m": "zero_size", "zero.n": "zero_size", "zero.k": "zero_size",
    "zero.k_beta_zero": "zero_size", "zero.batch": "zero_size",
    "arrays.none": "zero_size", "arrays.pedantic": "pedantic", "grouped.none": "zero_size", "grouped.pedantic": "pedantic",
    "grouped.mixed": "grouped", "grouped.mixed_64": "grouped",
    "mode.pedantic": "pedantic", "mode.pedantic_ex": "pedantic", "mode.pedantic_compute": "pedantic",
    "mode.pedantic_strided": "pedantic", "mode.pedantic_lt": "pedantic",
    "mode.emulated": "emulated_fp32", "mode.emulated_compute": "emulated_fp32", "mode.emulated_lt": "emulated_fp32",
}
ON_TF32 = {"mode.tf32", "mode.tf32_compute", "mode.tf32_lt", "grouped.tf32"}
CAUSES = {"mode.pedantic": "CUBLAS_PEDANTIC_MATH", "mode.pedantic_compute": "CUBLAS_COMPUTE_32F_PEDANTIC",
          "mode.emulated": "CUBLAS_FP32_EMULATED_BF16X9_MATH", "mode.emulated_compute": "CUBLAS_COMPUTE_32F_EMULATED_16BFX9",
          "mode.tf32": "CUBLAS_TF32_TENSOR_OP_MATH", "mode.tf32_compute": "CUBLAS_COMPUTE_32F_FAST_TF32"}
SUMMED = {"256", "512"}  # epilogues that sum an operand: with cast, an autoamp kernel computes the sum
# Epilogues of GELU and its gradient: the approximation of tanh has a larger error than fp32.
GELU = {"32", "36", "160", "164", "192", "208"}
FP32_ERROR, GELU_ERROR = 1e-6, 1e-5
# cuBLASLt sums only an A that is not transposed and a B that is.
REFUSED_BY_CUBLASLT = {"beside.bgrada_transposed", "beside.bgrada_shared", "beside.bgradb", "beside.bgradb_by_rows", "any.39"}
# m of the cases that make several calls, and how many are lowered (per device).
INVALID_ALGORITHMS = 12  # calls of state.bad_arguments that only the vendor may refuse
CALLS = {301: [5, 1], 302: [1], 303: [1], 304: [1], 305: [1], 306: [2], 307: [3], 308: [3], 309: [1], 310: [16], 311: [16], 312: [32],
         313: [8, 8], 314: [2, 2], 315: [6]}


class Lowered:
    way = None

    def setUp(self):
        self.bare = bare(PROGRAM, *CASES)
        self.run = run(PROGRAM, *CASES, **self.way.variables)
        self.refused = {name for name, case in self.bare.cases.items() if case.get("status") == "15"}
        self.kept = KEPT | dict.fromkeys(REFUSED_BY_CUBLASLT, "unsupported")
        if self.way not in (CAST_HALF, CAST_BFLOAT16):  # arrays of pointers are lowered only by cast
            self.kept |= {name: "unsupported" for name, case in self.run.cases.items() if name not in KEPT and
                          (case.get("entry", "").removesuffix("_64") in
                           ("cublasSgemmBatched", "cublasGemmBatchedEx", "cublasSgemmGroupedBatched", "cublasGemmGroupedBatchedEx")
                           or case.get("arrays") == "1" or case.get("epilogue") in SUMMED)}
        if self.way.precision == "tf32":
            self.kept.update(dict.fromkeys(ON_TF32, "already_low"))

    def test_programs_are_content(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)
        self.assertEqual(self.run.cases.keys(), self.bare.cases.keys())

    def test_reasons_name_the_mode_or_feature_behind_them(self):
        for row in self.run.report["ops"]:
            named = row["reason"] in ("already_low", "pedantic", "emulated_fp32", "unsupported")
            self.assertEqual(row["cause"] is not None, named and row["decision"] != "fallback", row)
        for name, cause in CAUSES.items():
            if name in self.kept:
                self.assertEqual({row["cause"] for row in self.run.rows_of(self.run.cases[name])}, {cause}, name)

    def test_statuses_are_the_vendors(self):
        if runner.PLACE.emulated:
            self.assertEqual(self.refused, REFUSED_BY_CUBLASLT)
        others = self.refused - REFUSED_BY_CUBLASLT  # a lowered form may exist
        for key in ("status", "statuses"):
            self.assertEqual(*({name: case.get(key) for name, case in each.cases.items() if name not in others}
                               for each in (self.run, self.bare)))

    def test_kept_calls_are_the_vendors_to_the_bit(self):
        for name, reason in self.kept.items():
            with self.subTest(name):
                case = self.run.cases[name]
                self.assertEqual(case["bits"], self.bare.cases[name]["bits"])
                rows = self.run.rows_of(case)
                self.assertEqual([(row["decision"], row["reason"], row["calls"]) for row in rows], [("kept", reason, 1)])
                self.assertEqual(case.get("beside_bits"), self.bare.cases[name].get("beside_bits"))

    def test_lowered_calls_are_as_exact_as_the_type(self):
        rounded = 0
        for name, case in self.run.cases.items():
            if name in self.kept or name in self.refused or "eta" not in case:
                continue
            with self.subTest(name):
                is_rounded = not self.way.is_permission() or float(case["eta"]) > GELU_ERROR
                rounded += is_rounded
                bits = case["bits"], self.bare.cases[name]["bits"]
                if name == "scalars.device_alpha_zero":
                    self.assertEqual(*bits)
                    continue
                if name == "alias.same_operands":  # the squares on the diagonal are large and have the same sign
                    interval = [end * factor for end, factor in zip(self.way.eta(), (0.5, 1))]
                    self.assertWithin(case["eta"], interval, "eta")
                else:
                    self.assertWithin(case["eta"], self.way.eta(), "eta")
                if case.get("epilogue") in SUMMED:
                    self.assertLess(float(case["beside"]), 1e-6)  # sums of the operand that the application passed
                elif "beside" in case:
                    low, high = self.way.eta() if "aux" not in name or "gelu" in name else (0, 0)  # a mask is that of D
                    self.assertWithin(case["beside"], (0.7 * low, 1.4 * high), "beside")
                if is_rounded and (name not in ON_TF32 or self.way is CAST_BFLOAT16):  # same rounding: may be equal
                    self.assertNotEqual(*bits)
                if "entry" in case and int(case["m"]) not in CALLS:
                    row = self.assertLowered(self.run, case, self.way)
                    self.assertEqual(row["dtype_asked"], "tf32" if name in ON_TF32 else "float32")
        self.assertGreater(rounded, 60)

    def test_bare_runs_are_exact(self):
        for name, case in self.bare.cases.items():
            if "eta" in case and name not in ON_TF32:
                with self.subTest(name):
                    is_approximate = case.get("epilogue") in GELU and not runner.PLACE.emulated
                    self.assertLess(float(case["eta"]), GELU_ERROR if is_approximate else FP32_ERROR)

    def test_every_call_of_the_longer_cases_is_lowered(self):
        for m, calls in CALLS.items():
            if m in (313, 314) and "skipped" in self.run.cases["devices.two"]:
                continue
            with self.subTest(m=m):
                self.assertEqual([row["calls"] for row in self.run.rows(m=m, decision="lowered")], calls)

    def test_nothing_falls_back(self):
        self.assertEqual({row["reason"] for row in self.run.rows(decision="fallback")}, {"bad_argument"})
        self.assertEqual(self.run.report["totals"]["fallbacks"], INVALID_ALGORITHMS)

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
    way = CAST_HALF


class LoweredBfloat16(Lowered, runner.Test):
    way = CAST_BFLOAT16


class LoweredTf32(Lowered, runner.Test):
    way = TF32

    def test_as_a_type_it_is_the_same(self):
        self.assertEqual(run(PROGRAM, *CASES, **TF32_AS_TYPE.variables).bits(), self.run.bits())

    @runner.emulated_only("other algorithms")
    def test_bits_are_those_of_a_handle_that_allows_it(self):
        lowered, own = run(PROGRAM, *SIZES, **self.way.variables), bare(PROGRAM, *SIZES)
        self.assertEqual(lowered.cases["size.large"]["bits"], own.cases["size.large_tf32"]["bits"])
        self.assertNotEqual(own.cases["size.large"]["bits"], own.cases["size.large_tf32"]["bits"])


class LoweredLibraryBfloat16(Lowered, runner.Test):
    way = LIBRARY_BFLOAT16


class LoweredLibraryHalf(Lowered, runner.Test):
    way = LIBRARY_HALF


class Untouched(runner.Test):
    """Calls that are not lowered give the same results as without autoamp."""

    @runner.emulated_only("cuBLASLt of a GPU dereferences them")
    def test_null_arguments(self):
        name = "sized.null_arguments"
        result = run(PROGRAM, name, **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.cases[name]["statuses"], bare(PROGRAM, name).cases[name]["statuses"])

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

    def test_structured_products_whoever_names_them(self):
        for variables in ({"STRATEGY": "tf32"}, {"DTYPE": "tf32"}, {"STRATEGY": "cast"}):
            result = run(PROGRAM, "state.structured", CUSTOM_WHITE_LIST="cublasSs*,cublasStrmm*", **variables)
            self.assertFine(result)
            self.assertEqual(result.bits(), bare(PROGRAM, "state.structured").bits())
            reasons = {"cublasSsyrk_v2": "rank_update", "cublasSsyrkx": "rank_update", "cublasSsyr2k_v2_64": "rank_update",
                       "cublasSsymm_v2": "symmetric", "cublasStrmm_v2": "triangular"}
            self.assertEqual({row["entry"]: (row["decision"], row["reason"]) for row in result.report["ops"]},
                             {entry: ("kept", reason) for entry, reason in reasons.items()})

    def test_bad_setting(self):
        result = run(PROGRAM, "door.*", STRATEGY="quick")
        self.assertEqual(result.status, 0)
        self.assertEqual(len(result.errors.splitlines()), 1)
        self.assertIn("quick", result.errors)
        self.assertEqual(result.bits(), bare(PROGRAM, "door.*").bits())


class Choice(runner.Test):
    """Effects of the cost model, the lists and the budget."""

    def decisions(self, *cases, **variables):
        result = run(PROGRAM, *cases, **{"GPU_MODEL": "h100", **variables})
        self.assertFine(result)
        reference = bare(PROGRAM, *cases)
        found = {}
        for name, case in result.cases.items():
            asked = "tf32" if "tf32" in name else "float32"
            rows = [row for row in result.rows_of(case) if row["dtype_asked"] == asked]
            self.assertEqual(len(rows), 1, name)
            found[name] = rows[0]
            may_be_fp32 = rows[0]["strategy"] == "tf32" and not runner.PLACE.emulated
            if asked == "float32" and not may_be_fp32:
                self.assertEqual(case["bits"] == reference.cases[name]["bits"], rows[0]["decision"] != "lowered", name)
        return found

    def reasons(self, *cases, **variables):
        return {name: (row["decision"], row["reason"]) for name, row in self.decisions(*cases, **variables).items()}

    def test_auto_takes_what_the_model_finds_fastest(self):
        """By GPU and type: the decisions for 256^3, for 1024^3, and for the latter if TF32 is already allowed."""
        kept, small, tf32 = ("fp32", "not_profitable"), ("fp32", "too_small"), ("tf32", "white_list")
        cast, low = ("cast", "white_list"), ("fp32", "already_low")
        for gpu, dtype, expected in (("h100", "float16", (tf32, tf32, kept)), ("h100", "bfloat16", (tf32, cast, cast)),
                                     ("h100", "tf32", (tf32, tf32, low)), ("a100", "float16", (tf32, cast, cast)),
                                     ("a100", "bfloat16", (tf32, cast, cast)),
                                     ("rtx4090", "float16", (small, cast, cast)),
                                     ("rtx4090", "bfloat16", (kept, cast, cast))):
            with self.subTest(gpu=gpu, dtype=dtype):
                found = self.decisions(*SIZES, GPU_MODEL=gpu, DTYPE=dtype)
                rows = [found[name] for name in ("size.middle", "size.large", "size.large_tf32")]
                self.assertEqual(tuple((row["strategy"], row["reason"]) for row in rows), expected)
                for row in rows:
                    compute = {"fp32": row["dtype_asked"], "tf32": "tf32"}.get(row["strategy"], dtype)
                    self.assertEqual(row["dtype_compute"], compute)
                    self.assertEqual(row["decision"], "kept" if row["strategy"] == "fp32" else "lowered")
                    gains = row["est_ns"] >= max(1.05 * row["est_lowered_ns"], row["est_lowered_ns"] + 1000)
                    self.assertEqual(gains, row["decision"] == "lowered")

    def test_auto_keeps_the_small(self):
        self.assertEqual(self.reasons("size.small")["size.small"], ("kept", "too_small"))

    def test_a_handle_that_allows_tf32_is_compared_with_tf32(self):
        found = self.decisions(*SIZES)
        plain, tf32 = found["size.large"], found["size.large_tf32"]
        self.assertEqual(plain["est_lowered_ns"], tf32["est_ns"])
        self.assertLess(tf32["est_ns"], 0.6 * plain["est_ns"])
        self.assertEqual(tf32["reason"], "not_profitable")

    def test_tf32_override_of_the_vendor(self):
        result = run(PROGRAM, "mode.tf32", STRATEGY="cast", _NVIDIA_TF32_OVERRIDE="0")
        self.assertEqual(self.assertLowered(result, result.cases["mode.tf32"], CAST_HALF)["dtype_asked"], "float32")
        for way in (TF32, TF32_AS_TYPE):
            result = run(PROGRAM, "door.sgemm", _NVIDIA_TF32_OVERRIDE="0", **way.variables)
            row = result.rows_of(result.cases["door.sgemm"])[0]
            self.assertEqual((row["decision"], row["reason"], row["dtype_compute"]), ("kept", "disabled", "float32"))
            self.assertEqual(result.bits(), bare(PROGRAM, "door.sgemm").bits())

    def test_named_strategies_lower_whatever_the_gain(self):
        for way in (TF32, LIBRARY_BFLOAT16, LIBRARY_HALF):
            with self.subTest(way.strategy, precision=way.precision):
                found = self.decisions("size.small", **way.variables)["size.small"]
                self.assertEqual((found["decision"], found["strategy"]), ("lowered", way.strategy))
                self.assertEqual(found["est_ns"], self.decisions("size.small", STRATEGY="cast")["size.small"]["est_ns"])

    def test_a_strategy_that_does_not_go_with_the_type(self):
        for variables in ({"STRATEGY": "library"}, {"STRATEGY": "library", "DTYPE": "tf32"},
                          {"STRATEGY": "cast", "DTYPE": "tf32"}):
            with self.subTest(**variables):
                result = run(PROGRAM, "door.sgemm", **variables)
                self.assertEqual((result.status, len(result.errors.splitlines()), result.report), (0, 1, None))
                self.assertIn("AUTOAMP_STRATEGY=" + variables["STRATEGY"], result.errors)
                self.assertEqual(result.bits(), bare(PROGRAM, "door.sgemm").bits())

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
        self.assertEqual(self.reasons("size.middle", CUSTOM_WHITE_LIST="mm")["size.middle"], ("lowered", "custom_white_list"))

    def test_a_name_on_both_lists(self):
        result = run(PROGRAM, "door.sgemm", STRATEGY="cast", CUSTOM_WHITE_LIST="mm", CUSTOM_BLACK_LIST="mm")
        self.assertEqual((result.status, len(result.errors.splitlines())), (0, 1))
        self.assertEqual(result.bits(), bare(PROGRAM, "door.sgemm").bits())

    def test_memory_budget(self):
        """A call that cannot be cast for lack of memory runs by TF32, which needs none."""
        for dtype in ("float16", "bfloat16"):
            with self.subTest(dtype):
                short = dict(STRATEGY="cast", DTYPE=dtype, MEMORY="64K")
                row = self.decisions("size.large", **short)["size.large"]
                self.assertEqual((row["decision"], row["reason"], row["calls"]), ("lowered", "memory_budget", 1))
                self.assertEqual((row["strategy"], row["dtype_compute"]), ("tf32", "tf32"))
                self.assertLess(row["est_lowered_ns"], row["est_ns"])
                result = run(PROGRAM, "size.large", GPU_MODEL="h100", **short)
                named = run(PROGRAM, "size.large", GPU_MODEL="h100", STRATEGY="tf32", DTYPE=dtype)
                self.assertEqual(result.bits(), named.bits())
                self.assertEqual((result.report["totals"]["lowered"], result.report["totals"]["fallbacks"]), (1, 0))
                self.assertEqual(row["est_lowered_ns"], named.rows(decision="lowered")[0]["est_lowered_ns"])

    def test_every_entry_point_has_a_substitute(self):
        found = self.decisions("door.*", STRATEGY="cast", MEMORY="1")
        for name, row in found.items():
            is_array = "batched" in name and "strided" not in name  # only the device knows their operands
            self.assertEqual((row["decision"], row["reason"], row["strategy"]),
                             ("fallback" if is_array else "lowered", "memory_budget", "fp32" if is_array else "tf32"), name)

    def test_memory_budget_where_the_policy_allows_nothing_else(self):
        self.assertEqual(self.reasons("size.large", STRATEGY="cast", MEMORY="64K", _NVIDIA_TF32_OVERRIDE="0")["size.large"],
                         ("fallback", "memory_budget"))
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[rule]]\nprecision = "float16"\n')  # a rule overrides the cost model
            file.flush()
            self.assertEqual(self.reasons("size.large", MEMORY="64K", CONFIG=file.name)["size.large"],
                             ("fallback", "memory_budget"))

    @runner.emulated_only("other workspaces")
    def test_the_applications_operands_need_no_memory(self):
        for way in (TF32, LIBRARY_BFLOAT16, LIBRARY_HALF):
            with self.subTest(way.strategy, precision=way.precision):
                found = self.reasons("size.large", MEMORY="1", **way.variables)
                self.assertEqual(found["size.large"], ("lowered", "white_list"))
                # A long k is split, and the parts are in a workspace: without it another algorithm runs.
                for memory in ("1", "1G"):
                    self.assertEqual(self.reasons("size.long", MEMORY=memory, **way.variables)["size.long"],
                                     ("lowered", "white_list"))


if __name__ == "__main__":
    runner.main()
