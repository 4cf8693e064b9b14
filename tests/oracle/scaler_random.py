"""1,000 random sequences of calls of a gradient scaler, and the outcome with torch.amp.GradScaler on the CPU.

scaler_random.py FILE   records with the installed torch: for each seed the first 8 hexadecimal digits of the SHA-256 of the outcome"""
import hashlib
import json
import math
import random
import sys

COUNT, FULL = 1000, 3  # sequences; those of which the file contains every outcome
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


def main():
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
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = [f'{{"torch": {json.dumps(torch.__version__)}', f'"full": {json.dumps(outcomes[:FULL])}',
                 '"digests": "' + " ".join(map(digest, outcomes)) + '"}\n']
        file.write(",\n".join(lines))


if __name__ == "__main__":
    main()
