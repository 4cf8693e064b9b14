from deepspeed.runtime.fp16.fused_optimizer import FP16_Optimizer


class FP16_UnfusedOptimizer(FP16_Optimizer):
    def _update_scale(self, skip):
        """It does not call that of the other class."""
        if skip:
            self.config.cur_scale /= self.config.scale_factor
