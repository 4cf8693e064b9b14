"""AUTOAMP_ROUND_OUTPUT: results are those of a framework's autocast, which torch has recorded (tests/oracle/rounded.py)."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import runner

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracle"))
with open(os.path.join(sys.path[0], "torch_rounded.json"), encoding="utf-8") as FILE:
    CASES = json.load(FILE)["cases"]
BFLOAT16 = {"DTYPE": "bfloat16", "STRATEGY": "cast", "ROUND_OUTPUT": "1"}


def has_bfloat16(text):
    """True if all numbers are bfloat16 numbers."""
    return all(text[i + 4:i + 8] == "0000" for i in range(0, len(text), 8))


def halves(text):
    """The fp32 numbers of `text`, rounded to float16 as torch does: beyond the largest one to Inf."""
    made = ""
    for value in struct.unpack(f">{len(text) // 8}f", bytes.fromhex(text)):
        try:
            value = struct.unpack("e", struct.pack("e", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
        made += struct.pack(">f", value).hex()
    return made


class Rounded(unittest.TestCase):
    maxDiff = None

    def run_case(self, name, operation=None, **variables):
        case = CASES[name]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOAMP_", "LD_PRELOAD"))}
        environment |= {"AUTOAMP_" + key: value for key, value in variables.items()}
        with tempfile.TemporaryDirectory() as folder:
            environment |= {"LD_PRELOAD": runner.PLACE.preload, "AUTOAMP_TRACE_FILE": os.path.join(folder, "trace.aat")} if variables else {}
            environment["LD_LIBRARY_PATH"] = runner.PLACE.emulated or os.environ.get("LD_LIBRARY_PATH", "")
            arguments = [name, operation or case["op"], *case["sizes"], case["most"], case["power"]]
            done = subprocess.run([os.path.join(runner.PLACE.clients, "rounded"), *map(str, arguments)], env=environment,
                                  capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            decisions = set()
            if variables:
                told = subprocess.run([runner.PLACE.autoamp, "report", "--format", "json", folder], capture_output=True, text=True,
                                      timeout=60, check=True)
                decisions = {(row["decision"], row["strategy"]) for row in json.loads(told.stdout)["ops"]}
        return done.stdout.split("bits=")[1].strip(), decisions

    def test_bits_are_those_of_torch(self):
        for name, case in CASES.items():
            with self.subTest(name):
                bits, decisions = self.run_case(name, **BFLOAT16)
                self.assertEqual(decisions, {("lowered", "cast")})
                self.assertEqual(bits, case["bits"])
                unrounded, _ = self.run_case(name, **(BFLOAT16 | {"ROUND_OUTPUT": "0"}))
                if name not in ("mm.small", "mm.one"):  # their sums have few bits
                    self.assertFalse(has_bfloat16(unrounded))

    def test_batch_by_pointers(self):
        self.assertEqual(self.run_case("bmm", "bmm_pointers", **BFLOAT16)[0], CASES["bmm"]["bits"])

    def test_float16(self):
        """Exact sums, rounded once; sums beyond 65504 become Inf."""
        for name in ("mm.small", "mm.long", "mm.large", "mm.tiny", "bmm", "addmm", "conv2d", "conv2d.data", "conv2d.filter"):
            with self.subTest(name):
                exact, _ = self.run_case(name)
                bits, decisions = self.run_case(name, DTYPE="float16", STRATEGY="cast", ROUND_OUTPUT="1")
                self.assertEqual(decisions, {("lowered", "cast")})
                self.assertEqual(bits, halves(exact))
        self.assertIn("7f800000", self.run_case("mm.large", DTYPE="float16", STRATEGY="cast", ROUND_OUTPUT="1")[0])

    def test_forms_of_products(self):
        """Leading dimensions, gaps, layouts, entry points and epilogues: every element is rounded once, and nothing else."""
        forms = ("align.*", "arrays.*", "beside.*", "door.*", "ld.*", "lt.*", "lt_arrays.*", "rows.*", "scalars.*", "stride.*", "trans.*")
        plain, rounded = (runner.run("semantics", *forms, **BFLOAT16 | {"ROUND_OUTPUT": value}) for value in "01")
        captured = runner.run("strict", "replay", **BFLOAT16)
        self.assertEqual([result.errors for result in (plain, captured)], ["", ""])
        # Their beta * C is larger than the product, and rounded with it.
        wrong = {line.split(":")[0] for line in rounded.errors.splitlines()}
        self.assertEqual(wrong, {"beside.gelu_bias", "scalars.device_alpha_zero"})
        self.assertEqual(captured.cases["replay"]["wide"], "0")
        seen = 0
        for name, case in rounded.cases.items():
            rows = rounded.rows_of(case)
            if "wide" not in case or [(row["decision"], row["strategy"]) for row in rows] != [("lowered", "cast")]:
                continue
            with self.subTest(name):
                self.assertEqual(case["wide"], "0")
                self.assertEqual(case["rounded"], plain.cases[name]["rounded"])
                seen += plain.cases[name]["wide"] != "0"
        self.assertGreater(seen, 60)

    def test_strategies(self):
        """library rounds, TF32 and kept calls do not."""
        for variables, is_rounded in (({"DTYPE": "bfloat16", "STRATEGY": "library"}, True), ({"STRATEGY": "tf32"}, False),
                                      ({"STRATEGY": "fp32"}, False)):
            for operation in ("mm", "conv2d"):
                with self.subTest(operation, **variables):
                    bits, _ = self.run_case("mm.long" if operation == "mm" else "conv2d", ROUND_OUTPUT="1", **variables)
                    self.assertEqual(has_bfloat16(bits), is_rounded and operation == "mm")

    def test_strict_keeps_convolutions(self):
        """They have no check (AUTOAMP_SCALING=strict); bfloat16 needs none."""
        exact, _ = self.run_case("conv2d")
        self.assertEqual(self.run_case("conv2d", STRATEGY="cast", SCALING="strict"), (exact, {("kept", "fp32")}))
        _, decisions = self.run_case("conv2d", STRATEGY="cast", SCALING="strict", DTYPE="bfloat16")
        self.assertEqual(decisions, {("lowered", "cast")})


if __name__ == "__main__":
    runner.main()
