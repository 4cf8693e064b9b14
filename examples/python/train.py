"""autocast and GradScaler in Python: a perceptron with NumPy, whose products run in bfloat16 on the CPU.

    pip install numpy
    autoamp run --device cpu -o train.aat -- python3 train.py
    autoamp report --by region train.aat

In a build folder, set PYTHONPATH=tools/python; in an installed tree, PYTHONPATH=PREFIX/lib/autoamp/python. Without autoamp in
the process, the regions warn and have no effect. torch is not needed; examples/torchrun/ddp.py is the same for torch.
"""
import autoamp
import numpy as np

BATCH, INPUTS, HIDDEN, STEPS, RATE = 512, 256, 512, 60, np.float32(0.01)

random = np.random.default_rng(1)
inputs = random.standard_normal((BATCH, INPUTS), dtype=np.float32)
targets = np.tanh(inputs[:, :1] + inputs[:, 1:2])
weights = [random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0])) for shape in ((INPUTS, HIDDEN), (HIDDEN, 1))]


def exchange(gradients):
    """Rounds the gradients as an all-reduce in float16 does. Without a loss scale, small gradients would become zero."""
    with np.errstate(over="ignore"):
        return [gradient.astype(np.float16).astype(np.float32) for gradient in gradients]


def descend(gradients):
    for weight, gradient in zip(weights, gradients):
        weight -= RATE * gradient


scaler = autoamp.GradScaler("cpu", growth_interval=20)
for step in range(STEPS):
    with autoamp.autocast("cpu", name="forward"):
        hidden = np.maximum(inputs @ weights[0], 0)
        outputs = hidden @ weights[1]
    error = outputs - targets  # outside of regions: fp32
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step:2}  loss {np.mean(error * error):.4f}  scale {scaler.get_scale():g}")
    scaled = scaler.scale(error * np.float32(2 / BATCH))  # the gradient of the scaled loss
    with autoamp.autocast("cpu", name="backward"):
        gradients = [inputs.T @ (scaled @ weights[1].T * (hidden > 0)), hidden.T @ scaled]
    gradients = exchange(gradients)
    scaler.step(descend, gradients, grads=gradients)  # divides by the scale; no step after an overflow
    scaler.update()
