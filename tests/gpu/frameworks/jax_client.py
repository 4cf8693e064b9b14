"""JAX products and a convolution compared with the same on JAX's CPU: one line of JSON for each, with the largest error
relative to the largest element."""
import json

import jax
import numpy

RANDOM = numpy.random.default_rng(0)
GPU, CPU = jax.devices("gpu")[0], jax.devices("cpu")[0]


def check(name, function, *shapes):
    values = [RANDOM.standard_normal(shape).astype(numpy.float32) for shape in shapes]
    found, exact = (numpy.asarray(jax.jit(function)(*(jax.device_put(value, device) for value in values))) for device in (GPU, CPU))
    print(json.dumps({"case": name, "error": float(abs(found - exact).max() / abs(exact).max())}), flush=True)


with jax.default_matmul_precision("highest"):
    check("matmul", lambda a, b: a @ b, (256, 128), (128, 192))
    check("linear and relu", lambda a, b, c: jax.nn.relu(a @ b + c), (256, 128), (128, 192), (192,))
    check("batched", lambda a, b: a @ b, (4, 96, 64), (4, 64, 80))
    check("conv", lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"), (4, 8, 16, 16), (16, 8, 3, 3))
