#!/usr/bin/env python3
"""A program that sets the precision of its products on the CPU by autoamp.autocast: sgemm through ctypes. As in cpu_regions.cpp,
the output is the precision that the rounding of each product shows."""
import ctypes
import os
import sys
import threading
import types

import autoamp
from autoamp import autocast

blas = ctypes.CDLL("libblas.so.3")
SIZE = 64
VALUE = 1 + 2**-9 + 2**-12  # bfloat16 keeps the 1 only
CLASSES = {VALUE: "float32", 1.0: "bfloat16"}


def run():
    n, one, zero, no = ctypes.c_int(SIZE), ctypes.c_float(1), ctypes.c_float(0), ctypes.c_char(b"N")
    a, b, c = ((ctypes.c_float * SIZE**2)(*[value] * SIZE**2) for value in (VALUE, 1.0, 0.0))
    at = ctypes.byref
    blas.sgemm_(at(no), at(no), at(n), at(n), at(n), at(one), a, at(n), b, at(n), at(zero), c, at(n))
    return CLASSES.get(c[0] / SIZE, "wrong")


def elsewhere():
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def nested():
    yield run()
    with autocast("cpu"):
        yield run()
        with autocast("cpu", enabled=False):
            yield run()
            with autocast("cpu:0"):
                yield run()
        yield run()
    yield run()


def dtypes():
    for dtype in ("bfloat16", "float16", "float32", None):
        with autocast("cpu", dtype=dtype):
            yield run()


def other_devices():
    """Regions of CUDA calls have no effect on those of the CPU."""
    with autocast("cuda", enabled=False):
        yield run()
    yield run()
    with autocast("cpu"), autocast("cuda", enabled=False), autocast("xpu", enabled=False):
        yield run()
    with autocast("cuda"):
        yield run()


def workers():
    with autocast("cpu"):
        yield elsewhere()
    with autocast("cpu", threads="all"):
        yield elsewhere()
        with autocast("cpu", enabled=False):
            yield run()
            yield elsewhere()
        with autocast("cuda", threads="all", enabled=False):
            yield elsewhere()
    yield elsewhere()


def states():
    """Results of is_autocast_enabled and get_autocast_dtype, which agree with the products."""
    def now():
        is_enabled, dtype = autoamp.is_autocast_enabled("cpu"), autoamp.get_autocast_dtype("cpu")
        assert run() == ("bfloat16" if is_enabled and dtype == "bfloat16" else "float32")
        return f"{is_enabled}/{dtype}"

    yield now()
    with autocast("cpu", "float16"):
        yield now()
        with autocast("cpu", enabled=False):
            yield now()
        with autocast("cpu", level="O0"):
            yield now()
    with autocast("cpu", "float32"):
        yield now()
    yield now()
    yield str(autoamp.is_autocast_available("cpu"))


class Function:
    @staticmethod
    @autoamp.custom_fwd(device_type="cpu")
    def plain(context):
        return run()

    @staticmethod
    @autoamp.custom_fwd(device_type="cpu", cast_inputs="float32")
    def cast(context):
        return run()

    @staticmethod
    @autoamp.custom_bwd(device_type="cpu")
    def backward(context, found):
        found.append(run())


def custom_functions():
    """Without a region, the program stays lowered as a whole. The backward function runs on another thread."""
    for regions in (False, True):
        for function in (Function.plain, Function.cast):
            context, found = types.SimpleNamespace(), []
            with autocast("cpu") if regions else autoamp._FunctionRegion("xpu"):
                yield function(context)
            thread = threading.Thread(target=Function.backward, args=(context, found))
            thread.start()
            thread.join()
            yield found[0]
            yield run()


def both():
    """Products on both devices: those of the CPU, then those of the GPU."""
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import autocast as cuda  # the other program, which needs the CUDA libraries

    def now():
        return f"{run()}/{cuda.run()}"

    yield now()
    with autocast("cpu"):
        yield now()
    yield now()
    with autocast("cpu", enabled=False):
        yield now()
        with autocast("cuda", dtype="bfloat16"):
            yield now()
            with autocast("cpu"):
                yield now()
        yield now()
    with autocast("cuda", dtype="bfloat16", name="gpu"), autocast("cpu", name="host"):
        yield now()
    yield now()
    yield "/".join(str(autoamp.is_autocast_available(device)) for device in ("cpu", "cuda"))


if __name__ == "__main__":
    print(",".join(globals()[sys.argv[1]]()))
