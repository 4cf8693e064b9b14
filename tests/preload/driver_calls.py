"""Calls of driver functions that a lowered product makes, one by one: more calls are a regression."""
import runner
from runner import CAST_BFLOAT16, CAST_HALF, TF32, bare, run

PROGRAM = "driver_calls"
# Without the launches. The first one finds the device of the call, and cuCtxGetId the context.
ALWAYS = {"cuCtxGetDevice": 1, "cuThreadExchangeStreamCaptureMode": 2, "cuStreamIsCapturing": 1}
MEMORY = {"cuCtxGetId": 1, "cuStreamGetId": 1, "cuMemPoolGetAttribute": 1, "cuMemAllocFromPoolAsync": 1, "cuMemFreeAsync": 1}
LAUNCHES = {"gemm": 0, "gemm.null_stream": 0, "lt": 0, "batch": 1, "batch.device_scalars": 1}  # the scatter


class DriverCalls(runner.Test):
    def expected(self, case, way):
        calls = ALWAYS | MEMORY | {"cuLaunchKernel": 1 + LAUNCHES[case]}
        if way is CAST_HALF:
            calls["cuLaunchKernelEx"] = 1  # settle
        if case == "gemm.null_stream":  # it is that of the current context
            del calls["cuStreamGetId"]
        return calls

    def made(self, case):
        return {key: int(value) for key, value in case.items() if key.startswith("cu")}

    @runner.emulated_only("it counts")
    def test_the_library_itself_makes_none(self):
        result = bare(PROGRAM)
        self.assertFine(result)
        for name in LAUNCHES:
            self.assertEqual(self.made(result.cases[name]), {}, name)

    @runner.emulated_only("it counts")
    def test_a_cast_product(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, **way.variables)
            self.assertFine(result)
            for name, case in result.cases.items():
                with self.subTest(name, precision=way.precision):
                    self.assertLowered(result, case, way, calls=28)
                    expected = self.expected(name, way)
                    self.assertEqual(self.made(case), expected)
                    self.assertEqual(int(case["total"]), sum(expected.values()))

    @runner.emulated_only("it counts")
    def test_a_product_that_is_read_in_place(self):
        result = run(PROGRAM, "gemm", **TF32.variables)
        self.assertFine(result)
        self.assertEqual({key for key in self.made(result.cases["gemm"])} - set(MEMORY), set(ALWAYS))


if __name__ == "__main__":
    runner.main()
