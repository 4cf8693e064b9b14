"""Runs the updates of the cases on standard input, and prints the scale after each: replay.py SYSTEM."""
import json
import sys

system = sys.argv[1]
if system == "deepspeed":
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler as Scaler
elif system == "megatron":
    from megatron.core.optimizer.grad_scaler import DynamicGradScaler as Scaler
elif system == "paddle":
    from paddle.amp import GradScaler as Scaler
else:
    from mindspore.train.loss_scale_manager import DynamicLossScaleManager as Scaler
update = getattr(Scaler, {"deepspeed": "update_scale", "mindspore": "update_loss_scale"}.get(system, "update"))
scale = {"deepspeed": "cur_scale", "mindspore": "loss_scale"}.get(system, "_scale")
results, scalers, replaced = [], [], 0
for case in json.load(sys.stdin):
    scaler = Scaler(**case["parameters"])
    scalers.append(scaler)  # equal addresses would be one scaler
    scales = []
    for found in case["found_inf"]:
        last = getattr(scaler, scale)
        try:
            update(scaler, bool(found))
        except Exception:
            pass
        value = getattr(scaler, scale)
        replaced += value is not last
        scales.append(getattr(value, "_value", value))
    results.append(scales)
reads = sys.modules["tensor"].Tensor.reads if "tensor" in sys.modules else 0
json.dump({"scales": results, "reads": reads, "replaced": replaced}, sys.stdout)
