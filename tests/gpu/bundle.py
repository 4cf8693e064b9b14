#!/usr/bin/env python3
"""One folder or archive with everything that the suite for real devices needs: no compiler or package on the other
machine.

bundle.py build OUT [--build DIR] [--answers none|small|full] [--emulated]   OUT: a folder, or NAME.tar, NAME.tar.gz
bundle.py run [--build DIR] [run.py's arguments]                              builds it in a temporary folder, and runs it

Only with --emulated the bundle contains the emulated device.
The bundle carries the answers of the emulated device, for run.py to list the rows in which a GPU differs: those of a
reduced run (small) or of all tests (full, several minutes).
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

from suite import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 40 << 20  # an archive: 64 MiB in all travel to the other machine
# Versions of Debian 12. A symbol of a newer version would be missing there.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
# Libraries of the other machine; all others must be in the bundle.
BROUGHT = re.compile(r"lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2|"
                     r"lib(cudart|cublas|cublasLt)\.so\.13|libcudnn\.so\.9")

# Place in the bundle: files of the build folder (folder, names) and of the source tree.
BUILT = {
    "bin": ("tools", ["autoamp"]),
    "lib/autoamp": ("inject", ["libautoamp.so", "libautoamp-core.so"]),
    "programs": ("tests", [*(f"gpu/{name}" for name in ("speed", "convolution_speed", "hardware", "inner_calls", "cast_bandwidth")),
                           *(f"preload/clients/{name}" for name in ("semantics", "numerics", "capture", "places", "convolutions",
                                                                    "dnn_graph", "network", "rnn", "self_test", "strict", "weights", "weights_filters",
                                                                    "scaler", "scalers", "liblaunch_hook.so",
                                                                    "libscaler-kernels.so", "libcounting.so")),
                           *(f"preload/{name}" for name in ("linked", "linked_now", "looked", "looked_version", "plugin_host",
                                                            "libplugin.so", "early_main", "libearly.so", "read_kernels", "read_gradients"))]),
    "programs/": ("tools/demo", ["digits"]),
    "lib/autoamp/": ("tools/self_test", ["autoamp-self-test"]),
}
DEVICE = {
    "lib/autoamp/emulated": ("tools/emulated", ["libautoamp-emulated.so", "libautoamp-emulated-blas.so", "libautoamp-emulated-dnn.so",
                                                "libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13",
                                                "libcupti.so.13", "libcudnn.so.9",
                                                *(f"libcudnn_{part}.so.9" for part in ("adv", "cnn", "graph", "ops"))]),
    "lib/autoamp/emulated/plugins": ("tools/emulated/plugins", ["libautoamp-kernels.so"]),
}
SOURCES = {
    "": ["tests/gpu/run.py", "LICENSE"],
    "suite": ["tests/gpu/suite/*.py"],
    "frameworks": ["tests/gpu/frameworks/*.py", "tests/wheels/torch_client.py", "tests/wheels/onnxruntime_client.py"],
    "autoamp": ["tools/python/autoamp/*.py"],
    "programs": ["tools/demo/digits.csv", "tools/demo/DATA-LICENSE.md", "tests/preload/clients/lookup.py"],
    # Drivers that read files of the sources find them.
    "tools/demo": ["tools/demo/digits.csv"],
    "src/op": ["src/op/vendor.h"],
    "src/cuda": ["src/cuda/driver.h"],
    "tests/preload": [f"tests/preload/{name}.py" for name in ("runner", "semantics", "numerics", "capture", "places", "convolutions",
                                                        "dnn_graph", "network", "rnn", "strict", "audit", "scaler", "weights",
                                                        "gradients")],
    "tests/preload/clients": ["tests/preload/clients/grad_scaler.py"],
    "tests/oracle": ["tests/oracle/*.py", "tests/oracle/*.json"],
    "tools/python/autoamp": ["tools/python/autoamp/*.py"],
}


def said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def fill(folder, build):
    sources = {target: ("", names) for target, names in SOURCES.items()}
    for tree, items in ((build, BUILT), (build, DEVICE), (ROOT, sources)):
        for target, (source, names) in items.items():
            (folder / target).mkdir(parents=True, exist_ok=True)
            for name in names:
                files = sorted((tree / source).glob(name))
                if not files:
                    sys.exit(f"{tree / source / name} is missing; build it first: ninja -C {build}")
                for file in files:
                    shutil.copy(file, folder / target)  # a link to a library: its file
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


def record(folder, answers):
    """Runs the suite on the emulated device and stores its results in the bundle."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, folder / "run.py", "--device", "emulated", "--out", out, "--minutes", "30"]
        command += ["--small"] if answers == "small" else ["--seconds", "900", "--steps", "hardware", "clients", "dnn"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"{done.stdout}\nthe suite failed on the emulated device")
        shutil.copy(out + "/results.json", folder / "emulated.json")


def build(out, tree, answers, has_device):
    out = pathlib.Path(out)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "autoamp-gpu"
        fill(folder, tree)
        check(folder)
        if answers != "none":
            record(folder, answers)
        if not has_device:
            shutil.rmtree(folder / "lib/autoamp/emulated")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if ".tar" in out.suffixes:
            with tarfile.open(out, "w:gz" if out.suffix == ".gz" else "w") as archive:
                archive.add(folder, folder.name)
            if out.stat().st_size > LARGEST:
                sys.exit(f"{out.stat().st_size / 2**20:.1f} MiB: more than {LARGEST >> 20}")
        else:
            shutil.copytree(folder, out)
    print(f"{out}: {size / 2**20:.1f} MiB unpacked, {out.stat().st_size / 2**20:.1f} MiB" if out.is_file() else
          f"{out}: {size / 2**20:.1f} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--answers", choices=("none", "small", "full"), default="small")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--no-build", action="store_true", help="everything is built already")
    options, rest = parser.parse_known_args()
    if options.action == "build":
        if len(rest) != 1:
            parser.error("build takes one OUT")
        targets = [f"{source}/{name}" for source, names in [*BUILT.values(), *DEVICE.values()] for name in names]
        if not options.no_build:
            subprocess.run(["ninja", "-C", options.build, *targets], stdout=subprocess.DEVNULL, check=True)
        return build(rest[0], options.build, options.answers, options.emulated)
    # Meson puts the build's own libraries first, among them the emulated device and the tests' stand-ins.
    outside = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path and
               options.build.resolve() not in [pathlib.Path(path).resolve(), *pathlib.Path(path).resolve().parents]]
    os.environ["LD_LIBRARY_PATH"] = ":".join(outside)
    is_emulated = "emulated" in rest
    if not is_emulated and isinstance(missing := machine.present(), str):
        print(missing)  # before the build, which takes time
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        build(scratch + "/bundle", options.build, "none" if is_emulated else options.answers, is_emulated)
        arguments = rest if "--out" in rest else [*rest, "--out", scratch + "/results"]
        return subprocess.run([sys.executable, scratch + "/bundle/run.py", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
