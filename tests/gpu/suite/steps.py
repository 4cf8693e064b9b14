"""The steps in their order: most knowledge first. A step is killed after its seconds."""
import typing

from suite import correctness, figures, programs


class Entry(typing.NamedTuple):
    order: int
    function: typing.Callable
    seconds: int
    is_figure: bool


STEPS = {}
for _function, _seconds, _is_figure in (
        (correctness.self_test, 60, False),
        (correctness.hardware, 180, False),
        (correctness.clients, 240, False),
        (correctness.dnn, 240, False),
        (correctness.inner, 60, False),
        (programs.frameworks, 180, False),
        (figures.cast, 60, True),
        (figures.speed, 180, True),
        (figures.cost, 60, True),
        (figures.convolutions, 120, True),
        (programs.models, 240, True),
        (figures.choice, 120, True),
        (figures.traced, 90, True),
        (correctness.demo, 120, False)):
    STEPS[_function.__name__] = Entry(len(STEPS), _function, _seconds, _is_figure)
