"""The levels of the list systems in programs: calls and their precision, and the effect of the custom lists."""
import unittest

import runner
from runner import ETA, bare, run

PROGRAM, CASES = "semantics", ("door.*", "lt.bias", "lt.relu_bias", "lt.batched")
# System, level, other variables, reason of the lowered products.
LEVELS = [("torch", "O1", {}, "white_list"), ("paddle", "O1", {}, "white_list"), ("paddle", "O2", {}, "white_list"),
          ("paddle", "O2", {"USE_PROMOTE": "0"}, "white_list"), ("paddle", "OD", {}, "white_list"), ("mindspore", "O1", {}, "white_list"),
          ("mindspore", "O2", {}, "unlisted"), ("mindspore", "O3", {}, "unlisted"), ("mindspore", "auto", {}, "white_list")]
# System, a black name, the ops that it keeps.
BLACK = [("paddle", "mul", {"mm"}), ("paddle", "bmm", {"bmm"}), ("paddle", "matmul_v2", {"mm", "bmm"}), ("paddle", "fused_gemm_epilogue", {"addmm"}),
         ("mindspore", "ops.MatMul", {"mm"}), ("mindspore", "nn.Dense", {"mm", "addmm"}), ("mindspore", "BatchMatMul", {"bmm"}),
         ("torch", "linear", {"mm", "addmm"}), ("torch", "ms:BatchMatMul", {"bmm"}), ("mindspore", "elementwise", None),
         ("torch", "mul", set()), ("torch", "cdist", set()), ("paddle", "elementwise_mul", set()), ("mindspore", "PReLU", set())]


class Levels(runner.Test):
    def setUp(self):
        self.bare = bare(PROGRAM, *CASES)
        self.assertFine(self.bare)

    def test_executed_precision(self):
        for system, level, others, reason in LEVELS:
            for dtype in ("float16", "bfloat16"):
                with self.subTest(system=system, level=level, dtype=dtype, **others):
                    result = run(PROGRAM, *CASES, LISTS=system, LEVEL=level, DTYPE=dtype, STRATEGY="cast", **others)
                    self.assertFine(result)
                    for name, case in result.cases.items():
                        self.assertWithin(case["eta"], ETA[dtype], name)
                        self.assertEqual([(row["decision"], row["reason"], row["dtype_compute"]) for row in result.rows_of(case)],
                                         [("lowered", reason, dtype)], name)

    def test_systems_agree_to_the_bit(self):
        for system, level, others, _ in LEVELS:
            self.assertEqual(run(PROGRAM, *CASES, LISTS=system, LEVEL=level, STRATEGY="cast", **others).bits(),
                             run(PROGRAM, *CASES, STRATEGY="cast").bits(), (system, level))

    def test_black_names_keep_what_they_reach_and_nothing_else(self):
        for system, name, kept in BLACK:
            with self.subTest(system=system, name=name):
                result = run(PROGRAM, *CASES, LISTS=system, STRATEGY="cast", CUSTOM_BLACK_LIST=name)
                if kept is None:  # no such op: off
                    self.assertIn("no op or entry point", result.errors)
                    self.assertEqual(result.bits(), self.bare.bits())
                    continue
                self.assertFine(result)
                self.assertEqual({row["op"] for row in result.rows(decision="kept", reason="custom_black_list")}, kept)
                self.assertEqual({row["op"] for row in result.rows(decision="lowered")}, {"mm", "bmm", "addmm"} - kept)
                self.assertEqual(len(result.rows()), len(result.cases))
                for case, printed in result.cases.items():
                    is_kept = result.rows_of(printed)[0]["op"] in kept
                    self.assertEqual(printed["bits"] == self.bare.cases[case]["bits"], is_kept, case)

    def test_a_white_name_lowers_nothing_else(self):
        for system, name in (("torch", "mm"), ("torch", "prelu"), ("torch", "cublasSaxpy_v2"), ("torch", "ms:BatchMatMul"), ("paddle", "mul"),
                             ("paddle", "mv"), ("mindspore", "LSTM"), ("mindspore", "cudnnConvolution*")):
            with self.subTest(system=system, name=name):
                usual, result = (run(PROGRAM, *CASES, LISTS=system, STRATEGY="cast", CUSTOM_BLACK_LIST="cublasSgemm*", **more)
                                 for more in ({}, {"CUSTOM_WHITE_LIST": name}))
                self.assertFine(result)
                self.assertEqual(result.bits(), usual.bits())
                self.assertTrue(result.rows(decision="kept"))

    def test_nothing_changes_at_O0(self):
        for system in ("torch", "paddle", "mindspore"):
            for more in ({}, {"CUSTOM_WHITE_LIST": "torch:mm,cublasGemm*", "CUSTOM_BLACK_LIST": "torch:bmm"}):
                result = run(PROGRAM, *CASES, LISTS=system, LEVEL="O0", STRATEGY="cast", **more)
                self.assertFine(result)
                self.assertEqual(result.bits(), self.bare.bits())
                self.assertEqual({row["decision"] for row in result.rows()}, {"observed"})


if __name__ == "__main__":
    runner.main()
