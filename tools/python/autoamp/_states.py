"""States of a scaler: in torch tensors, in Python, or on the device by the functions of autoamp.h."""
import ctypes
import functools
import itertools
import math
import os
import sys
import weakref

import autoamp

from . import _gradients

_FAILURES = {1: "autoamp is not in this process; start the program with `autoamp run`",
             -1: "a gradient has a wrong address or type, or a factor or interval is not possible",
             -3: "there are more than 128 scalers with gradients in device memory", -4: "wrong order of calls",
             -5: "the driver refused a call, a stream is being captured, the device was reset, or the process was forked"}
_OPTIMIZERS = 32  # most optimizers that a scaler in device memory has between two updates


class Options(ctypes.Structure):
    """The struct autoamp_scaler_options in autoamp.h."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("rule", ctypes.c_char_p), ("init_scale", ctypes.c_double),
                ("growth_factor", ctypes.c_double), ("backoff_factor", ctypes.c_double), ("growth_interval", ctypes.c_int),
                ("backoff_every", ctypes.c_int), ("hysteresis", ctypes.c_int), ("flags", ctypes.c_int), ("min_scale", ctypes.c_double)]


class Tensor(ctypes.Structure):
    """autoamp_tensor"""
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_size_t), ("dtype", ctypes.c_int)]


class State(ctypes.Structure):
    """autoamp_scaler_state"""
    _fields_ = [("size", ctypes.c_size_t), ("scale", ctypes.c_double), ("growth_factor", ctypes.c_double),
                ("backoff_factor", ctypes.c_double), ("growth_interval", ctypes.c_int), ("growth_tracker", ctypes.c_int),
                ("backoff_tracker", ctypes.c_int), ("steps", ctypes.c_int), ("skipped", ctypes.c_int)]


class Update(ctypes.Structure):
    """autoamp_gradient_update"""
    _fields_ = [("size", ctypes.c_size_t), ("framework", ctypes.c_char_p), ("how", ctypes.c_char_p), ("scaler", ctypes.c_void_p),
                ("device", ctypes.c_int), ("scale_before", ctypes.c_double), ("scale_after", ctypes.c_double),
                ("found_inf", ctypes.c_double), ("growth_factor", ctypes.c_double), ("backoff_factor", ctypes.c_double),
                ("interval", ctypes.c_int), ("tracker_before", ctypes.c_int), ("tracker_after", ctypes.c_int),
                ("hysteresis", ctypes.c_int)]


_numbers, _next_number = weakref.WeakKeyDictionary(), itertools.count(1 << 32)  # those of the C scalers start at 1


def record(scaler, before, after, found, factors, hysteresis=-1, framework=b"autoamp"):
    """Records an update of a state on the host: scale and tracker before and after, and growth, backoff and interval. Never raises."""
    try:
        number = _numbers.get(scaler)
        if number is None:
            number = _numbers[scaler] = next(_next_number)
        growth, backoff, interval = factors
        interval = interval if isinstance(interval, int) and 0 < interval < 2 ** 31 else 0
        update = Update(ctypes.sizeof(Update), framework, b"autoamp", number, 0, _double(before[0]), _double(after[0]), found, growth,
                        backoff, interval, before[1], after[1], hysteresis)
        autoamp._library.autoamp_record_update(ctypes.byref(update))
    except Exception:  # not loaded, or values that no trace can contain
        pass


def _double(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_number(value):
    numpy = sys.modules.get("numpy")
    return isinstance(value, (int, float)) or numpy is not None and isinstance(value, numpy.generic)


@functools.cache
def _driver():
    return ctypes.CDLL("libcuda.so.1")


def _is_capturing(stream):
    """Whether calls on this stream are captured into a graph, or are not possible now."""
    status = ctypes.c_int()
    return _driver().cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status)) != 0 or status.value != 0


def kind_of(value, state, stream=0):
    """The class of states for this value. Numbers do not decide."""
    if _gradients.is_torch(value):
        return TorchState
    if isinstance(value, _gradients.Host):
        return HostState
    if _is_number(value):
        return type(state) if state is not None else HostState
    if isinstance(value, _gradients.Device):
        return DeviceState
    return kind_of(_gradients.wrap(value, stream), state)


class HostState:
    """`values` of all states: scale, and the two counters of the rule."""

    def __init__(self, scaler, values):
        self._values = (scaler._rule().round(values[0]), *map(int, values[1:]))

    def get(self, _=None):
        return self._values

    def value(self):
        return self._values[0]

    def set(self, scaler, *values):
        """Replaces the values that are not None."""
        new = (old if value is None else value for old, value in zip(self._values, values))
        self.__init__(scaler, tuple(new))

    def replace(self, scaler, scale):
        self.set(scaler, float(scale), None, None)

    def scale(self, _, value):
        factor = _gradients.narrow(self._values[0])
        if isinstance(value, (int, float)):
            return _gradients.narrow(_gradients.narrow(value) * factor)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            wide = numpy.float64 if value.dtype == numpy.float64 else numpy.float32
            with numpy.errstate(all="ignore"):
                return (value.astype(wide) * wide(factor)).astype(value.dtype if value.dtype.kind == "f" else numpy.float32)
        _gradients.multiply(_gradients.wrap(value), factor)
        return value

    def check(self, scaler, _, wrapped, is_check_only):
        arithmetic = None if is_check_only else scaler._rule().arithmetic
        return {"cpu": float(any([_gradients.divide(each, _gradients.narrow(self._values[0]), arithmetic) for each in wrapped]))}

    def is_found(self, _, found):
        return bool(self.sum(found))

    def sum(self, found):
        return sum(found.values())

    def update(self, scaler, found):
        total, before, rule = sum(map(self.sum, found)), self._values, scaler._rule()
        self._values = rule.updated(*before, bool(total))
        record(scaler, before, self._values, total, scaler._factors(), self._values[2] if rule.counts_down else -1)


class TorchState:
    """The operators that torch's own scaler uses, on every device. On CUDA devices, autoamp sees their kernels."""

    def __init__(self, scaler, values):
        if scaler._name != "torch":
            raise ValueError(f"rule {scaler._name!r} does not work on torch tensors")
        self._torch, self._init = sys.modules["torch"], values[:2]
        self._scale = self._tracker = None  # on the device of the first tensor

    def _open(self, device):
        if self._scale is None:
            scale, tracker = self._init
            self._scale = self._torch.full((), scale, dtype=self._torch.float32, device=device)
            self._tracker = self._torch.full((), tracker, dtype=self._torch.int32, device=device)

    def get(self, _=None):
        if self._scale is None:
            return _gradients.narrow(self._init[0]), int(self._init[1]), 0
        return self._scale.item(), self._tracker.item(), 0

    def value(self):
        return self._scale

    def set(self, _, scale, tracker, __):
        self._open("cpu")
        if scale is not None:
            self._scale.copy_(scale.reshape(())) if _gradients.is_torch(scale) else self._scale.fill_(scale)
        if tracker is not None:
            self._tracker.fill_(tracker)

    def replace(self, scaler, scale):
        self.set(scaler, scale, None, None)

    def scale(self, _, value):
        if _is_number(value):
            return _gradients.narrow(_gradients.narrow(value) * self.get()[0])
        self._open(value.device)
        return value * self._scale.to(device=value.device, non_blocking=True)

    def check(self, _, __, wrapped, is_check_only):
        torch = self._torch
        self._open(wrapped[0].device)
        inverse = torch.ones_like(self._scale) if is_check_only else self._scale.double().reciprocal().float()
        groups, found = {}, {}
        for each in wrapped:
            if each.is_sparse:
                if each.dtype is torch.float16 and not each.is_coalesced() and not is_check_only:
                    raise ValueError("sparse gradients in float16 must be coalesced")
                each = (each.coalesce() if each.dtype is torch.float16 else each)._values()
            groups.setdefault((each.device, each.dtype), []).append(each)
        for (device, _), tensors in groups.items():
            flag = found.setdefault(device, torch.zeros((), dtype=torch.float32, device=device))
            torch._amp_foreach_non_finite_check_and_unscale_(tensors, flag, inverse.to(device, non_blocking=True))
        return found

    def is_found(self, _, found):
        return bool(sum(each.item() for each in found.values()))

    def sum(self, found):
        return sum(each.to(self._scale.device, non_blocking=True) for each in found.values())

    def update(self, scaler, found):
        is_host, factors = self._scale.device.type == "cpu", scaler._factors()
        before = self.get() if is_host else None
        total = sum(map(self.sum, found))
        self._torch._amp_update_scale_(self._scale, self._tracker, total, *factors)
        if is_host:
            record(scaler, before, self.get(), total.item(), factors)


class DeviceState:
    """A scaler of autoamp.h, which orders its calls. They run on the current device: on the stream of the gradients, or on that of the
    scaler."""

    def __init__(self, scaler, values):
        self._library, self._handle, self._owner = autoamp._library, ctypes.c_void_p(), os.getpid()
        self._factors = self._factors_of(scaler)
        self._unscaled, self._found = set(), {}  # optimizers, and the results of their steps
        self._is_captured = False  # replays of a graph can change the state at any time
        self._known = (scaler._rule().round(values[0]), *values[1:])  # state after all work; None: unknown without a wait
        if self._library is None:
            raise RuntimeError(_FAILURES[1])
        scale, tracker, other = values
        options = Options(ctypes.sizeof(Options), None, scaler._name.encode(), scale, *self._factors,
                          *(scaler._parameters[name] for name in ("backoff_every", "hysteresis", "flags", "min_scale")))
        status = self._library.autoamp_scaler_create(ctypes.byref(self._handle), ctypes.byref(options))
        if status == -1 and os.getpid() == self._owner:
            raise ValueError("the scale, a factor, the interval or another parameter is not possible for device memory")
        if status == -4 and os.getpid() == self._owner:
            raise RuntimeError("no CUDA context is current on this thread, or the process was forked")
        self._done(status)
        if (tracker, other) != (0, scaler._rule().full):
            self.set(scaler, None, tracker, other)

    def __del__(self):
        if self._handle and not self._is_captured:  # a replay would use freed memory
            self._library.autoamp_scaler_destroy(self._handle)

    @staticmethod
    def _factors_of(scaler):
        """Growth, backoff and interval. In C an interval of 0 fixes the scale; in torch it only prevents growth."""
        growth, backoff, interval = scaler._factors()
        return growth, backoff, int(interval) if 0 < interval < 2 ** 31 and interval % 1 == 0 else 2 ** 31 - 1

    def _done(self, status):
        if status and os.getpid() != self._owner:
            raise RuntimeError("a forked process cannot use device memory")
        if status:
            raise RuntimeError(_FAILURES.get(status, f"autoamp returned {status}"))

    def _call(self, name, stream, *arguments):
        if not self._is_captured and name != "get" and _is_capturing(stream):
            self._is_captured, self._known = True, None
        return getattr(self._library, "autoamp_scaler_" + name)(self._handle, *arguments, ctypes.c_void_p(stream))

    def get(self, scaler):
        state = State(ctypes.sizeof(State))
        self._done(self._call("get", scaler.stream, ctypes.byref(state)))
        return state.scale, state.growth_tracker, state.backoff_tracker

    def set(self, scaler, scale, tracker, other):
        self._known = None
        state = State(ctypes.sizeof(State), math.nan if scale is None else scale, *self._factors,
                      *(-1 if each is None else int(each) for each in (tracker, other)))
        self._done(self._call("load", scaler.stream, ctypes.byref(state)))

    def replace(self, scaler, scale):
        self._known = None
        self._done(self._call("update", scaler.stream, ctypes.byref(ctypes.c_double(float(scale)))))
        self._unscaled, self._found = set(), {}

    def _launch(self, name, scaler, wrapped, *arguments):
        streams = {each.stream for each in wrapped if each.stream is not None} or {scaler.stream}
        if len(streams) > 1:
            raise ValueError("the gradients of one call must be on one stream")
        tensors = (Tensor * len(wrapped))(*(Tensor(each.pointer, each.count, each.dtype) for each in wrapped))
        self._done(self._call(name, *streams, *arguments, tensors, ctypes.c_size_t(len(wrapped))))

    def scale(self, scaler, value):
        if _is_number(value):
            known = self._known or self.get(scaler)
            self._known = None if self._is_captured else known
            return _gradients.narrow(_gradients.narrow(value) * _gradients.narrow(known[0]))
        self._launch("scale", scaler, [_gradients.wrap(value, scaler.stream)])
        return value

    def check(self, scaler, index, wrapped, is_check_only):
        if is_check_only:
            self.sum(None)
        if index >= _OPTIMIZERS:
            raise ValueError(f"at most {_OPTIMIZERS} optimizers can have gradients in device memory between two updates")
        self._launch("unscale", scaler, wrapped, ctypes.c_uint(index))
        self._unscaled.add(index)
        return {"device": index}

    def is_found(self, scaler, found):
        status = self._call("step", scaler.stream, ctypes.c_uint(found["device"]))
        if status < 0:
            self._done(status)
        self._found[found["device"]] = status == 0
        return status == 0

    def sum(self, _):
        raise ValueError("fused optimizers need torch tensors or host memory")

    def update(self, scaler, _):
        if self._factors != self._factors_of(scaler):
            self._factors = self._factors_of(scaler)
            self.set(scaler, None, None, None)
        self._done(self._call("update", scaler.stream, None))
        if self._known and self._found.keys() == self._unscaled:
            rule, results = scaler._rule(), list(self._found.values())
            self._known = rule.updated(*self._known, results[-1] if rule.last_decides else any(results))
        else:
            self._known = None
        self._unscaled, self._found = set(), {}
