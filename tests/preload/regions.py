"""Programs that set the precision of their products, through autoamp.h and through autoamp.autocast: the report, the
precision that the rounding of each result shows, and the behaviour without autoamp."""
import json
import os
import subprocess
import sys
import tempfile

import runner
from runner import run

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, SCRIPT = "regions", os.path.join(HERE, "clients/autocast.py")
DROP_IN = {"_PYTHONPATH": os.path.join(HERE, "../../tools/python")}
PYTHON = {"SCOPE": "process", **DROP_IN}
sys.path.append(os.path.join(HERE, "../oracle"))
import arguments  # noqa: E402

ALONE = ("any", "eight", "all", "described", "forked", "names")  # cases that check themselves

H, B, S = "float16", "bfloat16", "float32"
with open(os.path.join(HERE, "../oracle/torch_scopes.json"), encoding="utf-8") as FILE:
    TORCH = json.load(FILE)  # results of torch
with open(os.path.join(HERE, "../oracle/torch_arguments.json"), encoding="utf-8") as FILE:
    TORCH_ARGUMENTS = json.load(FILE)["answers"]
RAN = {
    "torch": [H, H, S, H, B, S, B, H, H],
    "lists": [S, H, S, S, H],
    "order": [H, S],
    "levels": [S, H, S, H],
    "refused": [B, B, B, B, H],
    "plain": [H, H, H],
    "order_of_ends": [B, S, S, H, H] * 2 + [H],
}
RAN_SCRIPT = {
    "nested": [H, H, S, B, H, H],
    "dtypes": [B, B, B, H, H, H, H],
    "lists": [S, H, S],
    "reentered": [B, B, B, S, S, S, H],
    "exceptions": [B, B, B, H],
    "refused": ["ValueError"] * 6 + [H],
    "other_devices": [H, B] + ["RuntimeError"] * 3,
    "scopes": [{"inside": B, "outside": H}[each] for answers in TORCH["answers"].values() for each in answers],
    "orders": [B, S, H, H] * 2 + [S, H, S, H],
    "workers": [H, B, H],
}
# Without AUTOAMP_SCOPE, outside of regions as in torch.
RAN_DROP_IN = {
    "nested": [H, H, S, B, H, S],
    "reentered": [B, B, B, S, S, S, S],
    "exceptions": [B, B, B, S],
    "scopes": [{"inside": B, "outside": S}[each] for answers in TORCH["answers"].values() for each in answers],
    "workers": [S, B, S],
    "first": [H, H, H, S, S, S, H, H, S, S],
    "states": [H, B, S, B, S],
    "custom_functions_alone": [H, H, H, S, S, H],
    "custom_functions": [B, B, S, S, S, S, S, S],
}
# Rows: region, decision, reason, precision, calls.
ROWS = {
    "torch": {(None, "lowered", "white_list", H, 2), ("outer", "lowered", "white_list", H, 3),
              ("outer", "kept", "region_disabled", S, 1), ("inner", "lowered", "white_list", B, 2),
              ("inner", "kept", "region_disabled", S, 1)},
    "lists": {("black", "kept", "custom_black_list", S, 2), ("white", "lowered", "custom_white_list", H, 1),
              ("entry", "kept", "custom_black_list", S, 1), (None, "lowered", "white_list", H, 1)},
    "levels": {("observed", "observed", "white_list", S, 2), ("lowered", "lowered", "white_list", H, 1),
               (None, "lowered", "white_list", H, 1)},
}

# Examples of the frameworks' documents, with a product in place of a convolution: regions around a call, from the
# outside in; the call; its precision, and the decision in the report. torch.autocast's nested region is the script
# `torch`. An addition has no 16-bit form here, whatever a list contains (docs/frameworks.md).
O2 = {"lists": "paddle", "level": "O2"}
ON = ("lowered", "white_list")
NAMED, OFF = ("kept", "custom_black_list"), ("kept", "region_disabled")
EXAMPLES = [
    # paddle.amp.auto_cast, and amp_guard, its former name
    ([{"lists": "paddle"}], "mm", H, *ON),
    ([{"lists": "paddle"}], "bmm", H, *ON),
    ([{"lists": "paddle", "enabled": "0"}], "mm", S, *OFF),
    ([{"lists": "paddle", "custom_black_list": "matmul_v2"}], "mm", S, *NAMED),
    ([{"lists": "paddle", "custom_black_list": "matmul_v2"}], "bmm", S, *NAMED),
    ([{"lists": "paddle", "custom_black_list": "mul"}], "bmm", H, *ON),
    ([{"lists": "paddle", "custom_black_list": "conv2d"}], "mm", H, *ON),
    ([{"lists": "paddle", "custom_white_list": "elementwise_add"}], "add", S, "kept", "copy"),
    ([{"lists": "paddle", "custom_white_list": "elementwise_add"}], "mm", H, *ON),
    ([{**O2, "custom_white_list": "elementwise_add"}], "add", S, "kept", "copy"),
    ([{**O2, "custom_white_list": "elementwise_add"}], "mm", H, *ON),
    ([{**O2, "custom_black_list": "matmul_v2"}], "mm", S, *NAMED),
    ([{**O2, "use_promote": "0"}], "mm", H, *ON),
    ([{**O2, "use_promote": "0"}], "mv", S, "kept", "matrix_vector"),
    ([{**O2, "use_promote": "0", "custom_black_list": "matmul_v2,mul"}], "mm", S, *NAMED),
    ([{**O2, "dtype": "bfloat16"}], "mm", B, *ON),
    ([{"lists": "paddle", "level": "OD"}], "mm", H, *ON),
    ([{"lists": "paddle", "level": "OD"}], "mv", S, "kept", "matrix_vector"),
    ([{"lists": "paddle", "level": "O0", "custom_white_list": "matmul_v2"}], "mm", S, "observed", "white_list"),
    ([{"lists": "paddle"}, {"enabled": "0"}], "mm", S, *OFF),
    ([{"lists": "paddle", "enabled": "0"}, {"enabled": "1"}], "mm", H, *ON),
    ([{"lists": "paddle", "custom_black_list": "matmul_v2"}, {"custom_white_list": "matmul_v2"}], "mm", H, "lowered",
     "custom_white_list"),
    ([{"lists": "paddle", "custom_white_list": "matmul_v2", "custom_black_list": "matmul_v2"}], "mm", "ValueError", None, None),
    ([{"lists": "paddle", "level": "O3"}], "mm", "ValueError", None, None),
    # mindspore.amp.auto_mixed_precision and custom_mixed_precision
    ([{"lists": "mindspore", "level": "O0"}], "mm", S, "observed", "white_list"),
    ([{"lists": "mindspore", "level": "O1"}], "mm", H, *ON),
    ([{"lists": "mindspore", "level": "O1"}], "bmm", H, *ON),
    ([{"lists": "mindspore", "level": "O2"}], "mm", H, "lowered", "unlisted"),
    ([{"lists": "mindspore", "level": "O3"}], "mm", H, "lowered", "unlisted"),
    ([{"lists": "mindspore", "level": "O3", "dtype": "bfloat16"}], "bmm", B, "lowered", "unlisted"),
    ([{"lists": "mindspore", "level": "auto"}], "mm", H, *ON),
    ([{"lists": "mindspore", "level": "auto", "dtype": "bfloat16"}], "mm", B, *ON),
    ([{"lists": "mindspore", "level": "O2", "custom_black_list": "nn.Dense"}], "mm", S, *NAMED),
    ([{"lists": "mindspore", "level": "O2", "custom_black_list": "nn.Dense"}], "bmm", H, "lowered", "unlisted"),
    ([{"lists": "mindspore", "level": "O1", "custom_white_list": "ops.MatMul"}], "mm", H, "lowered", "custom_white_list"),
    ([{"lists": "mindspore", "level": "O3"}, {"lists": "torch", "level": "O1"}], "mm", H, *ON),
    ([{"lists": "mindspore", "level": "OD"}], "mm", "ValueError", None, None),
    # torch.autocast
    ([{"dtype": "float16"}, {"enabled": "0"}], "mm", S, *OFF),
    ([{"dtype": "float16"}, {"dtype": "bfloat16"}], "bmm", B, *ON),
]

# A program's NVTX ranges under RULES.
RULES = """
[[rule]]
region = "exact*"
precision = "float32"
[[rule]]
region = "back*"
precision = "bfloat16"
"""
RAN_RANGES = {
    "pushed": [B, B, B, H] * 6,
    "object": [B, B, B, H] * 6,
    "domains": [B, B, H, H],
    "unbalanced": [B, H],
    "started": [B, B, H, H] * 3,
    "threads": [H, B, B, H],
    "nested": [S, B, H],
    "destroyed": [B, H],
    "many": [S, S, H, B, H],
}
# The regions of the rows.
NAMED_RANGES = {
    "pushed": {"outer work", "backward", "inner work"},
    "object": {"outer work", "backward", "inner work"},
    "domains": {None, "backward", "nothing"},
    "unbalanced": {None, "backward"},
    "started": {None, "backward", "nothing"},
    "threads": {None, "backward"},
    "nested": {None, "backward", "exact part"},
    "destroyed": {None, "backward"},
    "many": {None, "backward", "exact"},
}


class Regions(runner.Test):
    def ran(self, result):
        self.assertEqual(result.status, 0, result.errors)
        return {name: case["ran"].split(",") for name, case in result.cases.items() if "ran" in case}

    def test_products_run_in_what_is_said(self):
        for program, expected, more in ((PROGRAM, RAN, {}), (SCRIPT, RAN_SCRIPT, PYTHON)):
            for name, ran in expected.items():
                with self.subTest(name):
                    self.assertEqual(self.ran(run(program, name, STRATEGY="cast", **more)), {name: ran})

    def test_python_as_torch(self):
        for name, ran in RAN_DROP_IN.items():
            with self.subTest(name):
                result = run(SCRIPT, name, STRATEGY="cast", **DROP_IN)
                self.assertEqual(self.ran(result), {name: ran})
                self.assertEqual(result.errors, "")
        result = run(SCRIPT, "workers", STRATEGY="cast", **DROP_IN)
        self.assertEqual({(row["region"], row["decision"], row["reason"], row["calls"]) for row in result.report["ops"]},
                         {(None, "kept", "region_disabled", 2), (None, "lowered", "white_list", 1)})

    def test_arguments_as_torch(self):
        wanted = []
        for case in arguments.CASES:
            answer = arguments.wanted(case, TORCH_ARGUMENTS)
            wanted.append(answer if isinstance(answer, str) else "/".join(map(str, answer)))
        ran = self.ran(run(SCRIPT, "arguments", STRATEGY="cast", **DROP_IN))["arguments"]
        self.assertEqual(dict(zip(arguments.CASES, ran)), dict(zip(arguments.CASES, wanted)))

    def test_reports_name_them(self):
        for name, rows in ROWS.items():
            result = run(PROGRAM, name, STRATEGY="cast")
            self.assertEqual({(row["region"], row["decision"], row["reason"], row["dtype_compute"], row["calls"])
                              for row in result.report["ops"]}, rows)
            # A site has a region; the decision is not a part of the site.
            self.assertEqual(len({row["site"] for row in result.report["ops"]}), len({row[0] for row in rows}))

    def test_documented_examples(self):
        steps = []
        for i, (around, call, ran, *_) in enumerate(EXAMPLES):
            for depth, settings in enumerate(around):
                steps.append("push " + " ".join(f"{key}={value}" for key, value in {"name": f"{i}.{depth}", **settings}.items()))
            # A refused push opens nothing.
            steps += ["mm"] if ran == "ValueError" else [call] + ["pop"] * len(around)
        expected = sum(([ran, H] if ran == "ValueError" else [ran] for _, _, ran, *_ in EXAMPLES), [])
        for program, more in ((PROGRAM, {}), (SCRIPT, PYTHON)):
            result = run(program, "examples", STRATEGY="cast", LOG="error", _CLIENT_SCRIPT="|".join(steps), **more)
            self.assertEqual(self.ran(result), {"examples": expected})
            for i, (around, call, ran, decision, reason) in enumerate(EXAMPLES):
                with self.subTest(program, around=around, call=call):
                    rows = [(row["decision"], row["reason"], row["dtype_compute"], row["calls"])
                            for row in result.rows(region=f"{i}.{len(around) - 1}")]
                    self.assertEqual(rows, [(decision, reason, ran, 1)] if decision else [])

    def test_programs_that_judge_themselves(self):
        for name in ALONE:
            for variables in ({"STRATEGY": "cast"}, {"STRATEGY": "cast", "TRACE": "off"}, {"ENABLED": "0"}):
                with self.subTest(name, **variables):
                    result = run(PROGRAM, name, **variables)
                    if variables.get("ENABLED") == "0" and name != "names":
                        result.errors = ""
                    self.assertEqual(result.status, 0, result.errors)
        self.assertEqual(self.ran(run(PROGRAM, "all", STRATEGY="cast")), {"all": [H, B, B, H, H, H]})
        names = run(PROGRAM, "names", STRATEGY="cast")
        self.assertEqual((names.cases["names"]["even"], names.cases["names"]["odd"]), (H, B))
        rows = {row["region"] for row in names.report["ops"]}
        self.assertTrue(rows == {None} or all(row is None or row.startswith("step ") for row in rows))

    def test_weights(self):
        result = run(PROGRAM, "weights", DTYPE="bfloat16", GPU_MODEL="h100")
        self.assertEqual(self.ran(result), {"weights": [S, B, B, S, S, S]})
        self.assertEqual(result.cases["weights"]["said"], "off,frozen,frozen,off,off,off")
        estimate, kept = result.report["totals"]["weights_estimate"], result.rows(decision="kept", k=4096)
        self.assertEqual({row["reason"] for row in kept}, {"not_profitable"})
        self.assertEqual(estimate["unchanged_calls"], sum(row["calls"] for row in kept))
        self.assertAlmostEqual(estimate["unchanged_from_ns"], sum(row["est_ns"] for row in kept), delta=1)
        self.assertLess(estimate["unchanged_to_ns"], estimate["unchanged_from_ns"])
        result = run(PROGRAM, "weights", DTYPE="bfloat16", GPU_MODEL="h100", WEIGHTS="checked")
        self.assertEqual(self.ran(result), {"weights": [B, B, B, S, B, B]})
        self.assertEqual(result.cases["weights"]["said"], "checked,frozen,frozen,off,checked,checked")
        self.assertEqual(self.ran(run(SCRIPT, "weights", STRATEGY="cast", **PYTHON)), {"weights": ["off", "frozen", "checked", "off", "frozen", "off"]})

    def test_settings_have_an_end_and_share_the_rules(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("".join(f'[[rule]]\nm = "{10 ** 9 + i}"\nprecision = "tf32"\n' for i in range(50)))
            file.flush()
            for rules in ({}, {"CONFIG": file.name}):
                result = run(PROGRAM, "new_settings", STRATEGY="cast", LOG="error", TRACE="off", **rules)
                self.assertFine(result)
                case = result.cases["new_settings"]
                self.assertEqual((case["known"], case["ran"]), ("4096", H))
                self.assertLess(int(case["bytes_each"]), 5000)

    def test_environment_beats_them(self):
        for name in RAN:
            off = run(PROGRAM, name, ENABLED="0")
            self.assertEqual(set(self.ran(off)[name]), {S})
            self.assertIsNone(off.report)
            observed = run(PROGRAM, name, STRATEGY="cast", LEVEL="O0")
            self.assertEqual(set(self.ran(observed)[name]), {S})
            self.assertEqual({row["decision"] for row in observed.report["ops"]}, {"observed"})
        # The decision that O1 would make is still reported.
        self.assertEqual({(row["region"], row["reason"], row["strategy"]) for row in
                          run(PROGRAM, "torch", STRATEGY="cast", LEVEL="O0").report["ops"]},
                         {(None, "white_list", "cast"), ("outer", "white_list", "cast"), ("inner", "white_list", "cast"),
                          ("outer", "region_disabled", "fp32"), ("inner", "region_disabled", "fp32")})

    def test_nobody_there(self):
        for program, expected, more in ((PROGRAM, RAN, {}), (SCRIPT, RAN_SCRIPT, PYTHON)):
            result = runner.bare(program, *expected, **more)
            for name, ran in self.ran(result).items():
                wanted = [word if word.endswith("Error") else S for word in expected[name]]
                self.assertEqual([word for word in ran if word != "entered"], wanted if "entered" not in ran else ["ValueError", S])
            if program == SCRIPT:
                self.assertEqual({(case["loaded"], case["available"]) for case in result.cases.values()},
                                 {("False", "False,False")})

    def test_scope(self):
        """Outside of regions nothing is lowered; inside, calls are lowered as without a scope."""
        result = run(PROGRAM, "torch", STRATEGY="cast", SCOPE="regions")
        self.assertEqual(self.ran(result)["torch"], [S, H, S, H, B, S, B, H, S])
        self.assertEqual([(row["decision"], row["reason"], row["calls"]) for row in result.rows(region=None)],
                         [("kept", "region_disabled", 2)])
        self.assertEqual(self.ran(run(PROGRAM, "plain", STRATEGY="cast", SCOPE="regions"))["plain"], [S, H, S])
        self.assertEqual(self.ran(run(PROGRAM, "all", STRATEGY="cast", SCOPE="regions"))["all"], [S, B, B, H, S, S])

    def test_they_beat_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("enabled = false")
            file.flush()
            result = run(PROGRAM, "torch", STRATEGY="cast", CONFIG=file.name)
            self.assertEqual(self.ran(result)["torch"], [S, H, S, H, B, S, B, H, S])
            self.assertEqual([(row["decision"], row["reason"], row["calls"]) for row in result.rows(region=None)],
                             [("kept", "region_disabled", 1)])  # not the first call: nothing was requested yet
            plain = run(PROGRAM, "plain", STRATEGY="cast", CONFIG=file.name)
            self.assertEqual((self.ran(plain)["plain"], plain.report), ([S, S, S], None))

    def test_a_bad_variable_is_off(self):
        result = run(PROGRAM, "torch", DTYPE="fp8")
        self.assertEqual(set(self.ran(result)["torch"]), {S})
        self.assertEqual(result.errors.count("autoamp: "), 1)
        for turn in range(10):  # of eight threads' first regions and calls at once
            self.assertEqual(run(PROGRAM, "eight", DTYPE="fp8", _TURN=str(turn)).errors.count("off: "), 1)

    def test_python_knows_that_it_is_loaded(self):
        for available, variables in (("True,False", {}), ("False,False", {"ENABLED": "0"}), ("False,False", {"DTYPE": "fp8"})):
            case = run(SCRIPT, "nested", STRATEGY="cast", **variables, **PYTHON).cases["nested"]
            self.assertEqual((case["loaded"], case["available"]), ("True", available))


class Ranges(runner.Test):
    """NVTX ranges of an unmodified program."""

    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            file.write(RULES)
        self.addCleanup(os.unlink, file.name)
        self.config = file.name

    def ran(self, *cases, **variables):
        result = run("ranges", *cases, STRATEGY="cast", _NVTX_INJECTION64_PATH=runner.PLACE.preload, **variables)
        self.assertFine(result)
        return {name: case["ran"].split(",") for name, case in result.cases.items()}, result

    def test_rules_match_them(self):
        for name, expected in RAN_RANGES.items():
            with self.subTest(name):
                ran, result = self.ran(name, CONFIG=self.config)
                self.assertEqual(ran, {name: expected})
                self.assertEqual({row["region"] for row in result.report["ops"]}, NAMED_RANGES[name])
                # In a range that no rule names, the enclosing one still decides.
                self.assertEqual({row["reason"] for row in result.rows(region="backward")}, {"rule"})

    def test_where_no_rule_names_them_they_only_name_rows(self):
        ran, result = self.ran("pushed", "nested", "started", "many")
        self.assertEqual(set(sum(ran.values(), [])), {H})
        self.assertEqual({row["region"] for row in result.report["ops"]},
                         {None, "outer work", "backward", "inner work", "nothing", "exact", "exact part"})
        for level in ("O0", "O1"):  # without a trace, rows need no names
            self.assertEqual(self.ran("pushed", LEVEL=level, TRACE="off")[1].report, None)

    def test_time_of_each_range(self):
        file = os.path.join(tempfile.mkdtemp(), "t.aat")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "NVTX_"))}
        if not runner.PLACE.emulated:
            self.skipTest("the emulated device is asked for")
        subprocess.run([runner.PLACE.autoamp, "run", "--quiet", "--device", "emulated", "-o", file, "--",
                        os.path.join(runner.PLACE.clients, "ranges"), "--case", "pushed"], env=environment, check=True, capture_output=True)
        report = [runner.PLACE.autoamp, "report", "--by", "region", file]
        told = json.loads(subprocess.run([*report, "--format", "json"], env=environment, capture_output=True, text=True, check=True).stdout)
        groups = {group["region"]: group for group in told["groups"]}
        # Each of the six forms makes two calls in "backward", one in "inner work" and one in "outer work".
        self.assertEqual({name: group["calls"] for name, group in groups.items()}, {"outer work": 6, "backward": 12, "inner work": 6})
        self.assertTrue(all(group["host_ns"] > 0 and group["flops"] > 0 for group in groups.values()))
        text = subprocess.run(report, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"\bhost\b")

    def test_names_made_up_on_the_way_have_an_end(self):
        """They increase neither the number of decisions nor, beyond a limit, that of the rows."""
        ran, result = self.ran("steps")
        self.assertEqual(ran, {"steps": [H] * 800})
        rows = {row["region"]: row["calls"] for row in result.report["ops"]}
        self.assertEqual(rows, {**{f"step {i}": 2 for i in range(256)}, "(more ranges)": 288})
        # A scale is found once for each operand, not once for each name.
        self.assertEqual(result.scaler_totals()["init"], 2)

    def test_scope(self):
        """A range that a rule names is a region; others are not."""
        ran, _ = self.ran("nested", "started", CONFIG=self.config, SCOPE="regions")
        self.assertEqual(ran, {"nested": [S, B, S], "started": [B, B, S, S] * 3})

    def test_run_leads_them_here(self):
        def path(**variables):
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "NVTX_"))}
            told = subprocess.run([runner.PLACE.autoamp, "run", "--quiet", "--device", "emulated", "--", "env"],
                                  env=environment | variables, capture_output=True, text=True, check=True).stdout
            return [line.split("=", 1)[1] for line in told.splitlines() if line.startswith("NVTX_INJECTION64_PATH=")]

        if not runner.PLACE.emulated:
            self.skipTest("the emulated device is asked for")
        self.assertEqual([os.path.basename(each) for each in path(AUTOAMP_CONFIG=self.config)], ["libautoamp.so"])
        self.assertEqual(path(AUTOAMP_CONFIG=self.config, NVTX_INJECTION64_PATH="/other/tool.so"), ["/other/tool.so"])
        self.assertEqual([os.path.basename(each) for each in path()], ["libautoamp.so"])
        self.assertEqual(path(AUTOAMP_TRACE="off"), [])


if __name__ == "__main__":
    runner.main()
