"""Calls of driver functions that a lowered product makes, one by one: more calls are a regression."""
import runner
from runner import CAST_BFLOAT16, CAST_HALF, TF32, bare, run

PROGRAM = "driver_calls"
# Without the launches. The first one finds the device of the call, and cuCtxGetId the context.
ALWAYS = {"cuCtxGetDevice": 1, "cuThreadExchangeStreamCaptureMode": 2, "cuStreamIsCapturing": 1}
MEMORY = {"cuCtxGetId": 1, "cuStreamGetId": 1, "cuMemPoolGetAttribute": 1, "cuMemAllocFromPoolAsync": 1, "cuMemFreeAsync": 1}
LAUNCHES = {"gemm": 0, "gemm.null_stream": 0, "lt": 0, "batch": 1, "batch.device_scalars": 1}  # the scatter
WAYS = (CAST_HALF, CAST_BFLOAT16)
# The copy of a weight: the identity of its memory, and the end of its use.
COPY = {"cuPointerGetAttribute": 1, "cuEventRecord": 1}


class DriverCalls(runner.Test):
    def expected(self, case, way, weights="off"):
        calls = ALWAYS | MEMORY | {"cuLaunchKernel": 1 + LAUNCHES.get(case, 0)}
        is_observed = case == "weight.observed"
        has_copy = case == "weight" and weights != "off"
        if way is CAST_HALF or is_observed or has_copy and weights == "checked":
            calls["cuLaunchKernelEx"] = 1  # settle
        if has_copy:
            calls |= COPY
        if case == "gemm.null_stream":  # it is that of the current context
            del calls["cuStreamGetId"]
        return calls

    def made(self, case):
        return {key: int(value) for key, value in case.items() if key.startswith("cu")}

    @runner.emulated_only("it counts")
    def test_the_library_itself_makes_none(self):
        result = bare(PROGRAM)
        self.assertFine(result)
        for name in (*LAUNCHES, "weight", "weight.observed"):
            self.assertEqual(self.made(result.cases[name]), {}, name)

    @runner.emulated_only("it counts")
    def test_a_cast_product(self):
        for way in WAYS:
            result = run(PROGRAM, *LAUNCHES, **way.variables)
            self.assertFine(result)
            for name, case in result.cases.items():
                with self.subTest(name, precision=way.precision):
                    self.assertLowered(result, case, way, calls=28)
                    expected = self.expected(name, way)
                    self.assertEqual(self.made(case), expected)
                    self.assertEqual(int(case["total"]), sum(expected.values()))

    @runner.emulated_only("it counts")
    def test_a_weight(self):
        """In float16 a kept copy adds no launch. In bfloat16 `checked` adds one, and `frozen` adds none."""
        launches = {}
        for way in WAYS:
            for weights in ("off", "checked", "frozen"):
                cases = ("weight", "weight.observed") if weights != "off" else ("weight",)
                result = run(PROGRAM, *cases, **way.variables, WEIGHTS=weights)
                self.assertFine(result)
                for name in cases:
                    with self.subTest(name, precision=way.precision, weights=weights):
                        case = result.cases[name]
                        row = self.assertLowered(result, case, way, calls=28 if name == "weight" else 12)
                        if name == "weight" and weights != "off":
                            # Four calls are observed and the fifth makes the copy.
                            self.assertEqual(row["weights"]["served"], 28 - 5)
                        made = self.made(case)
                        self.assertEqual(made, self.expected(name, way, weights))
                        launches[way.precision, name, weights] = made["cuLaunchKernel"] + made.get("cuLaunchKernelEx", 0)
        self.assertEqual([launches["float16", "weight", weights] for weights in ("off", "checked", "frozen")], [2, 2, 2])
        self.assertEqual([launches["bfloat16", "weight", weights] for weights in ("off", "checked", "frozen")], [1, 2, 1])
        self.assertEqual({count for (_, name, _), count in launches.items() if name == "weight.observed"}, {2})

    @runner.emulated_only("it counts")
    def test_a_product_that_is_read_in_place(self):
        result = run(PROGRAM, "gemm", **TF32.variables)
        self.assertFine(result)
        self.assertEqual({key for key in self.made(result.cases["gemm"])} - set(MEMORY), set(ALWAYS))


if __name__ == "__main__":
    runner.main()
