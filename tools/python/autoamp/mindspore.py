"""Scalers of mindspore.amp for values in host memory (docs/gradient-scaler.md). Needs no MindSpore."""
import math
import numbers

from . import _gradients, _states


def all_finite(inputs):
    """Returns True if no element of the gradients is Inf or NaN. They do not change."""
    return not any([_gradients.unscale(_host(each), 1.0) for each in inputs])


def _host(value):
    wrapped = _gradients.wrap(value)
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
    _gradients.unscale(host, _gradients.rounded(factor, host.dtype))
    return inputs


def _positive(name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"The input '{name}' must be an int, but got {type(value).__name__}.")
    if value <= 0:
        raise ValueError(f"The input '{name}' must be positive, but got {value}.")
    return value


class StaticLossScaler:
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
        before = self.scale_value, self.counter
        if not grads_finite:
            self.scale_value = max(1.0, _gradients.narrow(self.scale_value / self.scale_factor))
        elif self.counter == self.scale_window - 1:
            grown = _gradients.narrow(self.scale_value * self.scale_factor)
            self.scale_value = grown if math.isfinite(grown) else self.scale_value
        self.counter = (self.counter + 1) % self.scale_window if grads_finite else 0
        _states.record(self, before, (self.scale_value, self.counter), not grads_finite,
                       (self.scale_factor, 1 / self.scale_factor, self.scale_window))
        return True


class FixedLossScaleManager:
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


class DynamicLossScaleManager:
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
        before = float(self.loss_scale)
        if overflow:
            self.loss_scale = max(self.loss_scale * self.decrease_ratio, 1)
            self.last_overflow_iter = self.cur_iter
            self.bad_step += 1
        else:
            if (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
                self.loss_scale *= self.increase_ratio
            self.bad_step = 0
        _states.record(self, (before, -1), (float(self.loss_scale), -1), bool(overflow),
                       (self.increase_ratio, self.decrease_ratio, self.scale_window))
        if self.bad_step > self.bad_step_max:
            raise RuntimeError("Dynamic loss scale Continuous overflow ", self.bad_step, " times, has exceeded maximum threshold.")
        self.cur_iter += 1
