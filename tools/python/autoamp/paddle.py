"""paddle.amp.GradScaler and AmpScaler for gradients in host memory (docs/gradient-scaler.md). Needs no Paddle."""
from . import _gradients, _rules, _states

_INIT, _UNSCALED, _STEPPED = "INIT", "UNSCALED", "STEPPED"


class AmpScaler:
    """Names, defaults, errors and state dict are Paddle's. For optimizers without Paddle's `_parameter_list`, pass `grads` to
    `unscale_`, `minimize` or `step`. The scale adapts as on Paddle's GPU: a gradient is tested after the division."""

    def __init__(self, enable=True, init_loss_scaling=2.0 ** 15, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=1000,
                 decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True):
        self._enable, self._use_dynamic_loss_scaling, self._init_loss_scaling, self._scale = enable, False, 1.0, None
        if enable:
            assert incr_ratio > 1.0, "The incr_ratio must be > 1.0."
            assert decr_ratio < 1.0, "The decr_ratio must be < 1.0."
            self._incr_ratio, self._decr_ratio = incr_ratio, decr_ratio
            self._incr_every_n_steps, self._decr_every_n_nan_or_inf = incr_every_n_steps, decr_every_n_nan_or_inf
            self._incr_count = self._decr_count = 0
            self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
            self._found_inf, self._cache_found_inf, self._stages = False, None, {}
            self.set_init_loss_scaling(init_loss_scaling)

    def scale(self, var):
        """Returns a number or NumPy array times the scale. Writable buffers are multiplied in place."""
        return _states.HostState(self, (self._scale, 0, 0)).scale(self, var) if self._enable else var

    def _factors(self):
        return self._incr_ratio, self._decr_ratio, self._incr_every_n_steps

    def _rule(self):
        return _rules.Rule("paddle", *self._factors(), self._decr_every_n_nan_or_inf)

    def _unscale(self, optimizer, grads=None):
        if not self._enable:
            return
        stage = self._stages.get(id(optimizer), _INIT)
        if stage == _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if grads is None:
            groups = getattr(optimizer, "_param_groups", None) or [{"params": optimizer._parameter_list}]
            lists = (group["params"] if isinstance(group, dict) else [group] for group in groups)
            grads = [parameter.grad for parameters in lists for parameter in parameters]
        wrapped = [_gradients.wrap(each) for each in grads if each is not None]
        if not all(isinstance(each, _gradients.Host) for each in wrapped):
            raise TypeError("gradients must be in host memory")
        self._found_inf = any([_gradients.divide(each, self._scale, "paddle") for each in wrapped])
        self._stages[id(optimizer)] = _UNSCALED

    def _run(self, optimizer, run, arguments, keywords, grads):
        """Unscales the gradients if necessary, and runs the optimizer or skips it."""
        if self._stages.get(id(optimizer), _INIT) == _INIT:
            self._unscale(optimizer, grads)
        self._cache_found_inf = self._found_inf
        return None if self._found_inf else run(*arguments, **keywords)

    def minimize(self, optimizer, *args, grads=None, **kwargs):
        """Runs `optimizer.minimize`, and ends the step."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        result = self._run(optimizer, optimizer.minimize, args, kwargs, grads)
        if self._use_dynamic_loss_scaling:
            self._update()
        self._stages = {}
        return (None, None) if result is None else result

    def _update(self):
        if not self._enable:
            return
        before, found = (self._scale, self._incr_count), bool(self._cache_found_inf)
        self._scale, self._incr_count, self._decr_count = self._rule().updated(*before, self._decr_count, found)
        _states.record(self, before, (self._scale, self._incr_count), found, self._factors(), framework=b"autoamp.paddle")

    def is_enable(self):
        return self._enable

    def is_use_dynamic_loss_scaling(self):
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self):
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling):
        self._init_loss_scaling = new_init_loss_scaling
        self._scale = _gradients.narrow(new_init_loss_scaling)

    def get_incr_ratio(self):
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio):
        assert new_incr_ratio > 1.0, "The new_incr_ratio must be > 1.0."
        self._incr_ratio = new_incr_ratio

    def get_decr_ratio(self):
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio):
        assert new_decr_ratio < 1.0, "The new_decr_ratio must be < 1.0."
        self._decr_ratio = new_decr_ratio

    def get_incr_every_n_steps(self):
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps):
        self._incr_every_n_steps = new_incr_every_n_steps

    def get_decr_every_n_nan_or_inf(self):
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf):
        self._decr_every_n_nan_or_inf = new_decr_every_n_nan_or_inf

    def state_dict(self):
        return {"scale": [self._scale], "incr_ratio": self._incr_ratio, "decr_ratio": self._decr_ratio,
                "incr_every_n_steps": self._incr_every_n_steps, "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
                "incr_count": self._incr_count, "decr_count": self._decr_count,
                "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling} if self._enable else {}

    def load_state_dict(self, state_dict):
        if not self._enable:
            return
        if len(state_dict) == 0:
            raise RuntimeError("The input state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self.set_init_loss_scaling(float(state_dict["scale"][0]))
        for name in ("incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_count", "decr_count",
                     "use_dynamic_loss_scaling"):
            setattr(self, "_" + name, state_dict[name])


class GradScaler(AmpScaler):
    """An AmpScaler with `unscale_`, `step` and `update`."""

    def __init__(self, enable=True, init_loss_scaling=2.0 ** 16, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=2000,
                 decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True):
        super().__init__(enable, init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf,
                         use_dynamic_loss_scaling)

    def unscale_(self, optimizer, grads=None):
        """Divides the gradients of the optimizer by the scale, in place."""
        return self._unscale(optimizer, grads)

    def step(self, optimizer, grads=None):
        """Runs `optimizer.step`, or the optimizer itself if it has no such method, unless a gradient is Inf or NaN."""
        run = getattr(optimizer, "step", optimizer)
        if not self._enable:
            return run()
        if self._stages.get(id(optimizer), _INIT) == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        self._run(optimizer, run, (), {}, grads)
        self._stages[id(optimizer)] = _STEPPED
        if not self._use_dynamic_loss_scaling:
            self._stages = {}
        return None

    def update(self):
        """Ends the step. The optimizer that was stepped last decides about the scale."""
        if self._enable and self._use_dynamic_loss_scaling:
            self._update()
            self._stages = {}
