"""Programs that time their candidates before they choose: all are lowered alike, and what has to be set up is set up once."""
import unittest

import runner
from runner import bare, run

PROGRAM = "tuning"
CASES = {"gemm_ex": 40, "lt": 41}  # m
# Called while the process, the device or the signature is new; and how often its program itself calls it before us.
SET_UP = {"cuLibraryLoadData": 0, "cuMemPoolCreate": 0, "cuMemAlloc_v2": 0, "cuMemHostRegister_v2": 0,
          "cublasLtMatmulAlgoGetHeuristic": {"gemm_ex": 0, "lt": 1}}


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
        """The second call of whatever sets up would fail, and show; the first one's failure does."""
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
                                         ["scaler events were not recorded: the device maps no host memory"])
                        self.assertEqual([each["scaler_gap"] for each in usual_run.report["runs"]], [None])
                    else:
                        self.assertNotEqual(decisions(failing), usual)
                    self.assertEqual(decisions(again), usual)


if __name__ == "__main__":
    runner.main()
