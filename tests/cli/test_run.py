"""`autoamp run` starts programs unchanged, with the library preloaded."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from case import EMULATED_LIBRARIES, PLAIN, PROGRAMS, TRACED, Case


def precedes_rpath(case, *programs):
    """DT_RPATH comes before LD_LIBRARY_PATH. The emulated libraries come before both, also in children and plug-ins."""
    for program in programs:
        for command in ([PROGRAMS / program], ["sh", "-c", f"'{PROGRAMS / program}'"]):
            result = case.run_("--", *command)
            case.assertIn("runtime 1\n", result.stdout, result.stderr)
            result = case.autoamp("run", "--device", "emulated", "--", *command)
            case.assertIn("library loaded\nruntime 2\n", result.stdout, result.stderr)


class Run(Case):
    def variable(self, name, *options, **variables):
        result = self.run_(*options, "--quiet", "--", "sh", "-c", f'printf %s "${name}"', **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_exit_statuses(self):
        for script, status in (("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)):
            self.assertEqual(self.run_("--", "sh", "-c", script).returncode, status)
        (self.here / "text").write_text("no program")
        (self.here / "orphan").write_text("#!/no/such/interpreter\n")
        (self.here / "orphan").chmod(0o755)
        self.refused(self.run_("--", "./text"), 126, "./text")
        self.refused(self.run_("--", "./orphan"), 126, "./orphan")
        self.refused(self.run_("--", "."), 126)
        self.refused(self.run_("--", "./missing"), 127, "./missing")
        self.refused(self.run_("--", "no-such-program"), 127, "no-such-program")

    def test_arguments_and_streams_are_the_applications_own(self):
        script = self.here / "two words.sh"
        script.write_text('#!/bin/sh\nfor word; do echo "[$word]"; done\ncat\n')
        script.chmod(0o755)
        for before in ([], ["--"]):
            result = subprocess.run([self.root / "tools/autoamp", "run", "--device", "cuda", "--quiet", *before,
                                     "./two words.sh", "--level", "a b", "--", "", "-o"], cwd=self.here,
                                    env=self.environment, input="in\n", capture_output=True, text=True)
            self.assertEqual((result.stdout, result.stderr), ("[--level]\n[a b]\n[--]\n[]\n[-o]\nin\n", ""))

    def test_options_become_variables_and_beat_them(self):
        self.assertEqual(self.variable("AUTOAMP_LEVEL", "--level", "O0", AUTOAMP_LEVEL="O1"), "O0")
        self.assertEqual(self.variable("AUTOAMP_LEVEL", AUTOAMP_LEVEL="O0"), "O0")
        for option, value, name in (("--dtype", "bf16", "DTYPE"), ("--lists", "torch", "LISTS"), ("--scaling", "off", "SCALING"),
                                    ("--white", "mm", "CUSTOM_WHITE_LIST"), ("--black", "cublasSgemm*", "CUSTOM_BLACK_LIST"),
                                    ("--strategy", "cast", "STRATEGY"), ("--trace", "summary", "TRACE")):
            self.assertEqual(self.variable("AUTOAMP_" + name, option, value), value)
        self.assertEqual(self.variable("AUTOAMP_HOOK_DLSYM", "--no-hook"), "0")
        self.assertEqual(self.variable("AUTOAMP_TRACE"), "ops")
        self.assertEqual(self.variable("AUTOAMP_TRACE", AUTOAMP_TRACE="off"), "off")
        self.assertEqual(self.variable("AUTOAMP_TRACE_FILE"), f"{self.here}/%e.%p.aat")
        self.assertEqual(self.variable("AUTOAMP_TRACE_FILE", "-o", "x.aat"), f"{self.here}/x.aat")
        self.assertEqual(self.variable("AUTOAMP_TRACE_FILE", AUTOAMP_TRACE_FILE="/tmp/%p"), "/tmp/%p")

    def test_bad_values_start_nothing(self):
        marker = self.here / "started"
        for options, variables in (([], {"AUTOAMP_MEMORY": "much"}), (["--dtype", "int8"], {}), (["--white", "mmm"], {}),
                                   (["--white", "mm", "--black", "mm"], {}), (["-o", "%z.aat"], {}),
                                   ([], {"AUTOAMP_TRACE_FILE": "%q{"}), ([], {"AUTOAMP_UNKNOWN": ""})):
            self.refused(self.run_(*options, "--", "touch", str(marker), **variables), 125)
        self.assertFalse(marker.exists())

    def test_library_is_prepended_once(self):
        library = str(self.root / "inject/libautoamp.so")
        self.assertEqual(self.variable("LD_PRELOAD"), library)
        self.assertEqual(self.variable("LD_PRELOAD", LD_PRELOAD="libm.so.6"), library + ":libm.so.6")
        self.assertEqual(self.variable("LD_PRELOAD", LD_PRELOAD=f"libm.so.6 {library}"), f"libm.so.6 {library}")
        result = self.run_("--quiet", "--", self.root / "tools/autoamp", "run", "--device", "cuda", "--quiet", "--", PLAIN)
        self.assertEqual((result.stdout, result.stderr), ("library loaded\n", ""))

    def test_missing_library(self):
        (self.root / "inject/libautoamp.so").unlink()
        self.refused(self.run_("--", "true"), 125, "libautoamp.so")

    def test_the_python_package_is_missing(self):
        self.refused(self.run_("--watch-python", "--", PLAIN), 125, "--watch-python", "the Python package of autoamp is not next to")

    def test_installed_layout(self):
        (self.root / "lib/autoamp").mkdir(parents=True)
        (self.root / "inject/libautoamp.so").rename(self.root / "lib/autoamp/libautoamp.so")
        self.assertEqual(self.run_("--", PLAIN).stdout, "library loaded\n")

    def test_device_is_chosen_or_refused(self):
        self.refused(self.autoamp("run", "--", PLAIN), 125, "--device emulated")
        driver = {"LD_LIBRARY_PATH": str(self.root / "driver")}
        self.refused(self.autoamp("run", "--", PLAIN, **driver), 125, "--device emulated")
        self.refused(self.autoamp("run", "--", PLAIN, **driver, FAKE_DEVICES="0"), 125, "--device emulated")
        result = self.autoamp("run", "--", PLAIN, **driver, FAKE_DEVICES="1")
        self.assertEqual((result.returncode, result.stdout), (0, "library loaded\n"))

    def test_emulated_device(self):
        result = self.autoamp("run", "--device", "emulated", "--quiet", "--", "sh", "-c", "echo $LD_LIBRARY_PATH",
                              LD_LIBRARY_PATH="/theirs")
        self.assertEqual(result.stdout, f"{self.root}/tools/emulated:/theirs\n")
        precedes_rpath(self, "plain_rpath", "plain_opens_rpath")
        self.refused(self.autoamp("run", "--device", "emulated", "--", PROGRAMS / "plain_static_cudart"), 125, "-cudart shared")
        self.assertEqual(self.run_("--", PROGRAMS / "plain_static_cudart").returncode, 0)
        shutil.rmtree(self.root / "tools/emulated")
        self.refused(self.autoamp("run", "--device", "emulated", "--", PLAIN), 125, "emulated")

    def test_every_library_has_an_emulated_version(self):
        """Without an emulated version, the vendor's own library would be loaded next to the emulated driver."""
        def emulated(program, *options):
            return self.autoamp("run", "--device", "emulated", *options, "--", PROGRAMS / program)
        self.refused(emulated("plain_cuda12"), 125, "plain_cuda12 needs libcublas.so.12, but the emulated device has libcublas.so.13\n")
        self.refused(emulated("plain_cufft"), 125, "plain_cufft needs libcufft.so.12, which has no emulated version\n")
        result = emulated("plain_spectrum")
        self.assertEqual((result.returncode, result.stdout), (0, "library loaded\nruntime 52\n"))
        self.assertIn("autoamp: warning: no emulated version of libcufft.so.12; calls of it fail\n", result.stderr)
        self.assertEqual(emulated("plain_spectrum", "--quiet").stderr, "")
        for name in EMULATED_LIBRARIES:
            library = self.root / "tools/emulated" / name
            library.rename(self.here / name)
            self.refused(emulated("plain"), 125, f"the emulated device is incomplete: {name} is missing", "install autoamp again\n")
            (self.root / "build.ninja").touch()
            self.refused(emulated("plain"), 125, f"{name} is missing", f"build it with ninja -C {self.root} emulated\n")
            (self.root / "build.ninja").unlink()
            (self.here / name).rename(library)

    def test_quickstart_builds_every_emulated_library(self):
        for target in ("demo", "emulated"):
            inputs = subprocess.run(["ninja", "-C", os.environ["BUILD"], "-t", "query", target], capture_output=True, text=True, check=True).stdout
            for name in [*EMULATED_LIBRARIES, "plugins/libautoamp-kernels.so"]:
                self.assertIn(f" tools/emulated/{name}\n", inputs)

    def test_explicit_file_is_not_overwritten(self):
        self.run_("-o", "x.aat", "--", TRACED, "processes")  # two traces
        self.trace("vectors", "x.aat")  # x.2.aat, without a run
        before = (self.here / "x.aat").read_bytes()
        self.refused(self.run_("-o", "x.aat", "--", TRACED), 125, "x.aat", "--force")
        self.assertEqual((self.here / "x.aat").read_bytes(), before)
        self.assertEqual(self.run_("-o", "x.aat", "--force", "--", TRACED, "low").returncode, 0)
        self.assertEqual(self.json("x.aat")["totals"]["calls"], 7)
        self.assertEqual(sorted(path.name for path in self.here.glob("*.aat")), ["x.2.aat", "x.aat"])

    def test_a_trace_that_is_being_written_is_not_replaced(self):
        with subprocess.Popen(["timeout", "60", self.root / "tools/autoamp", "run", "--device", "cuda", "-o", "x.aat", "--", TRACED, "lingers"],
                              cwd=self.here, env=self.environment, stderr=subprocess.PIPE, text=True) as first:
            deadline = time.monotonic() + 30
            while not (self.here / "x.aat").exists() or self.json("x.aat")["totals"]["calls"] < 3:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            pid = self.json("x.aat")["runs"][0]["pid"]
            self.refused(self.run_("-o", "x.aat", "--force", "--", TRACED, "low"), 125,
                         f"x.aat is still being written by process {pid}; wait for its end, or give another name with -o")
            os.kill(pid, signal.SIGTERM)
            self.assertIn("lowered 3 of 3", first.communicate(timeout=30)[1])
        self.assertEqual(self.run_("-o", "x.aat", "--force", "--", TRACED, "low").returncode, 0)

    def test_replacing_a_run_spares_the_files_of_others(self):
        self.run_("-o", "x.aat", "--", TRACED, "low")
        self.run_("--", TRACED, "vectors", AUTOAMP_TRACE_FILE="x.aat")  # x.1.aat
        self.run_("-o", "z.aat", "--", TRACED, "processes")
        self.assertEqual(self.json("x.aat")["totals"]["calls"], 7)
        self.assertEqual(self.run_("-o", "x.aat", "--force", "--", TRACED, "processes").returncode, 0)
        self.assertEqual(sorted(path.name for path in self.here.glob("*.aat")),
                         ["x.1.aat", "x.2.aat", "x.aat", "z.1.aat", "z.aat"])
        report = self.json("x.aat")
        self.assertEqual([run["file"] for run in report["runs"]], ["x.aat", "x.2.aat"])
        self.assertEqual(len({run["run_id"] for run in report["runs"]}), 1)
        other = self.json("x.1.aat")
        self.assertEqual(other["totals"]["calls"], 11)
        self.assertNotEqual(other["runs"][0]["run_id"], report["runs"][0]["run_id"])

    def test_signals_reach_the_application(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            name = number.name[3:]
            child = subprocess.Popen([self.root / "tools/autoamp", "run", "--device", "cuda", "--quiet", "--", "sh", "-c",
                                      f"trap 'echo got; exit 7' {name}; echo ready; for i in $(seq 300); do sleep 0.05; done"],
                                     env=self.environment, stdout=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # nohup ignores SIGHUP
            self.assertEqual(child.stdout.readline(), "ready\n")
            child.send_signal(number)
            try:
                self.assertEqual((child.communicate(timeout=10)[0], child.returncode), ("got\n", 7))
            finally:
                child.kill()

    def test_ignored_signals_stay_ignored(self):
        script = "trap '' HUP; '{}' run --device cuda --quiet -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo alive'"
        result = subprocess.run(["sh", "-c", script.format(self.root / "tools/autoamp")], env=self.environment,
                                capture_output=True, text=True)
        self.assertEqual((result.stdout, result.stderr), ("alive\n", ""))

    def test_another_launcher_on_either_side(self):
        launcher = self.here / "nsys"
        launcher.write_text('#!/bin/sh\nshift\nexec "$@"\n')
        launcher.chmod(0o755)
        self.assertIn("library loaded", self.run_("--", "./nsys", "profile", PLAIN).stdout)
        result = subprocess.run(["./nsys", "profile", self.root / "tools/autoamp", "run", "--device", "cuda", "--", PLAIN],
                                cwd=self.here, env=self.environment, capture_output=True, text=True)
        self.assertEqual(result.stdout, "library loaded\n")


class RunFromFolderWithSpace(Case):
    folder = "two words"

    def test_library_goes_by_name(self):
        result = self.run_("--", PLAIN, LD_PRELOAD="libm.so.6", LD_LIBRARY_PATH="/theirs")
        self.assertEqual((result.returncode, result.stdout), (0, "library loaded\n"), result.stderr)
        result = self.autoamp("run", "--device", "emulated", "--", PLAIN)
        self.assertEqual((result.returncode, result.stdout), (0, "library loaded\n"), result.stderr)
        precedes_rpath(self, "plain_opens_rpath")
        self.refused(self.autoamp("run", "--device", "emulated", "--", PROGRAMS / "plain_rpath"), 125, "DT_RPATH")


class RunFromFolderWithColon(Case):
    folder = "a:b"

    def test_it_says_that_it_cannot(self):
        self.refused(self.run_("--", PLAIN), 125, "colon")
        self.refused(self.autoamp("run", "--device", "emulated", "--", PLAIN), 125, "colon")
        shutil.copy(pathlib.Path(__file__).parents[2] / "tools/quickstart", self.root / "tools")
        result = subprocess.run([self.root / "tools/quickstart"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1), result.stderr)
        self.assertIn("colon", result.stderr)


unittest.main()
