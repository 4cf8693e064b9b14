"""Legacy cuDNN convolutions under the library: as exact as the type allows in every direction and layout for which the
vendor has an engine; unchanged otherwise."""
import contextlib
import fnmatch
import math
import tempfile

import runner
from runner import CAST_BFLOAT16, CAST_HALF, ETA, TF32, bare, run

PROGRAM = "convolutions"
# A bfloat16 result is rounded once more.
NARROW = (ETA["bfloat16"][0], math.hypot(ETA["bfloat16"][1], 2**-9))
TABLE = ("wide.*", "narrow.*", "fused.*")
# The `narrow` cases for which float16 has an engine: forward, if channels of a group are even or there are no groups.
FORWARD = {"narrow.groups.forward", "narrow.groups_c3.forward", "narrow.3d_strided.forward",
           "narrow.strided_dilated.forward", "narrow.3d_strided.filter", "narrow.strided_dilated.filter"}
# The vendor refuses an output gradient with gaps or another layout than the filter, and a flipped 3-D filter whose channels
# are last.
REFUSED = {"wide.nhwc_to_nchw.data", "wide.gaps.data", "wide.nhwc_to_nchw.filter", "wide.nchw_to_nhwc.filter", "wide.gaps.filter"}
# Cases in which the result does not show whether it was bfloat16.
FOLLOWED = ("*scaled*", "*added*", "fused.*")


def is_any(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


class Table:
    way = None

    def setUp(self):
        self.bare = bare(PROGRAM, *TABLE)
        self.run = run(PROGRAM, *TABLE, **self.way.variables)
        self.served = {name: case for name, case in self.run.cases.items() if case["status"] == "0"}

    def is_wide(self, name):
        return not name.startswith("narrow.") or name in FORWARD

    def test_as_bare(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)
        self.assertGreater(len(self.served), 80)
        if runner.PLACE.emulated:  # other libraries may support more or less
            self.assertEqual(self.run.cases.keys() - self.served.keys(), REFUSED)
        for name, case in self.run.cases.items():
            self.assertEqual(case["status"], self.bare.cases[name]["status"], name)
            self.assertEqual(case["status"] == "0" or case["bits"] == self.bare.cases[name]["bits"], True, name)
        for name, case in self.served.items():
            self.assertEqual(case["nonfinite"], "0", name)
            self.assertLess(float(case["lost"]), 0.05, name)

    def test_algorithms_and_memory_are_the_vendors_to_refuse(self):
        own, result = bare(PROGRAM, "algorithms.*"), run(PROGRAM, "algorithms.*", **self.way.variables)
        self.assertFine(own)
        self.assertFine(result)
        self.assertEqual(len(result.cases), 4)
        for name, case in result.cases.items():
            statuses = case["statuses"].split(",")
            self.assertEqual(statuses, own.cases[name]["statuses"].split(","), name)
            self.assertGreater(len(set(statuses)), 1, name)
        lowered = sum(row["calls"] for row in result.rows() if row["decision"] == "lowered")
        # autoamp asks the query, which refuses some calls that are served.
        accepted = [query for case in result.cases.values() for query, status in zip(
            case["query_statuses"].split(","), case["statuses"].split(","), strict=True) if (query, status) == ("0", "0")]
        self.assertEqual(lowered, len(accepted))

    def test_what_is_refused_of_the_fused_call(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[rule]]\nop = "conv2d"\nprecision = "float32"\n')
            file.flush()
            own = bare(PROGRAM, "refused").cases
            self.assertNotIn("0", [value for key, value in own["refused"].items() if key != "ok"])
            for variables in (self.way.variables, {"CONFIG": file.name}, {"STRATEGY": "library", "SCALING": "off"}):
                result = run(PROGRAM, "refused", **variables)
                self.assertFine(result)
                self.assertEqual(result.cases, own)

    def test_bits_are_its_own(self):
        again = run(PROGRAM, *TABLE, **self.way.variables, LOG="warn")
        self.assertEqual(again.bits(), self.run.bits())


class Half(Table, runner.Test):
    way = CAST_HALF

    def test_errors(self):
        for name, case in self.served.items():
            with self.subTest(name):
                if self.is_wide(name):
                    self.assertWithin(case["eta"], ETA["float16"], "eta")
                else:
                    self.assertEqual(case["bits"], self.bare.cases[name]["bits"])

    def test_decisions(self):
        decided = {(row["decision"], row["reason"]): 0 for row in self.run.report["ops"]}
        for row in self.run.report["ops"]:
            decided[row["decision"], row["reason"]] += row["calls"]
        # The first call of a geometry, from any row, has built its plan.
        built = {row["decision"] for row in self.run.report["ops"] if row["plan_ns"] is not None and row["plan_ns"] > 1e4}
        self.assertEqual(built, {"lowered"})
        lowered = sum(self.is_wide(name) for name in self.served)
        wanted = {("lowered", "white_list"): lowered, ("kept", "no_fp32_output"): len(self.served) - lowered,
                  ("fallback", "bad_argument"): len(self.run.cases) - len(self.served)}
        self.assertEqual(decided, {key: calls for key, calls in wanted.items() if calls})

    def test_without_scaling_large_values_overflow(self):
        unscaled = run(PROGRAM, "wide.large.*", **CAST_HALF.variables, SCALING="off")
        self.assertEqual(len(unscaled.cases), 3)
        for case in unscaled.cases.values():
            self.assertNotEqual(case["nonfinite"], "0")


class Bfloat16(Table, runner.Test):
    way = CAST_BFLOAT16

    def test_errors(self):
        for name, case in self.served.items():
            with self.subTest(name):
                is_narrow = not self.is_wide(name)
                self.assertWithin(case["eta"], NARROW if is_narrow else ETA["bfloat16"], "eta")
                if not is_any(name, FOLLOWED):
                    self.assertEqual(case["is_narrow"], str(int(is_narrow)))

    def test_the_faster_form(self):
        """A large result that has to be copied is bfloat16, one that is written in place is fp32."""
        result = run(PROGRAM, "preferred.*", GPU_MODEL="rtx4090", **self.way.variables)
        self.assertFine(result)
        for name, wanted, eta in (("nchw", "1", (2.4e-3, 3e-3)), ("nhwc", "0", (2e-3, 2.5e-3))):
            self.assertEqual(result.cases["preferred." + name]["is_narrow"], wanted, name)
            self.assertWithin(result.cases["preferred." + name]["eta"], eta, name)

    def test_all_are_lowered(self):
        self.assertEqual(self.run.report["totals"]["lowered"], len(self.served))


class Others(runner.Test):
    def test_capture(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            with self.subTest(way.precision):
                result = run(PROGRAM, "capture.*", **way.variables)
                self.assertFine(result)
                totals = result.report["totals"]
                self.assertEqual(totals["lowered"], totals["calls"])

    def test_captured_before_its_plan_is_built(self):
        result = run(PROGRAM, "capture_first", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual([(row["decision"], row["reason"]) for row in result.report["ops"]],
                         [("fallback", "capture_unready")])

    def test_threads(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "threads", **way.variables)
            self.assertFine(result)
            self.assertEqual(result.report["totals"]["lowered"], 40)

    def test_memory_stays_flat(self):
        result = run(PROGRAM, "memory", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual(result.report["totals"]["lowered"], 10500)
        self.assertEqual(len(result.report["ops"]), 3)
        self.assertLess(int(result.cases["memory"]["grown"]), 4096)
        self.assertEqual(result.cases["memory"]["device"], "0")

    def test_what_the_model_finds_too_small_is_kept(self):
        result = run(PROGRAM, "wide.nchw.*")
        self.assertEqual({row["decision"] for row in result.report["ops"]}, {"kept"})
        self.assertEqual(result.bits(), bare(PROGRAM, "wide.nchw.*").bits())


FP32 = (0, 2e-6)
ROUNDED = {"default": "tf32", "tensor_op": "tf32", "conversion": "float16", "fma": "float32"}  # type that the application requests
AS_ASKED = {"conversion": ("kept", "already_low"), "fma": ("kept", "pedantic")}


class MathTypes(runner.Test):
    """Every math type that a descriptor can have, under every strategy."""

    def check(self, permitted, precision, raised=None, **variables):
        """`permitted`: the result for math types that permit TF32; `raised`: for the one that permits float16."""
        result = run(PROGRAM, "math.*", **variables)
        self.assertFine(result)
        self.assertEqual(len(result.cases), 16)
        reference = bare(PROGRAM, "math.*")
        wanted = {math: AS_ASKED.get(math, permitted) for math in ROUNDED}
        wanted["conversion"] = raised or wanted["conversion"]
        for name, case in result.cases.items():
            math = name.split(".")[1]
            with self.subTest(name, **variables):
                if wanted[math][0] == "kept":
                    self.assertEqual(case["bits"], reference.cases[name]["bits"])
                else:
                    low, high = FP32 if precision == "float32" else ETA[precision]
                    # The vendor may use an engine without tensor cores.
                    is_choice = variables.get("STRATEGY") == "library" and not runner.PLACE.emulated
                    self.assertWithin(case["eta"], (0 if is_choice else low, high), "eta")
        told = {}
        for row in result.rows():
            key = row["decision"], row["reason"], row["dtype_compute"]
            told[key] = told.get(key, 0) + row["calls"]
        expected = {}
        for math, (decision, reason) in wanted.items():
            key = decision, reason, ROUNDED[math] if decision == "kept" else precision
            expected[key] = expected.get(key, 0) + 4
        self.assertEqual(told, expected)
        return result

    def test_cast(self):
        self.check(("lowered", "white_list"), "float16", **CAST_HALF.variables)

    def test_tf32_is_permitted_by_default(self):
        result = self.check(("kept", "already_low"), "tf32", **TF32.variables)
        self.assertEqual({row["cause"] for row in result.rows(reason="already_low")},
                         {"CUDNN_DEFAULT_MATH, which allows TF32", "CUDNN_TENSOR_OP_MATH", "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION"})
        self.assertEqual({row["cause"] for row in result.rows(reason="pedantic")}, {"CUDNN_FMA_MATH"})

    def test_library_narrows_to_float16_alone(self):
        self.check(("lowered", "white_list"), "float16", STRATEGY="library", SCALING="off")
        result = self.check(("kept", "unsupported"), "bfloat16", STRATEGY="library", DTYPE="bfloat16")
        self.assertEqual({row["cause"] for row in result.rows(reason="unsupported")}, {"a math type that cuDNN does not support for this operation"})

    @contextlib.contextmanager
    def rule_of_float32(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[rule]]\nop = "conv2d"\nprecision = "float32"\n')
            file.flush()
            yield file

    @runner.emulated_only("functions that fail on demand")
    def test_what_fails_on_the_way_is_the_application_s_own_call(self):
        case = "math.default.forward"
        own = bare(PROGRAM, case).bits()
        with self.rule_of_float32() as file:
            whole = run(PROGRAM, case, CONFIG=file.name).bits()
            self.assertNotEqual(own, whole)
            # The application's own calls come first, except that of Destroy.
            for function, time in (("CreateConvolutionDescriptor", 2), ("SetConvolutionNdDescriptor", 2),
                                   ("SetConvolutionGroupCount", 2), ("SetConvolutionMathType", 2),
                                   ("GetConvolutionForwardWorkspaceSize", 1), ("ConvolutionForward", 1),
                                   ("DestroyConvolutionDescriptor", 1)):
                with self.subTest(function):
                    result = run(PROGRAM, case, CONFIG=file.name, EMU_FAIL=f"cudnn{function}:{time}")
                    self.assertFine(result)
                    is_done = function.startswith("Destroy")
                    self.assertEqual(result.bits(), whole if is_done else own)
                    self.assertEqual([row["decision"] for row in result.rows()], ["raised" if is_done else "fallback"])

    def test_a_rule_of_float32_raises(self):
        with self.rule_of_float32() as file:
            result = self.check(("raised", "rule"), "float32", raised=("raised", "rule"), CONFIG=file.name)
            self.assertEqual({row["strategy"] for row in result.rows()}, {"fp32"})
            # As a plan of the graph API: another engine for the same graph.
            cases = ["forward.lll", "data.ccc", "filter.lll", "forward.biasRelu", "data.fma"]
            result = run("dnn_graph", *cases, CONFIG=file.name)
            self.assertFine(result)
            for name in cases:
                self.assertWithin(result.cases[name]["eta"], FP32, name)
                decisions = [(row["decision"], row["reason"], row["dtype_compute"]) for row in result.rows_of(result.cases[name])]
                self.assertEqual(decisions, [("kept" if name == "data.fma" else "raised", "rule", "float32")], name)

    def test_a_list_leaves_tf32_to_its_switch(self):
        self.check(("kept", "custom_black_list"), "tf32", CUSTOM_BLACK_LIST="conv2d")


@runner.emulated_only("a libcudnn of another version")
class OldVersion(runner.Test):
    """Before 9.19 the heuristics divide by zero for the gradient of a filter that is fused, which would end the
    process."""

    def test_the_gradient_of_a_filter(self):
        for precision, told in (("float16", ("kept", "no_fp32_output")), ("bfloat16", ("lowered", "white_list"))):
            for program, case, entry in ((PROGRAM, "math.default.filter", "cudnnConvolutionBackwardFilter"),
                                         ("dnn_graph", "filter.lll", "cudnnBackendExecute")):
                with self.subTest(case, precision=precision):
                    result = run(program, case, EMU_CUDNN="91002", STRATEGY="cast", DTYPE=precision)
                    self.assertFine(result)
                    is_graph = program == "dnn_graph"  # only legacy calls use the narrow form
                    wanted = ("fallback", "no_fp32_output") if is_graph else told
                    self.assertEqual([(row["decision"], row["reason"]) for row in result.rows(entry=entry)], [wanted])
                    self.assertEqual(result.bits() == bare(program, case).bits(), wanted[0] != "lowered")

    def test_other_directions_are_lowered(self):
        result = run(PROGRAM, "math.default.forward", "math.default.data", EMU_CUDNN="91002", **CAST_HALF.variables)
        self.assertFine(result)
        self.assertEqual({row["decision"] for row in result.rows()}, {"lowered"})


class NoEngine(runner.Test):
    """float16 has no tensor-core engine for these."""

    def told(self, *cases, program=PROGRAM, **variables):
        result = run(program, *cases, **variables)
        self.assertFine(result)
        return {(row["decision"], row["reason"], row["dtype_compute"], row["strategy"]) for row in result.rows()}

    def test_auto_takes_tf32(self):
        cases = "narrow.depthwise.*", "narrow.groups.data", "narrow.3d_strided.data"
        self.assertEqual(self.told(*cases), {("kept", "already_low", "tf32", "fp32")})
        self.assertEqual(self.told(*cases, _NVIDIA_TF32_OVERRIDE="0"), {("kept", "no_fp32_output", "float32", "fp32")})
        self.assertEqual(self.told(*cases, **CAST_HALF.variables), {("kept", "no_fp32_output", "tf32", "fp32")})
        self.assertEqual(self.told("auto.groups", program="dnn_graph", GPU_MODEL="a100"), {("lowered", "white_list", "tf32", "tf32")})

    def test_odd_channels_of_a_chain(self):
        """Channels that are summed over are padded; those of the result are not, because the other tensors of the graph
        have them too."""
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run("dnn_graph", "odd_chain.*", **way.variables)
            self.assertFine(result)
            for name in ("forward", "data_k"):
                case = result.cases["odd_chain." + name]
                self.assertLowered(result, case, way)
                self.assertWithin(case["eta"], way.eta(), name)
            for name in ("data_c", "filter"):
                rows = result.rows_of(result.cases["odd_chain." + name])
                self.assertEqual([(row["decision"], row["reason"]) for row in rows], [("fallback", "no_fp32_output")], name)


if __name__ == "__main__":
    runner.main()
