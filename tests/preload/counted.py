"""Calls without a lower-precision form are counted: their rows in every trace mode, and the line of the receipt."""
import os
import subprocess
import tempfile

import runner
from runner import run

FIELDS = ("entry", "op", "m", "n", "k", "transa", "dtype_in", "decision", "reason", "calls", "flops")
DGEMM = {("cublasDgemm_v2", "mm", 16, 8, 16, "N", "float64", "kept", "float64", 1000, 4096e3),
         ("cublasDgemm_v2", "mm", 16, 8, 16, "T", "float64", "kept", "float64", 1, 4096.0)}
COMPLEX = {("cublasZgemm_v2", "mm", 16, 8, 16, "N", "complex128", "kept", "complex", 10, 163840.0),
           ("cublasCgemm_v2_64", "mm", 16, 8, 16, "N", "complex64", "kept", "complex", 20, 327680.0)}
VECTORS = {("cublasDgemv_v2", "mv", 16, 8, 1, "T", "float64", "kept", "float64", 3, 768.0),
           ("cublasSgemv_v2", "mv", 16, 8, 1, "T", "float32", "kept", "matrix_vector", 1, 256.0),
           ("cublasDaxpy_v2", "none", None, None, None, "N", "float64", "kept", "float64", 16, 0.0)}


class Counted(runner.Test):
    def rows(self, *cases, **variables):
        result = run("counted", *cases, **variables)
        self.assertEqual(result.errors, "")
        return {tuple(row[field] for field in FIELDS) for row in result.report["ops"]}, result

    def test_every_call_is_in_the_report(self):
        for case, expected in (("products", DGEMM), ("complex", COMPLEX), ("vectors", VECTORS)):
            for trace in ("summary", "ops", "kernels"):
                with self.subTest(case, trace=trace):
                    rows, result = self.rows(case, TRACE=trace)
                    self.assertEqual(rows, expected)
                    self.assertEqual(result.status, 0)
                    self.assertEqual(result.report["totals"]["calls"], sum(row[-2] for row in expected))
                    self.assertEqual(result.report["totals"]["eligible"], 0)
                    for row in result.report["ops"]:
                        if row["entry"] != "cublasSgemv_v2":  # of fp32 data, so it is timed
                            self.assertIsNone(row["device"])
                            self.assertEqual(row["host_ns"] is None, trace != "kernels", row)

    def test_they_are_observed_at_O0(self):
        rows, _ = self.rows("products", LEVEL="O0")
        self.assertEqual(rows, {row[:7] + ("observed",) + row[8:] for row in DGEMM})
        for variables in ({"TRACE": "off"}, {"TRACE": "off", "LEVEL": "O0"}):
            result = run("counted", "products", **variables)
            self.assertFine(result)
            self.assertIsNone(result.report)

    def test_every_thread_counts(self):
        rows, _ = self.rows("threads")
        self.assertEqual([row[-2] for row in rows], [400])

    def test_a_killed_program_loses_none(self):
        rows, result = self.rows("killed")
        self.assertEqual((result.status, [row[-2] for row in rows]), (-9, [123]))

    def test_a_capture_range_counts_in_order(self):
        rows, _ = self.rows("products", CAPTURE_RANGE="calls:501:600")
        self.assertEqual([row[-2] for row in rows], [100])

    def test_the_receipt_says_so(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTOAMP_")}
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(runner.PLACE.clients, "counted")
            done = subprocess.run([runner.PLACE.autoamp, "run", "--device", "emulated" if runner.PLACE.emulated else "cuda",
                                   "--", program, "--case", "products"], env=environment, cwd=folder, capture_output=True, text=True,
                                  timeout=runner.TIMEOUT, check=True)
        self.assertIn("1,001 calls of cublasDgemm_v2 (float64); nothing to lower", done.stderr)


if __name__ == "__main__":
    runner.main()
