"""Convolutions and products that a program runs through cuDNN's graph API: lowered with exactly the rounding of the
type, unchanged if they cannot be lowered, and the program's own descriptors are not modified."""
import pathlib
import re

import runner
from runner import CAST_BFLOAT16, CAST_HALF, TF32, bare, run

PROGRAM = "dnn_graph"
PLAIN = ["forward.*", "data.*", "filter.*", "matmul.*"]
# float16 engines have no fp32 result here. bfloat16 has engines with a bfloat16 result, which is then rounded twice.
NONE = {"float16": {"data.groups", "filter.groups"}, "bfloat16": set(), "tf32": set()}
TWICE = {"data.groups", "filter.groups"}
SLACK = 3 << 20  # bytes


class Lowered(runner.Test):
    def check(self, way):
        for pattern in PLAIN:
            self.check_all(way, pattern)

    def check_all(self, way, pattern):
        reference, result = bare(PROGRAM, pattern), run(PROGRAM, pattern, **way.variables)
        for one in (reference, result):
            self.assertFine(one)
        self.assertEqual(result.cases.keys(), reference.cases.keys())
        for name, case in result.cases.items():
            own = reference.cases[name]
            with self.subTest(f"{way.precision} {name}"):
                self.assertEqual(case["status"], own["status"])
                if name in NONE[way.precision]:
                    self.assertEqual(case["bits"], own["bits"])
                    self.assertEqual([row["reason"] for row in result.rows_of(case)], ["no_fp32_output"])
                    continue
                low, high = way.eta()
                self.assertWithin(case["eta"], (low, high * 1.3 if name in TWICE else high), "eta")
                self.assertEqual(case["nonfinite"], "0")
                row = self.assertLowered(result, case, way)
                # From the notes of the plan's engine. For some graphs the first engine has no tensor cores.
                self.assertIn(row["dtype_asked"], ("float32",) if name.endswith(".fma") else ("float32", "tf32"))
                kind = "mm" if name == "matmul.odd" else "bmm" if "matmul" in name else "conv3d" if "cube" in name else "conv2d"
                self.assertEqual(row["op"], kind)
                self.assertEqual(row["library"], "cudnn")
                if name.endswith(".fma"):
                    self.assertLess(float(own["eta"]), 1e-5)

    def test_float16(self):
        self.check(CAST_HALF)

    def test_bfloat16(self):
        self.check(CAST_BFLOAT16)

    def test_what_is_told(self):
        result = run(PROGRAM, "forward.*", **CAST_HALF.variables)
        row = result.rows_of(result.cases["forward.ccc"])[0]
        self.assertIn(row["dtype_asked"], ("tf32",) if runner.PLACE.emulated else ("float32", "tf32"))
        self.assertRegex(row["shape"], r"^n\d+ c16 9x9 k24 3x3 s1 p1 d1 g1 nchw$")
        self.assertEqual(result.report["totals"]["calls"], len(result.cases))  # calls on descriptors do not count


class Kept(runner.Test):
    """Graphs of which no part is lowered run with the program's own plan, and the report contains the reason."""

    def kept(self, name, reason, way):
        reference, result = bare(PROGRAM, name), run(PROGRAM, name, **way.variables)
        for one in (reference, result):
            self.assertFine(one)
        self.assertEqual(result.bits(), reference.bits())
        self.assertLess(float(result.cases[name]["eta"]), 1e-3)
        rows = result.rows()
        self.assertEqual([(row["reason"], row["calls"]) for row in rows], [(reason, 1)])
        return result.report

    def test_backward_relu(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            self.kept("backward_relu", "graph", way)

    def test_no_type_is_recommended_that_has_no_engine(self):
        """The legacy API has no call with tanh, and no 16-bit type has an engine for it in NCHW."""
        name, advice = "tanh_planes", "bfloat16 for convolutions; channels-last tensors for graphs with nodes other than a sum and ReLU"
        for way in (CAST_HALF, CAST_BFLOAT16):
            report = self.kept(name, "no_fp32_output", way)
            self.assertEqual([row["advice"] for row in report["reasons"] if row["reason"] == "no_fp32_output"], [advice])
            for settings, wanted in (("DTYPE=bfloat16", ("fallback", "no_fp32_output")), ("DTYPE=float16", ("fallback", "no_fp32_output")),
                                     ("CUSTOM_BLACK_LIST=conv2d", ("kept", "custom_black_list"))):
                rows = run(PROGRAM, name, what_if=settings, **way.variables).rows()
                self.assertEqual([(row["decision"], row["reason"]) for row in rows], [wanted], settings)


class Tf32(runner.Test):
    def test_it(self):
        cases = ["forward.fma", "data.fma", "filter.fma"]
        result = run(PROGRAM, *cases, **TF32.variables)
        self.assertFine(result)
        for name in cases:
            self.assertWithin(result.cases[name]["eta"], TF32.eta(), name)
            self.assertLowered(result, result.cases[name], TF32)


class Captured(runner.Test):
    def test_after_an_eager_call(self):
        cases = ["captured.forward", "captured.data", "captured.filter", "captured.matmul"]
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, *cases, **way.variables)
            self.assertFine(result)
            for name in cases:
                with self.subTest(f"{way.precision} {name}"):
                    row = self.assertLowered(result, result.cases[name], way, calls=2)
                    self.assertEqual(row["captured"], 1)
                    self.assertWithin(result.cases[name]["eta"], way.eta(), "eta")

    def test_the_first_is_kept(self):
        reference, result = bare(PROGRAM, "captured.first"), run(PROGRAM, "captured.first", **CAST_HALF.variables)
        for one in (reference, result):
            self.assertFine(one)
        self.assertEqual(result.bits(), reference.bits())
        rows = result.rows_of(result.cases["captured.first"])
        self.assertEqual([(row["decision"], row["reason"], row["calls"]) for row in rows], [("fallback", "capture_unready", 1)])


class Faults(runner.Test):
    """Every function that a lowered call uses fails once: the program's own plan runs, and the trace contains the
    reason."""

    UNMAPPED = "autoamp: the device cannot map host memory; scaler events are not recorded\n"
    SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
    TABLES = [("cuda/driver.h", "AUTOAMP_DRIVER_FUNCTIONS"), ("op/vendor.h", "AUTOAMP_CUDNN_FUNCTIONS"),
              ("op/vendor.h", "AUTOAMP_CUDNN_GRAPH_FUNCTIONS")]

    def counted(self):
        for file, table in self.TABLES:
            text = re.search(rf"#define {table}\(X\)(.*?[^\\])\n\n", (self.SOURCE / file).read_text(), re.DOTALL).group(1)
            yield from re.findall(r"X\((\w+),", text)

    def check(self, name, own, whole, fail):
        result = run(PROGRAM, name, EMU_FAIL=fail, **CAST_HALF.variables)
        told = self.UNMAPPED if fail.startswith("cuMemHost") and result.errors else ""
        self.assertEqual((result.status, result.errors), (0, told))
        got = [result.cases[name][when] for when in ("first_bits", "second_bits")]
        self.assertLessEqual(set(got), {own, whole})
        self.assertEqual(sum(row["calls"] for row in result.rows(decision="lowered")), got.count(whole))
        for row in result.rows():
            if row["decision"] != "lowered":
                self.assertIn((row["decision"], row["reason"]),
                              {("fallback", "engine_failed"), ("fallback", "out_of_memory"), ("fallback", "no_fp32_output"),
                               ("fallback", "capture_unready"), ("fallback", "bad_argument"), ("kept", "unknown_graph")})

    @runner.emulated_only("functions that fail on demand")
    def test_each_once(self):
        counted = ",".join(self.counted())
        for name in ("faulted.convolution", "faulted.chain"):
            reference, plain = bare(PROGRAM, name), run(PROGRAM, name, _COUNTED=counted, **CAST_HALF.variables)
            for one in (reference, plain):
                self.assertFine(one)
            own, whole = reference.cases[name]["first_bits"], plain.cases[name]["first_bits"]
            self.assertEqual(plain.cases[name]["second_bits"], whole)
            self.assertNotEqual(own, whole)
            tried = 0
            for key, span in plain.cases[name].items():
                when, _, function = key.partition(".")
                if not function or when not in ("first", "second"):
                    continue
                start, end = map(int, span.split("-"))
                calls = range(start + 1, end + 1)
                for call in calls if len(calls) < 9 else [*calls[:3], *calls[3:-3:9], *calls[-3:]]:
                    tried += 1
                    with self.subTest(f"{name} {function}:{call}"):
                        self.check(name, own, whole, f"{function}:{call}")
            self.assertGreater(tried, 40)


class Descriptors(runner.Test):
    def test_another_one_at_the_same_address(self):
        result = run(PROGRAM, "reused", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.report["totals"]["lowered"], 8)
        self.assertEqual(len(result.rows()), 8)
        case = result.cases["reused"]
        for key, eta in case.items():
            if key.startswith("eta"):
                self.assertWithin(eta, CAST_HALF.eta(), key)

    def test_ten_thousand_leave_nothing(self):
        reference, result = bare(PROGRAM, "cycles"), run(PROGRAM, "cycles", **CAST_HALF.variables)
        for one in (reference, result):
            self.assertFine(one)
        self.assertLowered(result, result.cases["cycles"], CAST_HALF, calls=10000)
        self.assertLessEqual(int(result.cases["cycles"]["grown"]), int(reference.cases["cycles"]["grown"]) + SLACK)

    def test_threads(self):
        result = run(PROGRAM, "threads", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.report["totals"]["lowered"], 4 * 3 * 9)

    def test_a_plan_from_a_text(self):
        result = run(PROGRAM, "deserialized", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertLowered(result, result.cases["deserialized"], CAST_HALF)
        self.assertWithin(result.cases["deserialized"]["eta"], CAST_HALF.eta(), "eta")

    def test_a_pack_from_elsewhere(self):
        result = run(PROGRAM, "unseen", HOOK_DLSYM="0", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual([(row["decision"], row["reason"]) for row in result.rows()], [("kept", "unseen_graph")])

    def test_pointers_that_move(self):
        result = run(PROGRAM, "moved", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.report["totals"]["lowered"], 2)

    def test_what_the_library_refuses(self):
        reference, result = bare(PROGRAM, "refused"), run(PROGRAM, "refused", **CAST_HALF.variables)
        for one in (reference, result):
            self.assertFine(one)
        self.assertEqual(result.bits(), reference.bits())
        self.assertEqual(result.report["totals"]["lowered"], 0)


if __name__ == "__main__":
    runner.main()
