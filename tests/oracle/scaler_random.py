"""Random sequences of calls of gradient scalers, and their outcomes in the frameworks on the CPU.

scaler_random.py FILE torch|paddle|mindspore   records with the installed framework, and stores in FILE: for each seed the first 8
hexadecimal digits of the SHA-256 of the outcome"""
import hashlib
import json
import math
import os
import random
import sys

COUNT, FULL = 1000, 3  # torch sequences; those for which the file contains every outcome
OTHERS = 300           # sequences of each other system
VALUES = (1.0, -2.0, 0.0, 65536.0, 1e-30, 3e38, math.inf, -math.inf, math.nan)


def sequence(seed):
    """Constructor arguments, and calls as (verb, optimizer or value)."""
    chance = random.Random(seed)
    parameters = {"init_scale": chance.choice((1.0, 0.5, 3.0, 65536.0, 2.0 ** 127, 1e-38, 0.1, 1000.3)),
                  "growth_factor": chance.choice((2.0, 1.5, 1.001, 10.0)), "backoff_factor": chance.choice((0.5, 0.1, 0.9, 0.0)),
                  "growth_interval": chance.choice((1, 2, 3, 5))}
    calls = [("scale", 1.0)] if chance.random() < 0.9 else []
    for _ in range(chance.randrange(10, 60)):
        kind = chance.random()
        optimizer = chance.randrange(2)
        if kind < 0.6:  # an ordinary step, of one or two optimizers
            for each in range(1 + (chance.random() < 0.3)):
                bad = chance.random() < 0.25
                calls.append(("grad", each, [chance.choice(VALUES if bad else VALUES[:5]) for _ in range(chance.randrange(1, 6))]))
                if chance.random() < 0.3:
                    calls += [("unscale_", each), ("grad_of", each)]
                calls.append(("step", each))
            calls.append(("update",))
        elif kind < 0.9:
            calls.append(chance.choice((("unscale_", optimizer), ("step", optimizer), ("update",), ("grad_of", optimizer), ("state",),
                                        ("update_to", chance.choice((4.0, 0.25, 2.0 ** -140, math.inf))), ("scale", 0.37))))
        elif kind < 0.97:
            name, values = chance.choice((("set_growth_factor", (2.0, 3.0)), ("set_backoff_factor", (0.5, 0.25)),
                                          ("set_growth_interval", (1, 2, 4))))
            calls.append((name, chance.choice(values)))
        else:
            calls.append(("load", {"scale": chance.choice((8.0, 0.1)), "growth_factor": 2.0, "backoff_factor": 0.5,
                                   "growth_interval": chance.choice((1, 3)), "_growth_tracker": chance.randrange(3)}))
    return parameters, calls


def number(value):
    """A number with all its bits, except those of a NaN."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value.hex() if isinstance(value, float) else value


def outcome(make, gradient, seed):
    """The results and errors of each call. make(parameters): a scaler and two optimizers whose `step` returns "stepped", and
    which have a `parameter`. gradient(values): the value of its `grad`."""
    parameters, calls = sequence(seed)
    scaler, optimizers = make(parameters)
    told = []
    for verb, *arguments in calls:
        try:
            if verb == "grad":
                optimizers[arguments[0]].parameter.grad = gradient(arguments[1])
                continue
            if verb == "grad_of":
                grad = optimizers[arguments[0]].parameter.grad
                result = None if grad is None else [number(float(each)) for each in grad]
            elif verb in ("unscale_", "step"):
                result = getattr(scaler, verb)(optimizers[arguments[0]])
            elif verb == "state":
                result = {key: number(value) for key, value in sorted(scaler.state_dict().items())}
            elif verb == "scale":
                result = number(float(scaler.scale(gradient(arguments)[0])))
            else:
                result = getattr(scaler, {"update_to": "update", "load": "load_state_dict"}.get(verb, verb))(*arguments)
        except (AssertionError, RuntimeError, ValueError) as error:
            result = [type(error).__name__, str(error)]
        told.append([verb, result, number(float(scaler.get_scale())), int(scaler._get_growth_tracker())])
    return told


def digest(told):
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]


def steps(seed):
    """Parameters of the other systems' scalers, and steps: for each optimizer, whether it overflows, and how."""
    chance = random.Random(-1 - seed)
    parameters = {"scale": chance.choice((1.0, 3.0, 65536.0, 1000.3, 2.0 ** 126)), "up": chance.choice((2, 3, 4, 10)),
                  "down": chance.choice((0.5, 0.1, 0.9, 0.8)), "every_good": chance.choice((1, 2, 3, 5)), "every_bad": chance.choice((1, 1, 2, 3))}
    often = chance.choice((0.05, 0.2, 0.5, 0.9))
    return parameters, [[chance.choice((math.inf, -math.inf, math.nan)) if chance.random() < often else 1.0
                         for _ in range(chance.choice((1, 1, 2)))] for _ in range(20)]


def paddle_outcome(make, optimizer, seed):
    """make(arguments): a GradScaler. optimizer(value): one whose gradient has an element `value`, and which counts its `calls`."""
    parameters, sequence = steps(seed)
    scaler = make(dict(init_loss_scaling=parameters["scale"], incr_ratio=float(parameters["up"]), decr_ratio=parameters["down"],
                       incr_every_n_steps=parameters["every_good"], decr_every_n_nan_or_inf=parameters["every_bad"]))
    told = []
    for values in sequence:
        optimizers = [optimizer(value) for value in values]
        for each in optimizers:
            scaler.step(each)
        scaler.update()
        state = scaler.state_dict()
        told.append([[each.calls for each in optimizers], number(float(state["scale"][0])), state["incr_count"], state["decr_count"]])
    return told


def mindspore_outcome(module, boolean, seed):
    """boolean(value): an argument that the module's adjust() accepts."""
    parameters, sequence = steps(seed)
    scaler = module.DynamicLossScaler(parameters["scale"], parameters["up"], parameters["every_good"])
    manager = module.DynamicLossScaleManager(parameters["scale"], parameters["up"], parameters["every_good"])
    told = []
    for values in sequence:
        is_finite = all(map(math.isfinite, values))
        scaler.adjust(boolean(is_finite))
        manager.update_loss_scale(not is_finite)
        told.append([number(float(scaler.scale_value)), int(scaler.counter), number(float(manager.get_loss_scale())), manager.bad_step])
    return told


def record_paddle():
    import numpy
    import paddle
    import paddle.amp.grad_scaler as module
    # PaddlePaddle 3.3.1 prints float() of a tensor of one element, which NumPy 2.4 refuses.
    paddle.Tensor.__float__ = lambda tensor: float(numpy.asarray(tensor.numpy()).reshape(-1)[0])

    class Gpu:
        """A scaler is only enabled on a GPU."""
        _expected_place = property(lambda self: self)
        is_gpu_place = lambda self: True  # noqa: E731

    real = module._dygraph_tracer

    def make(arguments):
        module._dygraph_tracer = Gpu
        try:
            return paddle.amp.GradScaler(**arguments)
        finally:
            module._dygraph_tracer = real

    class Optimizer:
        _param_groups = None

        def __init__(self, value):
            weight = paddle.create_parameter([2], "float32")
            self._parameter_list, self.calls = [weight], 0
            (weight * paddle.to_tensor([1.0, value])).sum().backward()

        def step(self):
            self.calls += 1

    return {"version": paddle.__version__, "digests": " ".join(digest(paddle_outcome(make, Optimizer, seed)) for seed in range(OTHERS))}


def record_mindspore():
    import types

    import mindspore
    module = types.SimpleNamespace(**{name: getattr(mindspore.amp, name) for name in ("DynamicLossScaler", "DynamicLossScaleManager")})
    digests = (digest(mindspore_outcome(module, mindspore.Tensor, seed)) for seed in range(OTHERS))
    return {"version": mindspore.__version__, "digests": " ".join(digests)}


def record_torch():
    import torch

    class Slot:
        """A parameter that takes the shape of its gradient."""
        tensor = None
        grad = property(lambda self: None if self.tensor is None else self.tensor.grad)

        @grad.setter
        def grad(self, value):
            self.tensor = torch.nn.Parameter(torch.zeros_like(value))
            self.tensor.grad = value

    class Optimizer:
        """The part of an optimizer that the scaler uses."""

        def __init__(self):
            self.parameter = Slot()

        @property
        def param_groups(self):
            return [{"params": [self.parameter.tensor] if self.parameter.tensor is not None else []}]

        def step(self):
            return "stepped"

    def make(parameters):
        return torch.amp.GradScaler("cpu", **parameters), [Optimizer(), Optimizer()]

    outcomes = [outcome(make, torch.tensor, seed) for seed in range(COUNT)]
    return {"version": torch.__version__, "full": outcomes[:FULL], "digests": " ".join(map(digest, outcomes))}


def main():
    file, system = sys.argv[1:]
    known = {}
    if os.path.exists(file):
        with open(file, encoding="utf-8") as old:
            known = json.load(old)
    known[system] = {"torch": record_torch, "paddle": record_paddle, "mindspore": record_mindspore}[system]()
    with open(file, "w", encoding="utf-8") as new:
        new.write("{" + ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in sorted(known.items())) + "}\n")


if __name__ == "__main__":
    main()
