#!/usr/bin/env python3
"""The wheels of autoamp: built from an installed tree, checked with auditwheel, and used from a virtual environment by a C++
program and by ONNX Runtime.

usage: wheel.py SOURCE BUILD    Exit status 77: pip cannot download auditwheel or ONNX Runtime, or this build needs a newer
glibc than 2.28."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
HERE = pathlib.Path(__file__).resolve().parent
ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-wheel-"))
PYTHON = ROOM / "venv/bin/python3"
AUTOAMP = ROOM / "venv/bin/autoamp"
TOOLS = ROOM / "tools/bin/python3"
DIGITS = BUILD / "tools/demo/digits"


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOM,
                          env={"PATH": os.environ["PATH"], "HOME": str(ROOM), **environment})
    assert done.returncode == 0, done
    return done.stdout


def pip(python, *arguments):
    return subprocess.run([TOOLS, "-m", "pip", "--python", python, "install", "--quiet", "--no-cache-dir", *arguments],
                          capture_output=True, text=True, check=False)


def installed():
    return next(path.parents[1] for path in (ROOM / "stage").rglob("bin/autoamp"))


def skip(reason):
    print(reason)
    sys.exit(77)


def build():
    """The wheels of this build, and a virtual environment with them."""
    subprocess.run([sys.executable, "-m", "venv", ROOM / "tools"], check=True)
    done = pip(TOOLS, "--no-deps", "--only-binary", ":all:", "--require-hashes", "--retries", "1", "--requirement", SOURCE / "tools/wheel.txt")
    if done.returncode:
        skip(f"auditwheel cannot be installed: {done.stderr}")
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--strip", "--quiet", "--tags", "runtime,devel,man,emulated", "--destdir", ROOM / "stage")
    run(TOOLS, SOURCE / "tools/wheel", installed(), BUILD, ROOM / "wheels")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ROOM / "venv"], check=True)
    done = pip(PYTHON, "--no-index", "--find-links", ROOM / "wheels", "autoamp[emulated]")
    assert done.returncode == 0, done


class Wheels(unittest.TestCase):
    maxDiff = None

    def lowered(self, trace):
        """The number of lowered products, and the names of their entry points, in a trace."""
        report = json.loads(run(AUTOAMP, "report", "--format", "json", trace))
        ops = [op for op in report["ops"] if op["decision"] == "lowered"]
        return sum(op["calls"] for op in ops), {op["entry"] for op in ops}

    def test_files(self):
        product, emulated = sorted((ROOM / "wheels").iterdir(), key=lambda path: path.name.startswith("autoamp_"))
        self.assertRegex(product.name, r"^autoamp-[\d.]+-py3-none-manylinux_2_28_x86_64\.whl$")
        self.assertRegex(emulated.name, r"^autoamp_emulated-[\d.]+-py3-none-(manylinux_2_\d+|linux)_x86_64\.whl$")
        with zipfile.ZipFile(product) as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        self.assertIn('Requires-Dist: pyarrow; extra == "export"\n', metadata)
        self.assertFalse([name for name in names if "emulated" in name or "__pycache__" in name])

    def test_notices_of_linked_libraries(self):
        for wheel, libraries in (("autoamp-*", ("fmt", "sqlite", "CLI11")), ("autoamp_emulated-*", ("OpenBLAS",))):
            with zipfile.ZipFile(next((ROOM / "wheels").glob(wheel))) as archive:
                text = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
            bill = json.loads(next(content for name, content in text.items() if name.endswith(".cdx.json")))
            self.assertIn("License-File: NOTICES\n", text["METADATA"])
            for library in libraries:
                self.assertRegex(text["NOTICES"], rf"contain parts of .*{library} ")
                self.assertIn(library, [part["name"] for part in bill["components"]])

    def test_wheel_is_reproducible(self):
        for path in installed().rglob("*"):
            os.utime(path, follow_symlinks=False)
        sys.path.insert(0, str(SOURCE / "tools"))
        loader = importlib.machinery.SourceFileLoader("wheel", str(SOURCE / "tools/wheel"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("wheel", loader))
        loader.exec_module(module)
        first = next((ROOM / "wheels").glob("autoamp-*"))
        again = module.product(installed(), BUILD, first.name.split("-")[1]).write(ROOM, module.NEWEST)
        self.assertEqual(again.read_bytes(), first.read_bytes())

    def test_python_package(self):
        self.assertEqual(run(PYTHON, "-c", "import autoamp; print(autoamp.is_loaded(), autoamp.__file__)").split(),
                         ["False", str(next((ROOM / "venv/lib").glob("python3*/site-packages/autoamp/__init__.py")))])

    def test_preload_paths(self):
        library = ROOM / "venv/lib/autoamp"
        for arguments, name in (([], "libautoamp.so"), (["cuda"], "libautoamp.so"), (["cpu"], "libautoamp-cpu.so")):
            self.assertEqual(run(AUTOAMP, "--preload-path", *arguments), f"{library / name}\n")
            self.assertEqual(run(BUILD / "tools/autoamp", "--preload-path", *arguments), f"{BUILD / 'inject' / name}\n")

    def test_preloaded_program(self):
        trace = ROOM / "preloaded.aat"
        emulated = str(ROOM / "venv/lib/autoamp/emulated")
        plain = run("sh", "-c", f'LD_PRELOAD="$({AUTOAMP} --preload-path)" {DIGITS}', LD_LIBRARY_PATH=emulated,
                    AUTOAMP_TRACE_FILE=str(trace), AUTOAMP_TRACE="ops", AUTOAMP_STRATEGY="cast")
        self.assertIn("97.", plain)
        self.assertEqual(self.lowered(trace)[0], 1103)

    def test_onnxruntime(self):
        installed = subprocess.run([sys.executable, HERE / "wheels.py", "--only-install", "onnxruntime", BUILD], capture_output=True,
                                   text=True, check=False)
        if installed.returncode == 77:
            self.skipTest(installed.stdout)
        self.assertEqual(installed.returncode, 0, installed)
        packages = next((BUILD / "wheels/onnxruntime/lib").glob("python3*/site-packages"))
        trace = ROOM / "onnxruntime.aat"
        cases = run(AUTOAMP, "run", "--device", "emulated", "--strategy", "cast", "-o", trace, "--", PYTHON, HERE / "onnxruntime_client.py",
                    PYTHONPATH=str(packages), LD_LIBRARY_PATH=str(BUILD / "tests/wheels"))
        self.assertLess(max(json.loads(case)["error"] for case in cases.splitlines()), 5e-3)
        count, entries = self.lowered(trace)
        self.assertGreater(count, 10)
        self.assertIn("cudnnBackendExecute", entries)


if __name__ == "__main__":
    try:
        build()
        unittest.main(argv=sys.argv[:1])
    finally:
        shutil.rmtree(ROOM)
