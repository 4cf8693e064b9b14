"""dnn.py DRIVER...: the client `dnn` calls every entry point of the cuDNN table under the library. Nothing changes for
the program, and the report contains the calls. Arguments as in runner.py."""
import json
import pathlib
import subprocess

import runner
from runner import Test, bare, run

TABLE = pathlib.Path(__file__).parents[2] / "inject/cudnn.entries"
ROWS = {row[0]: (row[2:] + ["none", "none"])[:3] for row in (line.split("#")[0].split() for line in TABLE.read_text().splitlines())
        if row and row[0] != "headers" and row[1] != "Watched"}  # those are not calls
TENSOR = "n2 c8 6x6 nchw"
RECURRENT = [name for name in ROWS if name.startswith("cudnnRNN")]
# Ops that follow from the client's descriptors, if the table has another op or none.
OPS = {"cudnnSoftmaxForward": "log_softmax", "cudnnPoolingForward": "avg_pool2d", "cudnnPoolingBackward": "avg_pool2d",
       "cudnnActivationForward": "tanh", "cudnnActivationBackward": "tanh", "cudnnOpTensor": "mul", "cudnnReduceTensor": "mean",
       **dict.fromkeys(RECURRENT, "gru")}
CONVOLUTIONS = {"cudnnConvolutionForward": (72, 8, 72), "cudnnConvolutionBiasActivationForward": (72, 8, 72),
                "cudnnConvolutionBackwardData": (72, 8, 72), "cudnnConvolutionBackwardFilter": (8, 72, 72)}
SHAPES = {**dict.fromkeys(CONVOLUTIONS, "n2 c8 6x6 k8 3x3 s1 p1 d1 g1 nchw"),
          **dict.fromkeys(("cudnnTransformFilter", "cudnnReorderFilterAndBias"), "n8 c8 3x3 nchw"),
          **dict.fromkeys(RECURRENT, "t3 n2 i16 h16 l1")}
UNKNOWN = {name for name in ROWS if name.startswith(("cudnnBackend", "cudnnFused", "cudnnMultiHead", "cudnnSpatialTfGrid"))}


def said(errors):
    """stderr, without the emulated library's own lines about unsupported functions."""
    return [line for line in errors.splitlines() if not line.endswith(" is not emulated")]


class Entries(Test):
    def assertSame(self, result, **variables):
        plain = bare("dnn", **variables)
        self.assertEqual((result.cases, result.status, said(result.errors)), (plain.cases, 0, []))

    def test_every_entry_point(self):
        result = run("dnn")
        self.assertSame(result)
        self.assertEqual(set(result.cases), set(ROWS))
        rows = {row["entry"]: row for row in result.report["ops"]}
        self.assertEqual({name: rows[name]["calls"] for name in rows}, dict.fromkeys(ROWS, 1))
        for name, (_, obstacle, op) in ROWS.items():
            row, known = rows[name], name not in UNKNOWN
            obstacle = "no_fp32_output" if name in RECURRENT else obstacle
            self.assertEqual((row["library"], row["decision"], row["reason"], row["op"], row["shape"], row["dtype_in"], row["eligible"]),
                             ("cudnn", "kept", {"none": "too_small" if known else "unseen_graph"}.get(obstacle, obstacle), OPS.get(name, op),
                              SHAPES.get(name, TENSOR) if known else "unknown", "float32" if known else None, name in CONVOLUTIONS or name in RECURRENT), name)
        for name, sizes in CONVOLUTIONS.items():
            self.assertEqual((rows[name]["m"], rows[name]["n"], rows[name]["k"], rows[name]["dtype_asked"]), (*sizes, "tf32"))
        self.assertRegex(result.report["runs"][0]["versions"]["cudnn"], r"^9\.\d+\.\d+$")

    def test_explain_says_the_same(self):
        for row in run("dnn").report["ops"]:
            if row["entry"] in CONVOLUTIONS or row["entry"] == "cudnnSoftmaxBackward":
                told = json.loads(subprocess.run(
                    [runner.PLACE.autoamp, "explain", "--entry", row["entry"], "--format", "json",
                     *(f"--{size}={max(row[size], 1)}" for size in "mnk")], capture_output=True, text=True, check=True).stdout)
                self.assertEqual([told[key] for key in ("op", "decision", "reason", "strategy")],
                                 [row[key] for key in ("op", "decision", "reason", "strategy")])

    def test_by_hand(self):
        for library in ("libcudnn.so.9", "libcudnn_cnn.so.9"):
            result = run("dnn", *CONVOLUTIONS, _CLIENT_LIBRARY=library)
            self.assertEqual({row["entry"] for row in result.report["ops"]}, set(CONVOLUTIONS), library)
            self.assertEqual(result.cases, bare("dnn", *CONVOLUTIONS, _CLIENT_LIBRARY=library).cases)

    def test_what_the_process_says(self):
        for variables, key, value in (({"_NVIDIA_TF32_OVERRIDE": "0"}, "dtype_asked", "float32"), ({"LEVEL": "O0"}, "decision", "observed"),
                                      ({"CUSTOM_BLACK_LIST": "conv2d"}, "reason", "custom_black_list")):
            result = run("dnn", "cudnnConvolution*", **variables)
            self.assertEqual({row[key] for row in result.report["ops"] if row["entry"] in CONVOLUTIONS}, {value}, variables)
        off = run("dnn", ENABLED="0")
        self.assertSame(off)
        self.assertIsNone(off.report)

    @runner.emulated_only("faults are asked for")
    def test_faults(self):
        """A getter that fails for autoamp makes nothing else fail."""
        for getter, cases in (("cudnnGetTensorNdDescriptor", ["cudnnConvolutionForward", "cudnnSoftmaxForward"]),
                              ("cudnnGetFilterNdDescriptor", CONVOLUTIONS), ("cudnnGetConvolutionNdDescriptor", CONVOLUTIONS),
                              ("cudnnGetConvolutionMathType", CONVOLUTIONS), ("cudnnGetConvolutionGroupCount", CONVOLUTIONS),
                              ("cudnnGetStream", CONVOLUTIONS), ("cudnnGetProperty", CONVOLUTIONS)):
            for case in cases:
                result = run("dnn", case, EMU_FAIL=f"{getter}:1")
                self.assertEqual((result.cases, result.errors), (bare("dnn", case).cases, ""), getter)
                row, = result.rows(entry=case)
                is_needed = case in CONVOLUTIONS and ("Descriptor" in getter or "Convolution" in getter)
                self.assertEqual(row["decision"], "fallback" if is_needed else "kept", (getter, case))


runner.main()
