"""The scale of DeepSpeed's optimizer without ZeRO, with its names. Older versions have the attributes in the optimizer itself."""


class Config:
    pass


class FP16_Optimizer:
    def __init__(self, scale, factor=2.0, window=1000, is_dynamic=True, has_config=True):
        self.config = self
        if has_config:
            self.config = self.loss_scale_config = Config()
        self.config.cur_scale, self.config.dynamic_loss_scale = scale, is_dynamic
        if is_dynamic:
            self.config.scale_factor, self.config.scale_window = factor, window

    def _update_scale(self, skip):
        if self.config.dynamic_loss_scale and skip:
            self.config.cur_scale /= self.config.scale_factor
