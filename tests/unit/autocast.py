#!/usr/bin/env python3
"""tools/python/autoamp without autoamp in the process: arguments as in torch (tests/oracle), copies, decorators, the state of
regions for other devices, and the one warning."""
import asyncio
import copy
import json
import os
import pickle
import sys
import threading
import types
import unittest
import warnings

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path[:0] = [os.path.join(SOURCE, "tools/python"), os.path.join(SOURCE, "tests/oracle")]
import arguments  # noqa: E402
import autoamp  # noqa: E402
from autoamp import autocast, get_autocast_dtype, is_autocast_enabled  # noqa: E402

with open(os.path.join(SOURCE, "tests/oracle/torch_arguments.json"), encoding="utf-8") as FILE:
    TORCH = json.load(FILE)["answers"]


def state(device="cpu"):
    return is_autocast_enabled(device), get_autocast_dtype(device)


class Autocast(unittest.TestCase):
    def setUp(self):
        self.assertFalse(autoamp.is_loaded())
        for texts in autoamp._warnings_left.values():  # without the warnings of test_one_warning_for_each_device
            next(texts, None)

    def tearDown(self):
        self.assertEqual((state(), state("xpu")), ((False, "bfloat16"), (False, "float16")))

    def test_arguments(self):
        self.assertEqual(set(TORCH), set(arguments.CASES))
        for case in TORCH:
            with self.subTest(case):
                wanted = arguments.wanted(case, TORCH)
                found = arguments.outcome(case, arguments.Torch(), autocast, is_autocast_enabled, get_autocast_dtype)
                if isinstance(wanted, list) and "cuda" in case:  # no region for CUDA without the library
                    wanted[0] = False
                self.assertEqual(found, wanted)

    def test_messages(self):
        for call, error, text in ((lambda: autocast(0), ValueError, r"Expected `device_type` of type `str`, got: `<class 'int'>`"),
                                  (lambda: autocast("cuda", enabled="yes"), TypeError, r"enabled must be a bool \(got str\)"),
                                  (lambda: autocast("cuda", cache_enabled=1), TypeError, r"cache_enabled must be a bool \(got int\)"),
                                  *((lambda each=each: autocast("cuda", **{each: 5}), TypeError, rf"{each} must be a")
                                    for each in ("level", "lists", "custom_white_list", "custom_black_list", "use_promote", "threads", "name", "weights")),
                                  (lambda: autocast("cuda", custom_black_list=[1]), TypeError, r"custom_black_list must be a str"),
                                  (lambda: autocast("cuda", name="a\0b"), ValueError, "null character"),
                                  (lambda: autocast("cuda", 16), TypeError, r"argument 'dtype' must be a data type or its name, not int"),
                                  (lambda: autocast("cdua"), RuntimeError, r"at start of device string: cdua$"),
                                  (lambda: autocast("cuda:x"), RuntimeError, r"^Invalid device string: 'cuda:x'$"),
                                  (lambda: autocast("meta"), RuntimeError, r"^User specified an unsupported autocast device_type 'meta'$"),
                                  (lambda: autocast("cpu")(1), TypeError, r"needs a callable, not int"),
                                  (lambda: is_autocast_enabled(0), TypeError, r"argument 'device_type' must be str, not int"),
                                  (lambda: get_autocast_dtype("meta"), RuntimeError, "unsupported"),
                                  (lambda: autoamp.is_autocast_available(""), RuntimeError, "must not be empty"),
                                  (lambda: autoamp.custom_fwd(device_type=0), ValueError, r"Expected `device_type`"),
                                  (lambda: autoamp.custom_bwd(device_type=0), ValueError, r"Expected `device_type`")):
            self.assertRaisesRegex(error, text, call)
        with self.assertWarnsRegex(UserWarning, "^In CUDA autocast, but the target dtype is not supported. Disabling autocast") as warned:
            autocast("cuda", "fp32")
        self.assertEqual(warned.filename, __file__)

    def test_copies(self):
        region = autocast("cpu", "half", custom_black_list={"mm"}, name="part")
        with region:
            for made in (copy.copy(region), copy.deepcopy(region), pickle.loads(pickle.dumps(region))):
                self.assertEqual(bytes(made._region)[:8], bytes(region._region)[:8])
                self.assertEqual((made._region.dtype, made._region.name, made._region.custom_black_list, made._region.enabled),
                                 (b"float16", b"part", b"mm", 1))
                self.assertRaises(RuntimeError, made.__exit__)  # a copy is not open
                with made:
                    self.assertEqual(state(), (True, "float16"))

    def test_nested(self):
        outer = autocast("cpu", "float16")
        with outer, autocast("cpu", enabled=False), outer:
            self.assertEqual((state(), state("xpu")), ((True, "float16"), (False, "float16")))
            with autocast("xpu", "bfloat16"):
                self.assertEqual((state(), state("xpu")), ((True, "float16"), (True, "bfloat16")))
        with outer, autocast("cpu", enabled=False):
            with outer:
                pass
            self.assertEqual(state(), (False, "float16"))
            found = []
            thread = threading.Thread(target=lambda: found.append(state()))
            thread.start()
            thread.join()
            self.assertEqual(found, [(False, "bfloat16")])

    def test_decorators(self):
        class Model:
            @autocast("cpu")
            def forward(self, depth):
                """Text."""
                return [state()[0]] + (self.forward(depth - 1) if depth else [])

            @staticmethod
            @autocast("cpu")
            def static():
                return state()[0]

        @autocast("cpu")
        def generator():
            yield state()[0]

        @autocast("cpu")
        async def coroutine():
            return state()[0]

        self.assertEqual((Model().forward(2), Model.static(), Model.forward.__doc__), ([True] * 3, True, "Text."))
        self.assertEqual((next(generator()), asyncio.run(coroutine())), (False, False))  # as in torch

    def test_one_warning_for_each_device(self):
        autoamp._warnings_left = {device: iter([text]) for device, text in autoamp._ABSENT.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with autocast("xpu"), autocast("cuda", enabled=False), autocast("cpu", enabled=False):
                self.assertEqual(caught, [])
            autocast()(lambda: None)()
            for _ in range(3):
                with autocast(), autocast("cpu"):
                    pass
        self.assertEqual([(each.category, each.filename) for each in caught], [(UserWarning, __file__)] * 2)
        self.assertIn("autoamp is not in this process", str(caught[0].message))
        self.assertIn("autoamp for the CPU is not in this process", str(caught[1].message))

    def test_custom_functions(self):
        class Function:
            @staticmethod
            @autoamp.custom_fwd(device_type="cpu")
            def plain(context, value, more=0):
                return value + more, state()

            @staticmethod
            @autoamp.custom_fwd(device_type="cpu", cast_inputs="float32")
            def cast(context, value):
                return value, state()

            @staticmethod
            @autoamp.custom_bwd(device_type="cpu")
            def backward(context, value):
                return value, state()

        for region, inside in ((autocast("cpu", "float16"), (True, "float16")), (autocast("cpu", enabled=False), (False, "bfloat16"))):
            context = types.SimpleNamespace()
            with region:
                self.assertEqual(Function.plain(context, 1, more=2), (3, inside))
            self.assertEqual(Function.backward(context, 4), (4, inside))
        with autocast("cpu", "float16"):
            self.assertEqual(Function.cast(context, 5), (5, (False, "float16")))
            self.assertEqual(Function.backward(context, 6), (6, (False, "float16")))
        self.assertEqual(Function.cast(context, 7), (7, (False, "bfloat16")))

    def test_casts_of_inputs(self):
        class Tensor:
            def __init__(self, dtype, device="cuda"):
                self.dtype, self.device = dtype, types.SimpleNamespace(type=device)

            def is_floating_point(self):
                return self.dtype.startswith("float")

            def to(self, dtype):
                return Tensor(dtype, self.device.type)

        def show(value):
            if isinstance(value, Tensor):
                return value.dtype
            if isinstance(value, dict):
                return {key: show(each) for key, each in value.items()}
            return type(value)(map(show, value)) if isinstance(value, (list, tuple)) else value

        sys.modules["torch"] = types.SimpleNamespace(Tensor=Tensor, float64="float64")
        self.addCleanup(sys.modules.pop, "torch")
        given = (Tensor("float16"), [Tensor("float64"), Tensor("int8"), "text", b"bytes", 3, None], {"key": (Tensor("float16", "cpu"),)})
        self.assertEqual(show(autoamp._cast(given, "cuda", "float32")),
                         ("float32", ["float64", "int8", "text", b"bytes", 3, None], {"key": ("float16",)}))
        self.assertEqual(show(list(autoamp._cast(iter(given[:1]), "cuda", "float32"))), ["float32"])


if __name__ == "__main__":
    unittest.main()
