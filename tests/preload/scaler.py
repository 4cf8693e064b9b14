"""Gradient scalers of programs that can be changed: updates that the program records, and the scaler of autoamp.h."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PRELOAD, CLIENT, READER, EMULATED = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
TIMEOUT = 120
UNKNOWN, BAD_VALUE = "1", "-1"


class Ran:
    def __init__(self, done, scalers):
        self.status, self.errors, self.scalers = done.returncode, done.stderr, scalers
        self.cases = {}
        for line in done.stdout.splitlines():
            name, *pairs = line.split()
            self.cases[name] = dict(pair.split("=", 1) for pair in pairs)


def run(*cases, preload=True, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    environment["LD_LIBRARY_PATH"] = str(EMULATED)
    environment.update({"AUTOAMP_" + name: str(value) for name, value in variables.items()})
    with tempfile.TemporaryDirectory() as folder:
        if preload:
            environment["LD_PRELOAD"] = str(PRELOAD)
            environment["AUTOAMP_TRACE_FILE"] = folder + "/%p.aat"
        environment["XDG_STATE_HOME"] = folder
        command = [CLIENT] + [word for case in cases for word in ("--case", case)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        traces = sorted(pathlib.Path(folder).glob("*.aat"), key=lambda file: file.stat().st_mtime_ns)
        told = subprocess.run([READER, *traces], capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout
    return Ran(done, [json.loads(line) for line in told.splitlines()])


class Test(unittest.TestCase):
    maxDiff = None

    def assertFine(self, result):
        self.assertEqual((result.status, result.errors), (0, ""))


class Recorded(Test):
    """autoamp_record_update()."""

    def test_updates_become_events(self):
        for trace in ("ops", "summary"):
            result = run("record", TRACE=trace)
            self.assertFine(result)
            self.assertEqual(result.cases["record"]["status"], "0")
            one, other = result.scalers
            self.assertEqual(one["events"], [["first", 1, 8, 4, 1, -1, -1, -1], ["backoff", 1, 8, 4, 1, -1, -1, -1],
                                             ["growth", 3, 4, 8, 0, -1, -1, -1], ["backoff", 4, 8, 4, 1, -1, -1, -1]])
            del one["events"]
            self.assertEqual(one, {"name": "mine#0", "how": "python", "device": 1, "growth": 2, "backoff": None, "interval": 3,
                                   "steps": 4, "skipped": 2, "unseen": 0, "growths": 1, "backoffs": 2, "sets": 0, "refusals": 0,
                                   "holds": 0, "scale_first": 8, "scale_last": 4, "tracker": -1})
            self.assertEqual((other["name"], other["steps"]), ("mine#1", 1))

    def test_wrong_structs_are_refused(self):
        result = run("refused")
        self.assertEqual(result.cases["refused"]["statuses"].split(","), [BAD_VALUE] * 6 + ["0", BAD_VALUE])
        self.assertEqual(result.scalers[0]["steps"], 1)

    def test_nothing_to_record_to(self):
        for variables in ({"preload": False}, {"TRACE": "off"}, {"ENABLED": "0"}):
            result = run("record", **variables)
            self.assertEqual((result.status, result.cases["record"]["status"], result.scalers), (0, UNKNOWN, []))

    def test_a_forked_child_has_its_own_trace(self):
        result = run("forked")
        self.assertEqual((result.cases["forked"]["status"], result.cases["forked"]["child"]), ("0", "0"))
        self.assertEqual(sorted((scaler["steps"], scaler["scale_last"]) for scaler in result.scalers), [(1, 2), (1, 4)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
