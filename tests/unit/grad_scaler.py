"""autoamp.GradScaler on the host, against recorded calls of the frameworks' own scalers (tests/oracle)."""
import array
import ctypes
import json
import math
import pathlib
import pickle
import random
import struct
import sys
import unittest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE / "../../tools/python"), str(HERE / "../oracle")]
import autoamp  # noqa: E402
import autoamp.mindspore  # noqa: E402
import autoamp.paddle  # noqa: E402
import scaler_random  # noqa: E402
import scaler_rules  # noqa: E402

SYSTEMS = json.loads((HERE / "../oracle/scaler_trajectories.json").read_text(encoding="utf-8"))["systems"]
RANDOM = json.loads((HERE / "../oracle/scaler_random.json").read_text(encoding="utf-8"))
BAD = (math.inf, -math.inf, math.nan)


class Parameter:
    def __init__(self):
        self.grad = None


class Optimizer:
    """The part of torch's optimizers that a scaler uses. `_step_supports_amp_scaling`: like torch's fused ones."""

    def __init__(self, is_fused=False):
        self.parameter, self.calls, self.value, self._step_supports_amp_scaling = Parameter(), 0, 0.0, is_fused
        self.param_groups = [{"params": [self.parameter, Parameter()]}]

    def step(self, **_):
        self.calls += 1
        if not self._step_supports_amp_scaling:
            return "stepped"
        if self.found_inf == 0:
            self.value -= self.parameter.grad[0] / (self.grad_scale or 1)
        return None


def known(value):
    return float(value) if isinstance(value, str) and value in ("Infinity", "-Infinity", "NaN") else value


def told(value):
    """As in the recorded file."""
    if isinstance(value, array.array):
        return [told(each) for each in value] if len(value) > 1 else told(value[0])
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


class Script:
    """One recorded script of calls."""

    def __init__(self, script):
        self.scaler = autoamp.GradScaler("cpu", growth_interval=script["growth_interval"], enabled=script["name"] != "disabled")
        self.optimizers = {key: Optimizer(key == "fused") for key in (0, 1, "both", "fused")}

    def run(self, verb, *arguments):
        if verb == "scale_list":
            return self.scaler.scale(arguments[0])
        if verb in ("grad", "grad16"):
            key, values = arguments
            data = array.array("f", map(known, values))
            self.optimizers[key].parameter.grad = memoryview(bytearray(struct.pack("<e", values[0]))).cast("B") if verb == "grad16" else data
            if verb == "grad16":
                self.optimizers[key].parameter.grad = Half(values[0])
            return None
        if verb == "grad_of":
            return self.optimizers[arguments[0]].parameter.grad
        if verb == "param_of":
            return self.optimizers[arguments[0]].value
        if verb in ("unscale_", "step"):
            return getattr(self.scaler, verb)(self.optimizers[arguments[0]])
        if verb == "step_closure":
            return self.scaler.step(self.optimizers[arguments[0]], closure=lambda: 0)
        if verb == "update_to_tensor":
            return self.scaler.update(TorchTensor(arguments[0]))
        name = {"update_to": "update", "state": "state_dict", "load": "load_state_dict"}.get(verb, verb)
        return getattr(self.scaler, name)(*map(known, arguments))


class TorchTensor:
    """The part of a tensor that update(new_scale) uses."""

    def __init__(self, value):
        self.value, self.device, self.requires_grad = value, self, False
        self.type = "cpu"

    def numel(self):
        return 1

    def __float__(self):
        return self.value


class Half:
    """A float16 array on the CPU, by DLPack."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]

    def __init__(self, *values, code=2):
        self.code = code
        parts = [struct.pack("<e", each) if code == 2 else struct.pack("<f", each)[2:] for each in values]
        self.data = (ctypes.c_char * (2 * len(values) + 4)).from_buffer_copy(b"\x77\x77" + b"".join(parts) + b"\x77\x77")
        self.shape = (ctypes.c_int64 * 1)(len(values))
        self.tensor = self.Tensor(ctypes.addressof(self.data), 1, 0, 1, code, 16, 1, self.shape, None, 2)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def compare(test, system, play, count):
    digests = RANDOM[system]["digests"].split()
    test.assertEqual(len(digests), count)
    test.assertEqual([seed for seed, digest in enumerate(digests) if scaler_random.digest(play(seed)) != digest], [])


class Torch(unittest.TestCase):
    maxDiff = None

    def test_scripts(self):
        for script in SYSTEMS["torch"]["scripts"]:
            played = Script(script)
            for i, row in enumerate(script["rows"]):
                with self.subTest(script["name"], row=i, op=row["op"]):
                    answer = {"result": None}
                    try:
                        answer = {"result": told(played.run(*row["op"]))}
                    except Exception as error:  # pylint: disable=broad-except
                        answer = {"error": [type(error).__name__, str(error)]}
                    scaler = played.scaler
                    self.assertEqual({"op": row["op"], **answer, "scale": told(scaler.get_scale()), "growth_tracker": scaler._get_growth_tracker()},
                                     row)

    def test_trajectories(self):
        for case in SYSTEMS["torch"]["cases"] + SYSTEMS["torch"]["sequences"]:
            scaler, optimizer = autoamp.GradScaler(**{**case["parameters"], "device": "cpu"}), Optimizer()
            for i, found in enumerate(case["found_inf"]):
                with self.subTest(case["parameters"], step=i):
                    scaler.scale(1.0)
                    optimizer.parameter.grad = array.array("f", [1.0, BAD[i % 3] if found else -2.0, 0.0])
                    self.assertEqual(scaler.step(optimizer) == "stepped", bool(case["stepped"][i]))
                    scaler.update()
                    self.assertEqual((scaler.get_scale(), scaler._get_growth_tracker()), (float(case["scale"][i]), case["growth_tracker"][i]))
            if "state_dict" in case:
                self.assertEqual(told(scaler.state_dict()), case["state_dict"])

    def play(self, seed, gradient=lambda values: array.array("f", values)):
        return scaler_random.outcome(lambda parameters: (autoamp.GradScaler("cpu", **parameters), [Optimizer(), Optimizer()]), gradient, seed)

    def test_random_sequences(self):
        for seed, wanted in enumerate(RANDOM["torch"]["full"]):
            self.assertEqual(self.play(seed), wanted)
        compare(self, "torch", self.play, scaler_random.COUNT)

    def test_installed_packages(self):
        """NumPy arrays and torch tensors, where the packages are installed."""
        ran = 0
        for name, make in (("numpy", lambda numpy: lambda values: numpy.array(values, numpy.float32)), ("torch", lambda torch: torch.tensor)):
            try:
                package = __import__(name)
            except ImportError:
                continue
            for seed in range(0, 1000, 10):
                with self.subTest(name, seed=seed):
                    self.assertEqual(self.play(seed, make(package)), self.play(seed))
                    ran += 1
        if not ran:
            self.skipTest("neither NumPy nor torch is installed")

    def test_pickle(self):
        scaler, optimizer = autoamp.GradScaler("cpu", growth_interval=2, init_scale=4.0), Optimizer()
        optimizer.parameter.grad = array.array("f", [1.0])
        scaler.scale(1.0)
        scaler.step(optimizer)
        with self.assertRaisesRegex(AssertionError, "^A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                                                    r"the end after scaler.update\(\).$"):
            pickle.dumps(scaler)
        scaler.update()
        copy = pickle.loads(pickle.dumps(scaler))
        self.assertEqual((copy.state_dict(), copy._get_growth_tracker()), (scaler.state_dict(), 1))
        copy.scale(1.0)
        copy.step(optimizer)
        copy.update()
        self.assertEqual(copy.get_scale(), 8.0)

    def test_arguments(self):
        self.assertEqual(autoamp.GradScaler().state_dict(), {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5,
                                                             "growth_interval": 2000, "_growth_tracker": 0})
        for arguments, message in (({"growth_factor": 1.0}, "The growth factor must be > 1.0."),
                                   ({"backoff_factor": 1.0}, "The backoff factor must be < 1.0.")):
            with self.assertRaises(AssertionError) as caught:
                autoamp.GradScaler(**arguments)
            self.assertEqual(str(caught.exception), message)
        for enabled in (True, False):
            with self.assertRaisesRegex(TypeError, r"__init__\(\) got an unexpected keyword argument 'growth'$"):
                autoamp.GradScaler(enabled=enabled, growth=2.0)
        scaler = autoamp.GradScaler("cuda", 4.0, 3.0, 0.25, 7, False)
        self.assertEqual((scaler.is_enabled(), scaler.get_scale(), scaler.state_dict()), (False, 1.0, {}))
        scaler = autoamp.GradScaler("cuda", 4.0, 3.0, 0.25, 7)
        self.assertEqual((scaler.get_scale(), scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()),
                         (4.0, 3.0, 0.25, 7))


class Rules(unittest.TestCase):
    """The scalers of all frameworks, as rules."""

    def test_trajectories(self):
        self.assertEqual(set(scaler_rules.RULES), set(SYSTEMS))
        for system, recorded in SYSTEMS.items():
            for case in recorded["cases"] + recorded.get("sequences", []):
                rule, given = scaler_rules.arguments(system, case["parameters"])
                parameters = {scaler_rules.PYTHON.get(name, name): value for name, value in given.items()}
                scaler = autoamp.GradScaler(rule=rule, **parameters)
                for i, found in enumerate(case["found_inf"]):
                    with self.subTest(system, case=case["parameters"], step=i):
                        self.step(system, case, i, scaler, array.array("f", [1.0, BAD[i % 3] if found else -2.0, 0.0]))

    def step(self, system, case, i, scaler, gradient):
        scaler.scale(1.0)
        stepped = scaler.step(optimizer := Optimizer(), grads=[gradient]) == "stepped"
        self.assertEqual(stepped, scaler_rules.is_stepped(system, case, i))
        if scaler_rules.is_fixed(case["parameters"]):
            del scaler._optimizers[id(optimizer)]  # a program with a fixed scale does not call update()
        else:
            scaler.update()
        wanted = scaler_rules.counters(system, case, i)
        self.assertEqual([scaler.get_scale(), *scaler._counters()[:len(wanted)]], [float(case["scale"][i]), *wanted])

    def test_state_dict(self):
        scaler = autoamp.GradScaler(rule="deepspeed", hysteresis=3, init_scale=4.0)
        self.assertEqual(scaler.state_dict()["_backoff_tracker"], 3)
        scaler.scale(1.0)
        scaler.step(sum, [1], grads=[array.array("f", [math.inf])])
        scaler.update()
        other = autoamp.GradScaler(rule="deepspeed", hysteresis=3)
        other.load_state_dict(scaler.state_dict())
        for each in (scaler, other, pickle.loads(pickle.dumps(other))):
            self.assertEqual((each.get_scale(), each._counters()), (4.0, (0, 2)))
        with self.assertRaisesRegex(ValueError, "rule 'tf' does not exist; there are: torch, paddle, "):
            autoamp.GradScaler(rule="tf")

    def test_the_last_optimizer_decides(self):
        for values, scale in (((math.inf, 1.0), 4.0), ((1.0, math.inf), 2.0)):
            scaler = autoamp.GradScaler(rule="paddle", init_scale=4.0)
            scaler.scale(1.0)
            for run, value in zip((sum, len), values):
                scaler.step(run, [1], grads=[array.array("f", [value])])
            scaler.update()
            self.assertEqual(scaler.get_scale(), scale)


    def test_no_optimizer_decides_before_the_first_step(self):
        scaler = autoamp.GradScaler(rule="paddle", init_scale=4.0)
        scaler.scale(1.0)
        scaler.unscale_(sum, grads=[array.array("f", [math.inf])])
        scaler.update()
        self.assertEqual(scaler.get_scale(), 4.0)

    def test_impossible_values(self):
        scaler = autoamp.GradScaler()
        for count in (-1, 2 ** 63, 2 ** 64):
            with self.assertRaisesRegex(ValueError, "a gradient cannot have"):
                scaler.unscale_(sum, grads=[(4096, count, "float32")]) if scaler.scale(1.0) else None
        scaler = autoamp.GradScaler(init_scale=4, rule="deepspeed", min_scale=2)
        scaler.scale(1.0)
        self.assertIs(type(scaler.get_scale()), float)


class Recording(unittest.TestCase):
    """The records of updates, by a library that keeps them."""

    class Library:
        def __init__(self):
            self.records = []

        def autoamp_record_update(self, update):
            self.records.append({name: getattr(update._obj, name) for name, *_ in update._obj._fields_})

    def setUp(self):
        self.library = self.Library()

    def run_steps(self, scaler, *values):
        before, autoamp._library = autoamp._library, self.library
        try:
            scaler.scale(1.0)
            for value in values:
                scaler.step(sum, [1], grads=[array.array("f", [value])])
                scaler.update()
        finally:
            autoamp._library = before
        return self.library.records

    def test_a_scaler_has_one_number(self):
        scaler = autoamp.GradScaler(init_scale=4.0)
        first, _ = self.run_steps(scaler, 1.0, math.inf)
        numbers = {self.run_steps(each, 1.0)[-1]["scaler"] for each in (scaler, pickle.loads(pickle.dumps(scaler)), autoamp.GradScaler())}
        self.assertEqual((len(numbers), first["scaler"] in numbers), (3, True))

    def test_values_that_no_record_can_contain(self):
        for interval in (math.inf, 1.5, 2 ** 31, "2"):
            scaler = autoamp.GradScaler(init_scale=4.0, growth_interval=interval)
            record = self.run_steps(scaler, math.inf, 1.0)[-1]
            self.assertEqual((scaler.state_dict()["_growth_tracker"], scaler.get_scale(), record["interval"]), (1, 2.0, 0))
        manager = autoamp.mindspore.DynamicLossScaleManager(scale_window=1)
        before, autoamp._library = autoamp._library, self.library
        try:
            for _ in range(1100):
                manager.update_loss_scale(False)
        finally:
            autoamp._library = before
        self.assertEqual((manager.get_loss_scale(), self.library.records[-1]["scale_after"]), (2 ** 1124, math.inf))


class Kinds(unittest.TestCase):
    """Gradients that are not tensors, and optimizers that are not torch's."""

    def test_explicit_gradients_and_a_function(self):
        scaler, calls = autoamp.GradScaler(init_scale=4.0), []

        def sgd(rate, momentum):
            calls.append((rate, momentum))
            return "done"

        for bad in (False, True):
            scaler.update(4.0) if bad else self.assertEqual(scaler.scale(2.0), 8.0)
            gradients = [array.array("d", [8.0, 1e300]), Half(4.0, 2.0), Half(4.0, code=4), None, memoryview(bytearray(8)).cast("f"),
                         array.array("f", [BAD[2] if bad else 1.0])]
            scaler.unscale_(sgd, grads=gradients)
            self.assertEqual(list(gradients[0]), [2.0, 1e300 / 4])
            self.assertEqual(gradients[1].data.raw, b"\x77\x77" + struct.pack("<2e", 1.0, 0.5) + b"\x77\x77")
            self.assertEqual(gradients[2].data.raw, b"\x77\x77\x80\x3f\x77\x77")
            self.assertEqual(scaler.step(sgd, 0.1, momentum=0.9), None)  # 1e300 is not finite as a float, as in torch
            scaler.update()
        self.assertEqual((calls, scaler.get_scale()), ([], 2.0))
        self.assertEqual(scaler.step(sgd, 0.1, momentum=0.9, grads=[array.array("f", [1.0])]), "done")
        self.assertEqual(calls, [(0.1, 0.9)])

    def test_scale(self):
        scaler = autoamp.GradScaler(init_scale=4.0)
        self.assertEqual(scaler.scale([1.0, (2.0, 3)]), [4.0, (8.0, 12.0)])
        self.assertEqual(list(scaler.scale(each for each in (1.0, 2.0))), [4.0, 8.0])
        data = array.array("f", [1.0, 3e38])
        self.assertIs(scaler.scale(data), data)
        self.assertEqual(list(data), [4.0, math.inf])

    def test_refused(self):
        scaler = autoamp.GradScaler()
        scaler.scale(1.0)
        for gradient, error in ((array.array("i", [1]), TypeError), (b"1234", ValueError), ((1, 2, "int8"), TypeError),
                                (memoryview(bytearray(16)).cast("f")[::2], ValueError), (object(), TypeError)):
            with self.subTest(gradient), self.assertRaises(error):
                scaler.unscale_(sum, grads=[gradient])
        with self.assertRaisesRegex(RuntimeError, "autoamp is not in this process"):
            scaler.unscale_(sum, grads=[(4096, 1, "float32")])
        with self.assertRaisesRegex(ValueError, "must all be"):
            scaler.unscale_(sum, grads=[array.array("f", [1]), (4096, 1, "float32")])
        scaler.unscale_(sum, grads=[array.array("f", [1])])
        with self.assertRaisesRegex(ValueError, "must all be"):
            scaler.unscale_(min, grads=[(4096, 1, "float32")])


    def test_optimizers_with_a_parameter_of_this_name(self):
        """`grads` is passed on to a step that has such a parameter, as torch passes all arguments on."""
        class Own(Optimizer):
            def step(self, grads=None):
                return grads

        for enabled in (True, False):
            scaler, own = autoamp.GradScaler(enabled=enabled), Own()
            own.parameter.grad = array.array("f", [1.0])
            scaler.scale(1.0)
            self.assertEqual(scaler.step(own, grads=[5]), [5])

    def test_fused_optimizers_with_explicit_gradients(self):
        class Fused:
            _step_supports_amp_scaling = True

            def step(self):
                return self.found_inf, self.grad_scale

        for value, found in ((1.0, 0.0), (math.inf, 1.0)):
            scaler, fused = autoamp.GradScaler(init_scale=4.0), Fused()
            scaler.scale(1.0)
            self.assertEqual(scaler.step(fused, grads=[array.array("f", [value])]), (found, 4.0))
        scaler, fused.grad_scale = autoamp.GradScaler(init_scale=4.0), 3.0
        scaler.scale(1.0)
        scaler.unscale_(fused, grads=[array.array("f", [1.0])])
        self.assertEqual(scaler.step(fused), (0.0, 3.0))

    def test_optimizers_that_get_the_scaler(self):
        class Own(Optimizer):
            _step_supports_amp_scaling = True

            def step(self, grad_scaler=None):
                found = grad_scaler._check_inf_per_device(self)
                return grad_scaler._get_scale_async(), sum(found.values()), found is grad_scaler._found_inf_per_device(self)

        for value, found in ((1.0, 0.0), (math.inf, 1.0)):
            scaler, own = autoamp.GradScaler(init_scale=4.0), Own(True)
            own.parameter.grad = array.array("f", [value])
            scaler.scale(1.0)
            with self.assertWarns(FutureWarning):
                self.assertEqual(scaler.step(own), (4.0, found, True))
            scaler.update()
            self.assertEqual(scaler.get_scale(), 2.0 if found else 4.0)

    def test_temporary_optimizers(self):
        scaler = autoamp.GradScaler()
        scaler.scale(1.0)
        for i in range(3):  # the next one would have the same id
            self.assertEqual(scaler.step(lambda: i, grads=[array.array("f", [1.0])]), i)

    def test_outputs(self):
        with self.assertRaisesRegex(ValueError, "outputs must be a Tensor or an iterable of Tensors"):
            autoamp.GradScaler().scale(None)

    def test_layouts_of_device_memory(self):
        class Array:
            def __init__(self, **changes):
                self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, **changes}

        for strides in (None, (12, 4), (4, 8)):
            self.assertEqual(autoamp._gradients.wrap(Array(strides=strides)).count, 6)
        for changes in ({"strides": (16, 4)}, {"strides": (4, 4)}, {"strides": (4, 12)}, {"mask": self}, {"data": None}, {"data": (4096, True)}):
            with self.subTest(changes), self.assertRaises(ValueError):
                autoamp._gradients.wrap(Array(**changes))


class PaddleOptimizer:
    def __init__(self, *values):
        self.parameter, self.calls = Parameter(), 0
        self._parameter_list = [self.parameter, Parameter()]
        self.parameter.grad = array.array("f", values)

    def step(self):
        self.calls += 1

    def minimize(self, loss):
        self.calls += 1
        return [], [loss]


class Paddle(unittest.TestCase):
    maxDiff = None

    def test_trajectories(self):
        for case in SYSTEMS["paddle"]["cases"] + SYSTEMS["paddle"]["sequences"]:
            parameters = {key: value for key, value in case["parameters"].items() if key != "amp_dtype"}
            scaler = autoamp.paddle.AmpScaler(**parameters)
            for i, found in enumerate(case["found_inf"]):
                with self.subTest(case["parameters"], step=i):
                    # A sequence describes one gradient, a case three.
                    optimizer = PaddleOptimizer(*((math.inf if found else 1.0,) if "name" in case else (1.0, BAD[i % 3] if found else -2.0)))
                    scaler.minimize(optimizer, 1.0)
                    self.assertEqual((optimizer.calls, scaler._scale, scaler._incr_count, scaler._decr_count),
                                     (case["stepped"][i], float(case["scale"][i]), case["incr_count"][i], case["decr_count"][i]))
            if "state_dict" in case:
                state = scaler.state_dict()
                state["scale"] = told(state["scale"][0])
                self.assertEqual(state, case["state_dict"])

    def test_scripts(self):
        scripts = {script["name"]: script["rows"] for script in SYSTEMS["paddle"]["scripts"]}

        def check(name, scaler, *calls):
            for row, call in zip(scripts[name], calls):
                with self.subTest(name, op=row["op"]):
                    answer = {}
                    try:
                        answer["result"] = call()
                    except RuntimeError as error:
                        answer["error"] = [type(error).__name__, str(error)]
                    self.assertEqual({"op": row["op"], **answer, "scale": scaler._scale, "incr_count": scaler._incr_count,
                                      "decr_count": scaler._decr_count}, row)
            self.assertEqual(len(calls), len(scripts[name]))

        def step(scaler, optimizer):
            return lambda: (scaler.step(optimizer), optimizer.calls)[1]

        for name, values in (("two_optimizers_bad_then_ok", (math.inf, 1.0)), ("two_optimizers_ok_then_bad", (1.0, math.inf))):
            scaler, (first, second) = autoamp.paddle.GradScaler(), map(PaddleOptimizer, values)
            check(name, scaler, lambda: scaler.scale(1.0) and None, step(scaler, first), step(scaler, second), scaler.update)
        scaler, one = autoamp.paddle.GradScaler(), PaddleOptimizer(1.0)
        unscale = lambda: scaler.unscale_(one)  # noqa: E731
        check("stages", scaler, unscale, unscale, step(scaler, one), step(scaler, one), unscale, scaler.update, scaler.update)
        scaler = autoamp.paddle.GradScaler(use_dynamic_loss_scaling=False)
        bad, good = PaddleOptimizer(math.inf), PaddleOptimizer(1.0)
        check("not_dynamic", scaler, step(scaler, bad), step(scaler, bad), scaler.update, step(scaler, good), step(scaler, good), scaler.update)
        scaler = autoamp.paddle.GradScaler()
        check("load_empty", scaler, lambda: scaler.load_state_dict({}))
        scaler = autoamp.paddle.GradScaler()
        check("set_init_resets_scale_only", scaler, lambda: scaler.step(PaddleOptimizer(1.0)), scaler.update, lambda: scaler.set_init_loss_scaling(8.0))
        # The kernel for GPUs tests the product. The recorded script is of the kernel for CPUs.
        scaler, big = autoamp.paddle.GradScaler(init_loss_scaling=0.25), PaddleOptimizer(3e38)
        scaler.step(big)
        scaler.update()
        self.assertEqual((big.calls, scaler._scale), (0, 0.125))

    def test_groups_of_parameters(self):
        scaler, optimizer = autoamp.paddle.GradScaler(init_loss_scaling=4.0), PaddleOptimizer(8.0)
        optimizer._param_groups = [{"params": optimizer._parameter_list}]
        del optimizer._parameter_list
        scaler.step(optimizer)
        self.assertEqual((list(optimizer.parameter.grad), optimizer.calls), ([2.0], 1))

    def test_pickle_between_unscale_and_step(self):
        scaler, optimizer = autoamp.paddle.GradScaler(init_loss_scaling=4.0), PaddleOptimizer(8.0)
        scaler.unscale_(optimizer)
        copy = pickle.loads(pickle.dumps(scaler))
        with self.assertRaisesRegex(RuntimeError, "already been called"):
            copy.unscale_(optimizer)
        copy.step(optimizer)
        self.assertEqual(list(optimizer.parameter.grad), [2.0])

    def test_arguments(self):
        scaler = autoamp.paddle.AmpScaler()
        self.assertEqual((scaler.get_init_loss_scaling(), scaler.get_incr_every_n_steps(), scaler.get_decr_every_n_nan_or_inf()), (2.0 ** 15, 1000, 1))
        scaler = autoamp.paddle.GradScaler()
        self.assertEqual((scaler.get_init_loss_scaling(), scaler.get_incr_every_n_steps()), (2.0 ** 16, 2000))
        copy = autoamp.paddle.GradScaler()
        copy.load_state_dict({**scaler.state_dict(), "incr_count": 5, "scale": [8.0]})
        self.assertEqual((copy._scale, copy._incr_count), (8.0, 5))
        disabled = autoamp.paddle.GradScaler(enable=False)
        self.assertEqual((disabled.scale(3.0), disabled.state_dict(), disabled.is_enable(), disabled.get_init_loss_scaling()), (3.0, {}, False, 1.0))
        for call, message in ((lambda: scaler.set_incr_ratio(1.0), "The new_incr_ratio must be > 1.0."),
                              (lambda: scaler.set_decr_ratio(1.0), "The new_decr_ratio must be < 1.0."),
                              (lambda: autoamp.paddle.GradScaler(incr_ratio=1.0), "The incr_ratio must be > 1.0.")):
            with self.assertRaises(AssertionError) as caught:
                call()
            self.assertEqual(str(caught.exception), message)


    def test_random_sequences(self):
        compare(self, "paddle", lambda seed: scaler_random.paddle_outcome(lambda arguments: autoamp.paddle.GradScaler(**arguments),
                                                                          lambda value: PaddleOptimizer(1.0, value), seed), scaler_random.OTHERS)


class Tuples(unittest.TestCase):
    def test_negative_counts(self):
        scaler = autoamp.GradScaler("cuda")
        scaler.scale(1.0)
        with self.assertRaisesRegex(ValueError, "-1 elements"):
            scaler.unscale_(print, grads=[(4096, -1, "float32")])


class Interval(unittest.TestCase):
    def test_zero(self):
        """There is no growth. An overflow still reduces the scale."""
        for name in ("torch", "paddle", "paddle_kernel", "mindspore", "mindspore_cell", "mindspore_manager", "deepspeed", "megatron", "apex", "jmp",
                     "keras"):
            scaler, optimizer = autoamp.GradScaler("cpu", rule=name, init_scale=8.0, growth_interval=0), Optimizer()
            for value in (1.0, 1.0, math.inf):
                optimizer.parameter.grad = array.array("f", [value])
                scaler.scale(1.0)
                scaler.step(optimizer)
                scaler.update()
                with self.subTest(rule=name, value=value):
                    self.assertEqual(scaler.get_scale(), 8.0 if value == 1 else 4.0)


class MindSpore(unittest.TestCase):
    def test_random_sequences(self):
        compare(self, "mindspore", lambda seed: scaler_random.mindspore_outcome(autoamp.mindspore, bool, seed), scaler_random.OTHERS)

    def test_scaler(self):
        for case in SYSTEMS["mindspore_scaler"]["cases"] + SYSTEMS["mindspore_scaler"]["sequences"]:
            scaler = autoamp.mindspore.DynamicLossScaler(**case["parameters"])
            for i, found in enumerate(case["found_inf"]):
                gradients = [array.array("f", [1.0, BAD[i % 3] if found else 2.0])]
                scaler.adjust(autoamp.mindspore.all_finite(gradients))
                self.assertEqual((scaler.scale_value, scaler.counter), (float(case["scale"][i]), case["counter"][i]))

    def test_manager(self):
        for case in SYSTEMS["mindspore_manager"]["cases"]:
            parameters = dict(case["parameters"])
            manager = autoamp.mindspore.DynamicLossScaleManager(parameters.pop("scale_value"), **parameters)
            for i, found in enumerate(case["found_inf"]):
                manager.update_loss_scale(bool(found))
                self.assertEqual((float(manager.get_loss_scale()), manager.cur_iter, manager.last_overflow_iter, manager.bad_step),
                                 (float(case["scale"][i]), case["cur_iter"][i], case["last_overflow_iter"][i], case["bad_step"][i]))
        manager = autoamp.mindspore.DynamicLossScaleManager()
        for _ in range(1000):
            manager.update_loss_scale(True)
        with self.assertRaisesRegex(RuntimeError, "Dynamic loss scale Continuous overflow"):
            manager.update_loss_scale(True)

    def test_values(self):
        scaler = autoamp.mindspore.StaticLossScaler(1024.0)
        data = array.array("f", [2.0, 4.0])
        self.assertEqual((scaler.scale(3), list(scaler.unscale((data,))[0]), scaler.adjust(True)), (3072.0, [2.0 / 1024, 4.0 / 1024], False))
        half = Half(7.0)
        autoamp.mindspore.StaticLossScaler(3.0).unscale([half])
        third = struct.unpack("<e", struct.pack("<e", 1 / 3))[0]
        self.assertEqual(half.data.raw[2:4], struct.pack("<e", third * 7))
        self.assertNotEqual(struct.pack("<e", third * 7), struct.pack("<e", 7 / 3))
        self.assertTrue(autoamp.mindspore.all_finite([memoryview(b"\0\0\x80\x3f").cast("f")], autoamp.mindspore.init_status()))
        self.assertIsInstance(scaler, autoamp.mindspore.LossScaler)
        fixed = autoamp.mindspore.FixedLossScaleManager()
        self.assertIsInstance(fixed, autoamp.mindspore.LossScaleManager)
        self.assertEqual((fixed.get_loss_scale(), fixed.get_drop_overflow_update(), fixed.update_loss_scale(True)), (128.0, True, None))
        for make in (lambda: autoamp.mindspore.StaticLossScaler(0.5), lambda: autoamp.mindspore.DynamicLossScaler(4.0, 0, 1),
                     lambda: autoamp.mindspore.FixedLossScaleManager(0.5), lambda: autoamp.mindspore.DynamicLossScaleManager(0.5),
                     lambda: autoamp.mindspore.DynamicLossScaleManager(4.0, 2, 0)):
            with self.assertRaises(ValueError):
                make()
        with self.assertRaises(TypeError):
            autoamp.mindspore.DynamicLossScaler(4.0, 2.0, 1)


if __name__ == "__main__":
    unittest.main()
