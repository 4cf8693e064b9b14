"""Scalers of mindspore.amp for values in host memory (docs/gradient-scaler.md). Needs no MindSpore."""
import numbers

from . import _gradients, _rules, _states


def init_status():
    """Returns the status for `all_finite`. The host needs none."""


def all_finite(inputs, status=None):
    """Returns True if no element of the gradients is Inf or NaN. They do not change."""
    return not any([_gradients.divide(_host(each, is_read_only=True), 1.0, None) for each in inputs])


def _host(value, is_read_only=False):
    wrapped = _gradients.wrap(value, is_read_only=is_read_only)
    if not isinstance(wrapped, _gradients.Host):
        raise TypeError("gradients must be in host memory")
    return wrapped


def _map(inputs, factor):
    """Multiplies numbers, and buffers in place. The factor is rounded to the type of the buffer first."""
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(_map(each, factor) for each in inputs)
    if isinstance(inputs, numbers.Real):
        return _gradients.narrow(_gradients.narrow(inputs) * factor)
    host = _host(inputs)
    _gradients.multiply(host, _gradients.rounded(factor, host.dtype))
    return inputs


def _positive(name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"The input '{name}' must be an int, but got {type(value).__name__}.")
    if value <= 0:
        raise ValueError(f"The input '{name}' must be positive, but got {value}.")
    return value


class LossScaler:
    """Base class of the loss scalers."""


class LossScaleManager:
    """Base class of the managers."""


class StaticLossScaler(LossScaler):
    """A scale that does not change. `scale` and `unscale` multiply buffers in place and return them."""

    def __init__(self, scale_value):
        if isinstance(scale_value, bool) or not isinstance(scale_value, (int, float)):
            raise TypeError(f"The type of 'scale_value' must be float or int, but got {type(scale_value).__name__}.")
        if scale_value < 1.0:
            raise ValueError(f"The argument 'scale_value' must be > 1, but got {scale_value}")
        self.scale_value = _gradients.narrow(scale_value)

    def scale(self, inputs):
        return _map(inputs, self.scale_value)

    def unscale(self, inputs):
        return _map(inputs, _gradients.inverse_of(self.scale_value))

    def adjust(self, grads_finite):
        return False


class DynamicLossScaler(StaticLossScaler):
    def __init__(self, scale_value, scale_factor, scale_window):
        super().__init__(scale_value)
        self.scale_window = _positive("scale_window", scale_window)
        self.scale_factor = _positive("scale_factor", scale_factor)
        self.counter = 0

    def adjust(self, grads_finite):
        """Ends a step. `grads_finite`: the result of all_finite()."""
        before, factors = (self.scale_value, self.counter), (self.scale_factor, 1 / self.scale_factor, self.scale_window)
        self.scale_value, self.counter, _ = _rules.Rule("mindspore", *factors).updated(*before, 0, not grads_finite)
        _states.record(self, before, (self.scale_value, self.counter), not grads_finite, factors, framework=b"autoamp.mindspore")
        return True


class FixedLossScaleManager(LossScaleManager):
    def __init__(self, loss_scale=128.0, drop_overflow_update=True):
        if loss_scale < 1:
            raise ValueError(f"The argument 'loss_scale' must be >= 1, but got {loss_scale}")
        self._loss_scale, self._drop_overflow_update = loss_scale, drop_overflow_update

    def get_loss_scale(self):
        return self._loss_scale

    def get_drop_overflow_update(self):
        return self._drop_overflow_update

    def update_loss_scale(self, overflow):
        """The scale is fixed."""


class DynamicLossScaleManager(LossScaleManager):
    def __init__(self, init_loss_scale=2 ** 24, scale_factor=2, scale_window=2000):
        if init_loss_scale < 1.0:
            raise ValueError(f"The argument 'init_loss_scale' must be > 1, but got {init_loss_scale}")
        self.loss_scale = init_loss_scale
        self.scale_window = _positive("scale_window", scale_window)
        if scale_factor <= 0:
            raise ValueError(f"The argument 'scale_factor' must be > 0, but got {scale_factor}")
        self.scale_factor = self.increase_ratio = scale_factor
        self.decrease_ratio = 1 / scale_factor
        self.cur_iter, self.last_overflow_iter, self.bad_step_max, self.bad_step = 1, 0, 1000, 0

    def get_loss_scale(self):
        return self.loss_scale

    def get_drop_overflow_update(self):
        return True

    def update_loss_scale(self, overflow):
        """Ends a step. More than 1000 overflows in a row are an error."""
        factors = self.increase_ratio, self.decrease_ratio, self.scale_window
        before = self.loss_scale, self.cur_iter - self.last_overflow_iter - 1
        rule = _rules.Rule("mindspore_manager", *factors)
        self.loss_scale, tracker, self.bad_step = rule.updated(*before, self.bad_step, bool(overflow))
        self.last_overflow_iter = self.cur_iter if overflow else self.last_overflow_iter
        _states.record(self, before, (self.loss_scale, tracker), bool(overflow), factors, framework=b"autoamp.mindspore")
        if self.bad_step > self.bad_step_max:
            raise RuntimeError("Dynamic loss scale Continuous overflow ", self.bad_step, " times, has exceeded maximum threshold.")
        self.cur_iter += 1
