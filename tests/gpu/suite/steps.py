"""The steps in their order: most knowledge first. A step is killed after its seconds."""
import typing

from suite import correctness, figures, programs


class Entry(typing.NamedTuple):
    order: int
    function: typing.Callable
    seconds: int


STEPS = {}
for _function, _seconds in (
        (correctness.self_test, 90),
        (correctness.hardware, 180),
        (correctness.clients, 240),
        (correctness.dnn, 240),
        (correctness.scalers, 120),
        (correctness.inner, 60),
        (programs.frameworks, 180),
        (figures.cast, 60),
        (figures.speed, 180),
        (figures.weights, 120),
        (figures.cost, 60),
        (figures.convolutions, 120),
        (programs.models, 240),
        (figures.choice, 120),
        (figures.traced, 90),
        (correctness.demo, 120)):
    STEPS[_function.__name__] = Entry(len(STEPS), _function, _seconds)
