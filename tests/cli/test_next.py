"""The next command: receipt, summary and JSON have the same one, it changes what it says, and it runs."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from case import PROGRAMS, TRACED, Case

INJECT = pathlib.Path(os.environ["BUILD"]) / "inject"

# Scenario of the program, a word of the advice, the time that it saves in us, and the setting in its environment afterwards.
CHANGES = (("observed", "lower 10 fp32 products", 15, "AUTOAMP_LEVEL=O1"),
           ("faults", "scale float16 operands", None, "AUTOAMP_SCALING=auto"),
           ("real", "measure the kernels", None, "AUTOAMP_TRACE=kernels"),
           ("cpu 0", "measure the gain", None, "AUTOAMP_AUDIT=0.02"),
           ("cpu_few_rows", "keep converted weights", None, "AUTOAMP_WEIGHTS=watched"),
           ("cpu_refused", "allow more memory for converted weights", None, "AUTOAMP_MEMORY=800M"),
           ("audited 200000", "keep mm in fp32", None, "AUTOAMP_CUSTOM_BLACK_LIST=mm"),
           ("audited 200001", "check weights before each product", None, "AUTOAMP_WEIGHTS=checked"),
           ("costs 0", "let the cost model choose the strategy", 150, "AUTOAMP_STRATEGY=auto"),
           ("costs 1", "run without the rules of rules.toml", 150, "AUTOAMP_CONFIG="),
           ("costs 2", "lower an op of the fp32 list", 150, "AUTOAMP_CUSTOM_WHITE_LIST=mm"),
           ("costs 3", "allow more memory", 150, "AUTOAMP_MEMORY=8G"),
           ("costs 6", "lower calls outside of regions", 150, "AUTOAMP_SCOPE=process"))


class Next(Case):
    def setUp(self):
        super().setUp()
        for name in ("libautoamp-cpu.so", "libautoamp-core.so"):
            shutil.copy(INJECT / name, self.root / "inject")
        shutil.copy(INJECT.parent / "tests/cli/libfake_core.so", self.root / "inject/libautoamp-core.so")
        (self.here / "rules.toml").write_text("")

    def shell(self, command):
        gpu = {"LD_LIBRARY_PATH": str(self.root / "driver"), "FAKE_DEVICES": "1"}
        return subprocess.run(command, shell=True, cwd=self.here, env=self.environment | gpu, capture_output=True, text=True, timeout=60)

    def receipt(self, scenario):
        device = "cpu" if scenario.startswith("cpu") else "cuda"
        config = {"costs 1": ["--config", "rules.toml"], "cpu_few_rows": ["--weights", "off"], "audited 200001": ["--weights", "frozen"]}.get(scenario, [])
        program = f"env > environment; exec '{TRACED}' {scenario}"
        return self.autoamp("run", "--device", device, "-o", "x.aat", "--force", *config, "--", "sh", "-c", program).stderr

    def test_each_change(self):
        for scenario, title, saving, setting in CHANGES:
            with self.subTest(scenario):
                text = self.receipt(scenario)
                step = self.json("x.aat")["next"]
                self.assertEqual((step["title"], step["source"]), (title, None if saving is None else "model"))
                self.assertEqual(step["saves_ns"] and step["saves_ns"] / 1000, saving)
                saves = f" \\(saves {saving}[.0]* us, model\\)" if saving else ""
                self.assertRegex(text, rf"\nautoamp: advice: {title}{saves}: {re.escape(step['why'])}\nautoamp: next: .*\n\Z")
                summary = self.autoamp("report", "x.aat").stdout
                self.assertRegex(summary, rf"\nadvice: {title}{saves}: ")
                self.assertIn(f"\nnext: {step['command']}\n", summary)

                # The receipt repeats the whole command line; the program shows its environment.
                self.assertNotIn(setting + "\n", (self.here / "environment").read_text())
                before = (self.here / "x.aat").read_bytes()
                again = self.shell(text[text.rindex("next: ") + 6:])
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertRegex(again.stderr, r"\nautoamp: 1 trace in (\./traced|/tmp/traced)\.\d+\.aat\n")
                self.assertEqual((self.here / "x.aat").read_bytes(), before)  # to compare with
                environment = (self.here / "environment").read_text()
                self.assertTrue(setting + "\n" in environment or (setting.endswith("=") and setting not in environment), environment)
                # The report has it from the trace, which names the program alone.
                again = self.shell(step["command"])
                self.assertEqual(again.returncode, 0, again.stderr)
                self.assertRegex(again.stderr, r"\nautoamp: 1 trace in \./traced\.\d+\.aat\n")

    def test_a_measured_loss(self):
        """Few audited calls prove little."""
        for audited, title, saves, setting in ((1, "measure more calls", False, "AUTOAMP_AUDIT=1"),
                                               (150, "run in fp32", True, "AUTOAMP_STRATEGY=fp32")):
            self.receipt(f"cpu_slower {audited}")
            report = self.json("x.aat")
            step, (row,) = report["next"], report["ops"]
            asked = row["calls"] * 1000
            saving = row["host_ns"] - asked if saves else None
            self.assertEqual((step["title"], step["saves_ns"], step["source"]), (title, saving, saving and "measured"))
            self.assertEqual(self.shell(step["command"]).returncode, 0)
            self.assertIn(f"{asked / row['host_ns']:.2f} of the speed in fp32", step["why"])
            name, value = setting.split("=")
            self.assertIn(f"--{name.removeprefix('AUTOAMP_').lower()} {value}", step["command"])

    def test_a_small_saving_is_no_advice(self):
        """If nothing is to be gained, the errors are measured, and then shown."""
        text = self.receipt("costs 4")
        step = self.json("x.aat")["next"]
        self.assertEqual((step["title"], step["saves_ns"]), ("keep these settings, and measure the errors", None))
        self.assertIn(" --audit 0.02 -- ", step["command"])
        self.assertEqual(self.shell(re.search(r"next: (.*)\n", text).group(1)).returncode, 0)
        for scenario, view, word in (("audited 900", "audit", "max error"), ("low", "reasons", "already_low")):
            text = self.receipt(scenario)
            step = self.json("x.aat")["next"]
            self.assertIsNone(step["saves_ns"])
            self.assertEqual(step["command"], f"{self.root}/tools/autoamp report x.aat --report {view}")
            shown = self.shell(re.search(r"next: (.*)\n", text).group(1))
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn(word, shown.stdout)

    def test_the_next_command_names_the_folder(self):
        """A report is read from another folder than that of the run."""
        os.mkdir(self.here / "elsewhere")
        os.symlink(TRACED, self.here / "traced")
        self.assertEqual(self.run_("-o", "x.aat", "--", "./traced", "costs", "4").returncode, 0)
        result = subprocess.run([self.root / "tools/autoamp", "report", "../x.aat"], cwd=self.here / "elsewhere", capture_output=True,
                                text=True, env=self.environment, check=True)
        command = re.search(r"\nnext: (.*)\n", result.stdout).group(1)
        self.assertTrue(command.startswith(f"cd {self.here} && {self.root}/tools/autoamp run "), command)
        done = subprocess.run(command, shell=True, cwd=self.here / "elsewhere", env=self.environment)
        self.assertEqual(done.returncode, 0)

    def test_a_file_without_its_rules_keeps_its_settings(self):
        """Otherwise the run has another precision than the one that saves time."""
        (self.here / "rules.toml").write_text('dtype = "bfloat16"\n[[rule]]\nprecision = "float32"\n')
        tolerance = [os.environ["AUTOAMP"], "run", "--device", "emulated", "-o", "x.aat", "--force"]
        for config, title in ((["--config", "rules.toml"], "run without the rules of"), ([], "change the rules of")):
            if not config:
                (self.here / ".config/autoamp").mkdir(parents=True)
                os.rename(self.here / "rules.toml", self.here / ".config/autoamp/autoamp.toml")
            subprocess.run([*tolerance, "--quiet", *config, "--", PROGRAMS / "tolerance", "tf32", "768"], cwd=self.here, env=self.environment, check=True)
            step = self.json("x.aat")["next"]
            self.assertTrue(step["title"].startswith(title), step)
            again = self.shell(step["command"].replace(f"{self.root}/tools/autoamp", os.environ["AUTOAMP"]))
            self.assertEqual(again.returncode, 0, again.stderr)
            if config:
                self.assertIn("to bfloat16", again.stderr)

    def test_the_next_command_starts_all_processes(self):
        """A trace has the command line of its own process."""
        script = f"'{TRACED}' costs 4; '{TRACED}' costs 4"
        receipt = self.run_("-o", "x.aat", "--", "sh", "-c", script).stderr
        command = self.json("x.aat")["next"]["command"]
        for each in (command, re.search(r"next: (.*)\n", receipt).group(1)):
            self.assertEqual(shlex.split(each)[-4:], ["--", "sh", "-c", script])
        self.assertIn("2 traces in ", self.shell(command).stderr)

    def test_variables_of_the_environment_are_repeated(self):
        receipt = self.run_("-o", "x.aat", "--", TRACED, "observed", AUTOAMP_DTYPE="bfloat16", AUTOAMP_LEVEL="O0", AUTOAMP_MEMORY="100K").stderr
        self.assertRegex(receipt, r"\nautoamp: next: AUTOAMP_MEMORY=100K \S+ run --device cuda (.* )?--dtype bfloat16 ")
        self.assertNotIn("O0", re.search(r"next: (.*)\n", receipt).group(1))

    def test_settings_that_hide_each_other(self):
        """The saving is that of the printed command."""
        (self.here / "low.toml").write_text('[[rule]]\nentry = "cublas*"\nprecision = "bfloat16"\n')
        for size, *settings in (("768", "--level", "O0", "--strategy", "fp32"), ("768", "--strategy", "fp32", "--config", "low.toml"),
                                ("256", "--strategy", "cast", "--config", "low.toml")):
            run = [os.environ["AUTOAMP"], "run", "--device", "emulated", "-o", "x.aat", "--force", "--quiet"]
            subprocess.run([*run, *settings, "--", PROGRAMS / "tolerance", size], cwd=self.here, env=self.environment, check=True)
            before = self.json("x.aat")
            step, ns = before["next"], before["totals"]["gain"]["as_run_ns"]
            self.assertGreater(step["saves_ns"], 0.05 * ns, (settings, step))
            again = step["command"].replace(f"{self.root}/tools/autoamp run", f"{os.environ['AUTOAMP']} run -o x.aat --force --quiet")
            self.assertEqual(self.shell(again).returncode, 0, again)
            self.assertAlmostEqual(ns - self.json("x.aat")["totals"]["gain"]["as_run_ns"], step["saves_ns"], delta=10, msg=(settings, step))

    def test_several_launches(self):
        """The command and the saving are those of one launch: that with the most time to save."""
        for file, *settings in (("a.aat", "--strategy", "cast"), ("b.aat", "--level", "O0")):
            subprocess.run([os.environ["AUTOAMP"], "run", "--device", "emulated", "-o", file, "--quiet", *settings, "--", PROGRAMS / "tolerance",
                            "768" if file == "b.aat" else "256"], cwd=self.here, env=self.environment, check=True)
        alone = [self.json(file)["next"] for file in ("a.aat", "b.aat")]
        main = max(alone, key=lambda step: step["saves_ns"] or 0)
        both = self.json("a.aat", "b.aat")["next"]
        self.assertEqual((both["command"], both["saves_ns"]), (main["command"], main["saves_ns"]))
        self.assertTrue(both["why"].endswith("; the command repeats one of 2 launches"), both)

    def test_no_tf32_where_the_user_forbids_it(self):
        """NVIDIA_TF32_OVERRIDE=0 holds for the best strategy, and for the next run."""
        subprocess.run([os.environ["AUTOAMP"], "run", "--device", "emulated", "-o", "x.aat", "--quiet", "--level", "O0", "--", PROGRAMS / "tolerance",
                        "tf32", "768"], cwd=self.here, env=self.environment | {"NVIDIA_TF32_OVERRIDE": "0"}, check=True)
        report = self.json("x.aat")
        (row,), step = report["ops"], report["next"]
        self.assertEqual((row["best_precision"], row["est_best_ns"]), ("float16", row["est_lowered_ns"]))
        self.assertTrue(step["command"].startswith("NVIDIA_TF32_OVERRIDE=0 "), step)
        self.assertAlmostEqual(step["saves_ns"], row["est_ns"] - row["est_lowered_ns"], delta=2)
        self.assertIn("\nNVIDIA_TF32_OVERRIDE  environment   0\n", self.autoamp("report", "--report", "config", "x.aat").stdout)

    def test_a_typed_option_is_replaced(self):
        for typed in (["--level", "O0"], ["--level=O0"], ["-oy.aat", "--level", "O0"], ["--trace-file", "y.aat", "--level", "O0"]):
            text = self.run_(*typed, "--force", "--", TRACED, "observed").stderr
            command = re.search(r"next: .*? run (.*) -- ", text).group(1)
            self.assertIn("--level O1", command)
            self.assertNotIn("O0", command)
            self.assertNotIn("y.aat", command)

    def test_the_best_time_is_never_longer_than_the_others(self):
        for scenario in ("mixed", "faults", "observed", "real", "turing", "convolutions", "costs 0", "costs 4", "kernels 1000"):
            gain = self.json(self.trace(*scenario.split()[:1], "y.aat", *scenario.split()[1:]))["totals"]["gain"]
            self.assertLessEqual(gain["best_ns"], min(gain["as_asked_ns"], gain["as_run_ns"]), scenario)
            self.assertEqual(gain["source"], "model")
            self.assertEqual(gain["measured_as_run_ns"] is not None, scenario.startswith("kernels"))
            for field in ("as_asked_ns", "as_run_ns", "best_ns"):
                self.assertAlmostEqual(sum(op[field] for op in gain["by_op"]), gain[field], delta=2)
            os.unlink(self.here / "y.aat")

    def test_what_if_runs_with_these_settings(self):
        result = self.autoamp("report", "--what-if", "LEVEL=O1,STRATEGY=cast,ROUND_OUTPUT=1,GPU_MODEL=a100", self.trace("observed"))
        self.assertRegex(result.stdout, r"\nadvice: run the program with these settings: .*\n"
                         rf"next: AUTOAMP_ROUND_OUTPUT=1 \S+ run --device emulated --level O1 --strategy cast -- {TRACED} observed\n")


unittest.main()
