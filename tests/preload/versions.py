"""versions.py FRONT CORE AUTOAMP INJECT CACHE: cuDNN versions other than the toolkit's under the library. Every entry
point of a version binds to the front and leads to it, and a missing one stays missing. Downloads the smallest PyPI
packages that have a version, once, into CACHE (77: they cannot be downloaded). Nothing is computed, because there is no
device."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

FRONT, CORE, AUTOAMP, INJECT, CACHE = (pathlib.Path(path).resolve() for path in sys.argv[1:6])
CLIENT = pathlib.Path(__file__).parent / "clients/whose.py"
DOORS = re.findall(r"^(cudnn\w+)", (INJECT / "cudnn.entries").read_text(), re.MULTILINE)
# The newer one loads its parts from the package. For cuDNN 8 no small package has more than the library that leads to
# the parts. That library ends the process at a call, and the repair of the wheel has changed its name.
NEWER, OLDER = (line for line in pathlib.Path(__file__).with_name("cudnn.txt").read_text().splitlines() if "==" in line)
NEEDED = set(re.findall(r"X\((cudnn\w+)", (INJECT.parent / "src/op/vendor.h").read_text()))  # functions that autoamp calls itself
SINCE = {"cudnnBackendPopulateCudaGraph", "cudnnBackendUpdateCudaGraph"}  # not in cuDNN 8


def bring(package):
    """The folder with the package's cuDNN."""
    name = package.split()[0]
    folder = CACHE / re.sub(r"\W", "-", name)
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as room:
            wanted = pathlib.Path(room, "wanted.txt")
            wanted.write_text(package)
            done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                                   "--require-hashes", "--python-version", "3.11", "--platform", "manylinux_2_27_x86_64",
                                   "--platform", "manylinux2014_x86_64", "--retries", "1", "--dest", room, "--requirement", wanted],
                                  capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} cannot be had: {done.stderr}")
                sys.exit(77)
            (room / pathlib.Path("part")).mkdir()
            wheel, = pathlib.Path(room).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if re.match(r"libcudnn.*\.so", name := pathlib.PurePath(member).name):
                        (room / pathlib.Path("part") / name).write_bytes(archive.read(member))
            pathlib.Path(room, "part").rename(folder)
    return folder


ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-versions-"))
for path in (FRONT, CORE):
    (ROOM / "product").mkdir(exist_ok=True)
    shutil.copy(path, ROOM / "product")
(ROOM / "coreless").mkdir()
shutil.copy(FRONT, ROOM / "coreless")
PRODUCT, CORELESS = (str(ROOM / folder / FRONT.name) for folder in ("product", "coreless"))


def ask(preload, folder, file, how, trace="/dev/null"):
    """{entry point: output of whose.py}"""
    environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(folder), "AUTOAMP_DIR": str(ROOM / "traces"),
                   "HOME": str(ROOM), "AUTOAMP_TRACE_FILE": str(trace), **({"LD_PRELOAD": preload} if preload else {})}
    done = subprocess.run([sys.executable, CLIENT, folder / file, how, *DOORS], capture_output=True, text=True, env=environment,
                          timeout=100, check=False)
    if done.returncode:
        raise AssertionError(done)
    return {name: rest for name, rest in re.findall(r"^(\S+) (.+)$", done.stdout, re.MULTILINE) if name in ("version", "text", *DOORS)}


def exports(file):
    """name@version"""
    found = subprocess.run(["nm", "-D", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    return {name.replace("@@", "@") for name in re.findall(r" \w (\S+)$", found, re.MULTILINE)}


class Versions(unittest.TestCase):
    maxDiff = None

    def check(self, folder, file, absent, how):
        bare = ask(None, folder, file, how)
        self.assertEqual({name for name in DOORS if bare[name] == "absent"}, absent)
        for preload in (CORELESS, PRODUCT):
            trace = ROOM / f"{len(list(ROOM.iterdir()))}.aat"
            with self.subTest(file, preload=preload):
                told = ask(preload, folder, file, how, trace)
                self.assertEqual(told, {name: re.sub(r"^(?!absent|-)\S+", FRONT.name, rest) for name, rest in bare.items()})
        if how == "call":
            report = json.loads(subprocess.run([AUTOAMP, "report", "--format", "json", trace], check=True, capture_output=True,
                                               text=True).stdout)
            called = {name for name, rest in bare.items() if rest.split()[-1] not in ("absent", "-")} - {"version", "text"}
            watched = {name for name in DOORS if "Descriptor" in name or name.endswith(("SetAttribute", "Finalize"))}
            self.assertEqual({row["entry"] for row in report["ops"]}, called - watched)
            self.assertEqual({row["decision"] for row in report["ops"]}, {"kept"})

    def check_references(self, folder):
        """References of a program that is linked to the library, or to a part of it, bind to the front."""
        files = list(folder.glob("libcudnn*.so*"))
        self.assertGreater(len(NEEDED), 15)
        for file in files:
            found = exports(file)
            self.assertLessEqual({symbol for symbol in found if symbol.split("@")[0] in DOORS}, exports(FRONT), file)
            if "_" not in file.name:
                self.assertLessEqual(NEEDED, {symbol.split("@")[0] for symbol in found})
        return files

    def test_newer(self):
        folder = bring(NEWER)
        self.assertEqual(len(self.check_references(folder)), 3)
        self.check(folder, "libcudnn.so.9", set(), "call")

    def test_older(self):
        """Under its own name and under the wheel's; also called, if a Python package on this machine has all parts."""
        folder = bring(OLDER)
        file, = self.check_references(folder)
        named = ROOM / "named"
        named.mkdir()
        own = file.read_bytes()
        self.assertEqual(own.count(file.name.encode() + b"\0"), 1)
        (named / "libcudnn.so.8").write_bytes(own.replace(file.name.encode(), b"libcudnn.so.8".ljust(len(file.name), b"\0")))
        self.check(folder, file.name, SINCE, "resolve")
        self.check(named, "libcudnn.so.8", SINCE, "resolve")
        for place in map(pathlib.Path, sys.path):
            if (whole := place / "nvidia/cudnn/lib" / "libcudnn.so.8").exists():
                self.assertEqual(len(self.check_references(whole.parent)), 7)
                self.check(whole.parent, whole.name, SINCE, "call")


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    shutil.rmtree(ROOM)
    sys.exit(not result.wasSuccessful())
