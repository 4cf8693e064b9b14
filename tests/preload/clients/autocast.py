#!/usr/bin/env python3
"""A program that sets the precision of its products by autoamp.autocast: cuBLAS through ctypes. As in regions.cpp,
`ran` is the precision that the rounding of each product shows."""
import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import types
import warnings

import autoamp
from autoamp import autocast

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../oracle"))
import arguments as oracle_arguments  # noqa: E402
import scopes as oracle  # noqa: E402

runtime, blas = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcublas.so.13")
SIZE = 64
# float16 keeps 2^-9 of it and bfloat16 neither.
VALUE = 1 + 2**-9 + 2**-12
CLASSES = {VALUE: "float32", 1 + 2**-9: "float16", 1.0: "bfloat16"}


class torch_like:
    """autocast uses only str() of a dtype."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


class float16:  # numpy's are classes
    pass


def allocate(value, count):
    place, data = ctypes.c_void_p(), (ctypes.c_float * count)(*[value] * count)
    assert runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(ctypes.sizeof(data))) == 0
    assert runtime.cudaMemcpy(place, data, ctypes.c_size_t(ctypes.sizeof(data)), 1) == 0
    return place


class Products(threading.local):
    """Per thread: a handle and operands."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        assert blas.cublasCreate_v2(ctypes.byref(self.handle)) == 0
        self.places = [allocate(value, SIZE * SIZE) for value in (VALUE, 1.0, 0.0)]

    def run(self, call="mm"):
        one, zero, result = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0)), (ctypes.c_float * (SIZE * SIZE))()
        n, none, half = SIZE, ctypes.c_longlong(0), ctypes.c_longlong(SIZE * SIZE // 2)
        a, b, c = self.places
        function, *arguments = {
            "mm": (blas.cublasSgemm_v2, 0, 0, n, n, n, one, a, n, b, n, zero, c, n),
            "bmm": (blas.cublasSgemmStridedBatched, 0, 0, n, n // 2, n, one, a, n, none, b, n, half, zero, c, n, half, 2),
            "mv": (blas.cublasSgemv_v2, 0, n, n, one, a, n, b, 1, zero, c, 1),
            "add": (blas.cublasSgeam, 0, 0, n, n, one, a, n, zero, b, n, c, n),
        }[call]
        assert function(self.handle, *arguments) == 0, call
        assert runtime.cudaMemcpy(result, c, ctypes.c_size_t(ctypes.sizeof(result)), 2) == 0
        return CLASSES.get(result[0] / (1 if call == "add" else SIZE), "wrong")


products = Products()
run = products.run


def nested():
    """torch's documentation: off inside on, and another type inside."""
    yield run()
    with autocast(device_type="cuda"):
        yield run()
        with autocast("cuda", enabled=False):
            yield run()
        with autocast("cuda", dtype=torch_like("torch.bfloat16")):
            yield run()
        yield run()
    yield run()


def dtypes():
    for dtype in ("bf16", "bfloat16", torch_like("torch.bfloat16"), torch_like("paddle.float16"), float16,
                  torch_like("Float16"), None):
        with autocast(dtype=dtype):
            yield run()


def lists():
    with autocast(custom_black_list={"mm"}):
        yield run()
        with autocast(custom_white_list=["mm"]):
            yield run()
    with autocast(level="O0"):
        yield run()


def reentered():
    region = autocast(dtype="bfloat16")

    @region
    def recursive(depth):
        with region:
            found = [run()]
            with autocast(enabled=False):
                return found + (recursive(depth - 1) if depth else []) + [run()]

    yield from recursive(2)
    yield run()


def exceptions():
    @autocast(dtype="bfloat16")
    def fail():
        raise KeyError(run())

    for _ in range(3):
        try:
            with autocast(enabled=False):
                fail()
        except KeyError as error:
            yield error.args[0]
    yield run()


def refused():
    for bad in ({"dtype": "fp8"}, {"level": "O9"}, {"threads": "some"}, {"weights": "some"}, {"custom_white_list": "no_op"}):
        try:
            with autocast(**bad):
                yield "entered"
        except ValueError as error:
            yield "ValueError" if str(error) else "mute"
    try:
        autocast(device_type=0)
    except ValueError:
        yield "ValueError"
    yield run()


def weights():
    """The mode of CUDA calls."""
    def current():
        return autoamp._current("cuda").weights.decode()

    yield current()
    with autocast(weights="frozen"):
        yield current()
        with autocast(weights="checked"):
            yield current()
        with autocast(weights="watched"):  # for CPU calls
            yield current()
        with autocast("cpu", weights="off"):
            yield current()
    yield current()


def copies():
    """Products of a weight of 1 MiB. The report shows which of them use a kept copy."""
    edge, few = 512, 4
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    weight, others, result = (allocate(1.0, edge * columns) for columns in (edge, few, few))

    def calls():
        for _ in range(8):
            assert blas.cublasSgemm_v2(products.handle, 0, 0, edge, few, edge, one, weight, edge, others, edge, zero, result, edge) == 0
            assert runtime.cudaDeviceSynchronize() == 0

    with autocast(name="around"):
        with autocast(weights="checked", name="outer"):
            calls()
            with autocast(weights="checked", name="inner"):
                calls()
            with autocast(name="plain"):
                calls()
        with autocast(weights="checked", name="later"):
            calls()
        calls()
    return ()


def other_devices():
    with autocast("xpu", dtype="bfloat16"):
        yield run()
    with autocast("cuda:0", dtype="bfloat16"):
        yield run()
    for unknown in ("cuda:x", "cdua", ""):
        try:
            autocast(unknown, enabled=False)
            yield "made"
        except RuntimeError:
            yield "RuntimeError"


def scopes():
    """Suspended code, as torch runs it: tests/oracle."""
    for case in oracle.CASES:
        yield from case(lambda: autocast(dtype="bfloat16"), run)


def orders():
    """Regions end in another order than they nest: in a generator that is collected, continued or closed, in two tasks
    and two stacks. An ended region has no effect, an open one has."""

    def body():
        with autocast(dtype="bfloat16", threads="all"):
            yield
        yield

    def elsewhere():
        found = []
        thread = threading.Thread(target=lambda: found.append(run()))
        thread.start()
        thread.join()
        return found[0]

    for leave in (next, lambda suspended: suspended.close()):
        suspended = body()
        next(suspended)
        with autocast("cuda", enabled=False):
            yield elsewhere()
            leave(suspended)
            yield run()
            yield elsewhere()
        yield run()

    async def task(enabled, mine, others):
        with autocast(enabled=enabled, dtype="bfloat16"):
            mine.set()
            await others.wait()
            return run()

    async def tasks():
        first, second, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        one = asyncio.create_task(task(True, first, second))
        await first.wait()
        other = asyncio.create_task(task(False, second, end))
        await one
        end.set()
        return await other

    yield asyncio.run(tasks())
    yield run()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(autocast(dtype="bfloat16"))
    second.enter_context(autocast(enabled=False))
    first.close()
    yield run()
    second.close()
    yield run()


def workers():
    """PyTorch's backward pass: on threads that the program did not start."""
    found = []

    def work():
        found.append(run())

    def wait():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with autocast(dtype="bfloat16"):
        wait()
    with autocast(dtype="bfloat16", threads="all"):
        wait()
    wait()
    yield from found


def arguments():
    """The arguments of tests/oracle, with their warnings, except that regions for the CPU have no effect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autocast("cpu"):
            pass
    for case in oracle_arguments.CASES:
        found = oracle_arguments.outcome(case, oracle_arguments.Torch(), autocast, autoamp.is_autocast_enabled,
                                         autoamp.get_autocast_dtype)
        yield found if isinstance(found, str) else "/".join(map(str, found))


def first():
    """A thread that makes calls before and after the first region, as PyTorch's for the backward pass."""
    found, turn, done = [], threading.Barrier(2), threading.Barrier(2)

    def work():
        for _ in range(8):
            turn.wait()
            found.append(run())
            done.wait()

    def elsewhere():
        turn.wait()
        done.wait()
        return found[-1]

    thread = threading.Thread(target=work)
    thread.start()
    yield elsewhere()
    with autocast("xpu"):
        yield elsewhere()
    assert autoamp.is_autocast_available("cuda")
    yield elsewhere()
    with autocast("cuda", enabled=False):
        yield run()
        yield elsewhere()
    with autocast("cuda"):
        yield elsewhere()
    with autocast("cuda", threads="all"):
        yield elsewhere()
        with autocast("cuda", enabled=False):
            yield elsewhere()
        with autocast("cuda", enabled=False, threads="all"):
            yield elsewhere()
    thread.join()
    yield run()


def states():
    """Results of is_autocast_enabled and get_autocast_dtype, which agree with the products."""
    def now():
        dtype = autoamp.get_autocast_dtype("cuda")
        assert autoamp.is_autocast_enabled() == autoamp.is_autocast_enabled("cuda:1") == (run() == dtype)
        return dtype if autoamp.is_autocast_enabled() else "float32"

    yield now()
    with autocast("cuda", torch_like("torch.bfloat16")):
        yield now()
        with autocast("cuda", enabled=False):
            yield now()
        yield now()
    yield now()


class Function:
    @staticmethod
    @autoamp.custom_fwd(device_type="cuda")
    def plain(context):
        return run()

    @staticmethod
    @autoamp.custom_fwd(device_type="cuda", cast_inputs="float32")
    def cast(context):
        return run()

    @staticmethod
    @autoamp.custom_bwd(device_type="cuda")
    def backward(context, found):
        found.append(run())


def custom_functions_alone():
    """Without a region, the program stays lowered as a whole."""
    context, found = types.SimpleNamespace(), []
    for function in (Function.plain, Function.cast):
        yield function(context)
        Function.backward(context, found)
        yield found.pop()
        yield run()


def custom_functions():
    """A custom function whose backward runs on another thread."""
    for function in (Function.plain, Function.cast):
        for enabled in (True, False):
            context, found = types.SimpleNamespace(), []
            with autocast("cuda", dtype="bfloat16", enabled=enabled):
                yield function(context)
            thread = threading.Thread(target=lambda: Function.backward(context, found))
            thread.start()
            thread.join()
            yield found[0]


def examples():
    """Runs CLIENT_SCRIPT, like regions.cpp."""
    regions = []
    for step in filter(None, os.environ.get("CLIENT_SCRIPT", "").split("|")):
        word, *settings = step.split()
        if word == "push":
            keys = dict(setting.split("=", 1) for setting in settings)
            regions.append(autocast(**{key: value == "1" if key in ("enabled", "use_promote") else value
                                       for key, value in keys.items()}))
            try:
                regions[-1].__enter__()
            except ValueError:
                regions.pop()
                yield "ValueError"
        elif word == "pop":
            regions.pop().__exit__(None, None, None)
        else:
            yield run(word)


CASES = (examples, nested, dtypes, lists, reentered, exceptions, refused, weights, copies, other_devices, scopes, orders, workers, arguments, first,
         states, custom_functions_alone, custom_functions)
if __name__ == "__main__":
    wanted = sys.argv[2::2]
    for case in CASES:
        if not wanted or case.__name__ in wanted:
            print(case.__name__, "ran=" + ",".join(case()), f"loaded={autoamp.is_loaded()}",
                  f"available={autoamp.is_autocast_available('cuda')},{autoamp.is_autocast_available('cpu')}")
