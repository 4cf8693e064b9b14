"""Records the updates of gradient scalers that live in Python, for `autoamp run --watch-python`.

After one of the modules below was imported, a wrapper replaces the method that updates its scaler. The wrapper reads the scaler's
attributes before and after the method and calls autoamp_record_update. It changes neither arguments, result nor exceptions, and an
error in it is not visible to the program. A scale on the device is read only after a change: one copy of 4 bytes.
"""
import sys


class Values:
    """Attributes of a scaler. scale: a number, or a tensor with one element."""

    def __init__(self, scale, growth, backoff, interval, tracker=-1, hysteresis=-1, found=None):
        self.scale, self.growth, self.backoff, self.interval = scale, growth, backoff, interval
        self.tracker, self.hysteresis, self.found = tracker, hysteresis, found


def _deepspeed(scaler):
    return Values(scaler.cur_scale, scaler.scale_factor, 1 / scaler.scale_factor, scaler.scale_window, hysteresis=scaler.cur_hysteresis)


def _deepspeed_optimizer(optimizer):
    """Without ZeRO, the optimizer has the scale, in new versions in another object. A static scale has no factor."""
    scaler = getattr(optimizer, "loss_scale_config", optimizer)
    factor = getattr(scaler, "scale_factor", None) or _NAN
    return Values(scaler.cur_scale, factor, 1 / factor, getattr(scaler, "scale_window", None) or 0)


def _megatron(scaler):
    return Values(scaler._scale, scaler.growth_factor, scaler.backoff_factor, scaler.growth_interval, scaler._growth_tracker,
                  max(0, scaler._hysteresis_tracker))


def _paddle(scaler):
    found = getattr(scaler, "_cache_found_inf", getattr(scaler, "_cache_founf_inf", None))  # the second one up to 3.0
    return Values(scaler._scale, scaler._incr_ratio, scaler._decr_ratio, scaler._incr_every_n_steps, scaler._incr_count, found=found)


def _mindspore(scaler):
    return Values(scaler.loss_scale, scaler.increase_ratio, scaler.decrease_ratio, scaler.scale_window)


# Module: framework, class, method, and the function that reads the attributes.
_WATCHED = {
    "deepspeed.runtime.fp16.loss_scaler": ("deepspeed", "DynamicLossScaler", "update_scale", _deepspeed),
    "deepspeed.runtime.fp16.fused_optimizer": ("deepspeed", "FP16_Optimizer", "_update_scale", _deepspeed_optimizer),
    "deepspeed.runtime.fp16.unfused_optimizer": ("deepspeed", "FP16_UnfusedOptimizer", "_update_scale", _deepspeed_optimizer),
    "megatron.core.optimizer.grad_scaler": ("megatron", "DynamicGradScaler", "update", _megatron),
    "megatron.optimizer.grad_scaler": ("megatron", "DynamicGradScaler", "update", _megatron),
    "paddle.amp.grad_scaler": ("paddle", "AmpScaler", "_update", _paddle),
    "mindspore.train.loss_scale_manager": ("mindspore", "DynamicLossScaleManager", "update_loss_scale", _mindspore),
}
_NAN = float("nan")


class _Finder:
    """Finds the watched modules with the finders behind it, and has their class wrapped after their code ran."""

    def find_spec(self, name, path=None, target=None):
        if name not in _WATCHED:
            return None
        place = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        for finder in sys.meta_path[place:]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _wrap_after(spec)
                return spec
        return None


def install():
    if not any(type(finder).__name__ == "_Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _wrap_after(spec):
    try:
        loader = spec.loader
        run = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)  # that of its class again
            run(module)
            try:
                _wrap(module)
            except Exception:
                pass
        loader.exec_module = exec_module
    except Exception:
        pass  # a loader of another kind: its module is not watched


_wrappers = set()


def _wrap(module):
    framework, owner, method, read = _WATCHED[module.__name__]
    cls = getattr(module, owner)
    original = cls.__dict__[method]
    if original in _wrappers:
        return
    import functools

    @functools.wraps(original)
    def update(self, *arguments, **named):
        before, has_begun = _state_of(framework, read, self), True
        try:
            return original(self, *arguments, **named)
        except TypeError as error:
            has_begun = error.__traceback__.tb_next is not None  # or else the arguments were wrong
            raise
        finally:
            if has_begun:
                _record(before, read, self, [*arguments, *named.values()])
    _wrappers.add(update)
    setattr(cls, method, update)


class _State:
    """A scaler: its number, and the last scale that was read."""
    count = 0

    def __init__(self, framework):
        _State.count += 1
        self.number, self.framework, self.tensor, self.version, self.scale = _State.count, framework, None, None, _NAN
        self.growth = self.backoff = None
        self.device, self.how = 0, "python"

    def read_scale(self, value):
        if isinstance(value, (int, float)):
            return float(value)
        version = getattr(value, "_version", None)
        if value is not self.tensor or version != self.version:
            self.tensor, self.version, self.scale = value, version, float(value.item())
            index = getattr(getattr(value, "device", None), "index", None)
            self.device = index if isinstance(index, int) else 0
        return self.scale

    def read(self, values):
        """(scale, tracker, hysteresis) of now."""
        if self.growth is None:
            self.growth, self.backoff = (each if isinstance(each, (int, float)) else each.item() for each in (values.growth, values.backoff))
        return self.read_scale(values.scale), values.tracker, values.hysteresis


_states = None


def _state_of(framework, read, scaler):
    """The state of the scaler with its values before the update; None after an error."""
    global _states
    try:
        if _states is None:
            import weakref
            _states = weakref.WeakKeyDictionary()
        state = _states.get(scaler)
        if state is None:
            state = _states[scaler] = _State(framework)
        try:
            return state, state.read(read(scaler))
        except Exception as error:
            state.how = "python: " + type(error).__name__ + ": " + str(error)
            return state, (_NAN, -1, -1)
    except Exception:
        return None


def _flag(values, arguments):
    """found_inf, if it is a value of the host."""
    value = values.found if values.found is not None else arguments[0] if arguments else None
    if isinstance(value, (bool, int, float)) or hasattr(value, "__array_interface__"):
        return float(bool(value))
    return _NAN


def _record(before, read, scaler, arguments):
    try:
        state, old = before
        values, new = Values(_NAN, _NAN, _NAN, 0), (_NAN, -1, -1)
        try:
            values = read(scaler)
            new = state.read(values)
        except Exception:
            pass
        send(state, old, new, _flag(values, arguments), values.interval)
    except Exception:
        pass


def _library():
    import ctypes
    double, integer = ctypes.c_double, ctypes.c_int

    class Update(ctypes.Structure):
        """The struct autoamp_scaler_update in autoamp.h."""
        _fields_ = ([("size", ctypes.c_size_t), ("framework", ctypes.c_char_p), ("how", ctypes.c_char_p), ("scaler", ctypes.c_void_p),
                     ("device", integer)] +
                    [(name, double) for name in ("scale_before", "scale_after", "found_inf", "growth_factor", "backoff_factor")] +
                    [(name, integer) for name in ("interval", "tracker_before", "tracker_after", "hysteresis")])
    function = ctypes.CDLL(None).autoamp_record_update
    function.argtypes = [ctypes.POINTER(Update)]

    def call(*fields):
        function(Update(ctypes.sizeof(Update), *fields))
    return call


_call = None


def send(state, old, new, found, interval):
    global _call
    if _call is None:
        try:
            _call = _library()
        except Exception:  # no autoamp in the process
            _call = lambda *fields: None
    factors = (each if each is not None else _NAN for each in (state.growth, state.backoff))
    _call(state.framework.encode(), state.how.encode(errors="replace"), state.number, state.device, old[0], new[0], found, *factors,
          int(interval), int(old[1]), int(new[1]), int(new[2]))
