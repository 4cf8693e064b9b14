"""torch.amp.GradScaler for gradients of any kind (docs/gradient-scaler.md). Needs neither torch nor NumPy."""
import collections.abc
import inspect
import sys
import warnings

import autoamp

from . import _gradients, _rules, _states

_READY, _UNSCALED, _STEPPED = "READY", "UNSCALED", "STEPPED"
_HINT = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


class _Optimizer:
    """Stage and flags of an optimizer since the latest update. `found`: the flags of its devices."""

    def __init__(self, optimizer):
        self.optimizer = optimizer  # keeps it alive, because another one could get its id
        self.stage, self.found = _READY, {}


class GradScaler:
    """Scales a loss, and the gradients back; skips steps with an Inf or NaN; adapts the scale.

    It has the interface that torch.amp.GradScaler has. For optimizers without torch's `param_groups`, pass `grads` to `unscale_` or
    `step`. An optimizer without a method `step` is called itself. `stream` is the CUDA stream of device memory that does not name
    its own, and of calls without gradients. `rule` is that of another framework, with its parameters `backoff_every`, `hysteresis`, `min_scale` and `flags`. If
    autoamp is in the process but off (AUTOAMP_ENABLED=0) and torch is not imported, the scaler is disabled with a warning."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True, *,
                 rule="torch", backoff_every=1, hysteresis=1, min_scale=1, flags=0):
        if enabled and "torch" not in sys.modules and autoamp._is_off():  # torch tensors need no library
            warnings.warn("autoamp is off in this process (AUTOAMP_ENABLED=0): the gradient scaler is disabled", stacklevel=2)
            enabled = False
        self._device, self._enabled, self.stream = device, enabled, 0
        if enabled:
            assert growth_factor > 1.0 or rule != "torch", "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
            self._name = rule
            self._parameters = {"backoff_every": backoff_every, "hysteresis": hysteresis, "min_scale": min_scale, "flags": flags}
            self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
            self._init_scale, self._init_growth_tracker, self._init_backoff_tracker = init_scale, 0, self._rule().full
            self._state = None  # made by the first scale()
            self._optimizers, self._latest = {}, None  # latest: the flags of the optimizer that was stepped last

    # ---- the state

    def _factors(self):
        return self._growth_factor, self._backoff_factor, self._growth_interval

    def _rule(self):
        return _rules.Rule(self._name, *self._factors(), **self._parameters)

    def _need(self, function):
        assert self._state is not None, f"Attempted {function} but _scale is None.  {_HINT}"

    def _make(self, kind):
        """The state for gradients of this kind. An existing one is converted."""
        if isinstance(self._state, kind):
            return self._state
        values = self._init_scale, self._init_growth_tracker, self._init_backoff_tracker
        if self._state is not None:
            if any(each.found for each in self._optimizers.values()):
                raise ValueError("the gradients of one step must all be torch tensors, in host memory, or in device memory")
            values = self._state.get(self)
        self._state = kind(self, values)
        return self._state

    def _of(self, optimizer):
        return self._optimizers.setdefault(id(optimizer), _Optimizer(optimizer))

    def get_scale(self):
        if not self._enabled:
            return 1.0
        return self._init_scale if self._state is None else float(self._state.get(self)[0])

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._counters()[0]

    def is_enabled(self):
        return self._enabled

    def _counters(self):
        return (self._init_growth_tracker, self._init_backoff_tracker) if self._state is None else self._state.get(self)[1:]

    def state_dict(self):
        if not self._enabled:
            return {}
        tracker, other = self._counters()
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": tracker,
                **({} if self._name == "torch" else {"_backoff_tracker": other})}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        if self._state is not None:
            self._state.set(self, self._init_scale, None, None)
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        self._init_backoff_tracker = state_dict.get("_backoff_tracker", self._init_backoff_tracker)
        if self._state is not None:
            self._state.set(self, None, self._init_growth_tracker, self._init_backoff_tracker)

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            assert len(self._optimizers) == 0, ("A GradScaler instance may only be pickled at the beginning of an iteration, or at the "
                                                "end after scaler.update().")
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"], state["_init_backoff_tracker"] = self._counters()
            state["_state"] = None
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)

    # ---- a step

    def scale(self, outputs):
        """Returns the outputs times the scale: a torch tensor, a NumPy array, a number, or nested iterables. Arrays in device memory
        and writable buffers are multiplied in place."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, collections.abc.Iterable) and not _is_array(outputs):
            results = map(self.scale, outputs)
            return type(outputs)(results) if isinstance(outputs, (list, tuple)) else results
        if outputs is None:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        return self._make(_states.kind_of(outputs, self._state, self.stream)).scale(self, outputs)

    def _grads(self, optimizer, grads):
        if grads is None:
            grads = (parameter.grad for group in optimizer.param_groups for parameter in group["params"])
        return [_gradients.wrap(each, self.stream) for each in grads if each is not None]

    def unscale_(self, optimizer, grads=None):
        """Divides the gradients of the optimizer by the scale, in place."""
        if not self._enabled:
            return
        self._need("unscale_")
        state = self._of(optimizer)
        if state.stage is _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage is _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        wrapped = self._grads(optimizer, grads)
        if grads is None and any(_gradients.is_half(each) for each in wrapped):
            raise ValueError("Attempting to unscale FP16 gradients.")
        state.found = self._check(optimizer, wrapped, False)
        state.stage = _UNSCALED

    def _check(self, optimizer, wrapped, is_check_only):
        if not wrapped:
            return {}
        kind = _states.kind_of(wrapped[0], self._state)
        if any(_states.kind_of(each, self._state) is not kind for each in wrapped):
            raise ValueError("the gradients of one step must all be torch tensors, in host memory, or in device memory")
        state = self._make(kind)
        return state.check(self, list(self._optimizers).index(id(optimizer)), wrapped, is_check_only)

    def step(self, optimizer, *args, grads=None, **kwargs):
        """Unscales the gradients if `unscale_` has not done it. Calls `optimizer.step(*args, **kwargs)`, or returns None. If this
        function has a parameter `grads` itself, and the optimizer has `param_groups`, it gets `grads`."""
        run = getattr(optimizer, "step", optimizer)
        if grads is not None and hasattr(optimizer, "param_groups") and "grads" in inspect.signature(run).parameters:
            kwargs, grads = {**kwargs, "grads": grads}, None
        if not self._enabled:
            return run(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need("step")
        state = self._of(optimizer)
        if state.stage is _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_fused(optimizer, state, grads, args, kwargs)
        if state.stage is _READY:
            self.unscale_(optimizer, grads)
        assert len(state.found) > 0, "No inf checks were recorded for this optimizer."
        self._latest = state.found if self._rule().last_decides else None
        result = None if self._state.is_found(self, state.found) else run(*args, **kwargs)
        state.stage = _STEPPED
        return result

    # Called by torch optimizers that have an argument `grad_scaler`.

    def _get_scale_async(self):
        return None if self._state is None else self._state.value()

    def _found_inf_per_device(self, optimizer):
        return self._of(optimizer).found

    def _check_inf_per_device(self, optimizer):
        self._need("_check_inf_per_device")
        state = self._of(optimizer)
        state.found = self._check(optimizer, self._grads(optimizer, None), True)
        return state.found

    def _step_fused(self, optimizer, state, grads, args, kwargs):
        """The optimizer divides by the scale and skips the step itself."""
        takes_scaler = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if takes_scaler:
            warnings.warn("GradScaler is going to stop passing itself as a keyword argument to the passed optimizer.", FutureWarning,
                          stacklevel=3)
            kwargs = {**kwargs, "grad_scaler": self}
        else:
            if state.stage is _READY:
                state.found = self._check(optimizer, self._grads(optimizer, grads), True)
            found_inf = self._state.sum(state.found)
            optimizer.grad_scale = (getattr(optimizer, "grad_scale", None) if state.stage is _UNSCALED else
                                    self._state.value() * getattr(optimizer, "grad_scale", 1))
            optimizer.found_inf = found_inf
        result = optimizer.step(*args, **kwargs)
        state.stage = _STEPPED
        if not takes_scaler:
            del optimizer.grad_scale
            del optimizer.found_inf
        return result

    def update(self, new_scale=None):
        """Ends the step: adapts the scale, or sets it to `new_scale` (a float or a tensor of one element)."""
        if not self._enabled:
            return
        self._need("update")
        if new_scale is not None:
            if not isinstance(new_scale, float):
                reason = ("new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                          "requires_grad=False.")
                assert new_scale.device.type == str(self._device).split(":", 1)[0], reason
                assert new_scale.numel() == 1, reason
                assert new_scale.requires_grad is False, reason
            self._state.replace(self, new_scale)
        else:
            found = [each.found for each in self._optimizers.values() if each.found]
            assert len(found) > 0, "No inf checks were recorded prior to update."
            if self._rule().last_decides:  # before the first step, none does
                found = [] if self._latest is None else [self._latest]
            self._state.update(self, found)
        self._optimizers = {}


def _is_array(value):
    return (hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__") or
            isinstance(value, (memoryview, bytearray)) or type(value).__module__ == "array" or _gradients.is_torch(value) or
            (isinstance(value, tuple) and len(value) == 3 and str(value[2]).rsplit(".", 1)[-1] in _gradients.NAMES))
