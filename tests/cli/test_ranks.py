"""Many processes: one file per rank, aligned clocks, forks, and a data set too large for memory, read by Dask."""
import ctypes
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import unittest

from case import PROGRAMS, TRACED, Case

AUTOAMP = os.environ["AUTOAMP"]  # in the build tree: with the library and the emulated device
SOURCE = pathlib.Path(os.environ["SOURCE"])
try:
    import dask.dataframe
    import distributed
except ImportError:
    dask = None
SHAPES = ["cublasSgemm_v2,256,256,256,1,float32", "cublasSgemm_v2,8,8,8,1,float32"]


class Ranks(Case):
    def trace_rank(self, rank, scenario="kernels", count="1000"):
        subprocess.run([TRACED, scenario, count], cwd=self.here, timeout=60, check=True,
                       env={"AUTOAMP_TRACE_FILE": "d/r%rank%.aat", "OMPI_COMM_WORLD_RANK": str(rank)})

    def starts(self, folder):
        result = self.autoamp("export", "--type", "sqlite", "-o", "all.db", "--force", folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return {str(rank): start for rank, start in sqlite3.connect(self.here / "all.db").execute("SELECT rank, start_ns FROM runs")}

    def launch(self, *command):
        variables = {"OPENBLAS_NUM_THREADS": "1", "SLURM_CONF": os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf")}
        result = subprocess.run(command, cwd=self.here, timeout=170, env=self.environment | variables, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def of_a_launcher(self, launcher):
        """All ranks are in the report. Rank 0 prints the receipt if each rank has its own run. If one run has all ranks, the
        receipt covers all of them."""
        if not shutil.which(launcher[0]) or subprocess.run([*launcher, "true"], capture_output=True, timeout=60).returncode:
            self.skipTest(f"no {launcher[0]}")
        run = [AUTOAMP, "run", "--device", "emulated", "--strategy", "cast"]
        program = [PROGRAMS / "shapes", *SHAPES]
        for name, calls, command in (("quiet", 0, [*launcher, *run, "--quiet", "-o", "quiet/%rank%.aat", "--", *program]),
                                     ("inside", 2, [*launcher, *run, "-o", "inside/%rank%.aat", "--", *program]),
                                     ("outside", 8, [*run, "-o", "outside/%rank%.aat", "--", *launcher, *program])):
            stderr = self.launch(*command)
            self.assertEqual(stderr.count("autoamp: lowered "), calls > 0, stderr)
            self.assertIn(f"lowered {calls} of {calls} " if calls else "", stderr)
            self.assertEqual(("calls of rank 0 only" in stderr, "without rank" in stderr), (name == "inside", False), stderr)
            report = self.json("--by", "rank", name)
            self.assertEqual(sorted(run["rank"] for run in report["runs"]), [0, 1, 2, 3])
            self.assertEqual(sorted((group["rank"], group["calls"]) for group in report["groups"]), [(str(rank), 2) for rank in range(4)])
            self.assertIn("4 processes", self.autoamp("report", name).stdout)

    def test_mpirun(self):
        self.of_a_launcher(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"])

    def test_srun(self):
        self.of_a_launcher(["srun", "--overcommit", "-n", "4"])

    def test_workers_in_their_own_sessions(self):
        """As torchrun starts them. Their ranks are known as the value of a variable only."""
        launcher = [sys.executable, "-c", "import os, subprocess, sys\n"
                    "workers = [subprocess.Popen(sys.argv[1:], start_new_session=True, env=os.environ | {'RANK': str(rank), 'WORLD_SIZE': '4'})"
                    " for rank in range(4)]\nsys.exit(max(worker.wait() for worker in workers))"]
        stderr = self.launch(AUTOAMP, "run", "--device", "emulated", "--strategy", "cast", "-o", "d/%q{RANK}.aat", "--", *launcher,
                             PROGRAMS / "shapes", *SHAPES)
        self.assertIn("lowered 8 of 8 ", stderr)
        self.assertEqual(sorted(path.name for path in (self.here / "d").iterdir()), [f"{rank}.aat" for rank in range(4)])
        self.assertEqual(self.json("d")["missing_traces"], [])

    def test_a_program_that_becomes_another(self):
        """Both are in the trace and in the receipt: exec ends the first program without an end record."""
        first, second = (f"'{PROGRAMS / 'shapes'}' {shape}" for shape in SHAPES)
        result = subprocess.run([AUTOAMP, "run", "--device", "emulated", "--strategy", "cast", "-o", "x.aat", "--", "sh", "-c",
                                 f"{first}; sh -c \"exec {second}\"; exec {first}"], cwd=self.here, timeout=60,
                                env=self.environment, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("lowered 3 of 3 ", result.stderr)
        report = self.json("x.aat")
        self.assertEqual((len(report["runs"]), report["totals"]["lowered"]), (3, 3))

    def test_a_tree_of_processes(self):
        subprocess.run([TRACED, "processes"], cwd=self.here, timeout=60, env={"AUTOAMP_TRACE_FILE": "d/%p.aat", "PATH": os.environ["PATH"]})
        report = self.json("--by", "thread", "d")
        self.assertEqual((len(report["runs"]), report["totals"]["calls"], len(report["groups"])), (2, 6010, 2))

    def test_traces_of_a_run_that_are_missing(self):
        self.environment["PATH"] = os.environ["PATH"]
        children = f"'{TRACED}' low; " * 4
        self.run_("-o", "d/t.aat", "--", "sh", "-c", f"{children} true")
        self.assertEqual(self.json("d")["missing_traces"], [])
        self.assertNotIn("traces:", self.autoamp("report", "d").stdout)
        (self.here / "d/t.1.aat").unlink()
        (self.here / "d/t.3.aat").unlink()
        for place in ("d", "d/t.aat"):  # a deleted part does not hide the later ones
            report = self.json(place)
            run = report["runs"][0]["run_id"]
            self.assertEqual([(one["process"], one["processes"]) for one in sorted(report["runs"], key=lambda one: one["process"])], [(1, 4), (3, 4)])
            self.assertEqual(report["missing_traces"], [{"of": "processes", "group": run, "expected": 4, "expected_is_least": False, "found": 2,
                                                         "missing": [2, 4]}])
            for view in ("summary", "ops"):
                self.assertIn(f"traces: 2 of 4 processes of run {run}; without process 2, 4 (`report FOLDER` reads all traces of a folder)\n",
                              self.autoamp("report", "--report", view, place, COLUMNS="200").stdout)

    def test_a_run_that_did_not_end(self):
        """Its processes have their numbers; their total is not known."""
        run = subprocess.Popen([self.root / "tools/autoamp", "run", "--device", "cuda", "-o", "d/%n.aat", "--", "sh", "-c",
                                f"'{TRACED}' low; '{TRACED}' low; kill -9 $PPID"], cwd=self.here, env=self.environment)
        run.wait(timeout=60)
        (self.here / "d/1.aat").unlink()
        self.assertRegex(self.autoamp("report", "d", COLUMNS="200").stdout, r"traces: 1 of at least 2 processes of run \w{16}; without process 1 \(`report FOLDER` reads all traces of a folder\)\n")

    def test_a_number_is_not_taken_from_another_process(self):
        """The variables remain after `autoamp run` has ended: another segment can then have its identifier."""
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        for size, content in ((1024, b""), (4096, struct.pack("<Q", 1))):  # another run's, another size
            segment = libc.shmget(0, size, 0o1600)
            address = libc.shmat(segment, None, 0)
            libc.shmctl(segment, 0, None)
            ctypes.memmove(address, content, len(content))
            subprocess.run([TRACED, "low"], cwd=self.here, timeout=60, env={
                "AUTOAMP_TRACE_FILE": f"{size}.aat", "_AUTOAMP_RUN_ID": "1:1", "_AUTOAMP_RUN_BOARD": f"{segment:x}:1"})
            self.assertEqual(ctypes.string_at(address, size), content.ljust(size, b"\0"))
            self.assertIsNone(self.json(f"{size}.aat")["runs"][0]["process"])

    def test_ranks_without_a_trace(self):
        for rank in (0, 1, 3):
            subprocess.run([TRACED, "low"], cwd=self.here, timeout=60, check=True, env={
                "AUTOAMP_TRACE_FILE": "d/r%rank%.aat", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"})
        self.assertEqual(self.json("d")["missing_traces"], [{"of": "ranks", "group": "77", "expected": 4, "expected_is_least": False, "found": 3,
                                                             "missing": [2]}])
        self.assertIn("traces: 3 of 4 ranks of job 77; without rank 2 (a rank without a call writes no trace)\n",
                      self.autoamp("report", "d", COLUMNS="200").stdout)

    def test_the_parent_of_a_forked_process(self):
        self.trace("forks", "d/%n.aat")
        self.assertEqual(self.json("d")["missing_traces"], [])
        parent, child = self.json("d/1.aat", "d/2.aat")["runs"]
        (self.here / "d/1.aat").unlink()
        self.assertEqual(self.json("d")["missing_traces"], [{"of": "parents", "group": None, "expected": 1, "expected_is_least": True, "found": 0,
                                                             "missing": [parent["pid"]]}])
        self.assertIn(f"traces: that of pid {parent['pid']} is missing; the trace of a process that it forked is present\n",
                      self.autoamp("report", "d", COLUMNS="200").stdout)

    def test_clocks_are_aligned(self):
        """Uses the monotonic clock that the processes of a host share, although the time of day was set in between."""
        for rank in range(3):
            self.trace_rank(rank)
        first = {}
        for path in sorted((self.here / "d").iterdir()):
            data = bytearray(path.read_bytes())
            at = data.index(struct.pack("<HHI", 11, 0, 40))  # the clock record
            monotonic, real = struct.unpack_from("<QQ", data, at + 16)
            first[path.stem[1:]] = struct.unpack_from("<Q", data, 40)[0]
            self.assertLess(abs(monotonic - first[path.stem[1:]]), 10**9)
            if path.stem == "r1":  # 0.2 s
                struct.pack_into("<Q", data, at + 24, real + 200_000_000)
                path.write_bytes(data)
        starts = self.starts("d")
        for rank in "12":
            self.assertAlmostEqual(starts[rank] - starts["0"], first[rank] - first["0"], delta=20_000)

    def test_hosts_are_aligned_by_the_time_of_day(self):
        for rank in range(2):
            self.trace_rank(rank)
        path = self.here / "d/r1.aat"
        data = bytearray(path.read_bytes())
        at = data.index(struct.pack("<HHI", 11, 0, 40))
        monotonic, real = struct.unpack_from("<QQ", data, at + 16)
        struct.pack_into("<QQ", data, at + 16, monotonic + 10**15, real + 10**10)  # another boot, 10 s later
        for clock in (40, 56):  # of the header
            struct.pack_into("<Q", data, clock, struct.unpack_from("<Q", data, clock)[0] + 10**15)
        path.write_bytes(data)
        starts = self.starts("d")
        self.assertAlmostEqual((starts["1"] - starts["0"]) / 1e9, 10, delta=5)

    @unittest.skipUnless(dask, "no dask")
    def test_dask_cluster_over_64_ranks(self):
        os.symlink(SOURCE / "tools/python", self.root / "tools/python")
        for rank in range(64):
            self.trace_rank(rank, "many", "2000")
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        result = self.autoamp("export", "--type", "parquet", "-o", "set", "d")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="512MiB", dashboard_address=None) as cluster, \
                distributed.Client(cluster):
            calls = dask.dataframe.read_parquet(self.here / "set/calls")
            counts = calls.groupby("rank", observed=True).call.count().compute()
        self.assertEqual((len(counts), set(counts)), (64, {2000}))


if __name__ == "__main__":
    unittest.main()
