"""States of a scaler with torch's rule: in torch tensors, in Python, or on the device by the functions of autoamp.h."""
import ctypes
import math
import sys

import autoamp

from . import _gradients

_FAILURES = {1: "autoamp is not in this process; start the program with `autoamp run`", -1: "a gradient has a wrong address or type",
             -3: "there are too many scalers", -4: "wrong order of calls", -5: "the driver refused a call, or a stream is being captured"}


class Options(ctypes.Structure):
    """The struct autoamp_scaler_options in autoamp.h."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("rule", ctypes.c_char_p), ("init_scale", ctypes.c_double),
                ("growth_factor", ctypes.c_double), ("backoff_factor", ctypes.c_double), ("growth_interval", ctypes.c_int),
                ("backoff_every", ctypes.c_int), ("hysteresis", ctypes.c_int), ("min_scale", ctypes.c_double)]


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


def record(scaler, before, after, found, factors):
    """Records an update of a state on the host: scale and tracker before and after, and growth, backoff and interval."""
    library = autoamp._library
    if library is None or not hasattr(library, "autoamp_record_update"):
        return
    update = Update(ctypes.sizeof(Update), b"autoamp", b"autoamp", id(scaler), 0, before[0], after[0], found, *factors, before[1], after[1],
                    -1)
    library.autoamp_record_update(ctypes.byref(update))


def _is_number(value):
    numpy = sys.modules.get("numpy")
    return isinstance(value, (int, float)) or numpy is not None and isinstance(value, numpy.generic)


def kind_of(value, state):
    """The class of states for this value. Numbers do not decide."""
    if _gradients.is_torch(value):
        return TorchState
    if isinstance(value, _gradients.Host):
        return HostState
    if _is_number(value):
        return type(state) if state is not None else HostState
    if isinstance(value, _gradients.Device):
        return DeviceState
    return kind_of(_gradients.wrap(value), state)


class HostState:
    def __init__(self, scaler, scale, tracker):
        self._scaler, self._scale, self._tracker = scaler, _gradients.narrow(scale), int(tracker)

    def get(self):
        return self._scale, self._tracker

    def value(self):
        return self._scale

    def set(self, scale, tracker):
        self._scale = self._scale if scale is None else _gradients.narrow(scale)
        self._tracker = self._tracker if tracker is None else int(tracker)

    replace = lambda self, scale: self.set(scale, None)  # noqa: E731

    def scale(self, value):
        if isinstance(value, (int, float)):
            return _gradients.narrow(_gradients.narrow(value) * self._scale)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            wide = numpy.float64 if value.dtype == numpy.float64 else numpy.float32
            with numpy.errstate(all="ignore"):
                return (value.astype(wide) * wide(self._scale)).astype(value.dtype if value.dtype.kind == "f" else numpy.float32)
        _gradients.unscale(_gradients.wrap(value), self._scale)
        return value

    def check(self, _, wrapped, is_check_only):
        inverse = 1.0 if is_check_only else _gradients.inverse_of(self._scale)
        return {"cpu": float(any([_gradients.unscale(each, inverse) for each in wrapped]))}

    def is_found(self, found):
        return bool(self.sum(found))

    def sum(self, found):
        return sum(found.values())

    def update(self, found):
        total, before, scaler = sum(map(self.sum, found)), self.get(), self._scaler
        if total:
            self._scale, self._tracker = _gradients.narrow(self._scale * scaler._backoff_factor), 0
        else:
            self._tracker += 1
            if self._tracker == scaler._growth_interval:
                grown = _gradients.narrow(self._scale * scaler._growth_factor)
                self._scale, self._tracker = grown if math.isfinite(grown) else self._scale, 0
        record(scaler, before, self.get(), total, (scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval))


class TorchState:
    """The operators that torch's own scaler uses, on every device. On CUDA devices, autoamp sees their kernels."""

    def __init__(self, scaler, scale, tracker):
        self._scaler, self._torch, self._init = scaler, sys.modules["torch"], (scale, tracker)
        self._scale = self._tracker = None  # on the device of the first tensor

    def _open(self, device):
        if self._scale is None:
            scale, tracker = self._init
            self._scale = self._torch.full((), scale, dtype=self._torch.float32, device=device)
            self._tracker = self._torch.full((), tracker, dtype=self._torch.int32, device=device)

    def get(self):
        return (_gradients.narrow(self._init[0]), int(self._init[1])) if self._scale is None else (self._scale.item(), self._tracker.item())

    def value(self):
        return self._scale

    def set(self, scale, tracker):
        self._open("cpu")
        if scale is not None:
            self._scale.fill_(scale)
        if tracker is not None:
            self._tracker.fill_(tracker)

    replace = HostState.replace

    def scale(self, value):
        if _is_number(value):
            return _gradients.narrow(_gradients.narrow(value) * self.get()[0])
        self._open(value.device)
        return value * self._scale.to(device=value.device, non_blocking=True)

    def check(self, _, wrapped, is_check_only):
        torch = self._torch
        self._open(wrapped[0].device)
        inverse = torch.ones_like(self._scale) if is_check_only else self._scale.double().reciprocal().float()
        groups, found = {}, {}
        for each in wrapped:
            if each.is_sparse:
                each = (each.coalesce() if each.dtype is torch.float16 else each)._values()
            groups.setdefault((each.device, each.dtype), []).append(each)
        for (device, _), tensors in groups.items():
            flag = found.setdefault(device, torch.zeros((), dtype=torch.float32, device=device))
            torch._amp_foreach_non_finite_check_and_unscale_(tensors, flag, inverse.to(device, non_blocking=True))
        return found

    def is_found(self, found):
        return bool(sum(each.item() for each in found.values()))

    def sum(self, found):
        return sum(each.to(self._scale.device, non_blocking=True) for each in found.values())

    def update(self, found):
        scaler, is_host = self._scaler, self._scale.device.type == "cpu"
        before = self.get() if is_host else None
        total = sum(map(self.sum, found))
        factors = scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval
        self._torch._amp_update_scale_(self._scale, self._tracker, total, *factors)
        if is_host:
            record(scaler, before, self.get(), total.item(), factors)


class DeviceState:
    """A scaler of autoamp.h. Its calls run on the stream of the gradients, and on the current device. A call on another stream than
    the one before it waits for that stream."""

    def __init__(self, scaler, scale, tracker):
        self._scaler, self._library, self._handle = scaler, autoamp._library, ctypes.c_void_p()
        self._stream, self._factors = scaler.stream, self._factors_now()  # stream of the latest change of the state
        self._unscaled = {}  # optimizer: stream of its gradients
        if self._library is None:
            raise RuntimeError(_FAILURES[1])
        options = Options(ctypes.sizeof(Options), None, b"torch", scale, *self._factors, 1, 1, 1.0)
        self._done(self._library.autoamp_scaler_create(ctypes.byref(self._handle), ctypes.byref(options)))
        if tracker:
            self.set(None, tracker)

    def __del__(self):
        if self._handle:
            for stream in (self._stream, *self._unscaled.values()):
                self._wait(stream)
            self._library.autoamp_scaler_destroy(self._handle)

    def _factors_now(self):
        return self._scaler._growth_factor, self._scaler._backoff_factor, self._scaler._growth_interval

    @staticmethod
    def _done(status):
        if status:
            raise RuntimeError(_FAILURES.get(status, f"autoamp returned {status}"))

    def _call(self, name, *arguments, stream=None):
        stream = self._stream if stream is None else stream
        return getattr(self._library, "autoamp_scaler_" + name)(self._handle, *arguments, ctypes.c_void_p(stream))

    def _wait(self, stream):
        return self._call("get", ctypes.byref(State(ctypes.sizeof(State))), stream=stream)

    def get(self):
        state = State(ctypes.sizeof(State))
        self._done(self._call("get", ctypes.byref(state)))
        return state.scale, state.growth_tracker

    def set(self, scale, tracker):
        state = State(ctypes.sizeof(State), math.nan if scale is None else scale, *self._factors,
                      -1 if tracker is None else int(tracker), -1)
        self._done(self._call("load", ctypes.byref(state)))

    def replace(self, scale):
        self._done(self._call("update", ctypes.byref(ctypes.c_double(scale))))

    def _tensors(self, wrapped):
        streams = {each.stream for each in wrapped if each.stream is not None}
        if len(streams) > 1:
            raise ValueError("the gradients of one call must be on one stream")
        stream = streams.pop() if streams else self._scaler.stream
        if stream != self._stream:
            self._wait(self._stream)  # refused during a capture, whose graph orders the work
            self._stream = stream
        return (Tensor * len(wrapped))(*(Tensor(each.pointer, each.count, each.dtype) for each in wrapped)), ctypes.c_size_t(len(wrapped))

    def scale(self, value):
        if _is_number(value):
            return _gradients.narrow(_gradients.narrow(value) * self.get()[0])
        self._done(self._call("scale", *self._tensors([_gradients.wrap(value)])))
        return value

    def check(self, index, wrapped, is_check_only):
        if is_check_only:
            raise ValueError("fused optimizers need torch tensors")
        self._done(self._call("unscale", ctypes.c_uint(index), *self._tensors(wrapped)))
        self._unscaled[index] = self._stream
        return {"device": index}

    def is_found(self, found):
        status = self._call("step", ctypes.c_uint(found["device"]), stream=self._unscaled[found["device"]])
        if status < 0:
            self._done(status)
        return status == 0

    def update(self, _):
        if self._factors != self._factors_now():
            self._factors = self._factors_now()
            self.set(None, None)
        for stream in {*self._unscaled.values()} - {self._stream}:
            self._wait(stream)
        self._done(self._call("update", None))
        self._unscaled.clear()
