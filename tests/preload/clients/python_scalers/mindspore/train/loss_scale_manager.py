"""The state machine of MindSpore's dynamic loss scale manager, with its names."""


class DynamicLossScaleManager:
    def __init__(self, scale_value, scale_factor, scale_window):
        self.loss_scale, self.scale_window = scale_value, scale_window
        self.increase_ratio, self.decrease_ratio = scale_factor, 1 / scale_factor
        self.cur_iter, self.last_overflow_iter, self.bad_step, self.bad_step_max = 1, 0, 0, 1000

    def update_loss_scale(self, overflow):
        if overflow:
            self.loss_scale = max(self.loss_scale * self.decrease_ratio, 1)
            self.last_overflow_iter, self.bad_step = self.cur_iter, self.bad_step + 1
        else:
            if (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
                self.loss_scale *= self.increase_ratio
            self.bad_step = 0
        if self.bad_step > self.bad_step_max:
            raise RuntimeError("Dynamic loss scale Continuous overflow ", self.bad_step)
        self.cur_iter += 1
