#!/usr/bin/env python3
"""tools/release: refusals, the bill of materials of this build, and archives that do not depend on time, umask and order.

usage: release.py BUILD SOURCE   (the targets `product` and `emulated` are built)
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
BUILD, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tools"))
loader = importlib.machinery.SourceFileLoader("release", str(SOURCE / "tools/release"))
release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
loader.exec_module(release)
sbom = release.sbom


class Bill(unittest.TestCase):
    def test_parts_are_those_of_dpkg(self):
        found = {name: sbom.package_parts(BUILD, name) for name in sbom.PACKAGES}
        names = {name: {part["name"] for part in rows} for name, rows in found.items()}
        self.assertLessEqual({"fmt", "CLI11", "toml++", "nlohmann-json", "protozero", "sqlite", "libstdc++", "libgcc"}, names["autoamp"])
        self.assertLessEqual({"OpenBLAS", "nlohmann-json"}, names["autoamp-emulated"])
        self.assertNotIn("OpenBLAS", names["autoamp"])
        self.assertEqual({"CLI11", "sqlite", "toml++", "zlib"} & names["autoamp-emulated"], set())
        for part in found["autoamp"] + found["autoamp-emulated"]:
            package = re.match(r"pkg:deb/debian/([^@]+)@", part["purl"])
            if package:
                said = subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}", package[1]], text=True)
                self.assertEqual(said, part["version"])
            self.assertGreater(len(part["text"]), 20)

    def test_unknown_parts_are_refused(self):
        with mock.patch.object(sbom, "PARTS", [row for row in sbom.PARTS if row[1] != "sqlite"]):
            with self.assertRaisesRegex(SystemExit, "libsqlite3-dev .* has no row"):
                sbom.package_parts(BUILD, "autoamp")

    def test_documents(self):
        found = [{"name": "one", "version": "1", "licence": "MIT", "purl": "pkg:generic/one", "text": "Words of one"},
                 {"name": "two", "version": "2", "licence": "MIT", "purl": "pkg:generic/two", "text": "Words of one"}]
        bill = json.loads(sbom.bill("autoamp", "1.0", "2026-01-01T00:00:00Z", found))
        self.assertEqual((bill["bomFormat"], bill["specVersion"], [part["name"] for part in bill["components"]]),
                         ("CycloneDX", "1.5", ["one", "two"]))
        self.assertRegex(bill["serialNumber"], r"^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(sbom.notices("Apache", found).count("Words of one"), 1)


class Glibc(unittest.TestCase):
    def package(self, name, stage):
        """The field Depends of a package."""
        written = []
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                release, stage=stage, archive=mock.DEFAULT, build_debian=mock.DEFAULT, debian=lambda *row: written.append(row[3])):
            release.package(name, "1.0", BUILD, pathlib.Path(folder), 1700000000)
        return written[0]

    def test_newer_files_are_refused(self):
        def stage(_, root, tags):
            (root / "usr/bin").mkdir(parents=True)
            shutil.copy(release.sbom.binaries(BUILD, "autoamp-emulated")[0], root / "usr/bin")
            self.assertIn("runtime", tags)
        with self.assertRaisesRegex(SystemExit, "needs libstdc"):
            self.package("autoamp", stage)

    def test_dependencies(self):
        """dpkg-shlibdeps on Debian 12 names libc6 2.34 for each symbol that was in libpthread."""
        if subprocess.run([sys.executable, release.CHECK, *sbom.binaries(BUILD, "autoamp")], check=False, capture_output=True).returncode:
            self.skipTest("built for the glibc of this machine")
        self.assertEqual(self.package("autoamp", release.stage), "libc6 (>= 2.28)")
        needed = self.package("autoamp-emulated", release.stage)
        self.assertRegex(needed, r"^autoamp \(= 1\.0\), libc6 \(>= 2\.\d+\), .*libstdc\+\+6")


class Archives(unittest.TestCase):
    def make(self, place, umask, order, time):
        before = os.umask(umask)
        root, out = place / "root", place / "out"
        for name in order:
            file = root / "usr" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
            file.chmod(0o777 & ~umask if name.startswith("bin") else 0o666 & ~umask)
            os.utime(file, (time, time))
        (root / "usr/link").symlink_to("bin/one")
        out.mkdir()
        release.set_modes_and_times(root, 1700000000)
        release.archive(root / "usr", "autoamp-1", out / "a.tar.zst", 1700000000)
        release.debian(root, "autoamp", "1.0", "libc6")
        release.build_debian(root, out / "a.deb", 1700000000)
        os.umask(before)
        return {file.name: file.read_bytes() for file in out.iterdir()}

    def test_bytes_are_the_same(self):
        names = ["bin/one", "lib/two", "lib/a/three", "share/four"]
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            one = self.make(pathlib.Path(first), 0o022, names, 1600000000)
            two = self.make(pathlib.Path(second), 0o077, names[::-1], 1500000000)
            self.assertEqual(sorted(one), ["a.deb", "a.tar.zst"])
            self.assertEqual(one, two)
            listed = subprocess.check_output(["tar", "--zstd", "-tvf", pathlib.Path(first) / "out/a.tar.zst"], text=True)
            self.assertRegex(listed, r"(?m)^-rwxr-xr-x root/root .* autoamp-1/bin/one$")
            self.assertRegex(listed, r"(?m)^-rw-r--r-- root/root .* autoamp-1/lib/two$")


class Version(unittest.TestCase):
    def test_one_version(self):
        version = json.loads(subprocess.check_output(["meson", "introspect", "--projectinfo", BUILD]))["version"]
        with mock.patch.object(release, "build_release") as build, mock.patch.object(sys, "argv", ["release", "9.9"]):
            with self.assertRaisesRegex(SystemExit, f"the version of meson.build is {version}, not 9.9"):
                release.main()
            build.assert_not_called()  # the build takes minutes
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(release, "ROOT", pathlib.Path(folder)):
            for text, is_there in ((f"# Changelog\n\n## {version}, 2026-12-01\n", True), (f"## {version}.1\n", False), ("## Unreleased\n", False)):
                (pathlib.Path(folder) / "CHANGELOG.md").write_text(text, encoding="utf-8")
                if is_there:
                    release.check_version(version, BUILD)
                else:
                    self.assertRaisesRegex(SystemExit, "no section", release.check_version, version, BUILD)
        setuptools = mock.MagicMock()
        with mock.patch.dict(sys.modules, setuptools=setuptools):
            runpy.run_path(str(SOURCE / "tools/python/setup.py"))
        setuptools.setup.assert_called_once_with(version=version)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
