#!/usr/bin/env python3
"""The installed tree, moved to another folder: no path of the build, and the demo, doctor, preloads and reports from it.

usage: install.py BUILD SOURCE   (the targets `product`, `emulated` and the client programs are built)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ROWS = 560
DIGITS, MULTIPLIES = BUILD / "tools/demo/digits", BUILD / "tests/cli/multiplies"
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("AUTOAMP_", "LD_", "XDG_", "PYTHON", "DESTDIR"))}
PROGRAM = """
#include <autoamp.h>
#include <stdio.h>
int main(void)
{
    printf("%d\\n", autoamp_active());
    return 0;
}
"""


def run(*command, **variables):
    return subprocess.run(command, env={**CLEAN, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=100, check=False)


def install(place, *options):
    """The prefix below DESTDIR."""
    done = run("meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--strip", "--destdir", str(place), *options)
    assert done.returncode == 0, done.stdout
    command, = place.glob("**/bin/autoamp")
    return command.parent.parent


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.place = pathlib.Path(place.name).resolve()
        cls.root = install(cls.place / "staged").rename(cls.place / "moved")
        shutil.rmtree(cls.place / "staged")
        cls.command = str(cls.root / "bin/autoamp")
        cls.libraries = cls.root / "lib/autoamp"

    def autoamp(self, *arguments, status=0, **variables):
        done = run(self.command, *arguments, HOME=str(self.place), **variables)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def files(self):
        return [path for path in self.root.rglob("*") if path.is_file() or path.is_symlink()]

    def test_no_path_of_the_build(self):
        self.assertGreater(len(self.files()), 80)
        for path in self.files():
            self.assertTrue(path.exists(), f"{path}: dangling link")
            if path.is_symlink():
                self.assertFalse(os.readlink(path).startswith("/"), path)
            content = path.read_bytes()
            for folder in (BUILD, SOURCE, self.place):
                self.assertNotIn(os.fsencode(folder) + b"/", content, path)
                self.assertFalse(content.endswith(os.fsencode(folder)), path)

    def test_libraries_find_each_other_only_by_their_own_folder(self):
        for path in (path for path in self.files() if path.read_bytes().startswith(b"\x7fELF")):
            sections = run("readelf", "-dSW", str(path)).stdout
            for entry in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", sections):
                self.assertIn(entry, ("$ORIGIN", "$ORIGIN/.."), path)
            self.assertNotIn(".debug_info", sections, path)

    def test_doctor(self):
        text = self.autoamp("doctor")
        for library in ("libautoamp.so", "libautoamp-core.so"):
            self.assertIn(str(self.libraries / library), text)
        self.assertNotIn(str(BUILD), text)
        self.assertIn("passed", self.autoamp("doctor", "--self-test", "--device", "emulated"))

    def test_demo_and_preload(self):
        """A part of the data of the demo, for a short run."""
        rows = (BUILD / "tools/demo/digits.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        (self.place / "digits.csv").write_text("".join(rows[:ROWS]), encoding="utf-8")
        demo, trace = [str(DIGITS), str(self.place / "digits.csv")], str(self.place / "demo.aat")
        self.autoamp("run", "--device", "emulated", "--strategy", "cast", "-o", trace, "--", *demo)
        done = run(*demo, LD_PRELOAD=str(self.libraries / "libautoamp.so"), AUTOAMP_DIR=str(self.place / "traces"),
                   LD_LIBRARY_PATH=str(self.libraries / "emulated"), AUTOAMP_STRATEGY="cast")
        self.assertIn("test accuracy", done.stdout)
        for place in (trace, str(self.place / "traces")):
            totals = json.loads(self.autoamp("report", "--format", "json", place))["totals"]
            self.assertGreater(totals["lowered"], 100)
            self.assertEqual(totals["lowered"], totals["eligible"])
        self.assertIn(f"more: {self.command} report", self.autoamp("report", trace))

    @unittest.skipUnless(MULTIPLIES.exists(), "no BLAS to link")
    def test_cpu(self):
        trace = str(self.place / "cpu.aat")
        self.autoamp("run", "--device", "cpu", "--strategy", "cast", "-o", trace, "--", str(MULTIPLIES), "sgemm", "20")
        report = self.autoamp("report", "--report", "ops", "--format", "csv", trace)
        self.assertRegex(report, r"\nsgemm_,|,sgemm_,")
        if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
            self.assertIn("lowered", report)

    def test_header_and_pkgconfig(self):
        found = {"PKG_CONFIG_PATH": str(self.root / "share/pkgconfig")}
        flags = run("pkg-config", "--cflags", "autoamp", **found).stdout.split()
        library = run("pkg-config", "--variable=libautoamp", "autoamp", **found).stdout.strip()
        self.assertTrue(os.path.samefile(library, self.libraries / "libautoamp.so"))
        program = self.place / "program"
        done = subprocess.run(["cc", "-xc", "-", "-o", program, *flags], input=PROGRAM, text=True, check=False, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((run(program).stdout, run(program, LD_PRELOAD=library).stdout), ("0\n", "1\n"))
        self.assertIn(f"{run('pkg-config', '--modversion', 'autoamp', **found).stdout}", self.autoamp("--version"))

    def test_python_package(self):
        code = "import autoamp; print(autoamp.__file__)"
        package = self.libraries / "python"
        self.assertEqual(run(sys.executable, "-B", "-c", code, PYTHONPATH=str(package)).stdout, f"{package}/autoamp/__init__.py\n")
        self.assertEqual([path for path in package.rglob("__pycache__")], [])

    def test_links_of_the_pages(self):
        pages = self.root / "share/doc/autoamp"
        for page in [*pages.glob("*.md"), *pages.glob("docs/*.md"), *pages.glob("examples/**/*.md")]:
            body = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", body):
                self.assertTrue((page.parent / target).exists(), f"{page.name} links to {target}")

    def test_parts(self):
        """Tags select parts. The emulated device is optional."""
        root = install(self.place / "parts", "--tags", "runtime,devel")
        names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        self.assertLessEqual({"bin/autoamp", "include/autoamp.h", "lib/autoamp/libautoamp.so"}, names)
        self.assertEqual({name for name in names if "emulated" in name or "/doc/" in name or "/man/" in name}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
