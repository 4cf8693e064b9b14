"""Faults and difficult circumstances: each call has the program's own result, and the report has the reason.
Arguments: see machine.py."""
import os
import shutil
import signal
import sys
import unittest

from machine import CAST, DEBIAN, HAS_AMX, LIBRARIES, OBSTACLE, PROGRAMS, ROOM, WHEELS, lowers, main, run


class Faults(unittest.TestCase):
    maxDiff = None

    def fine(self, command, *arguments, result="r", status=0, libraries=("stub", "openblas-serial", "openblas-pthread", "openblas-openmp", "blis-pthread"), **options):
        """Runs before each of the libraries, with several threads. Returns the last report."""
        report = None
        for library in LIBRARIES:
            if library.file and library.path and library.name in libraries:
                with self.subTest(library.name):
                    made = run(command, *arguments, path=library.path, **{"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "BLIS_NUM_THREADS": "2"} | CAST | options)
                    self.assertEqual((made.status, made.errors), (status, ""))
                    self.assertTrue(made.out)
                    for line in made.out.splitlines():
                        self.assertIn(line.split()[1], result, line)
                    report = made.report
        return report

    def reasons(self, report):
        return {(row["decision"], row["reason"]) for row in report["ops"]}

    @lowers
    def test_forks(self):
        report = self.fine("faults", "forks")
        self.assertEqual(self.reasons(report), {("lowered", "white_list")})
        # 2 by the parent, and children that are descendants of each other
        self.assertEqual(sum(row["calls"] for row in report["ops"] if row["entry"] == "sgemm_"), 2 + 1 + 1 + 4)

    @lowers
    def test_forks_while_threads_multiply(self):
        # A child may not use oneDNN if a thread was inside it at the fork.
        report = self.fine("faults", "fork_busy", result="re")
        self.assertLessEqual(self.reasons(report), {("lowered", "white_list"), ("fallback", "forked_inside")})

    def test_forks_in_signal_handlers(self):
        for trace in ("off", "ops"):
            self.fine("faults", "fork_in_handler", result="re", libraries=("stub",), AUTOAMP_TRACE=trace)

    @lowers
    def test_threads(self):
        report = self.fine("faults", "crowd")
        self.assertEqual(self.reasons(report), {("lowered", "white_list")})
        self.assertEqual(report["totals"]["calls"], 64 * 5 * 3 + 2)

    @lowers
    def test_cancellation(self):
        self.fine("faults", "cancellation", libraries=("stub", "openblas-serial"))

    @lowers
    def test_small_stacks(self):
        self.fine("faults", "stacks", result="e", libraries=("stub", "openblas-serial"))

    @lowers
    def test_floating_point_environment(self):
        self.fine("faults", "environment", libraries=("stub", "openblas-serial"))

    @lowers
    def test_calls_in_signal_handlers(self):
        self.fine("handler", libraries=("stub", "openblas-serial"))

    @lowers
    def test_ends_without_exit(self):
        for how, status in (("leave", 0), ("die", -signal.SIGKILL)):
            report = self.fine("faults", how, status=status)
            self.assertEqual(report["totals"]["lowered"], 2)

    @lowers
    def test_exit(self):
        # OpenBLAS itself can crash after its own destructors.
        for how, libraries in (("exit_busy", ["stub"]), ("at_exit", ["stub", "openblas-pthread", "openblas-serial"])):
            self.fine("faults", how, result="re", libraries=libraries)

    @lowers
    def test_end_of_a_thread(self):
        self.fine("faults", "thread_end", result="re", libraries=("stub", "openblas-pthread"))

    @lowers
    def test_error_handler_that_throws(self):
        report = self.fine("faults", "handler", libraries=("openblas-serial", "stub"))
        rows = {(row["m"], row["reason"]): row["calls"] for row in report["ops"] if row["entry"] == "sgemm_"}
        self.assertEqual(rows, {(40, "white_list"): 4, (-1, "bad_argument"): 3})

    @lowers
    def test_memory_budget(self):
        report = self.fine("faults", "large", result="e", AUTOAMP_MEMORY="1M")
        self.assertEqual({row["n"]: (row["decision"], row["reason"], row["calls"]) for row in report["ops"]},
                         {64: ("lowered", "white_list", 2), 700: ("fallback", "memory_budget", 1)})

    def dnnl(self, kind):
        folder = ROOM / kind
        folder.mkdir(exist_ok=True)
        for version in (2, 3):
            if kind == "missing":  # the name leads to a file that is not a library
                (folder / f"libdnnl.so.{version}").write_text("nothing")
            else:
                shutil.copy(PROGRAMS / f"libcpu_dnnl_{kind}.so", folder / f"libdnnl.so.{version}")
        return folder

    @lowers
    def test_onednn_does_not_work(self):
        for kind in ("missing", "lacks", "limited", "throws", "refuses"):
            with self.subTest(kind):
                made = run("faults", "one", path=f"{self.dnnl(kind)}:{PROGRAMS}", **CAST)
                # Only AMX needs it. If it cannot use AMX, or is missing, our own kernel computes the product.
                fails = kind in ("throws", "refuses") and HAS_AMX
                self.assertEqual((made.status, made.out, made.errors), (0, "product e\n" if fails else "product r\n", ""))
                self.assertEqual({(row["decision"], row["reason"]) for row in made.report["ops"]}, {("fallback", "engine_failed") if fails else ("lowered", "white_list")})
                self.assertEqual(made.report["totals"]["calls"], 2)

    def test_libraries_for_factorizations(self):
        plain = run("host", "open", "a", PROGRAMS / "liblapack.so", "run", "a", front=None, path=PROGRAMS)
        made = run("host", "open", "a", PROGRAMS / "liblapack.so", "run", "a", path=PROGRAMS, **CAST)
        self.assertEqual((made.out, made.errors), (plain.out, ""))
        self.assertEqual({(row["caller"], row["decision"], row["reason"]) for row in made.report["ops"]}, {("liblapack.so", "kept", "solver_caller")})

    def test_lapack(self):
        """A QR factorization, bit for bit."""
        script = """
import ctypes, hashlib, sys
lapack = ctypes.CDLL(sys.argv[1])
n = 200
A = (ctypes.c_float * (n * n))(*[((i * 7919) % 1009) / 100 - 5 for i in range(n * n)])
tau, work = (ctypes.c_float * n)(), (ctypes.c_float * (64 * n))()
size, length, info = ctypes.c_int(n), ctypes.c_int(64 * n), ctypes.c_int(-9)
for routine, arguments in ((lapack.sgeqrf_, (size, size)), (lapack.sorgqr_, (size, size, size))):
    routine(*map(ctypes.byref, arguments), A, ctypes.byref(size), tau, work, ctypes.byref(length), ctypes.byref(info))
    print(info.value, hashlib.sha256(bytes(A)).hexdigest())
"""
        for lapack, blas in (("lapack", "blas"), ("lapack", "openblas-serial"), ("openblas-serial", "openblas-serial")):
            file = DEBIAN / lapack / "liblapack.so.3"
            if not file.exists() or not (DEBIAN / blas / "libblas.so.3").exists():
                continue
            with self.subTest(lapack=lapack, blas=blas):
                plain = run(sys.executable, "-c", script, file, path=DEBIAN / blas, front=None)
                made = run(sys.executable, "-c", script, file, path=DEBIAN / blas, **CAST)
                self.assertEqual((made.status, made.out, made.errors), (0, plain.out, ""))
                rows = [row for row in made.report["ops"] if row["entry"] == "sgemm_"]
                self.assertTrue(rows)
                self.assertEqual({(row["caller"], row["decision"], row["reason"]) for row in rows}, {("liblapack.so.3", "kept", "solver_caller")})

    def test_scipy(self):
        python = next((f"{folder}/../../../bin/python3" for folder in WHEELS if os.path.exists(f"{folder}/scipy") and os.path.exists(f"{folder}/../../../bin/python3")), None)
        if not python:
            self.skipTest("no SciPy wheel in BLAS_TEST_WHEELS")
        script = """
import numpy as np, scipy.linalg
rng = np.random.default_rng(1)
A = rng.standard_normal((400, 400)).astype(np.float32)
q, r = scipy.linalg.qr(A)
print(np.abs(q.T.astype(np.float64) @ q - np.eye(400)).max() < 5e-5, np.abs(q.astype(np.float64) @ r - A).max() < 1e-3)
B = A @ rng.standard_normal((400, 300)).astype(np.float32)
print(B.shape)
"""
        made = run(python, "-c", script, **CAST)
        self.assertEqual((made.status, made.out, made.errors), (0, "True True\n(400, 300)\n", ""))
        if not OBSTACLE:  # factorizations of this wheel do not leave its BLAS
            self.assertEqual({(row["shape"], row["decision"]) for row in made.report["ops"] if row["dtype_in"] == "float32"}, {("400x300x400", "lowered")})

    @lowers
    def test_multiprocessing(self):
        python = next((f"{folder}/../../../bin/python3" for folder in WHEELS if os.path.exists(f"{folder}/numpy") and os.path.exists(f"{folder}/../../../bin/python3")), None)
        if not python:
            self.skipTest("no NumPy wheel in BLAS_TEST_WHEELS")
        script = """
import multiprocessing, numpy as np
def product(seed):
    A = np.random.default_rng(seed).standard_normal((200, 200)).astype(np.float32)
    return float(np.abs(A @ A.T.copy() - (A.astype(np.float64) @ A.T)).max())
if __name__ == "__main__":
    print(1e-3 < product(0) < 1)
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(3) as pool:
            print(all(1e-3 < error < 1 for error in pool.map(product, range(6))))
"""
        file = ROOM / "pool.py"
        file.write_text(script)
        made = run(python, file, **CAST)
        self.assertEqual((made.status, made.out, made.errors), (0, "True\n" * 4, ""))


if __name__ == "__main__":
    main()
