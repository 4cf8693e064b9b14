#!/usr/bin/env python3
"""tools/quickstart where no CUDA toolkit is installed: quickstart.py SOURCE_ROOT TOOLKIT.

Everything that it runs is a stand-in, and nothing is downloaded: for each requested package, pip installs the parts
that the toolkit of this machine has. This test does not show that the real PyPI packages are sufficient for a build."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, TOOLKIT = (pathlib.Path(argument) for argument in sys.argv[1:3])
PINNED = "nvidia-cublas nvidia-cuda-cccl nvidia-cuda-crt nvidia-cuda-cupti nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cudnn-jit-cu13 nvidia-nvtx nvidia-nvvm".split()
BRINGING = "bringing the CUDA toolkit to build-toolkit"
NO_TOOLKIT = "No CUDA 13 toolkit, and pip could not install the packages of tools/toolkit.txt"
TOOLS = "bash sh env cat cp cmp dirname grep ln mkdir mv readlink rm sed tail".split()  # the only programs in PATH, except these:
STAND_INS = {
    "python3": """
case "$*" in '-m venv build-meson') mkdir -p "$3/bin" && ln -s "$0" "$3/bin/python3" && exit ;; '-m venv'*) exit 1 ;; esac
case "$0" in build-meson/*) echo "pip $*" >>"$CALLS" && cp bin/meson build-meson/bin/ && exit ;; esac
[ "$1 $2" = '-m pip' ] || exec PYTHON "$@"
[ "$PIP" != none ] || exit 1
[ "$3" != --version ] || exit 0
echo "pip $* TMPDIR=$TMPDIR" >>"$CALLS"
[ "$PIP" != offline ] || { echo 'Could not find a version'; exit 1; }
while [ "$1" != --target ]; do shift; done
target=$2 requirements=$4
lay() { mkdir -p "$target/nvidia/cu13/${1%%/*}" && cp TOOLKIT/$1 "$target/nvidia/cu13/$1"; }
while read -r package; do
    case $package in
    nvidia-cublas==13.*) lay include/cublas_v2.h ;;
    nvidia-cuda-runtime==13.*) lay include/cuda.h && [ "$PIP" != killed ] || kill -9 $$ ;;
    nvidia-cudnn-jit-cu13==9.*)
        mkdir -p "$target/nvidia/cudnn_jit/include" && echo >"$target/nvidia/cudnn_jit/include/cudnn_graph.h"
        echo '#define CUDNN_MAJOR 9' >"$target/nvidia/cudnn_jit/include/cudnn_version.h" ;;
    nvidia-cuda-nvrtc-cu12==12.*) [ "$PIP" != old ] ;;
    nvidia-cuda-nvcc==13.*) [ "$PIP" = partial ] || lay bin/nvcc ;;
    esac || exit 1
done <"$requirements"
""",
    "git": 'echo "git $*" >>"$CALLS"; mkdir -p build-toml/include/toml++ && echo >build-toml/include/toml++/toml.h',
    "meson": """
[ "$1" != --version ] || [ "${0%/*}" = "$PWD/build-meson/bin" ] || { echo "${MESON-1.0.1}"; exit; }
echo "meson $1 $(tools/find-toolkit)" >>"$CALLS"
echo "options $*" >>"$CALLS"
echo "compiler ${CXX-} ${CC-} ${CXXFLAGS-} ${0%/meson}" >>"$CALLS"
mkdir -p build/meson-logs && echo >build/build.ninja && echo '{"result": "OK"}' >build/meson-logs/testlog.json
""",
    "ninja": "exit 0",
    "dpkg-query": 'for package; do [ "$package" = "$MISSING" ] || [ "$MISSING" = all ] || echo "$package installed"; done',
    "id": 'echo "${USER_ID-0}"',
    "apt-get": 'echo "apt-get $*" >>"$CALLS"',
}


class Quickstart(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name).resolve()
        (self.place / "bin").mkdir()
        (self.place / "tools").mkdir()
        for name in TOOLS:
            (self.place / "bin" / name).symlink_to(shutil.which(name))
        for name, text in STAND_INS.items():
            program = self.place / "bin" / name
            program.write_text("#!/bin/sh\n" + text.replace("PYTHON", sys.executable).replace("TOOLKIT", str(TOOLKIT)))
            program.chmod(0o755)
        for name in ("quickstart", "find-toolkit", "toolkit.txt", "nvrtc-12.9.txt", "nvrtc-12.0.txt", "meson.txt"):
            shutil.copy(ROOT / "tools" / name, self.place / "tools")
        # Folders that no variable hides.
        find = self.place / "tools/find-toolkit"
        for folder in ("/usr/local/cuda", "/usr/include", "/usr/include/x86_64-linux-gnu"):
            self.assertEqual(find.read_text().count(f" {folder} "), 1)
            find.write_text(find.read_text().replace(f" {folder} ", " /nowhere "))
        self.system("debian", "12")
        self.brought = self.place / "build-toolkit/nvidia/cu13"
        self.calls = self.place / "calls"

    def system(self, name, version):
        """Another system: its names of packages."""
        file = self.place / "os-release"
        file.write_text(f'NAME="Any"\nVERSION_ID="{version}"\nID={name}\nID_LIKE=debian\n')
        script = self.place / "tools/quickstart"
        script.write_text((ROOT / "tools/quickstart").read_text().replace("/etc/os-release", str(file)))

    def run_it(self, mode="test", **variables):
        """Exit status, what it said, what it called."""
        self.calls.write_text("")
        environment = {"PATH": str(self.place / "bin"), "CALLS": str(self.calls), "HOME": str(self.place), **variables}
        done = subprocess.run([self.place / "tools/quickstart", mode], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, self.calls.read_text()

    def assert_brought(self, result):
        status, said, called = result
        self.assertEqual(status, 0, said)
        self.assertIn(BRINGING, said)
        self.assertEqual(called.count("--requirement tools/toolkit.txt"), 1)
        self.assertIn(f"meson setup {self.brought}\n", called)
        self.assertFalse((self.place / "build-toolkit.part").exists())

    def assert_stopped(self, result):
        status, said, called = result
        self.assertEqual(status, 1, said)
        self.assertIn(NO_TOOLKIT, said)
        self.assertTrue(said.endswith("0 passed, 1 failed, 0 skipped\n"), said)
        self.assertNotIn("meson", called)
        self.assertFalse((self.place / "build-toolkit.part").exists())

    def test_what_is_asked_for(self):
        result = self.run_it()
        self.assert_brought(result)
        part = self.place / "build-toolkit.part"
        asked = next(line for line in result[2].splitlines() if "-m pip install" in line)
        for argument in ("--no-deps", "--require-hashes", "--only-binary :all:", f"--target {part}", "--requirement tools/toolkit.txt", f"TMPDIR={part}"):
            self.assertIn(argument, asked)
        packages = [line for line in (ROOT / "tools/toolkit.txt").read_text().splitlines() if not line.startswith("#")]
        self.assertEqual([package.split("==")[0] for package in packages], PINNED)

    def test_pins(self):
        """Every package that a script of the project installs has a version and the hashes of its files."""
        files = {path.relative_to(ROOT).as_posix(): [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
                 for folder in ("tools", "tests") for path in (ROOT / folder).rglob("*.txt") if "fuzz" not in path.parts}
        lists = {name: lines for name, lines in files.items()
                 if "require" in name or any(re.match(r"[\w.-]+(\[[\w,]+\])? *([=<>~!]=|[<>@])|--hash", line) for line in lines)}
        self.assertLessEqual({"tools/toolkit.txt", "tests/cli/readers.txt", "tests/preload/cudnn.txt", "tests/wheels/onnxruntime.txt",
                              "tests/wheels/torch.txt", "tools/nvrtc-12.9.txt", "tools/nvrtc-12.0.txt"}, set(lists))
        for name, packages in lists.items():
            for package in packages:
                self.assertRegex(package, r"\A[A-Za-z0-9_-]+(\[[a-z,]+\])?==[0-9.]+( --hash=sha256:[0-9a-f]{64})+\Z", name)
        for script in ("tests/preload/versions.py", "tests/wheels/wheels.py"):
            self.assertRegex((ROOT / script).read_text(), r'"pip", "(install|download)",[^\]]*"--require-hashes"', script)
        installs = [line for line in (ROOT / "tools/quickstart").read_text().splitlines() if "-m pip install" in line]
        self.assertTrue(all("--require-hashes" in line for line in installs), installs)

    def test_second_run_is_silent(self):
        self.run_it()
        status, said, called = self.run_it()
        self.assertEqual((status, BRINGING in said, "pip" in called), (0, False, False), said)

    def test_newer_table_is_brought(self):
        self.run_it()
        with open(self.place / "tools/toolkit.txt", "a", encoding="utf-8") as table:
            table.write("# newer\n")
        (self.place / "build/build.ninja").unlink()
        self.assert_brought(self.run_it())

    def test_failures_leave_nothing_behind(self):
        for how in ("offline", "killed", "partial"):
            with self.subTest(how):
                self.assert_stopped(self.run_it(PIP=how))
        self.assert_brought(self.run_it())

    def test_compilers(self):
        """NVRTC is installed once for each list, in two versions. Without it, the build uses nvcc."""
        find = self.place / "tools/find-toolkit"
        status, said, _ = self.run_it(PIP="old")
        self.assertEqual((status, "need driver 580 or newer" in said), (0, True), said)
        self.assertEqual(sorted(path.name for path in self.place.glob("build-nvrtc*")), [])
        status, said, called = self.run_it()
        self.assertEqual((status, "580" in said, called.count("-m pip install"), called.count("meson setup")), (0, False, 2, 1), said)
        for version in ("12.9", "12.0"):
            self.assertIn(f"--target {self.place}/build-nvrtc.part/{version} --requirement tools/nvrtc-{version}.txt", called)
        self.assertEqual(subprocess.check_output([find, "nvrtc"], text=True), f"{self.place}/build-nvrtc\n")
        with open(self.place / "tools/nvrtc-12.0.txt", "a", encoding="utf-8") as table:
            table.write("# newer\n")
        self.assertEqual(subprocess.check_output([find, "nvrtc"], text=True), "")

    def test_interrupted(self):
        """Quickstart itself was killed: the incomplete download is not used and is removed."""
        half = self.place / "build-toolkit.part/nvidia/cu13/include"
        half.mkdir(parents=True)
        (half / "stale.h").write_text("")
        self.assert_brought(self.run_it())
        self.assertFalse((self.brought / "include/stale.h").exists())

    def test_no_pip(self):
        """On Debian pip is a separate package."""
        status, said, called = self.run_it(PIP="none", MISSING="python3-pip")
        self.assertIn("apt-get install -y --no-install-recommends python3-pip", called)
        status, said, called = self.run_it(PIP="none", MISSING="python3-pip", USER_ID="1000")
        self.assertEqual((status, called), (1, ""))
        self.assertIn("apt-get install python3-pip\n", said)

    def test_packages_are_listed_first(self):
        """Before apt-get runs, and as a command for users who are not root. Nothing else happens then."""
        status, said, called = self.run_it(MISSING="all")
        names = re.search(r"^apt-get installs these packages: (.*)$", said, re.M)[1]
        self.assertLess(said.index(names), said.index("installing packages"))
        self.assertIn(f"apt-get install -y --no-install-recommends {names}\n", called)
        status, said, called = self.run_it(MISSING="all", USER_ID="1000")
        self.assertEqual((status, called), (1, ""))
        self.assertIn(f"    apt-get install {names}\n", said)
        status, said, called = self.run_it(USER_ID="1000")  # all are present
        self.assertEqual((status, "apt-get" in called), (0, False), said)

    def test_systems(self):
        """The packages and the compiler of each system."""
        for name, version, compiler, others, missing in (
                ("debian", "12", "g++", {"libdnnl2", "libtomlplusplus-dev"}, {"g++-12", "git"}),
                ("debian", "13", "g++-12", {"libdnnl3.6", "libtomlplusplus-dev"}, {"g++", "libdnnl2"}),
                ("ubuntu", "24.04", "g++-12", {"libdnnl3", "libtomlplusplus-dev"}, {"g++", "libdnnl2"}),
                ("ubuntu", "22.04", "g++-12", {"libdnnl2", "git", "python3-venv"}, {"g++", "libtomlplusplus-dev"})):
            with self.subTest(f"{name} {version}"):
                shutil.rmtree(self.place / "build", ignore_errors=True)
                self.system(name, version)
                status, said, called = self.run_it(MISSING="all", **({"MESON": "0.61.2"} if version == "22.04" else {}))
                self.assertEqual(status, 0, said)
                packages = set(re.search(r"recommends (.*)", called)[1].split())
                self.assertLessEqual({compiler, *others}, packages)
                self.assertEqual(packages & missing, set())
                used, = re.findall(r"^compiler (.*)$", called.partition("meson setup")[2], re.M)[:1]
                self.assertTrue(used.startswith("g++-12 gcc-12 " if compiler != "g++" else "  "), used)
                # Other compilers report other warnings, which must not end a user's build.
                self.assertIn(f"-Dwerror={'true' if version == '12' else 'false'} build\n", called)
                self.assertEqual(f"-isystem {self.place}/build-toml/include {self.place}/build-meson/bin" in used, version == "22.04", called)
                self.assertEqual("c635f218c0aefc801d9748841930365e54fe3089" in called, version == "22.04")

    def test_installed_toolkit(self):
        """The toolkit may lack cuDNN: then only its headers are downloaded."""
        toolkit = self.place / "toolkit"
        for file in ("include/cublas_v2.h", "include/cuda.h", "bin/nvcc"):
            (toolkit / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOOLKIT / file, toolkit / file)
        for has_headers in (False, True):
            status, said, called = self.run_it(CUDA_HOME=str(toolkit))
            self.assertEqual((status, "headers.txt" in called, "cuDNN's headers" in said), (0, not has_headers, not has_headers), said)
            self.assertIn(f"meson setup {toolkit}\n" if not has_headers else "", called)
            self.assertEqual([file.name for file in (self.place / "build-toolkit/nvidia").iterdir()], ["cudnn_jit"])
        shutil.rmtree(self.place / "build-toolkit")
        (toolkit / "include/cudnn_graph.h").write_text("")
        (toolkit / "include/cudnn_version.h").write_text("#define CUDNN_MAJOR 9\n")
        status, said, called = self.run_it(CUDA_HOME=str(toolkit))
        self.assertEqual((status, "pip install" in called), (0, False), said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
