"""autoamp with a second preloaded library, and in a container that has neither build tree nor shell."""
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from case import PROGRAMS, Case

AUTOAMP = pathlib.Path(os.environ["AUTOAMP"])  # in the build tree: with the library and the emulated device
CLIENT = pathlib.Path(os.environ["SOURCE"]) / "tests/preload/clients/lookup.py"
BUILD = AUTOAMP.parent.parent
ALLOCATORS = {name: ctypes.util.find_library(name) for name in ("jemalloc", "tcmalloc_minimal")}
PRODUCT = "cublasSgemm_v2,256,256,256,1,float32"
RUN = ["run", "--device", "emulated", "--strategy", "cast", "-o"]


class Launchers(Case):
    def lowered(self, command, trace, **variables):
        """The command succeeds, and its product is lowered. Returns stderr."""
        result = subprocess.run(command, cwd=self.here, env=self.environment | variables, timeout=60, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result)
        totals = self.json(trace)["totals"]
        self.assertEqual((totals["calls"], totals["lowered"]), (1, 1))
        return result.stderr

    def test_an_allocator(self):
        """Preloaded before autoamp, added by a child of `autoamp run`, and without `autoamp run`."""
        if not any(ALLOCATORS.values()):
            self.skipTest("no allocator")
        for name, library in ALLOCATORS.items():
            program = [sys.executable, "-c", f"import runpy; assert '{name}' in open('/proc/self/maps').read(); runpy.run_path('{CLIENT}')"]
            front = f"{BUILD}/inject/libautoamp.so"
            with self.subTest(name):
                if not library:
                    self.skipTest("not installed")
                self.lowered([AUTOAMP, *RUN, f"{name}.aat", "--", *program], f"{name}.aat", LD_PRELOAD=library)
                self.lowered([AUTOAMP, *RUN, f"{name}-2.aat", "--", "sh", "-c", f'export LD_PRELOAD="{library}:$LD_PRELOAD"; exec "$@"', "sh",
                              *program], f"{name}-2.aat")
                self.lowered(program, f"{name}-3.aat", LD_PRELOAD=f"{front} {library}", LD_LIBRARY_PATH=f"{BUILD}/tools/emulated",
                             AUTOAMP_STRATEGY="cast", AUTOAMP_TRACE_FILE=f"{name}-3.aat")

    def container(self, *command):
        """A command line that runs this command with glibc, the C++ runtime and the files of autoamp, and no other file."""
        ours = {"autoamp/tools/autoamp": AUTOAMP, "shapes": PROGRAMS / "shapes",
                **{f"autoamp/inject/{name}": BUILD / "inject" / name for name in ("libautoamp.so", "libautoamp-core.so")}}
        emulated = self.root / "emulated"
        if not emulated.exists():
            (emulated / "plugins").mkdir(parents=True)
            for folder in ("", "plugins"):
                for file in (BUILD / "tools/emulated" / folder).glob("lib*.so*"):
                    if file.is_file():
                        shutil.copy(file, emulated / folder)
        needed = subprocess.run(["ldd", *ours.values(), *emulated.rglob("*.so*")], capture_output=True, text=True, check=True,
                                env=self.environment | {"LD_LIBRARY_PATH": str(emulated)}).stdout
        needed = {file for file in re.findall(r"(/\S+) \(0x", needed) if not file.startswith(str(self.root)) and str(BUILD) not in file}
        self.assertLess({pathlib.Path(file).name.split(".")[0] for file in needed},
                        {"ld-linux-x86-64", "libc", "libm", "libgcc_s", "libstdc++", "libdl", "libpthread", "librt"})
        binds = [("--ro-bind", file, file) for file in needed] + [("--ro-bind", file, f"/opt/{name}") for name, file in ours.items()]
        return ["bwrap", "--unshare-all", "--clearenv", *sum(binds, ()), "--ro-bind", emulated, "/opt/autoamp/tools/emulated", "--proc", "/proc",
                "--bind", self.here, "/data", "--chdir", "/data", *command]

    @unittest.skipUnless(shutil.which("bwrap"), "no bwrap")
    def test_a_container(self):
        inside = self.container("/opt/autoamp/tools/autoamp", *RUN, "x.aat", "--", "/opt/shapes", PRODUCT)
        self.assertIn("lowered 1 of 1 ", self.lowered(inside, "x.aat"))
        report = subprocess.run(self.container("/opt/autoamp/tools/autoamp", "report", "x.aat"), capture_output=True, text=True, timeout=60)
        self.assertIn("/opt/shapes", report.stdout, report)

    @unittest.skipUnless(shutil.which("bwrap"), "no bwrap")
    def test_a_container_started_under_autoamp(self):
        """The container has no file at the path of the preloaded library."""
        command = self.container("--setenv", "LD_LIBRARY_PATH", "/opt/autoamp/tools/emulated", "/opt/shapes", PRODUCT)
        command.remove("--clearenv")
        result = subprocess.run([AUTOAMP, *RUN, "x.aat", "--", *command], cwd=self.here, env=self.environment, timeout=60, capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("libautoamp.so' from LD_PRELOAD cannot be preloaded", result.stderr)
        self.assertIn("no cuBLAS or cuDNN call was intercepted", result.stderr)


if __name__ == "__main__":
    unittest.main()
