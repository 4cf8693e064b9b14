"""A convolutional network that learns the digits by cuDNN's legacy calls and classifies them through its graph API: as
well as in fp32, with every convolution lowered."""
import pathlib
import tempfile

import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

PROGRAM = "network"
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "tools/demo/digits.csv"
POINTS = 0.5


class Net(runner.Test):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.trained = cls.go(bare, "train", "bare")

    @classmethod
    def go(cls, how, case, weights, **variables):
        return how(PROGRAM, case, _DIGITS=str(DIGITS), _WEIGHTS=f"{cls.folder.name}/{weights}", **variables)

    def points(self, case):
        return 100 * int(case["right"]) / int(self.trained.cases["train"]["tested"])

    def test_it_learns(self):
        reference = self.trained.cases["train"]
        self.assertFine(self.trained)
        self.assertGreater(self.points(reference), 97)
        steps, forward = int(reference["steps"]), int(reference["steps"]) + int(reference["batches"])
        for way in (CAST_HALF, CAST_BFLOAT16):
            with self.subTest(way.precision):
                result = self.go(run, "train", way.precision, **way.variables)
                self.assertFine(result)
                case = result.cases["train"]
                self.assertLessEqual(abs(self.points(case) - self.points(reference)), POINTS)
                self.assertNotEqual(case["loss"], reference["loss"])  # something was rounded
                rows = result.rows(op="conv2d", eligible=True)
                self.assertEqual({(row["decision"], row["reason"], row["strategy"], row["dtype_compute"]) for row in rows},
                                 {("lowered", "white_list", "cast", way.precision)})
                calls = {}
                for row in rows:
                    calls[row["entry"]] = calls.get(row["entry"], 0) + row["calls"]
                self.assertEqual(calls, {"cudnnConvolutionForward": 3 * forward, "cudnnConvolutionBackwardFilter": 3 * steps,
                                         "cudnnConvolutionBackwardData": 2 * steps})
                totals = result.report["totals"]
                self.assertEqual((totals["lowered"], totals["fallbacks"]), (sum(calls.values()), 0))

    def test_it_classifies(self):
        reference = self.go(bare, "classify", "bare")
        self.assertFine(reference)
        own = reference.cases["classify"]
        self.assertEqual(own["right"], self.trained.cases["train"]["right"])
        for way in (CAST_HALF, CAST_BFLOAT16):
            with self.subTest(way.precision):
                result = self.go(run, "classify", "bare", **way.variables)
                self.assertFine(result)
                case = result.cases["classify"]
                others = sum(one != other for one, other in zip(case["said"], own["said"], strict=True))
                self.assertLessEqual(100 * others / len(own["said"]), POINTS)
                self.assertNotEqual(case["bits"], own["bits"])
                rows = result.rows(entry="cudnnBackendExecute")
                self.assertEqual(sorted((row["op"], row["decision"], row["reason"], row["dtype_compute"]) for row in rows),
                                 [(op, "lowered", "white_list", way.precision) for op in ("conv2d", "conv2d", "mm")])


if __name__ == "__main__":
    runner.main()
