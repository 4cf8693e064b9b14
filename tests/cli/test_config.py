"""Files of the configuration from the command line: checked, given to a run, explained and shown again."""
import json
import os
import subprocess
import unittest

from house import EMULATED, PROGRAMS, Case

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
        self.assertEqual(result.stderr, "autoamp: warning: rules.toml:4: the rule never matches: that of rules.toml:2 takes all "
                                        "its calls\nautoamp: warning: rules.toml:1: torch:prelu has no library call in a 16-bit form: nothing changes\n")
        self.write('level = "O1"\nlevl = 1\n', "wrong.toml")
        self.refused(self.autoamp("check", "wrong.toml"), 2, "wrong.toml:2:1: levl", "level")
        self.refused(self.autoamp("check", "missing.toml"), 2, "missing.toml: No such file")
        self.refused(self.autoamp("check", "."), 2, ".: no regular file")
        self.refused(self.autoamp("check"), 2)
        # The file alone: what else is configured here, and wrongly, is another matter.
        self.assertEqual(self.autoamp("check", "rules.toml", AUTOAMP_CONFIG="wrong.toml", AUTOAMP_DTYPE="tf32").returncode, 0)

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
        self.write("x = 1\n", ".config/autoamp/sh.toml")  # the program's own, where HOME leads
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
                             ("rule", decision, precision, f"{path}:{line}"))
            rules = [step for step in told["steps"] if step["step"] == "rules"]
            self.assertIn(f"{path}:{line}: ", rules[0]["says"])
            self.assertNotIn("lists", [step["step"] for step in told["steps"]])
        text = self.autoamp("explain", "--entry", "cublasSgemm_v2", "--m", "8", "--n", "8", "--k", "8", AUTOAMP_CONFIG=str(path)).stdout
        self.assertIn("  rules     none of 3 rules matches\n", text)
        self.assertIn("  lists     torch O1: mm is lower_precision\n", text)

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
        self.assertEqual((run["config"]["strategy"], run["config_origin"]["strategy"]), ("cast", f"{path}:1"))
        self.assertEqual(run["rules"][2], {"rule": 'm = ">=64", precision = "bfloat16"', "origin": f"{path}:10"})
        text = self.autoamp("report", "--report", "config", "x.aat").stdout
        self.assertTrue(text.startswith(EMULATED + "\nsetting "), text)
        for line in (rf"strategy +cast +{path}:1\n", r"dtype +float16 +default\n", rf"config +{path} +environment\n",
                     rf'rule 3 +m = ">=64", precision = "bfloat16" +{path}:10\n'):
            self.assertRegex(text, line)
        self.refused(self.autoamp("report", "--report", "config", "--top", "1", "x.aat"), 2)


unittest.main()
