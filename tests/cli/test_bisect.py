"""`autoamp bisect` finds the calls whose lowering makes a program fail, on the emulated device."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from case import PROGRAMS, Case

AUTOAMP = os.environ["AUTOAMP"]  # in the build tree: with the library and the emulated device
TOLERANCE = str(PROGRAMS / "tolerance")


class Bisect(Case):
    def setUp(self):
        super().setUp()
        self.environment["AUTOAMP_DIR"] = str(self.root / "state")

    def autoamp(self, *arguments, **variables):
        return subprocess.run([AUTOAMP, *arguments], cwd=self.here, capture_output=True, text=True, env=self.environment | variables, timeout=120)

    def bisect(self, *arguments, status=0, options=(), **variables):
        result = self.autoamp("bisect", "--device", "emulated", "--strategy", "cast", *options, "--", *arguments, **variables)
        self.assertEqual(result.returncode, status, result)
        return result

    def sizes(self, result):
        lines = result.stdout.partition("\n\n")[0].splitlines()
        self.assertTrue(lines[0].startswith("responsible: "), result)
        return [(int(group), int(size)) for group, size in re.findall(r"^(\d+) +cublasSgemm_v2 (\d+)x\S+ +1 .* white_list$", "\n".join(lines), re.M)]

    def runs(self, result):
        lines = re.findall(r"^autoamp: run (\d+): (\d+) of \d+ \w+s? kept: (fails|passes)(?: \(at most (\d+) more runs?[^)]*\))?$", result.stderr, re.M)
        self.assertEqual([int(line[0]) for line in lines], list(range(1, len(lines) + 1)), result.stderr)
        return [(int(kept), answer) for _, kept, answer, _ in lines]

    def passes_under(self, rules, *arguments):
        result = self.autoamp("run", "--device", "emulated", "--strategy", "cast", "--quiet", "--config", rules, "--", TOLERANCE, *arguments)
        return result.returncode == 0

    def test_one_product(self):
        words = [*map(str, range(17, 33)), "fail=23"]
        result = self.bisect(TOLERANCE, *words, options=["-o", "rules.toml"])
        self.assertEqual(self.sizes(result), [(1, 23)])
        self.assertLessEqual(len(self.runs(result)), 4 + 4)
        self.assertEqual(self.runs(result)[:2], [(0, "fails"), (16, "passes")])
        self.assertEqual(self.runs(result)[-1], (1, "passes"))
        self.assertIn("(at most 6 more runs unless further signatures are responsible)\n", result.stderr)
        self.assertEqual(sorted(os.listdir(self.here)), ["rules.toml"])  # the state is removed
        self.assertEqual((self.here / "rules.toml").read_text().split(),
                         'strategy = "cast" [[rule]] entry = "cublasSgemm_v2" m = 23 n = 23 k = 23 batch = 1 precision = "float32"'.split())
        self.assertTrue(self.passes_under("rules.toml", *words))
        self.assertEqual(self.autoamp("check", "rules.toml").returncode, 0)

    def test_kept_calls_are_as_in_the_unchanged_program(self):
        """Raising a call for which the program allows TF32 would make it slower."""
        words = ["19", "tf32", *map(str, range(32, 40)), "fail=37"]
        result = self.bisect(TOLERANCE, *words, options=["-o", "rules.toml", "--dtype", "bfloat16"])
        self.assertEqual(self.sizes(result), [(1, 37)])
        self.assertIn('precision = "tf32"', (self.here / "rules.toml").read_text())
        self.autoamp("run", "--device", "emulated", "--quiet", "--config", "rules.toml", "-o", "x.aat", "--", TOLERANCE, *words)
        rows = {row["m"]: row for row in json.loads(self.autoamp("report", "--format", "json", "x.aat").stdout)["ops"]}
        self.assertEqual([(rows[m]["decision"], rows[m]["dtype_compute"]) for m in (19, 36, 37)],
                         [("lowered", "bfloat16"), ("lowered", "bfloat16"), ("kept", "tf32")])
        result = self.bisect(TOLERANCE, *words, "fail=19+37", options=["--by", "caller", "--dtype", "bfloat16"])
        self.assertIn('precision = "float32"', result.stdout)  # not all of its calls allow TF32

    def test_two_products(self):
        words = [*map(str, range(17, 27)), "fail=18", "fail=25"]
        result = self.bisect(TOLERANCE, *words, options=["-o", "rules.toml"])
        self.assertEqual(sorted(size for _, size in self.sizes(result)), [18, 25])
        self.assertEqual(sorted(group for group, _ in self.sizes(result)), [1, 2])
        self.assertTrue(self.passes_under("rules.toml", *words))

    def test_joint_products(self):
        words = [*map(str, range(17, 27)), "fail=18+25"]
        result = self.bisect(TOLERANCE, *words, options=["-o", "rules.toml"])
        self.assertEqual(self.sizes(result), [(1, 18), (1, 25)])
        self.assertTrue(self.passes_under("rules.toml", *words))

    def test_a_program_that_fails_by_itself(self):
        for words in (["17", "fail"], ["fail"], ["17", "18", "fail", "fail=17"]):
            result = self.bisect(TOLERANCE, *words, status=1, options=["--quiet", "-o", "rules.toml"])
            self.refused(result, 1, "the program fails by itself")
        result = self.bisect(TOLERANCE, "17", "18", "fail", "fail=17", status=1)
        self.assertRegex(result.stderr, "2 of 2 signatures kept: fails\n")
        self.assertEqual(os.listdir(self.here), [])

    def test_a_program_that_passes(self):
        result = self.bisect(TOLERANCE, "17", "18", options=["-o", "rules.toml"])
        self.assertEqual(result.stdout, "nothing to bisect: the check passes with every call lowered that the settings lower\n")
        self.assertEqual(self.runs(result), [(0, "passes")])
        self.assertEqual(os.listdir(self.here), [])

    def test_a_signal_is_a_failure(self):
        script = f'{TOLERANCE} 17 18 fail=18 || kill -SEGV $$'
        self.assertEqual(self.sizes(self.bisect("sh", "-c", script)), [(1, 18)])

    def test_check_decides(self):
        """It runs after the program, gets its status, and sees its files."""
        words = ["sh", "-c", f"{TOLERANCE} 17 18 19 fail=18; echo $? >status; exit 5"]
        check = 'test "$BISECT_STATUS" = 5 && test -z "$LD_PRELOAD" && grep -q 0 status'
        self.assertEqual(self.sizes(self.bisect(*words, options=["--check", check])), [(1, 18)])
        result = self.bisect(TOLERANCE, "17", "fail=17", options=["--check", "true"])
        self.assertIn("nothing to bisect", result.stdout)
        for check in ("no-such-command", "./"):
            result = self.bisect(TOLERANCE, "17", status=2, options=["--quiet", "--check", check])
            self.assertRegex(result.stderr, r"\nautoamp: --check \S+ cannot be executed \(status 12[67]\)\n\Z")

    def test_regions_and_callers(self):
        words = ["region=first", "17", "18", "region=", "region=second", "19", "region=", "20", "fail=19+20"]
        result = self.bisect(TOLERANCE, *words, options=["--by", "region", "-o", "rules.toml"])
        self.assertRegex(result.stdout, r"\n1 +second +1 ")
        self.assertEqual((self.here / "rules.toml").read_text().split(), 'strategy = "cast" [[rule]] region = "second" precision = "float32"'.split())
        result = self.bisect(TOLERANCE, *words[:-1], "fail=20", options=["--by", "region", "--quiet"], status=1)
        self.refused(result, 1, "no rule by region matches the responsible calls")
        result = self.bisect(TOLERANCE, *words, options=["--by", "caller"])
        self.assertRegex(result.stdout, r"\n1 +tolerance +4 ")

    def test_regions_of_one_shape(self):
        words = [word for number in range(16) for word in (f"region=layer{number}", "64", "region=")]
        result = self.bisect(TOLERANCE, *words, "fail=64", options=["--by", "region"])
        self.assertRegex(result.stdout, r"\Aresponsible: 1 of 16 regions, .*\n.*\n1 +layer15 +1 +524 k ")
        self.assertLessEqual(len(self.runs(result)), 2 * 4 + 3)
        script = self.here / "script"
        script.write_text(f'harm=0\nfor n in a b c d; do {TOLERANCE} region=$n 17 region= fail=17 || harm=$((harm+1)); done\n[ $harm -lt 4 ]\n')
        result = self.bisect("sh", "script", options=["--by", "region"])
        self.assertEqual(re.findall(r"^1 +([a-d]) +1 ", result.stdout, re.M), ["a", "b", "c", "d"], result.stdout)

    def test_settings_of_the_user(self):
        """They hold in each run and in the result: a list, a rule with a kept product, and a range of recorded calls."""
        (self.here / "own.toml").write_text('capture_range = "calls:2:2"\ndelay = "10m"\ncustom_black_list = ["bmm", "addmm"]\nlevel = "O1"\n'
                                            '[[rule]]\nm = 17\nprecision = "float32"\n[[rule]]\nm = ">=18"\nprecision = "bfloat16"\n')
        result = self.bisect(TOLERANCE, "17", "18", "19", "fail=17", "fail=19", options=["--config", "own.toml", "-o", "rules.toml"])
        self.assertRegex(result.stdout, r"responsible: 1 of 2 signatures.*\n.*\n1 +cublasSgemm_v2 19x19x19 ")
        text = (self.here / "rules.toml").read_text()
        for line in ('capture_range = "calls:2:2"', 'custom_black_list = ["bmm", "addmm"]', 'm = ">=18"'):
            self.assertIn(line, text)
        self.assertLess(text.index("m = 19"), text.index('m = "17"'))
        self.assertTrue(self.passes_under("rules.toml", "17", "18", "19", "fail=17", "fail=19"))

    def test_options_are_part_of_the_result(self):
        options = ["--black", "bmm", "-o", "rules.toml"]
        self.bisect(TOLERANCE, "17", "18", "fail=18", options=options, AUTOAMP_DTYPE="bfloat16")
        result = self.autoamp("run", "--device", "emulated", "--config", "rules.toml", "-o", "trace.aat", "--", TOLERANCE, "17", "18", "fail=18")
        self.assertEqual(result.returncode, 0, result)
        report = json.loads(self.autoamp("report", "--format", "json", "trace.aat").stdout)
        self.assertEqual({row["dtype_compute"] for row in report["ops"] if row["decision"] == "lowered"}, {"bfloat16"})

    def test_calls_that_only_later_runs_make(self):
        """With the product of 17 in fp32, the program also multiplies matrices of 18, which must be in fp32, too."""
        result = self.bisect(TOLERANCE, "17", "17?18", "19", "fail=17", "fail=18")
        self.assertEqual(self.sizes(result), [(1, 17), (2, 18)])

    def test_a_new_shape_in_each_run(self):
        for harm, text in (("fail", "the program fails by itself"), ("fail=$n", "each run makes calls that no earlier run made")):
            (self.here / "n").write_text("17")
            result = self.bisect("sh", "-c", f"n=$(cat n); echo $((n + 1)) >n; exec {TOLERANCE} $n {harm}", status=1)
            self.assertIn(text, result.stderr)
            self.assertEqual(len(self.runs(result)), 5)

    def test_input(self):
        """Each run reads a file from its beginning, and nothing from a pipe."""
        words = ["sh", "-c", f"read -r line; exec {TOLERANCE} ${{line:-17 18 fail=17}}"]
        command = [AUTOAMP, "bisect", "--device", "emulated", "--strategy", "cast", "--check", 'read -r line; exit "$BISECT_STATUS"', "--", *words]
        (self.here / "input").write_text("17 18 19 fail=18\n")
        with open(self.here / "input", encoding="utf-8") as file:
            result = subprocess.run(command, cwd=self.here, env=self.environment, stdin=file, capture_output=True, text=True)
        self.assertEqual(self.sizes(result), [(1, 18)])
        result = subprocess.run(command, cwd=self.here, env=self.environment, input="17 18 19 fail=18\n", capture_output=True, text=True)
        self.assertEqual(self.sizes(result), [(1, 17)])

    def until(self, condition, process):
        while not condition() and process.poll() is None:
            time.sleep(0.01)

    def interrupt(self, number, *words, options=("-o", "rules.toml")):
        """Sends a signal while the program waits in a run."""
        command = [AUTOAMP, "bisect", "--device", "emulated", "--strategy", "cast", *options, "--", *words]
        process = subprocess.Popen(command, cwd=self.here, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.until((self.here / "wait").exists, process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        (self.here / "wait").unlink()
        self.assertEqual((process.returncode, output), (128 + number, ""), errors)
        self.assertTrue(errors.endswith("autoamp: interrupted; the same command continues the search\n"), errors)
        return errors

    def test_interrupted_and_continued(self):
        """The fifth run waits once. The answers of the runs before are used again, those of other searches are not."""
        script = self.here / "script"
        script.write_text(f'n=$(cat n || echo 0)\necho $((n + 1)) >n\n[ $n = 4 ] && exec {TOLERANCE} wait={self.here}/wait\n'
                          f'exec {TOLERANCE} 17 18 19 20 21 22 23 24 fail=18\n')
        for number in (signal.SIGTERM, signal.SIGINT):
            (self.here / "n").write_text("0")
            self.interrupt(number, "sh", "script")
            self.assertEqual((self.here / "n").read_text(), "5\n")
            self.assertTrue((self.here / "rules.toml.state").exists())
            if number == signal.SIGTERM:
                for options in (["--dtype", "bfloat16"], ["--check", "true"], ["--by", "caller"]):
                    self.refused(self.bisect("sh", "script", status=2, options=["-o", "rules.toml", *options]), 2, "another search", "--force")
                then = script.stat().st_mtime_ns
                os.utime(script, ns=(0, 0))
                self.refused(self.bisect("sh", "script", status=2, options=["-o", "rules.toml"]), 2, "another search", "--force")
                os.utime(script, ns=(then, then))
            result = self.bisect("sh", "script", options=["-o", "rules.toml", "--force"])
            self.assertTrue(result.stderr.startswith("autoamp: continuing after 4 runs\n"), result.stderr)
            self.assertEqual(self.sizes(result), [(1, 18)])
            self.assertLessEqual(len(self.runs(result)), 3)
            self.assertFalse((self.here / "rules.toml.state").exists())
            (self.here / "rules.toml").unlink()

    def test_a_killed_command(self):
        """It leaves a folder. The next command deletes it, but not the folder of a command that still runs."""
        folders = self.here / "folders"
        folders.mkdir()
        command = [AUTOAMP, "bisect", "--device", "emulated", "--strategy", "cast", "--", TOLERANCE, f"wait={self.here}/wait", "17", "fail=17"]
        environment = self.environment | {"TMPDIR": str(folders)}
        process = subprocess.Popen(command, cwd=self.here, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until((self.here / "wait").exists, process)
        self.bisect(TOLERANCE, "18", "fail=18", TMPDIR=str(folders))
        self.assertEqual(len(os.listdir(folders)), 1)
        process.kill()
        process.wait()
        (self.here / "wait").unlink()  # ends its program
        self.bisect(TOLERANCE, "18", "fail=18", TMPDIR=str(folders))
        self.assertEqual(os.listdir(folders), [])

    def test_continued_without_a_file(self):
        (self.here / "n").write_text("0")
        words = ["sh", "-c", f'n=$(cat n); echo $((n + 1)) >n; [ $n = 4 ] && exec {TOLERANCE} wait={self.here}/wait; exec {TOLERANCE} 17 18 19 20 21 fail=18']
        self.interrupt(signal.SIGUSR1, *words, options=())
        result = self.bisect(*words)
        self.assertTrue(result.stderr.startswith("autoamp: continuing after 4 runs\n"), result.stderr)
        self.assertEqual(self.sizes(result), [(1, 18)])
        self.assertEqual([name for name in os.listdir(self.root / "state") if name.startswith("bisect")], [])

    def test_continued_with_other_answers(self):
        """Answers of the first search hold no longer. The second one notices, and forgets them."""
        (self.here / "n").write_text("0")
        (self.here / "harmful").write_text("18")
        words = ["sh", "-c", f'n=$(cat n); echo $((n + 1)) >n; [ $n = 6 ] && exec {TOLERANCE} wait={self.here}/wait; exec {TOLERANCE} 17 18 19 20 21 22 23 24 fail=$(cat harmful)']
        self.interrupt(signal.SIGTERM, *words)
        (self.here / "harmful").write_text("23")
        result = self.bisect(*words, options=["-o", "rules.toml"], status=1)
        self.assertIn("the check is not repeatable", result.stderr)
        self.assertEqual(self.sizes(self.bisect(*words, options=["-o", "rules.toml"])), [(1, 23)])

    def test_a_damaged_state(self):
        for text in ("", "{}", '{"schema": "autoamp.bisect/2"}', "[1", '{"schema": "autoamp.bisect/3", "key": "", "items": [], "runs": []}'):
            (self.here / "state").write_text(text)
            self.refused(self.bisect(TOLERANCE, "17", status=2, options=["--state", "state"]), 2, "state is not a state of autoamp bisect")
            self.assertEqual((self.here / "state").read_text(), text)

    def answers(self, text):
        """A check with these answers, p for passed and f for failed. The last answer is repeated."""
        (self.here / "answers").write_text("\n".join(text))
        return 'a=$(head -n 1 answers); [ $(wc -l <answers) = 0 ] || sed -i 1d answers; test $a = p'

    def test_a_check_that_is_not_repeatable(self):
        words = [TOLERANCE, *map(str, range(17, 21))]
        for answers, runs in (("fppfpffff", 9),  # run 8 fails with a part of the lowered calls of run 3, which passed
                              ("fpf", 10)):  # the last run fails with all calls kept, run 2 passed
            result = self.bisect(*words, status=1, options=["--check", self.answers(answers)])
            self.assertEqual("runs 3 and 8 contradict each other" in result.stderr, runs == 9, result.stderr)
            self.assertRegex(result.stderr, r"\nautoamp: the check is not repeatable: with the same calls lowered, it passed before and fails now\n\Z")
            self.assertEqual((len(self.runs(result)), result.stdout), (runs, ""))
            self.assertFalse(list(self.root.glob("state/bisect*")))

    def test_errors_that_cancel(self):
        """The error of 18 is harmful only if 17 is exact. Each answer is repeatable."""
        words = [TOLERANCE, "17", "18", "19", "20", "fail=18-17", "fail=17+19"]
        result = self.bisect(*words, options=["-o", "rules.toml"])
        self.assertIn("autoamp: both answers are repeatable", result.stderr)
        self.assertEqual(sorted(size for _, size in self.sizes(result)), [17, 18, 19])
        self.assertTrue(self.passes_under("rules.toml", *words[1:]))

    def test_bad_input(self):
        (self.here / "taken").write_text("text")
        started = self.here / "started"
        for options, words in ((["-o", "taken"], ["taken exists; --force"]), (["--by", "thread"], ["thread"]), (["--dtype", "int8"], ["int8"]),
                               (["--trace", "ops"], ["--trace"]), (["--config", "missing.toml"], ["missing.toml"]),
                               (["-o", "no/folder/rules.toml"], ["no/folder"])):
            result = self.autoamp("bisect", "--device", "emulated", "--quiet", *options, "--", "touch", str(started))
            self.refused(result, 2, *words)
        os.mkfifo(self.here / "pipe")
        os.mkdir(self.here / "folder")
        for options, words in ((["-o", "pipe", "--force"], ["pipe is not a regular file"]), (["-o", "folder", "--force"], ["folder is a folder"]),
                               (["-o", "same", "--state", "./same"], ["same file"]), (["-o", ""], ["--out", "empty"]),
                               (["--check", ""], ["--check", "empty"]), (["--check", "a'b"], ["not a command of /bin/sh"]),
                               (["--state", "no/folder/state"], ["no/folder"]), (["--level", "O0"], ["lowers no call"])):
            result = self.autoamp("bisect", "--device", "emulated", "--quiet", *options, "--", "touch", str(started))
            self.assertEqual((result.returncode, result.stdout), (2, ""), result)
            for word in words:
                self.assertIn(word, result.stderr.splitlines()[-1])
        result = self.autoamp("bisect", "--device", "emulated", "--", "true", TMPDIR="/nonexistent")
        self.refused(result, 2, "a temporary folder cannot be created")
        self.assertFalse(started.exists())
        disk = self.here / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True).returncode == 0:
            self.addCleanup(subprocess.run, ["umount", disk])
            for _ in range(2):  # full after the first run, and before it
                result = self.autoamp("bisect", "--device", "emulated", "--", "sh", "-c", "head -c 1500000 /dev/zero > disk/other; false",
                                      TMPDIR=str(disk))
                self.refused(result, 2, f"{disk}: the file system is full")
                self.assertEqual(os.listdir(disk), ["other"])
        self.refused(self.autoamp("bisect", "--device", "emulated"), 2, "no program given")
        for program in ("./missing", "./taken"):
            self.refused(self.autoamp("bisect", "--device", "emulated", "--", program), 2, program)
        self.assertEqual((self.here / "taken").read_text(), "text")
        self.bisect(TOLERANCE, "17", "fail=17", options=["-o", "taken", "--force"])
        self.assertIn("[[rule]]", (self.here / "taken").read_text())
        (self.here / "link").symlink_to("taken")
        self.bisect(TOLERANCE, "18", "fail=18", options=["-o", "link", "--force"])
        self.assertTrue((self.here / "link").is_symlink())
        self.assertIn("m = 18", (self.here / "taken").read_text())
        result = self.autoamp("bisect", "--device", "emulated", "-o", "taken", "--force", "--", "true")
        self.assertEqual(result.stdout, "nothing to bisect: the check passes, but no call was lowered\n")
        self.assertFalse((self.here / "taken").exists())


if __name__ == "__main__":
    unittest.main()
