"""suite_faults.py BUILD: the suite with steps that hang and crash, with missing libraries, with a full output folder, and
interrupted. The steps are small; the machine is the emulated device."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from suite import machine  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv.pop()).resolve()
PAGE = "autoamp-emulated-h100-constants-c0ffee" + ".md"
STEPS = '''
import os, subprocess, sys, time
from suite import correctness
class Entry:
    def __init__(self, order, function):
        self.order, self.function, self.seconds = order, function, 60
def good(step):
    section = step.section("good", "row", "answer")
    section.answers["row"] = "here"
    section.add("row", "here")
    section.check(True, "")
    return section
def hang(step):
    section = step.section("hang", "row", "answer")
    section.add("before")
    # A child in another session that ignores signals.
    child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
                             start_new_session=True)
    open(os.environ["CHILD"], "w").write(str(child.pid))
    time.sleep(600)
def crash(step):
    step.section("crash")
    os.abort()
def last(step):
    return good(step)
dnn = correctness.dnn
STEPS = {name: Entry(i, globals()[name]) for i, name in enumerate(("good", "hang", "crash", "dnn", "last"))}
'''


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = pathlib.Path(folder.name, "bundle")
        self.out, self.child = pathlib.Path(folder.name, "out"), pathlib.Path(folder.name, "child")
        emulated = self.bundle / "lib/autoamp/emulated"
        emulated.mkdir(parents=True)
        for file in (BUILD / "tools/emulated").glob("lib*.so.*"):
            if file.is_file() and "cudnn" not in file.name:
                (emulated / file.name).symlink_to(file.resolve())
        for file in (BUILD / "tools/emulated").glob("libautoamp*.so"):
            (emulated / file.name).symlink_to(file)
        shutil.copytree(HERE / "suite", self.bundle / "suite", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE / "run.py", self.bundle)
        (self.bundle / "suite/steps.py").write_text(STEPS)
        (self.bundle / "bundle.json").write_text('{"commit": "c0ffee"}')
        (self.bundle / "emulated.json").write_text('{"steps": {"good": {"answers": {"row": "there"}}}}')

    def command(self, *arguments):
        return [sys.executable, str(self.bundle / "run.py"), "--device", "emulated", "--out", str(self.out), *arguments]

    def start(self, *arguments):
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "CHILD": str(self.child)})

    def run_suite(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def statuses(self):
        return {name: step["status"] for name, step in self.results()["steps"].items()}

    def results(self):
        return json.loads((self.out / "results.json").read_text())

    def await_child(self):
        for _ in range(600):
            if self.child.exists() and self.child.read_text():
                return int(self.child.read_text())
            time.sleep(0.1)
        self.fail("the hanging step did not begin")

    def assert_ended(self, pid):
        for _ in range(100):
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return
            except FileNotFoundError:
                return
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        self.fail(f"process {pid} is still alive")

    def test_steps_that_hang_and_crash_and_a_missing_library(self):
        status, out, err = self.run_suite("--seconds", "2")
        self.assertEqual((status, err), (1, ""))
        self.assertEqual(self.statuses(), {"good": "passed", "hang": "out of time", "crash": "crashed", "dnn": "not available",
                                           "last": "passed"})
        self.assertEqual(self.results()["steps"]["hang"]["rows"], [["before", ""]])
        self.assert_ended(int(self.child.read_text()))
        self.assertEqual(self.results()["steps"]["dnn"]["missing"], "libcudnn.so.9")
        self.assertIn("libcudnn.so.9", self.results()["missing"])
        for text in (out, (self.out / "summary.txt").read_text()):
            for line in ("FAILED out of time: killed after 2 s", "FAILED crashed: exit status -6", "missing: libcudnn.so.9"):
                self.assertIn(line, text)
        self.assertEqual(sorted(file.name for file in self.out.iterdir()), [PAGE, "log.txt", "results.json", "summary.txt"])

    def test_answers_that_differ_from_the_emulated_device(self):
        self.assertEqual(self.run_suite("--steps", "good", "last")[0], 0)
        self.assertEqual(self.results()["steps"]["good"]["differences"], [["row", "here", "there"]])
        self.run_suite("--steps", "last")
        self.assertEqual(list(self.statuses()), ["good", "last"])
        for name in ("summary.txt", PAGE):
            text = (self.out / name).read_text()
            self.assertEqual(text.count("differs from the emulated device: row: here here, emulated there"), 1, name)

    def test_an_output_folder_without_room(self):
        self.out.mkdir()
        for name in ("results.json", "summary.txt"):
            (self.out / (name + ".part")).symlink_to("/dev/full")
        status, out, err = self.run_suite("--steps", "good", "last")
        self.assertEqual(status, 1)
        self.assertEqual(err.count("cannot be written"), 1)
        self.assertIn("No space left on device", err)
        self.assertIn("== last: passed", out)

    def test_interrupted_and_continued(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                shutil.rmtree(self.out, ignore_errors=True)
                self.child.unlink(missing_ok=True)
                process = self.start()
                child = self.await_child()
                process.send_signal(number)
                process.communicate(timeout=60)
                if number != signal.SIGKILL:  # a child with its own session outlives a suite that cannot end it
                    self.assert_ended(child)
                    self.assertEqual(process.returncode, 128 + number)
                else:
                    os.kill(child, signal.SIGKILL)
                self.assertEqual(self.statuses(), {"good": "passed"})
                begun = self.results()["started"]
                status, out, _ = self.run_suite("--skip-done", "--steps", "good", "crash", "last")
                self.assertEqual(status, 1)
                self.assertEqual(self.statuses(), {"good": "passed", "crash": "crashed", "last": "passed"})
                self.assertNotIn("== good", out)
                self.assertEqual(self.results()["started"], begun)
                self.assertIn("==== good: passed", (self.out / "log.txt").read_text())

    def test_results_of_another_commit_are_not_continued(self):
        self.run_suite("--steps", "good")
        (self.bundle / "bundle.json").write_text('{"commit": "decaf"}')
        out = self.run_suite("--steps", "good", "--skip-done")[1]
        self.assertIn("== good", out)
        self.assertEqual([page.name for page in self.out.glob("*.md")], [PAGE.replace("c0ffee", "decaf")])

    def test_the_total_limit(self):
        status = self.run_suite("--minutes", "0")[0]
        self.assertEqual((status, set(self.statuses().values())), (1, {"not run"}))


class Versions(unittest.TestCase):
    BOTH = {name: "/lib" for names in machine.NEEDED.values() for name in names}
    OLD = {name: "/lib" for name in machine.NEEDED[12]}

    def test_the_newest_that_works(self):
        for driver, libraries, cuda, expected in ((13000, self.BOTH, None, 13), (13000, self.OLD, None, 12), (12040, self.BOTH, None, 12),
                                                  (13000, self.BOTH, 12, 12)):
            self.assertEqual(machine.choose(driver, libraries, cuda), expected)

    def test_what_is_missing(self):
        self.assertIn("not found: libcudart.so.13, libcublas.so.13, libcublasLt.so.13", machine.choose(13000, {}))
        self.assertIn("not found: libcublas.so.12;", machine.choose(12080, {**self.BOTH, "libcublas.so.12": None}))
        self.assertEqual(machine.choose(12080, self.BOTH, 13), "the driver is for CUDA 12; these programs need one for CUDA 13")


if __name__ == "__main__":
    unittest.main()
