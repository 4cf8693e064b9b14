"""versions.py NEWER CORE FILE…: the files of a release (the core and others) need glibc 2.28 at most. NEWER: a library that
is linked to this machine's glibc."""
import pathlib
import subprocess
import sys
import unittest

NEWER, *FILES = sys.argv[1:]
CHECK = pathlib.Path(__file__).resolve().parents[2] / "glibc" / "check.py"


def check(*files):
    done = subprocess.run([sys.executable, CHECK, *files], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


class Versions(unittest.TestCase):
    maxDiff = None

    def test_release(self):
        self.assertEqual(check(*FILES), (0, f"{len(FILES)} files need glibc 2.28 at most\n"))

    def test_newer_calls_are_reported(self):
        status, text = check(*FILES, NEWER)
        self.assertEqual(status, 1)
        for problem in ("references dladdr@GLIBC_2.34", "requires GLIBC_2.34", "needs libstdc++.so.6", "@GLIBCXX_3.4"):
            self.assertIn(f"{NEWER} {problem}" if " " in problem else problem, text)

    def test_undefined_symbols_are_reported(self):
        """The linker leaves what the core takes from a front undefined, and a misspelled or newer function as well."""
        status, text = check(FILES[0])
        self.assertEqual(status, 1)
        self.assertIn("references autoamp_front_thread, which no file defines", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
