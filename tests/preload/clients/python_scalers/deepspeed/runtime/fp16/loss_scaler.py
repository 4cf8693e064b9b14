"""The state machine of DeepSpeed's dynamic loss scaler, with its names."""


class LossScalerBase:
    def update_scale(self, overflow):
        pass


class DynamicLossScaler(LossScalerBase):
    def __init__(self, init_scale=2**32, scale_factor=2.0, scale_window=1000, min_scale=1, delayed_shift=1,
                 consecutive_hysteresis=False, raise_error_at_min_scale=True):
        self.cur_scale, self.scale_factor, self.scale_window, self.min_scale = init_scale, scale_factor, scale_window, min_scale
        self.delayed_shift = self.cur_hysteresis = delayed_shift
        self.consecutive_hysteresis, self.raise_error_at_min_scale = consecutive_hysteresis, raise_error_at_min_scale
        self.cur_iter, self.last_overflow_iter = 0, -1

    def update_scale(self, overflow):
        """Doc of update_scale."""
        if overflow:
            if self.delayed_shift == 1 or self.cur_hysteresis == 1:
                if self.cur_scale == self.min_scale and self.raise_error_at_min_scale:
                    raise Exception("Current loss scale already at minimum")
                self.cur_scale = max(self.cur_scale / self.scale_factor, self.min_scale)
            else:
                self.cur_hysteresis -= 1
            self.last_overflow_iter = self.cur_iter
        else:
            if self.consecutive_hysteresis:
                self.cur_hysteresis = self.delayed_shift
            clean = self.cur_iter - self.last_overflow_iter - 1
            if clean > 0 and clean % self.scale_window == 0:
                if not self.consecutive_hysteresis:
                    self.cur_hysteresis = self.delayed_shift
                self.cur_scale *= self.scale_factor
        self.cur_iter += 1
