"""The state machine of Paddle's scaler, with its names. The scale is a tensor."""
from tensor import Tensor


class AmpScaler:
    def __init__(self, init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf,
                 use_dynamic_loss_scaling=True):
        self._enable, self._use_dynamic_loss_scaling = True, use_dynamic_loss_scaling
        self._incr_ratio, self._decr_ratio = incr_ratio, decr_ratio
        self._incr_every_n_steps, self._decr_every_n_nan_or_inf = incr_every_n_steps, decr_every_n_nan_or_inf
        self._incr_count = self._decr_count = 0
        self._scale, self._cache_found_inf = Tensor(init_loss_scaling), None

    def _update(self):
        if not self._enable:
            return
        if self._cache_found_inf:
            self._incr_count, self._decr_count = 0, self._decr_count + 1
            if self._decr_count == self._decr_every_n_nan_or_inf:
                self._scale, self._decr_count = self._scale.times(self._decr_ratio), 0
        else:
            self._incr_count, self._decr_count = self._incr_count + 1, 0
            if self._incr_count == self._incr_every_n_steps:
                self._scale, self._incr_count = self._scale.times(self._incr_ratio), 0


class GradScaler(AmpScaler):
    def update(self, found):
        self._cache_found_inf = found
        if self._use_dynamic_loss_scaling:
            self._update()
