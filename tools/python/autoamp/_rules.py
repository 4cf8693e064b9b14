"""State machines of the gradient scalers of frameworks, with one table of parameters (docs/gradient-scaler.md)."""
import collections
import math

from . import _gradients

_FLOAT, _FLOOR, _FINITE, _WIDE, _KEEPS = 1, 2, 4, 8, 16  # rounded factors, a minimum, no growth to Inf, a scale that is a double
_System = collections.namedtuple("_System", "arithmetic grows reduces reduction flags")
# src/gradient/rule.cpp has the same table, and kernels/gradient.h the meaning of the words.
_SYSTEMS = {
    "torch": _System("torch", "exact", "each", "backoff", _FINITE),
    "paddle": _System("paddle", "exact", "in a row", "backoff", _FLOAT),
    "paddle_kernel": _System("paddle", "exact", "in a row", "backoff", _FLOAT | _FLOOR | _FINITE),
    "mindspore": _System("mindspore", "wrapping", "each", "division", _FLOOR | _FINITE),
    "mindspore_cell": _System("mindspore", "at least", "each", "reciprocal", _FLOAT | _FLOOR),
    "mindspore_manager": _System("mindspore", "periodic", "each", "reciprocal", _WIDE | _FLOOR),
    "deepspeed": _System("torch", "delayed", "since growth", "division", _WIDE | _FLOOR | _KEEPS),
    "megatron": _System("torch", "exact", "since growth", "backoff", _FLOAT | _FLOOR),
    "apex": _System("torch", "exact", "since clean", "backoff", _FINITE),
    "jmp": _System("torch", "wrapping", "each", "division", _FLOAT | _FLOOR | _FINITE),
    "keras": _System("torch", "exact", "each", "backoff", _FLOAT),
}
CONSECUTIVE, STOPS = 1, 2  # AUTOAMP_SCALER_CONSECUTIVE and AUTOAMP_SCALER_STOPS


class Rule:
    """The state machine of a framework with its parameters."""

    def __init__(self, name, growth, backoff, interval, backoff_every=1, hysteresis=1, min_scale=1, flags=0):
        if name not in _SYSTEMS:
            raise ValueError(f"rule {name!r} does not exist; there are: {', '.join(_SYSTEMS)}")
        system = _SYSTEMS[name]
        factor = _gradients.narrow if system.flags & _FLOAT else lambda value: value
        self.round = (lambda value: value) if system.flags & _WIDE else _gradients.narrow
        self.arithmetic, self.last_decides = system.arithmetic, name == "paddle"
        self._growth, self._grows, self._flags = factor(growth), system.grows, system.flags
        self._interval = interval or 2 ** 31 - 1  # 0: no growth
        self._divides = system.reduction == "division"
        if self._divides:
            self._backoff = self._growth
        else:
            self._backoff = factor(backoff if system.reduction == "backoff" else 1 / self._growth)
        self._floor = factor(min_scale) if system.flags & _FLOOR else -math.inf
        self._reduces = "since clean" if system.reduces == "since growth" and flags & CONSECUTIVE else system.reduces
        self._stops = bool(flags & STOPS)
        self.counts_down = self._reduces.startswith("since")
        self._patience = backoff_every if self._reduces == "in a row" else hysteresis
        self.full = hysteresis if self.counts_down else 0

    def updated(self, scale, tracker, other, is_found):
        """The state after a step."""
        return self._after_overflow(scale, other, tracker) if is_found else self._after_clean_step(scale, tracker, other)

    def _after_overflow(self, scale, other, tracker):
        left = other - 1 if self.counts_down else other + 1
        if self._reduces == "each" or (left <= 0 if self.counts_down else left == self._patience):
            if self._stops and scale == self._floor:
                return scale, tracker, other
            reduced = self.round(scale / self._backoff if self._divides else scale * self._backoff)
            scale = self._floor if reduced < self._floor else reduced
            left = 0 if self._reduces == "in a row" else 1 if self._flags & _KEEPS else left
        return scale, 0, left

    def _after_clean_step(self, scale, tracker, other):
        clean, is_periodic = tracker if self._grows == "delayed" else tracker + 1, self._grows in ("periodic", "delayed")
        if is_periodic:
            is_growing = clean > 0 and clean % self._interval == 0
        else:
            is_growing = clean >= self._interval if self._grows == "at least" else clean == self._interval
        if is_growing:
            grown = self.round(scale * self._growth)
            scale = grown if not self._flags & _FINITE or math.isfinite(grown) else scale
        tracker = clean % self._interval if self._grows == "wrapping" else 0 if is_growing and not is_periodic else tracker + 1
        return scale, tracker, self.full if is_growing or self._reduces != "since growth" else other
