"""Configuration files on the command line: checked, passed to a run, explained and printed."""
import json
import os
import subprocess
import unittest

from case import EMULATED, PROGRAMS, Case

AUTOAMP = os.environ["AUTOAMP"]  # in the build tree: with the library and the emulated device
SIZES = ("--m", "64", "--n", "64", "--k", "64")
RULES = '''strategy = "cast"
[[rule]]
entry = "cublasSgemm*"
caller = "libtorch*"
precision = "tf32"
[[rule]]
region = "back*"
thread = "pt_*"
precision = "float32"
[[rule]]
m = ">=64"
precision = "bfloat16"
'''


class Config(Case):
    def write(self, text, name="rules.toml"):
        path = self.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_check(self):
        self.write(RULES)
        result = self.autoamp("check", "rules.toml")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "rules.toml: 1 setting, 3 rules\n", ""))
        self.write('custom_black_list = ["mm", "prelu"]\n[[rule]]\nprecision = "tf32"\n[[rule]]\nm = 1\nprecision = "tf32"\n')
        result = self.autoamp("check", "rules.toml")
        self.assertEqual((result.returncode, result.stdout), (0, "rules.toml: 1 setting, 2 rules\n"))
        self.assertEqual(result.stderr, "autoamp: warning: rules.toml:4:1: the rule never matches: the rule at rules.toml:2:1 matches all "
                                        "its calls\nautoamp: warning: rules.toml:1:1: torch:prelu reaches no library call with a 16-bit form; it has no effect\n")
        self.write('level = "O1"\nlevl = 1\n', "wrong.toml")
        self.refused(self.autoamp("check", "wrong.toml"), 2, "wrong.toml:2:1: levl", "level")
        for pattern in ("%z", "x/%rankle", "%q{}", "100%"):
            self.write(f'trace_file = "{pattern}"\n', "named.toml")
            self.refused(self.autoamp("check", "named.toml"), 2, f"named.toml:1:14: trace_file={pattern}: ", "%")
        self.write('trace_file = "%e.%t.%h.%p.%n.%q{HOME}.%rank%.%%.aat"\n', "named.toml")
        self.assertEqual(self.autoamp("check", "named.toml").returncode, 0)
        self.refused(self.autoamp("check", "missing.toml"), 2, "missing.toml: No such file")
        self.refused(self.autoamp("check", "."), 2, ".: not a regular file")
        self.refused(self.autoamp("check"), 2)
        # The file is checked as in a run with --config. Errors elsewhere are reported, but do not make the file
        # invalid.
        result = self.autoamp("check", "rules.toml", AUTOAMP_CONFIG="wrong.toml", AUTOAMP_STRATEGY="cast", AUTOAMP_DTYPE="tf32")
        self.refused(result, 2, "AUTOAMP_STRATEGY=cast: AUTOAMP_DTYPE=tf32 has no 16-bit form")
        self.write('level = "O2"\ncustom_black_list = ["matmul_v2"]\n', "paddle.toml")
        self.refused(self.autoamp("check", "paddle.toml"), 2, "paddle.toml:2:22: custom_black_list=matmul_v2: no op")
        self.assertEqual(self.autoamp("check", "paddle.toml", AUTOAMP_LISTS="paddle").returncode, 0)
        self.write('levl = 1\n', ".config/autoamp/autoamp.toml")
        result = self.autoamp("check", "rules.toml")
        self.assertEqual((result.returncode, result.stdout), (0, "rules.toml: 1 setting, 2 rules\n"))
        self.assertIn("warning: together with the environment and the other files: ", result.stderr)
        self.write("", ".config/autoamp/autoamp.toml")

    def test_check_refuses_what_says_nothing(self):
        for text in ('[[rule]]\nentry = []\nprecision = "float32"\n', "level = []\n", "bogus = []\n", 'custom_white_list = [""]\n'):
            self.write(text, "empty.toml")
            self.refused(self.autoamp("check", "empty.toml"), 2, "empty.toml:")
        self.write("custom_white_list = []\n", "empty.toml")
        self.assertEqual(self.autoamp("check", "empty.toml").returncode, 0)
        # The source of a program contains cublasSgemm; the rule also matches the variant with 64-bit sizes.
        self.write('custom_black_list = ["cublasSgemm"]\n[[rule]]\nentry = "cublasHgemm"\nprecision = "float32"\n', "names.toml")
        result = self.autoamp("check", "names.toml")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for entry in ("cublasSgemm_v2", "cublasSgemm_v2_64"):
            told = json.loads(self.autoamp("explain", "--format", "json", "--entry", entry, *SIZES, AUTOAMP_CONFIG="names.toml").stdout)
            self.assertEqual(told["reason"], "custom_black_list", entry)

    def test_every_command_reads_the_same_files(self):
        self.trace("mixed")
        wrong = self.write('levl = 1\n', "wrong.toml")
        for arguments in (("report", "mixed.aat"), ("explain", "--entry", "cublasSgemm_v2", *SIZES)):
            self.refused(self.autoamp(*arguments, AUTOAMP_CONFIG="wrong.toml"), 2, "wrong.toml:1:1: levl")
            self.refused(self.autoamp(*arguments, AUTOAMP_CONFIG="none.toml"), 2, "AUTOAMP_CONFIG=none.toml: No such file")
        result = self.autoamp("doctor", AUTOAMP_CONFIG="wrong.toml")
        self.assertIn("wrong.toml:1:1: levl", result.stdout)
        self.write("x = 1\n", ".config/autoamp/sh.toml")
        self.assertIn("sh.toml:1:1: x", self.autoamp("doctor", "--", "sh").stdout)
        self.assertIn("sh.toml:1:1: x", self.autoamp("doctor", "sh", "-c", "true").stdout)
        self.write(RULES)
        self.assertIn("rules.toml:2", self.autoamp("doctor", AUTOAMP_CONFIG="rules.toml").stdout)

    def test_run(self):
        self.write(RULES)
        show = ["--quiet", "--", "sh", "-c", 'printf "%s %s %s" "$AUTOAMP_CONFIG" "$AUTOAMP_TRACE" "$AUTOAMP_TRACE_FILE"']
        told = f"{self.here}/rules.toml ops {self.here}/%e.%p.aat"
        self.assertEqual(self.run_("--config", "rules.toml", *show).stdout, told)
        self.assertEqual(self.run_(*show, AUTOAMP_CONFIG="rules.toml").stdout, told)
        self.write('trace = "off"\ntrace_file = "x/%p.aat"\n', "quiet.toml")
        self.assertEqual(self.run_("--config", "quiet.toml", *show).stdout, f"{self.here}/quiet.toml  {self.here}/x/%p.aat")
        self.assertEqual(self.run_("--config", "quiet.toml", "--trace", "ops", *show).stdout,
                         f"{self.here}/quiet.toml ops {self.here}/x/%p.aat")
        self.write("[[rule]]\n", "wrong.toml")
        self.refused(self.run_("--config", "wrong.toml", "--", "true"), 125, "wrong.toml:1:1: a rule without precision")
        self.refused(self.run_("--config", "none.toml", "--", "true"), 125, "none.toml: No such file")
        self.write("x = 1\n", ".config/autoamp/sh.toml")  # the program's own file, found by HOME
        self.refused(self.run_("--", "sh", "-c", "true"), 125, ".config/autoamp/sh.toml:1:1: x")
        self.assertEqual(self.run_("--", "true").returncode, 0)

    def test_explain_names_the_rule(self):
        path = self.write(RULES)
        for arguments, line, decision, precision in (([], 10, "lowered", "bfloat16"),
                                                     (["--caller", "/x/libtorch_cuda.so"], 2, "lowered", "tf32"),
                                                     (["--region", "backward"], 10, "lowered", "bfloat16"),
                                                     (["--region", "backward", "--thread", "pt_1"], 6, "kept", "float32")):
            result = self.autoamp("explain", "--format", "json", "--entry", "cublasSgemm_v2", *SIZES, *arguments, AUTOAMP_CONFIG=str(path))
            told = json.loads(result.stdout)
            self.assertEqual((told["reason"], told["decision"], told["precision"], told["rule"]),
                             ("rule", decision, precision, f"{path}:{line}:1"))
            rules = [step for step in told["steps"] if step["step"] == "rules"]
            self.assertIn(f"{path}:{line}:1: ", rules[0]["says"])
            self.assertNotIn("lists", [step["step"] for step in told["steps"]])
        text = self.autoamp("explain", "--entry", "cublasSgemm_v2", "--m", "8", "--n", "8", "--k", "8", AUTOAMP_CONFIG=str(path)).stdout
        self.assertIn("  rules     none of 3 rules matches\n", text)
        self.assertIn("  lists     torch O1: mm is lower_precision\n", text)

    def test_explain_stands_where_the_call_does(self):
        def told(*arguments, **variables):
            result = self.autoamp("explain", "--format", "json", "--entry", "cublasSgemm_v2", *SIZES, *arguments, AUTOAMP_STRATEGY="cast", **variables)
            document = json.loads(result.stdout)
            return document["decision"], document["reason"], document["precision"]

        self.assertEqual(told(AUTOAMP_SCOPE="regions"), ("kept", "region_disabled", "float32"))
        self.assertEqual(told("--region", "step", AUTOAMP_SCOPE="regions"), ("lowered", "white_list", "float16"))
        self.write('dtype = "bfloat16"\n', ".config/autoamp/app.toml")
        self.assertEqual(told(), ("lowered", "white_list", "float16"))
        self.assertEqual(told("--program", "app"), ("lowered", "white_list", "bfloat16"))

    def test_run_leads_ranges_here_for_whatever_program_has_rules(self):
        show = ("--quiet", "--", "env", "sh", "-c", 'printf "%s" "$NVTX_INJECTION64_PATH"')
        self.write('[[rule]]\nm = 1\nprecision = "tf32"\n', ".config/autoamp/other.toml")
        self.assertEqual(os.path.basename(self.run_(*show).stdout), "libautoamp.so")  # they name rows of the trace
        self.assertEqual(self.run_(*show, AUTOAMP_TRACE="off").stdout, "")
        self.write('[[rule]]\nregion = "back*"\nprecision = "tf32"\n', ".config/autoamp/app.toml")
        self.assertEqual(os.path.basename(self.run_(*show, AUTOAMP_TRACE="off").stdout), "libautoamp.so")

    def test_report_shows_what_held(self):
        path = self.write(RULES)
        done = subprocess.run([AUTOAMP, "run", "--device", "emulated", "--quiet", "--config", path, "-o", "x.aat", "--",
                               PROGRAMS / "shapes", "cublasSgemm_v2,64,64,64,1,float32", "cublasSgemm_v2,8,8,8,1,float32"],
                              cwd=self.here, env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = self.json("x.aat")
        self.assertEqual(sorted((row["m"], row["reason"], row["dtype_compute"]) for row in report["ops"]),
                         [(8, "white_list", "float16"), (64, "rule", "bfloat16")])
        run = report["runs"][0]
        self.assertEqual((run["config"]["strategy"], run["config_origin"]["strategy"]), ("cast", f"{path}:1:1"))
        self.assertEqual(run["rules"][2], {"rule": 'm = ">=64", precision = "bfloat16"', "origin": f"{path}:10:1"})
        text = self.autoamp("report", "--report", "config", "x.aat").stdout
        self.assertTrue(text.startswith(EMULATED + "\nsetting "), text)
        for line in (rf"strategy +{path}:1:1 +cast\n", r"dtype +default +float16\n", rf"config +--config +{path}\n",
                     rf'rule 3 +{path}:10:1 +m = ">=64", precision = "bfloat16"\n'):
            self.assertRegex(text, line)
        self.refused(self.autoamp("report", "--report", "config", "--top", "1", "x.aat"), 2)
        self.assertEqual(run["compute_capability"], [90, 90])

    def test_report_tells_options_from_variables(self):
        def origins(name, *command, options=(), **variables):
            done = subprocess.run([AUTOAMP, "run", "--device", "emulated", "--quiet", *options, "--", *command, PROGRAMS / "shapes",
                                   "cublasSgemm_v2,64,64,64,1,float32"], cwd=self.here, env=self.environment | variables,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return self.json(name)["runs"][0]["config_origin"]

        told = origins("a.aat", options=("--level", "O1", "--strategy=cast", "--no-hook", "-o", "a.aat"), AUTOAMP_DTYPE="bfloat16")
        self.assertEqual([told[name] for name in ("level", "strategy", "hook_dlsym", "trace_file", "trace", "dtype", "scaling")],
                         ["--level", "--strategy", "--no-hook", "--trace-file", "autoamp run", "environment", "default"])
        # Variables that the program sets itself are not reported as options. Settings from a file or a variable keep
        # their origin.
        told = origins("b.aat", "env", "AUTOAMP_LEVEL=O0", options=("--level", "O1"), AUTOAMP_TRACE_FILE="b.aat")
        self.assertEqual([told[name] for name in ("level", "trace_file")], ["environment"] * 2)
        path = self.write('trace_file = "c.aat"\n', ".config/autoamp/shapes.toml")
        self.assertEqual(origins("c.aat")["trace_file"], f"{path}:1:1")
        # A run inside a run: the inner run's option applies.
        told = origins("d.aat", AUTOAMP, "run", "--device", "emulated", "--quiet", "--level", "O0", "--", options=("--level", "O1", "-o", "d.aat"))
        self.assertEqual([told[name] for name in ("level", "trace_file")], ["--level", "--trace-file"])


unittest.main()
