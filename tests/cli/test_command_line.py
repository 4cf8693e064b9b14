"""Wrong arguments give one line of error and the right status; commands that do not exist yet are refused and absent from
help."""
import json
import re
import subprocess
import unittest

from case import Case


class CommandLine(Case):
    def test_empty_words_and_the_option_as_typed(self):
        explain = ("explain", "--entry", "cublasSgemm_v2", "--m", "64", "--n", "64", "--k", "64")
        for arguments, status, message in (
                (("report", ""), 2, "'' is not the name of a file or folder"),
                (("report", "--what-if", "", "x.aat"), 2, "--what-if: expected NAME=VALUE,..."),
                (("run", "--device", "cuda", "--config", "/no.toml", "--", "true"), 125, "--config /no.toml: No such file"),
                ((*explain, "--gpu", "h10"), 2, "--gpu h10: bad value")):
            with self.subTest(arguments):
                result = self.autoamp(*arguments)
                self.assertEqual((result.returncode, result.stdout), (status, ""))
                self.assertIn("autoamp: " + message, result.stderr)
        self.assertRegex(self.autoamp(*explain, AUTOAMP_ENABLED="0").stdout, r"\n  try +AUTOAMP_ENABLED=1\n")

    def test_version_and_help_are_data(self):
        for arguments, word in ((["--version"], "autoamp 0."), (["help"], "autoamp run --"), ([], "autoamp run --"),
                                (["help", "env"], "AUTOAMP_SCALING"), (["help", "rules"], "flops "), (["check", "--help"], "FILE"),
                                (["help", "reports"], "FLOP"),
                                (["help", "reasons"], "not_profitable"), (["run", "--help"], "--trace-file"),
                                (["report", "--help"], "--format"), (["explain", "--help"], "--dtype-in"),
                                (["doctor", "--help"], "-- APP")):
            result = self.autoamp(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
            self.assertIn(word, result.stdout)

    def test_help_fits_the_terminal(self):
        topics = self.autoamp("help", "nothing").stderr.partition("topics: ")[2].replace(",", "").split()
        self.assertLessEqual({"weights", "run", "completion"}, set(topics))
        for page in (["help"], ["--help"], *(["help", topic] for topic in topics)):
            words = "".join(self.autoamp(*page).stdout.split())
            for columns in (60, 80):
                text = self.autoamp(*page, COLUMNS=str(columns)).stdout
                self.assertEqual("".join(text.split()), words, page)  # nothing is cut
                self.assertLessEqual(max(map(len, text.splitlines())), columns, page)
            self.assertLessEqual(max(map(len, self.autoamp(*page).stdout.splitlines())), 130, page)  # a pipe

    def test_help_keeps_its_lines(self):
        """Only a line that was full continues in the next one."""
        for columns in ("", "60", "100"):
            self.assertRegex(self.autoamp("help", COLUMNS=columns).stdout, r"\n +rules: the configuration\s+file\n +weights: ")
            reasons = self.autoamp("help", "reasons", COLUMNS=columns).stdout
            self.assertEqual(len(re.findall(r" try: ", reasons)), len(re.findall(r"\n +try: ", reasons)))
            variables = self.autoamp("help", "env", COLUMNS=columns).stdout
            self.assertEqual(len(re.findall(r" values: ", variables)), len(re.findall(r"\n +values: ", variables)))

    def test_errors_fit_the_terminal(self):
        text = self.autoamp("report", "--what-if", "LEVEL=O1,STRATEGY", "no such file", COLUMNS="60").stderr
        self.assertLessEqual(max(map(len, text.splitlines())), 60)
        self.assertEqual(text.split(), self.autoamp("report", "--what-if", "LEVEL=O1,STRATEGY", "no such file").stderr.split())

    def test_what_has_not_landed_is_refused_and_not_in_help(self):
        for arguments in (["tune"], ["export", "--type", "otf2", "-o", "a", "b"]):
            self.refused(self.autoamp(*arguments), 2)
        for arguments in (["--level", "O2"], ["--dtype", "fp8"], ["--lists", "tf"],
                          ["--strategy", "split3"], ["--trace", "kernels"], ["--device", "rocm"]):
            self.refused(self.autoamp("run", *arguments, "--", "true"), 125)
        text = "".join(self.autoamp(*a).stdout for a in (["help"], ["run", "--help"], ["report", "--help"],
                                                         ["explain", "--help"], ["lists", "--help"], ["doctor", "--help"], ["help", "env"]))
        self.assertNotIn("split3", text)

    def test_the_nearest_name_is_told(self):
        self.refused(self.autoamp("rnu"), 2, "'rnu'", "run")
        self.refused(self.autoamp("report", "--formta", "json"), 2, "--formta", "--format")
        self.refused(self.autoamp("run", "--levle", "O1", "--", "true"), 125, "--levle", "--level")
        self.refused(self.autoamp("run", "--levle=O1", "true"), 125, "--levle", "--level")
        self.refused(self.run_("--", "true", AUTOAMP_LEVLE="O1"), 125, "AUTOAMP_LEVLE", "AUTOAMP_LEVEL")
        self.refused(self.autoamp("report", "--xyzzy"), 2, "unknown option --xyzzy; --help lists them")
        self.refused(self.autoamp("embedding"), 2, "unknown command 'embedding'; autoamp help lists them")

    def test_an_option_is_named_as_it_was_typed(self):
        for command in ("run", "lists"):
            result = self.autoamp(command, "--level", "O9", *(["--", "true"] if command == "run" else []))
            self.refused(result, 125 if command == "run" else 2, "--level O9: bad value; accepted: O0")
            self.assertNotIn("AUTOAMP_LEVEL", result.stderr)
        self.refused(self.autoamp("run", "--level", "O3", "--", "true"), 125, "--level O3: not a level of AUTOAMP_LISTS=torch")
        self.refused(self.autoamp("run", "--white", "mn", "--", "true"), 125, "--white mn: no op or entry point 'mn'; did you mean ")

    def test_the_last_of_repeated_options_counts(self):
        ops = [json.loads(self.autoamp("explain", "--entry", "cublasSgemm_v2", "--n", "8", "--k", "8", *order, "--format", "json").stdout)
               for order in (("--m", "1", "--m", "64"), ("--m", "64"))]
        self.assertEqual(*ops)

    def test_a_missing_program_or_value(self):
        self.refused(self.autoamp("run"), 125)
        self.refused(self.autoamp("run", "--"), 125)
        self.refused(self.autoamp("run", "--level"), 125, "--level")
        self.refused(self.autoamp("run", "--level", "--", "true"), 125, "--level")

    def test_a_missing_argument_is_named_with_the_usage(self):
        for words, message in (("diff a", "diff: B is missing; usage: autoamp diff A B"),
                               ("diff", "diff: A is missing; usage: autoamp diff A B"),
                               ("check", "check: FILE is missing; usage: autoamp check FILE"),
                               ("export --type csv -o x", "export: FILE|DIR is missing; usage: autoamp export --type TYPE --out OUT FILE|DIR"),
                               ("explain --m 1", "explain: --entry is missing; usage: autoamp explain --entry ENTRY --m M --n N --k K"),
                               ("--nope", "unknown command '--nope'; autoamp help lists them"),
                               ("--versoin", "unknown command '--versoin'; did you mean --version?")):
            self.refused(self.autoamp(*words.split()), 2, *f"{message}\n".split("autoamp "))

    def test_a_number_or_flag_that_is_not_one(self):
        explain = ("explain", "--entry", "cublasSgemm_v2", "--m", "1", "--n", "1", "--k", "1")
        for option, value, message in (("--k", "x", "not a whole number of at least 0"), ("--k", "-1", "not a whole number of at least 0"),
                                       ("--batch", "2147483648", "too large; at most 2147483647")):
            self.refused(self.autoamp(*explain, option, value), 2, f"{option}: '{value}': {message}")
        self.refused(self.autoamp("run", "--quiet=3", "--", "true"), 125, "--quiet: '3': this option takes no value")
        self.refused(self.autoamp("export", "--force=yes", "--type", "csv", "-o", "x", "a"), 2, "--force: 'yes': this option takes no value")

    def test_every_command_refuses_the_same_variables(self):
        self.trace("mixed")
        self.refused(self.autoamp("report", "mixed.aat", AUTOAMP_TRACE="all"), 2, "AUTOAMP_TRACE=all", "kernels")
        self.refused(self.autoamp("report", "mixed.aat", AUTOAMP_FOO="1"), 2, "AUTOAMP_FOO")
        result = self.autoamp("help", "env", AUTOAMP_LEVEL="O9")
        self.assertEqual(result.returncode, 2)
        self.assertIn("AUTOAMP_LEVEL=O9", result.stderr)
        self.assertIn("O0, O1", result.stdout)  # the right values are shown here

    def test_a_full_disk_is_a_failure_and_a_closed_pipe_is_none(self):
        self.trace("mixed")
        tool = self.root / "tools/autoamp"
        with open("/dev/full", "w") as full:
            result = subprocess.run([tool, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
        for signals in ("trap '' PIPE; ", ""):
            result = subprocess.run(["sh", "-c", f"{signals}{{ '{tool}' help reasons; echo $? >&2; }} | true"],
                                    capture_output=True, text=True)
            self.assertIn(result.stderr.strip(), ("0", "141"))

    def test_colour(self):
        self.trace("mixed")
        self.assertIn("\033[", self.autoamp("report", "--color", "always", "mixed.aat").stdout)
        for arguments in ([], ["--color", "never"], ["--color", "auto"]):
            self.assertNotIn("\033[", self.autoamp("report", *arguments, "mixed.aat").stdout)
        self.refused(self.autoamp("report", "--color", "maybe"), 2, "maybe")
        # Automatic color: only on a terminal, and only if NO_COLOR is empty or unset.
        for variables, isColoured in (({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)):
            status, shown = self.on_a_terminal("stdout", "report", "mixed.aat", **variables)
            self.assertEqual((status, "\033[" in shown), (0, isColoured), variables)
        status, shown = self.on_a_terminal("stdout", "report", "--report", "ops", "mixed.aat", NO_COLOR="1", COLUMNS="50")
        self.assertEqual(status, 0)
        self.assertTrue(max(map(len, shown.splitlines()[1:])) <= 50 and "…" in shown, shown)


unittest.main()
