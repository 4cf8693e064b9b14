"""Runs the client programs without and with the library, and reads the report. For semantics.py, numerics.py, capture.py
and others: DRIVER --preload FILE --autoamp FILE --clients DIR [--emulated DIR] [--record FILE] [unittest's arguments].
Without --emulated the programs find the libraries of the machine."""
import argparse
import functools
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TIMEOUT = 120
PLACE = None
ANSWER = re.compile(r"ok|(\w*_)?status(es)?|nonfinite|classes|spoiled|is_narrow|captured")

# Relative Frobenius errors that rounding to the type must cause, as lower and upper limits: m, n >= 32, Gaussian data.
ETA = {"float16": (2.5e-4, 3.5e-4), "tf32": (2.5e-4, 3.5e-4), "bfloat16": (2.0e-3, 3.0e-3)}


class Way:
    """A strategy by name, and the precision of its products."""

    def __init__(self, strategy, precision, **variables):
        self.strategy, self.precision = strategy, precision
        self.variables = {"STRATEGY": strategy, **variables}

    def is_permission(self):
        """cuBLAS may round the operands, but need not: a real one computes some products in fp32."""
        return self.strategy in ("tf32", "library") and not PLACE.emulated

    def rounding(self):
        """An H100 computes FAST_16F and FAST_16BF in TF32, and so does the emulated device."""
        return "tf32" if self.strategy == "library" and PLACE.emulated else self.precision

    def eta(self):
        low, high = ETA[self.rounding()]
        return (0 if self.is_permission() else low, high)


CAST_HALF = Way("cast", "float16")
CAST_BFLOAT16 = Way("cast", "bfloat16", DTYPE="bfloat16")
TF32 = Way("tf32", "tf32")
TF32_AS_TYPE = Way("tf32", "tf32", DTYPE="tf32")
LIBRARY_BFLOAT16 = Way("library", "bfloat16", DTYPE="bfloat16")
LIBRARY_HALF = Way("library", "float16", SCALING="off")


class Run:
    """A program's output, by case, and the library's report."""

    def __init__(self, done, report):
        self.status, self.errors, self.report = done.returncode, done.stderr, report
        self.cases = {}
        for line in done.stdout.splitlines():
            name, *pairs = line.split()
            self.cases[name] = dict(pair.split("=", 1) for pair in pairs)

    def bits(self):
        return {name: {key: value for key, value in case.items() if key.endswith(("bits", "classes", "status", "statuses"))}
                for name, case in self.cases.items()}

    def answers(self):
        """For each case and each row of the report: everything that should not depend on the device."""
        for name, case in self.cases.items():
            yield name, " ".join(f"{key}={value}" for key, value in case.items() if ANSWER.fullmatch(key))
        rows = {}
        for row in self.report["ops"] if self.report else []:
            name = " ".join(str(row[key]) for key in ("entry", "shape", "transa", "transb", "dtype_in", "dtype_asked", "region"))
            rows.setdefault(name, set()).add(" ".join(str(row[key]) for key in ("decision", "reason", "strategy", "dtype_compute")))
        yield from ((name, ", ".join(sorted(answers))) for name, answers in rows.items())

    def rows(self, **wanted):
        return [row for row in self.report["ops"] if all(row[key] == value for key, value in wanted.items())]

    def rows_of(self, case):
        """The report's rows of the product in this case."""
        return self.rows(entry=case["entry"], **{key: int(case[key]) for key in ("m", "n", "k", "batch")})

    def scaler_totals(self, site=None):
        totals = {}
        for total in self.report["scaler"]["totals"]:
            if site in (None, total["site"]):
                totals[total["kind"]] = totals.get(total["kind"], 0) + total["count"]
        return totals


@functools.lru_cache(maxsize=None)
def _run(program, cases, preload, variables, what_if):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    environment.update(variables)
    if PLACE.emulated:
        path = [PLACE.emulated, environment.get("LD_LIBRARY_PATH")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, path))
    command = [os.path.join(PLACE.clients, program)]
    for case in cases:
        command += ["--case", case]
    with tempfile.TemporaryDirectory() as folder:
        if preload:
            environment["LD_PRELOAD"] = PLACE.preload
            environment["AUTOAMP_TRACE_FILE"] = os.path.join(folder, "trace.aat")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        report = None
        if glob.glob(os.path.join(folder, "*.aat")):
            told = subprocess.run([PLACE.autoamp, "report", "--format", "json", *(["--what-if", what_if] if what_if else []), folder],
                                  capture_output=True, text=True, timeout=TIMEOUT, check=True)
            report = json.loads(told.stdout)
    made = Run(done, report)
    if PLACE.record and "AUTOAMP_CONFIG" not in dict(variables):  # its file has another name in each run
        # Without folders, which have other names in each run.
        named = (f"{name}={value.rpartition('/')[2]}" for name, value in variables)
        where = " ".join([program, *cases, *named, *["preloaded"] * preload, *[f"what if {what_if}"] * bool(what_if)])
        with open(PLACE.record, "a", encoding="utf-8") as file:
            for name, answer in made.answers():
                file.write(json.dumps([f"{where}: {name}", answer]) + "\n")
    return made


def run(program, *cases, preload=True, what_if=None, **variables):
    """Runs once for the same arguments. `variables`: without the prefix AUTOAMP_, which is added unless they begin with
    a `_`. The report is that of the settings `what_if`, if they are given."""
    named = {name[1:] if name.startswith("_") else "AUTOAMP_" + name: value for name, value in variables.items()}
    return _run(program, cases, preload, tuple(sorted(named.items())), what_if)


def bare(program, *cases, **variables):
    return run(program, *cases, preload=False, **variables)


def store_self_tests():
    """For a test that counts calls, or whose first products cannot be tested: memory is short, or they are captured."""
    for way in (CAST_HALF, CAST_BFLOAT16, TF32, LIBRARY_BFLOAT16, LIBRARY_HALF):
        assert run("self_test", "first", **way.variables).status == 0


def emulated_only(why):
    def decorate(test):
        @functools.wraps(test)
        def wrapped(self):
            if not PLACE.emulated:
                self.skipTest("on the emulated libraries: " + why)
            test(self)
        return wrapped
    return decorate


class Test(unittest.TestCase):
    maxDiff = None

    def assertFine(self, result):
        """The program found no error, and nothing was printed to stderr."""
        self.assertEqual((result.status, result.errors), (0, ""))

    def assertWithin(self, value, interval, what):
        low, high = interval
        self.assertTrue(low <= float(value) <= high, f"{what}: {value} is outside [{low:g}, {high:g}]")

    def assertLowered(self, result, case, way, calls=1):
        rows = result.rows_of(case)
        self.assertEqual([(row["decision"], row["reason"], row["strategy"], row["calls"]) for row in rows],
                         [("lowered", "white_list", way.strategy, calls)])
        types = {"in": "float32", "compute": way.precision, "accumulate": "float32", "out": "float32"}
        self.assertEqual({key: rows[0]["dtype_" + key] for key in types}, types)
        return rows[0]


def program(name):
    """A client program, or one that reads traces, which is next to them in the bundle."""
    folder = pathlib.Path(PLACE.clients)
    return next((file for file in (folder / name, folder.parent / name) if file.exists()), folder / name).resolve()


def parse():
    """Reads the command line. Returns unittest's arguments."""
    global PLACE
    parser = argparse.ArgumentParser()
    for name in ("preload", "autoamp", "clients"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--emulated")
    parser.add_argument("--record", help="file to which the answers of all programs are appended")
    PLACE, rest = parser.parse_known_args()
    return rest


def main():
    rest = parse()
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state  # no results of earlier self-tests
        unittest.main(argv=sys.argv[:1] + rest)
