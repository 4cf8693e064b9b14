"""hardware_faults.py HARDWARE EMULATED: rows of `hardware` that end their process. The other rows keep their answers."""
import os
import subprocess
import sys
import unittest

HARDWARE, EMULATED = sys.argv[1:]


def answers(*patterns, **variables):
    command = [HARDWARE, *(word for pattern in patterns for word in ("--case", pattern))]
    done = subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": EMULATED, **variables}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    return done.returncode, {row[0]: dict(pair.split("=") for pair in row[1:]) for row in rows}


class Faults(unittest.TestCase):
    def test_a_call_that_fails(self):
        """In each process, the second pool cannot be made."""
        status, rows = answers("memory.*", AUTOAMP_EMU_MEMORY="1G", AUTOAMP_EMU_FAIL="cudaMemPoolCreate:2")
        found = [row["answer"] for row in rows.values()]
        self.assertEqual(found, ["yes", "failed", "yes", "failed", "yes", "yes", "yes"])
        self.assertEqual({row["exit"] for row in rows.values() if row["answer"] == "failed"}, {"3"})
        self.assertEqual(status, 0)  # autoamp needs none of them

    def test_a_needed_row_without_an_answer_fails(self):
        status, rows = answers("half.*", AUTOAMP_EMU_FAIL="cublasCreate_v2:3")
        self.assertEqual([(row["answer"], row["ok"]) for row in rows.values()], [("yes", "1"), ("yes", "1"), ("failed", "0")])
        self.assertEqual(status, 1)

    def test_no_such_row(self):
        self.assertEqual(answers("nowhere"), (1, {}))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
