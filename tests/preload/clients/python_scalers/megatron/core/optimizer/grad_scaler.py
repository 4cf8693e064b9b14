"""The state machine of Megatron-LM's dynamic gradient scaler, with its names. The scale and the factors are tensors."""
from tensor import Tensor


class DynamicGradScaler:
    def __init__(self, initial_scale, min_scale, growth_factor, backoff_factor, growth_interval, hysteresis):
        self._scale, self.min_scale = Tensor(initial_scale), Tensor(min_scale)
        self.growth_factor, self.backoff_factor = Tensor(growth_factor), Tensor(backoff_factor)
        self.growth_interval, self.hysteresis = growth_interval, hysteresis
        self._growth_tracker, self._hysteresis_tracker = 0, hysteresis

    def update(self, found_inf):
        if found_inf:
            self._growth_tracker = 0
            self._hysteresis_tracker -= 1
            if self._hysteresis_tracker <= 0:
                self._scale = max(self._scale.times(self.backoff_factor._value), self.min_scale, key=lambda each: each._value)
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self.growth_interval:
                self._growth_tracker, self._hysteresis_tracker = 0, self.hysteresis
                self._scale = self._scale.times(self.growth_factor._value)
