"""Programs that time their candidates before they choose: all are lowered in the same way, and everything is set up
only once."""
import unittest

import runner
from runner import bare, run

PROGRAM = "tuning"
CASES = {"gemm_ex": 40, "lt": 41}  # m
# Functions that are called while the process, the device or the signature is new; and how often the program itself
# calls them before autoamp does.
SET_UP = {"cuLibraryLoadData": 0, "cuMemPoolCreate": 0, "cuMemAlloc_v2": 0, "cuMemHostRegister_v2": 0,
          "cublasLtMatmulAlgoGetHeuristic": {"gemm_ex": 0, "lt": 1}}
POOLS = "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED"


def decisions(result):
    return [(row["decision"], row["reason"], row["calls"]) for row in result.report["ops"]]


class Tuning(runner.Test):
    def test_candidates_are_lowered_alike(self):
        for name in CASES:
            for dtype in ("float16", "bfloat16"):
                with self.subTest(name, dtype=dtype):
                    reference, result = bare(PROGRAM, name), run(PROGRAM, name, STRATEGY="cast", DTYPE=dtype)
                    self.assertFine(reference)
                    self.assertFine(result)
                    case = result.cases[name]
                    for key in ("statuses", "calls", "heuristics", "heuristic_bits"):
                        self.assertEqual(case.get(key), reference.cases[name].get(key))
                    self.assertNotEqual(case["bits"], reference.cases[name]["bits"])
                    self.assertLowered(result, case, runner.Way("cast", dtype), calls=int(case["calls"]))

    def test_set_up_once(self):
        """If a function was called a second time, its failure would show; the failure of the first call does."""
        if not runner.PLACE.emulated:
            self.skipTest("needs the emulated device")
        for name in CASES:
            usual_run = run(PROGRAM, name, STRATEGY="cast")
            usual = decisions(usual_run)
            for function, before in SET_UP.items():
                first = 1 + (before if isinstance(before, int) else before[name])
                with self.subTest(name, function=function):
                    failing = run(PROGRAM, name, STRATEGY="cast", EMU_FAIL=f"{function}:{first}")
                    again = run(PROGRAM, name, STRATEGY="cast", EMU_FAIL=f"{function}:{first + 1}")
                    if function == "cuMemHostRegister_v2":  # products do not need it, scaler events do
                        self.assertEqual(decisions(failing), usual)
                        self.assertEqual(failing.report["scaler"]["events"], [])
                        self.assertEqual(len(failing.errors.splitlines()), 1)
                        self.assertIn("scaler events are not recorded", failing.errors)
                        self.assertEqual([each["scaler_gap"] for each in failing.report["runs"]],
                                         ["scaler events were not recorded: the device cannot map host memory"])
                        self.assertEqual([each["scaler_gap"] for each in usual_run.report["runs"]], [None])
                    else:
                        self.assertNotEqual(decisions(failing), usual)
                    self.assertEqual(decisions(again), usual)

    @runner.emulated_only("an attribute that is not there")
    def test_a_device_without_memory_pools(self):
        """The device is queried once, and no call asks for a pool. Products run as TF32, because they cannot be cast."""
        counted = {"_COUNTED": f"{POOLS} cuMemPoolCreate cuMemAllocFromPoolAsync"}
        for name in CASES:
            for dtype in ("float16", "bfloat16"):
                with self.subTest(name, dtype=dtype):
                    variables = {"STRATEGY": "cast", "DTYPE": dtype, "GPU_MODEL": "h100"}
                    usual = run(PROGRAM, name, **variables, **counted)
                    result = run(PROGRAM, name, **variables, **counted, EMU_FAIL=POOLS + ":1")
                    self.assertFine(result)
                    case = result.cases[name]
                    self.assertEqual([(row["decision"], row["reason"], row["strategy"], row["dtype_compute"], row["calls"])
                                      for row in result.rows_of(case)],
                                     [("lowered", "no_memory_pools", "tf32", "tf32", int(case["calls"]))])
                    self.assertEqual(result.bits(), run(PROGRAM, name, STRATEGY="tf32", DTYPE=dtype).bits())
                    self.assertEqual([case["count_" + function] for function in counted["_COUNTED"].split()], ["1", "0", "0"])
                    case = usual.cases[name]
                    self.assertEqual((case["count_" + POOLS], case["count_cuMemPoolCreate"]), ("1", "1"))
                    self.assertGreaterEqual(int(case["count_cuMemAllocFromPoolAsync"]), int(case["calls"]))
                    # Without TF32 there is no lower-precision form: the application's own call runs.
                    forbidden = run(PROGRAM, name, **variables, EMU_FAIL=POOLS + ":1", _NVIDIA_TF32_OVERRIDE="0")
                    self.assertFine(forbidden)
                    self.assertEqual(decisions(forbidden), [("fallback", "no_memory_pools", int(case["calls"]))])
                    self.assertEqual(forbidden.bits(), bare(PROGRAM, name).bits())


if __name__ == "__main__":
    runner.main()
