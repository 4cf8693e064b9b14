"""The libraries of this machine for the tests of the CPU front, and the function that runs a program. For products.py and others:
DRIVER FRONT CORE AUTOAMP PROGRAMS [unittest's arguments]. Libraries that are absent are skipped, with their names."""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

FRONT, CORE, AUTOAMP, PROGRAMS = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
DEBIAN = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-cpu-"))
CAST = {"AUTOAMP_STRATEGY": "cast", "AUTOAMP_DTYPE": "bfloat16"}
TIMEOUT = 60


FLAGS = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
HAS_AMX = "amx_bf16" in FLAGS
OBSTACLE = None if "avx512_bf16" in FLAGS else "the CPU has no AVX512-BF16"
lowers = unittest.skipIf(OBSTACLE, f"no bfloat16 products: {OBSTACLE}")


class Run:
    """A program's output, by case, and the report of its trace."""

    def __init__(self, status, out, err, folder):
        self.status, self.out, self.errors, self.folder = status, out, err, folder
        self.cases = {}
        for line in out.splitlines():
            name, *pairs = line.split()
            self.cases[name] = dict(pair.split("=", 1) for pair in pairs if "=" in pair)

    @property
    def report(self):
        """None without a trace."""
        if not glob.glob(str(self.folder / "*.aat")):
            return None
        told = subprocess.run([AUTOAMP, "report", "--format", "json", self.folder], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    def results(self):
        return {name: (case.get("bits"), case.get("classes"), case.get("gaps"), case.get("status")) for name, case in self.cases.items()}


def run(command, *arguments, front=FRONT, path="", limit=TIMEOUT, **variables):
    """Runs a program of the build folder, or one with a path. front=None: without autoamp."""
    command = [str(PROGRAMS / f"cpu_{command}") if "/" not in str(command) else str(command), *map(str, arguments)]
    folder = pathlib.Path(tempfile.mkdtemp(dir=ROOM))
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    threads = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    environment |= threads | {"HOME": str(ROOM), "LD_LIBRARY_PATH": str(path)}
    if front:
        environment |= {"AUTOAMP_CPU_MODEL": "zen5"}  # the same decisions on every CPU
        environment |= {"LD_PRELOAD": str(front), "AUTOAMP_TRACE_FILE": str(folder / "%p.aat")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                          env=environment | variables) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children hang as well
            raise
    return Run(process.returncode, out, err, folder)


class Library:
    """A BLAS of this machine. `path`: the folder of libblas.so.3 or libblas64.so.3 for linked programs; None: programs
    look names up, by `patterns`, in `file`."""

    def __init__(self, name, file, path=None, patterns=("cblas_NAME", "NAME_"), is_wide=False, **variables):
        self.name, self.path, self.patterns, self.is_wide = name, path, patterns, is_wide
        self.file = next(iter(sorted(glob.glob(str(file)))), None)
        self.variables = variables

    def run(self, how, *arguments, **options):
        program = how + "64" * self.is_wide
        if how == "looked":
            return run(program, self.file, *self.patterns, *arguments, **self.variables, **options)
        return run(program, *arguments, path=self.path, **self.variables, **options)


# Folders in which Python packages are installed; those of BLAS_TEST_WHEELS, and the one of tools/quickstart, in addition.
WHEELS = [folder for folder in [*os.environ.get("BLAS_TEST_WHEELS", "").split(":"), str(PROGRAMS.parents[2] / "numpy"), *sys.path[1:]] if folder]


def wheel(pattern):
    return next((file for folder in WHEELS for file in sorted(glob.glob(f"{folder}/{pattern}"))), pattern)


MKL = wheel("../../libmkl_rt.so.*")
LIBRARIES = [
    Library("stub", PROGRAMS / "libblas.so.3", PROGRAMS),
    Library("stub64", PROGRAMS / "libblas64.so.3", PROGRAMS, is_wide=True),
    Library("stub-wheel", PROGRAMS / "libscipy_openblas64_.so.3", patterns=("scipy_cblas_NAME64_", "scipy_NAME_64_"), is_wide=True),
    Library("reference", DEBIAN / "blas/libblas.so.3", DEBIAN / "blas"),
    Library("reference64", DEBIAN / "blas64/libblas64.so.3", DEBIAN / "blas64", is_wide=True),
    Library("openblas-serial", DEBIAN / "openblas-serial/libblas.so.3", DEBIAN / "openblas-serial"),
    Library("openblas-pthread", DEBIAN / "openblas-pthread/libblas.so.3", DEBIAN / "openblas-pthread"),
    Library("openblas-openmp", DEBIAN / "openblas-openmp/libblas.so.3", DEBIAN / "openblas-openmp"),
    Library("openblas64-pthread", DEBIAN / "openblas64-pthread/libblas64.so.3", DEBIAN / "openblas64-pthread", is_wide=True),
    Library("blis-pthread", DEBIAN / "blis-pthread/libblas.so.3", DEBIAN / "blis-pthread"),
    Library("blis-openmp", DEBIAN / "blis-openmp/libblas.so.3", DEBIAN / "blis-openmp"),
    Library("numpy", wheel("numpy.libs/libscipy_openblas64_*.so"), patterns=("scipy_cblas_NAME64_", "scipy_NAME_64_"), is_wide=True),
    Library("scipy", wheel("scipy.libs/libscipy_openblas-*.so"), patterns=("scipy_cblas_NAME", "scipy_NAME_")),
    Library("mkl", MKL, MKL_THREADING_LAYER="SEQUENTIAL"),
    Library("mkl64", MKL, patterns=("cblas_NAME_64", "NAME_64"), is_wide=True, MKL_THREADING_LAYER="SEQUENTIAL"),
]


def main():
    absent = [library.name for library in LIBRARIES if not library.file]
    print("absent:", ", ".join(absent) or "none", file=sys.stderr)
    if OBSTACLE:
        print("no bfloat16 products:", OBSTACLE, file=sys.stderr)
    try:
        unittest.main(argv=sys.argv[:1] + sys.argv[5:])
    finally:
        shutil.rmtree(ROOM, ignore_errors=True)
