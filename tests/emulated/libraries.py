#!/usr/bin/env python3
"""The emulated libraries from outside: names, versions, the search for each other, and the messages for a stub and for
a program with a static CUDA runtime."""
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

SONAMES = {"cudart": "libcudart.so.13", "cuda": "libcuda.so.1", "cupti": "libcupti.so.13"}
bad = []


def check(is_good, what):
    if not is_good:
        bad.append(what)


def output(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def listed(path):
    return {line for line in path.read_text().split("\n") if line and not line.startswith("#")}


def exported(library):
    rows = [line.split() for line in output("nm", "-D", "--defined-only", str(library)).stdout.split("\n") if line]
    return {row[2].split("@")[0] for row in rows if row[1] in "TW"}, {row[2] for row in rows}


def main(folder, source, toolkit, static_program):
    real = {"cudart": toolkit / "libcudart.so.13", "cuda": toolkit / "stubs/libcuda.so", "cupti": toolkit / "libcupti.so.13"}
    for name, soname in SONAMES.items():
        names = listed(source / name / "exports.txt")
        mine, versioned = exported(folder / soname)
        check(mine == names, f"{soname}: differs from its list: {sorted(mine ^ names)[:5]}")
        if real[name].exists():
            theirs, _ = exported(real[name])
            check(theirs <= names, f"{soname}: the toolkit's has also {sorted(theirs - names)[:5]}")
        if name != "cuda":
            check(all(one.split("@@")[1:] == [soname] for one in versioned if one != f"{soname}@@{soname}" and one != soname),
                  f"{soname}: no version node of that name")
        dynamic = output("readelf", "-d", str(folder / soname)).stdout
        check(f"soname: [{soname}]" in dynamic, f"{soname}: another SONAME")
        check(re.search(r"RUNPATH.*\[\$ORIGIN/?\]", dynamic), f"{soname}: does not search its own folder")

    # Opened as Python programs do, with local symbols; two calls of a stub print one line.
    stub = ("import ctypes; l = ctypes.CDLL(%r); a = ctypes.c_void_p(); "
            "assert l.cudaMalloc(ctypes.byref(a), 16) == 0; assert l.cudaMallocArray() == 801 == l.cudaMallocArray()")
    ran = output(sys.executable, "-c", stub % str(folder / SONAMES["cudart"]))
    check(ran.returncode == 0, f"a stub: {ran.stderr}")
    check(ran.stderr == "autoamp emulated: cudaMallocArray is not emulated\n", f"a stub said {ran.stderr!r}")

    # A program's kernel may have any name.
    evil = ("import ctypes; l = ctypes.CDLL(%r); P = ctypes.c_void_p; "
            "image = (ctypes.c_char * 16).from_buffer_copy(bytes.fromhex('50ed55ba01001000') + bytes(8)); "
            "wrapper = (ctypes.c_uint64 * 3)(0x466243b1 | 1 << 32, ctypes.addressof(image), 0); "
            "l.__cudaRegisterFatBinary.restype = P; h = P(l.__cudaRegisterFatBinary(wrapper)); "
            "name = b'evil\\x1b[31m\\xc2\\x9b<b>'; stub = P(ctypes.addressof(wrapper)); "
            "l.__cudaRegisterFunction(h, stub, name, name, -1, None, None, None, None, None); l.__cudaRegisterFatBinaryEnd(h)\n"
            "class Dim3(ctypes.Structure): _fields_ = [(c, ctypes.c_uint) for c in 'xyz']\n"
            "l.cudaLaunchKernel(stub, Dim3(1, 1, 1), Dim3(1, 1, 1), None, ctypes.c_size_t(0), None)")
    ran = output(sys.executable, "-c", evil % str(folder / SONAMES["cudart"]))
    check(ran.stderr == "autoamp emulated: evil\\x1b[31m\\xc2\\x9b<b> is not emulated\n", f"a kernel of another name: {ran.stderr!r}")

    # autoamp's kernels are available although the device's symbols are local.
    kernel = ("import ctypes; l = ctypes.CDLL(%r); a = ctypes.c_void_p(); b = ctypes.c_void_p(); "
              "assert l.cuInit(0) == 0; assert l.cuLibraryLoadData(ctypes.byref(a), b'.version 8.0 .target sm_75', 0, 0, 0, 0, 0, 0) == 0; "
              "assert l.cuLibraryGetKernel(ctypes.byref(b), a, b'autoamp_settle') == 0")
    ran = output(sys.executable, "-c", kernel % str(folder / SONAMES["cuda"]))
    check(ran.returncode == 0 and not ran.stderr, f"a kernel: {ran.stderr}")

    environment = dict(os.environ, LD_LIBRARY_PATH=str(folder))
    ran = output(str(static_program), env=environment)
    check(ran.returncode != 0, "the static runtime found a device")
    check(ran.stderr.count("\n") == 1 and "-cudart shared" in ran.stderr, f"the static runtime printed {ran.stderr!r}")

    # A program without a static runtime opens the real one: the message must not advise relinking.
    real_runtime = ("import ctypes; ctypes.CDLL(%r); runtime = ctypes.CDLL(%r); "
                    "assert runtime.cudaFree(None) != 0 or runtime.cudaFree(None) != 0")
    ran = output(sys.executable, "-c", real_runtime % (str(folder / SONAMES["cuda"]), str(toolkit / SONAMES["cudart"])))
    check(ran.returncode == 0, f"the real runtime: {ran.stderr}")
    check(ran.stderr.count("\n") == 1 and "relink" not in ran.stderr and f"/{SONAMES['cudart']} uses" in ran.stderr,
          f"message for the real runtime: {ran.stderr!r}")

    none = ctypes.CDLL(str(folder / SONAMES["cuda"]))
    check(none.cuCtxSynchronize() == 3, "the driver works before cuInit")
    print("\n".join(bad) or "as the real ones")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
