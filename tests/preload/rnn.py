"""cuDNN RNNs under the library: in bfloat16 forward and backward, as exact as that type allows, and unchanged
otherwise. A backward pass uses the precision of its forward pass, even if the policy has changed since."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

PROGRAM = "rnn"
SOURCE = pathlib.Path(__file__).parents[2]
ENTRIES = ("cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8")
# Rounding to 8 bits must show, and no larger error: rounding of the operands (2.4e-3 of a product), of values stored
# between steps, and of the result. A gradient of relu is all or nothing if a state is near 0.
STATES, GRADIENTS, RELU = (2e-3, 5e-3), (2e-3, 1e-2), (2e-3, 1e-1)
CASES = ("net.*",)


def etas(case):
    return {key.removeprefix("eta_"): float(value) for key, value in case.items() if key.startswith("eta_")}


def decisions(result):
    return [(row["entry"], row["decision"], row["reason"]) for row in result.report["ops"] if row["dtype_in"] == "float32"
            for _ in range(row["calls"])]


class Table(runner.Test):
    def setUp(self):
        self.bare = bare(PROGRAM, *CASES)
        self.run = run(PROGRAM, *CASES, **CAST_BFLOAT16.variables)

    def test_as_bare(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)
        self.assertGreater(len(self.run.cases), 20)
        for name, case in self.run.cases.items():
            self.assertEqual(case["statuses"], self.bare.cases[name]["statuses"], name)

    def test_errors(self):
        for name, case in self.run.cases.items():
            for result, eta in etas(case).items():
                with self.subTest(f"{name} {result}"):
                    is_relu = name == "net.relu" and result.startswith("d")
                    interval = STATES if not result.startswith("d") else RELU if is_relu else GRADIENTS
                    self.assertWithin(eta, interval, "eta")
                    self.assertLess(float(self.bare.cases[name]["eta_" + result]), eta / 3)

    def test_all_are_lowered(self):
        rows = self.run.rows(dtype_in="float32")
        self.assertEqual({(row["decision"], row["reason"], row["strategy"], row["dtype_compute"], row["dtype_out"]) for row in rows},
                         {("lowered", "white_list", "cast", "bfloat16", "float32")})
        self.assertEqual({row["entry"] for row in rows}, set(ENTRIES))
        self.assertEqual({row["op"] for row in rows}, {"lstm", "gru", "rnn_tanh", "rnn_relu"})
        calls = sum(len(case["statuses"].split(",")) for case in self.run.cases.values())
        self.assertEqual(sum(row["calls"] for row in rows), calls)

    def test_bits_are_its_own(self):
        again = run(PROGRAM, *CASES, **CAST_BFLOAT16.variables, LOG="warn")
        self.assertEqual(again.bits(), self.run.bits())


class Policy(runner.Test):
    def assertKept(self, reason, case="net.lstm", **variables):
        result = run(PROGRAM, case, **variables)
        self.assertFine(result)
        self.assertEqual(result.bits(), bare(PROGRAM, case).bits())
        self.assertEqual(decisions(result), [(entry, "kept", reason) for entry in ENTRIES])

    def test_what_has_no_engine(self):
        self.assertKept("no_fp32_output", **CAST_HALF.variables)
        self.assertKept("already_low", STRATEGY="tf32")
        self.assertKept("already_low", DTYPE="tf32")
        self.assertKept("unsupported", STRATEGY="library", DTYPE="bfloat16")
        self.assertKept("not_profitable", DTYPE="bfloat16")

    def test_names(self):
        bfloat16 = CAST_BFLOAT16.variables
        for name in ("lstm", "_cudnn_rnn", "paddle:rnn", "ms:LSTM", "cudnnRNN*"):
            self.assertKept("custom_black_list", **bfloat16, CUSTOM_BLACK_LIST=name)
        self.assertKept("custom_black_list", case="net.gru", **bfloat16, CUSTOM_BLACK_LIST="gru")
        lowered = run(PROGRAM, "net.lstm", **bfloat16, CUSTOM_BLACK_LIST="gru,rnn_relu")
        self.assertEqual({row[1:] for row in decisions(lowered)}, {("lowered", "white_list")})
        # Unlisted there, unless the user names it.
        self.assertKept("unlisted", **bfloat16, LISTS="paddle")
        named = run(PROGRAM, "net.lstm", **bfloat16, LISTS="paddle", CUSTOM_WHITE_LIST="rnn")
        self.assertEqual({row[1:] for row in decisions(named)}, {("lowered", "custom_white_list")})

    def test_rules(self):
        for rule, expected in (('op = "lstm"\nprecision = "float32"', ("kept", "unsupported")), # TF32 is the descriptor's
                               ('op = "lstm"\nprecision = "bfloat16"', ("lowered", "rule")),
                               ('entry = "cudnnRNN*"\nprecision = "bfloat16"', ("lowered", "rule")),
                               ('entry = "cudnnRNN*"\nprecision = "float16"', ("kept", "no_fp32_output"))):
            path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"autoamp-rnn-{os.getpid()}.toml")
            pathlib.Path(path).write_text(f"[[rule]]\n{rule}\n")
            try:
                result = run(PROGRAM, "net.lstm", CONFIG=path, _RULE=rule)
                self.assertFine(result)
                self.assertEqual({row[1:] for row in decisions(result)}, {expected}, rule)
                for row in result.rows(dtype_in="float32"):
                    self.assertExplained(row, CONFIG=path)
            finally:
                os.unlink(path)

    def assertExplained(self, row, **variables):
        told = json.loads(subprocess.run(
            [runner.PLACE.autoamp, "explain", "--entry", row["entry"], "--format", "json",
             *(f"--{size}={row[size]}" for size in "mnk")], capture_output=True, text=True, check=True,
            env={**os.environ, **{"AUTOAMP_" + name: value for name, value in variables.items()}}).stdout)
        keys = ("op", "decision", "reason", "strategy") if row["op"] == "lstm" else ("decision", "reason", "strategy")
        self.assertEqual([told[key] for key in keys], [row[key] for key in keys])

    def test_explain_says_the_same(self):
        for variables in (CAST_BFLOAT16.variables, CAST_HALF.variables, {"DTYPE": "bfloat16"}, {"STRATEGY": "tf32"}, {"LEVEL": "O0"},
                          {**CAST_BFLOAT16.variables, "LISTS": "mindspore", "LEVEL": "O3"}):
            for row in run(PROGRAM, "net.lstm", **variables).rows(dtype_in="float32"):
                self.assertExplained(row, **variables)

    def test_kept(self):
        cases = {"forbidden": ("pedantic",) * 3, "narrowed": ("already_low",) * 3, "dynamic": ("unsupported",) * 3}
        for name, reasons in cases.items():
            result = run(PROGRAM, "kept." + name, **CAST_BFLOAT16.variables)
            self.assertFine(result)
            self.assertEqual(result.bits(), bare(PROGRAM, "kept." + name).bits())
            self.assertEqual(decisions(result), [(entry, "kept", reason) for entry, reason in zip(ENTRIES, reasons)], name)
            cause = {"forbidden": "CUDNN_FMA_MATH", "narrowed": "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION",
                     "dynamic": "CUDNN_RNN_ALGO_PERSIST_DYNAMIC"}[name]
            self.assertEqual({row["cause"] for row in result.report["ops"] if row["dtype_in"] == "float32"}, {cause}, name)

    def test_what_the_way_there_cannot_carry_over(self):
        for name in ("reserve", "fill") if runner.PLACE.emulated else ("fill",):  # a larger reserve space in 16 bits is invented
            result = run(PROGRAM, "kept." + name, **CAST_BFLOAT16.variables)
            self.assertFine(result)
            self.assertEqual(result.bits(), bare(PROGRAM, "kept." + name).bits())
            self.assertEqual(decisions(result), [(ENTRIES[0], "fallback", "unsupported"), (ENTRIES[1], "kept", "reserve_space"),
                                                 (ENTRIES[2], "kept", "reserve_space")], name)


class Remembered(runner.Test):
    def test_a_way_back_is_as_the_way_there(self):
        plain = bare(PROGRAM, "changing.*").cases
        result = run(PROGRAM, "changing.*", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        lowered = result.cases["changing.111"]
        for name, case in result.cases.items():
            is_lowered = name.split(".")[1][-3] == "1"  # the last forward pass
            expected = lowered if is_lowered else plain[name]
            self.assertEqual({key: value for key, value in case.items() if key.endswith("bits")},
                             {key: value for key, value in expected.items() if key.endswith("bits")}, name)
        self.assertNotEqual(lowered["weights_bits"], plain["changing.111"]["weights_bits"])

    def test_reasons(self):
        for case, expected in (("011", [("kept", "region_disabled"), ("kept", "reserve_space"), ("kept", "reserve_space")]),
                               ("100", [("lowered", "white_list"), ("lowered", "reserve_space"), ("lowered", "reserve_space")])):
            result = run(PROGRAM, "changing." + case, **CAST_BFLOAT16.variables)
            self.assertEqual(sorted(decisions(result)), sorted((entry, *how) for entry, how in zip(ENTRIES, expected)))

    def test_another_net_on_the_same_reserve_space(self):
        result = run(PROGRAM, "another", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        for eta in etas(result.cases["another"]).values():
            self.assertWithin(eta, GRADIENTS, "eta")

    def test_a_way_back_needs_no_budget(self):
        """Also not if the budget is the least with which the forward pass is lowered."""
        plain = bare(PROGRAM, "net.lstm").bits()
        too_small, enough = 1 << 10, 64 << 20
        while enough - too_small > 512:
            memory = (too_small + enough) // 2
            result = run(PROGRAM, "net.lstm", **CAST_BFLOAT16.variables, MEMORY=str(memory))
            self.assertFine(result)
            told = [row[1:] for row in decisions(result)]
            is_lowered = told[0] == ("lowered", "white_list")
            self.assertEqual(told, [("lowered", "white_list")] * 3 if is_lowered else
                             [("fallback", "memory_budget"), *[("kept", "reserve_space")] * 2])
            self.assertEqual(result.bits() == plain, not is_lowered)
            too_small, enough = (too_small, memory) if is_lowered else (memory, enough)
        self.assertGreater(too_small, 1 << 10)
        self.assertLess(enough, 64 << 20)

    def test_what_is_refused(self):
        result = run(PROGRAM, "refused", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        self.assertEqual(result.cases, bare(PROGRAM, "refused").cases)

    def test_capture(self):
        result = run(PROGRAM, "capture", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        self.assertEqual([row[1] for row in decisions(result)], ["lowered"] * 6)
        self.assertEqual(sum(row["captured"] for row in result.report["ops"]), 3)
        for eta in etas(result.cases["capture"]).values():
            self.assertWithin(eta, GRADIENTS, "eta")

    def test_what_may_not_be_rounded_where_another_was_captured(self):
        result = run(PROGRAM, "exact", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        for eta in etas(result.cases["exact"]).values():
            self.assertLess(eta, 1e-5)
        self.assertIn(("cudnnRNNForward", "kept", "pedantic"), decisions(result))

    def test_captured_first(self):
        result = run(PROGRAM, "capture_first", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        self.assertEqual([row[1:] for row in decisions(result)],
                         [("kept", "reserve_space")] * 3)

    def test_memory_stays_flat(self):
        result = run(PROGRAM, "memory", **CAST_BFLOAT16.variables)
        self.assertFine(result)
        own = int(bare(PROGRAM, "memory").cases["memory"]["device"])  # a real library may keep memory for each RNN
        slack = 0 if runner.PLACE.emulated else 4 << 20
        self.assertLessEqual(int(result.cases["memory"]["device"]), own + slack)
        self.assertEqual({row[1] for row in decisions(result)}, {"lowered"})


class Faults(runner.Test):
    """Each of autoamp's calls fails once. A forward pass then runs unchanged, and so does its backward pass. A backward
    pass whose reserve space is in bfloat16 reports the failure."""

    def functions(self):
        text = (SOURCE / "src/op/vendor.h").read_text()
        table = re.search(r"#define AUTOAMP_CUDNN_RNN_FUNCTIONS\(X\)(.*?[^\\])\n\n", text, re.DOTALL).group(1)
        return [*re.findall(r"X\((\w+),", table), "cudnnGetRNNDescriptor_v8", "cudnnGetRNNDataDescriptor",
                "cudnnGetTensorNdDescriptor", "cudnnGetStream", "cuLaunchKernel", "cuMemAllocFromPoolAsync", "cuMemFreeAsync",
                "cuStreamIsCapturing", "cuStreamGetCtx", "cuStreamGetId", "cuThreadExchangeStreamCaptureMode"]

    @runner.emulated_only("faults are asked for")
    def test_every_call_of_ours_fails_once(self):
        names = " ".join(self.functions())
        plain, clean = bare(PROGRAM, "sweep"), run(PROGRAM, "sweep", **CAST_BFLOAT16.variables, _COUNTED=names)
        self.assertFine(clean)
        start, asked = {}, {}
        parts = ("forward", "data", "weights")
        low = {part: clean.cases["sweep"][part + "_after_bits"] for part in parts}
        for part in parts:
            start[part], asked[part] = (plain.cases["sweep"][part + suffix] for suffix in ("_bits", "_after_bits"))
        problems, seen, outcomes = [], set(), set()

        def attempt(what):
            function, number = what
            return what, run(PROGRAM, "sweep", **CAST_BFLOAT16.variables, EMU_FAIL=f"{function}:{number}")

        todo = [(name, number) for name in self.functions()
                for number in range(1, int(clean.cases["sweep"].get("count_" + name, 0)) + 1)]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for (function, number), result in pool.map(attempt, todo):
                if result.status == 3:  # a call of the program itself
                    continue
                seen.add(function)
                case, told = result.cases.get("sweep"), decisions(result)
                name = f"{function}:{number} {told}"
                if result.status or result.errors or not case:
                    problems.append(f"{name}: status {result.status} {result.errors}")
                    continue
                bits = {part: case[part + "_after_bits"] for part in parts}
                statuses = case["statuses"].split(",")
                if statuses == ["0", "0", "0"]:
                    outcomes.add("bare" if bits == asked else "lowered" if bits == low else "wrong")
                    if bits not in (asked, low):
                        problems.append(f"{name}: other bits")
                    if bits == asked and not result.rows(decision="fallback"):
                        problems.append(f"{name}: no fallback")
                elif len(statuses) == 1:  # the application's own call failed
                    outcomes.add("own")
                else:
                    failed = parts[len(statuses) - 1]
                    outcomes.add("failed " + failed)
                    expected = {**low, **{part: start[part] for part in parts[len(statuses) - 1:]}}
                    if bits != expected:
                        problems.append(f"{name}: {statuses}, {failed} was begun")
        self.assertFalse(problems, "\n".join(["", *problems]))
        self.assertEqual(set(self.functions()) - seen - {"cudnnRNNSetClip_v8"}, set())
        self.assertTrue({"bare", "lowered", "failed data", "failed weights"} <= outcomes, outcomes)


if __name__ == "__main__":
    runner.main()
