#!/usr/bin/env python3
"""One folder or archive with everything that the suite for real devices needs: no compiler or package on the other
machine.

bundle.py build OUT [--build DIR] [--without-emulated]   OUT: a folder, or NAME.tar, NAME.tar.gz
bundle.py run [--build DIR] [run.py's arguments]         builds it in a temporary folder, and runs it
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 48 << 20
# Versions of Debian 12. A symbol of a newer version would be missing there.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
# Libraries of the other machine; all others must be in the bundle.
BROUGHT = re.compile(r"lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2|"
                     r"lib(cudart|cublas|cublasLt)\.so\.13")

# Place in the bundle: files of the build folder (folder, names) and of the source tree.
BUILT = {
    "bin": ("tools", ["autoamp"]),
    "lib/autoamp": ("inject", ["libautoamp.so", "libautoamp-core.so"]),
    "programs": ("", ["tests/gpu/speed", "tests/gpu/hardware", "tests/gpu/inner_calls", "tests/gpu/cast_bandwidth",
                      "tests/preload/clients/semantics", "tests/preload/clients/numerics", "tests/preload/clients/capture",
                      "tests/preload/clients/places",
                      "tests/preload/linked", "tests/preload/linked_now", "tests/preload/looked",
                      "tests/preload/looked_version", "tests/preload/plugin_host", "tests/preload/libplugin.so",
                      "tests/preload/early_main", "tests/preload/libearly.so", "tools/demo/digits"]),
}
DEVICE = {
    "lib/autoamp/emulated": ("tools/emulated", ["libautoamp-emulated.so", "libautoamp-emulated-blas.so", "libautoamp-emulated-dnn.so",
                                                "libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13",
                                                "libcupti.so.13", "libcudnn.so.9",
                                                *(f"libcudnn_{part}.so.9" for part in ("adv", "cnn", "graph", "ops"))]),
    "lib/autoamp/emulated/plugins": ("tools/emulated/plugins", ["libautoamp-kernels.so"]),
}
SOURCES = {
    "": ["tests/gpu/run.py", "tests/gpu/torch_demo.py", "LICENSE"],
    "programs": ["tools/demo/digits.csv", "tools/demo/DATA-LICENSE.md"],
    "drivers": ["tests/preload/runner.py", "tests/preload/semantics.py", "tests/preload/numerics.py",
                "tests/preload/capture.py", "tests/preload/places.py", "tests/preload/clients/lookup.py"],
}


def said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def fill(folder, build, has_device):
    sources = {target: ("", names) for target, names in SOURCES.items()}
    for tree, items in ((build, BUILT), (build, DEVICE if has_device else {}), (ROOT, sources)):
        for target, (source, names) in items.items():
            (folder / target).mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy(tree / source / name, folder / target)  # a link to a library: its file
    try:
        commit = said("git", "-C", ROOT, "rev-parse", "HEAD").strip()
        commit += " with changes" if said("git", "-C", ROOT, "status", "--porcelain") else ""
    except (OSError, subprocess.CalledProcessError):  # an archive of the sources, without git
        commit = "unknown"
    built = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    (folder / "bundle.json").write_text(json.dumps({"commit": commit, "built": built}))


def check(folder):
    """Strips every object, and checks that its libraries and symbols can be found on another machine."""
    objects = [file for file in folder.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    present = {file.name for file in objects}
    for file in objects:
        subprocess.run(["strip", "--strip-unneeded", file], check=True)
        for name in re.findall(r"NEEDED.*\[(.*)\]", said("readelf", "-dW", file)):
            if name not in present and not BROUGHT.fullmatch(name):
                sys.exit(f"{file.name} needs {name}, which the other machine may not have")
        for kind, version in set(re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)", said("readelf", "-VW", file))):
            if tuple(map(int, version.split("."))) > NEWEST[kind]:
                sys.exit(f"{file.name} needs {kind}_{version}: built on a system newer than Debian 12")


def build(out, tree, has_device=True):
    out = pathlib.Path(out)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "autoamp-gpu"
        fill(folder, tree, has_device)
        check(folder)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if size > LARGEST:
            sys.exit(f"{size / 2**20:.1f} MiB: more than {LARGEST >> 20}")
        if ".tar" in out.suffixes:
            with tarfile.open(out, "w:gz" if out.suffix == ".gz" else "w") as archive:
                archive.add(folder, folder.name)
        else:
            shutil.copytree(folder, out)
    print(f"{out}: {size / 2**20:.1f} MiB unpacked, {out.stat().st_size / 2**20:.1f} MiB" if out.is_file() else
          f"{out}: {size / 2**20:.1f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--without-emulated", action="store_true")
    options, rest = parser.parse_known_args()
    if options.action == "build":
        if len(rest) != 1:
            parser.error("build takes one OUT")
        return build(rest[0], options.build, not options.without_emulated)
    # Meson puts the build's own libraries first, among them the emulated device and the tests' stand-ins.
    outside = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path and
               options.build.resolve() not in [pathlib.Path(path).resolve(), *pathlib.Path(path).resolve().parents]]
    os.environ["LD_LIBRARY_PATH"] = ":".join(outside)
    if "emulated" not in rest and isinstance(missing := run.machine("cuda"), str):
        print(missing)  # before the build, which takes time
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        build(scratch + "/bundle", options.build, not options.without_emulated)
        arguments = rest if "--out" in rest else [*rest, "--out", scratch + "/results"]
        return subprocess.run([sys.executable, scratch + "/bundle/run.py", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
