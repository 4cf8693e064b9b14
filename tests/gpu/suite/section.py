"""The results of one step: a table, notes, answers and failures. A step process stores them while it runs, so that a
step that is killed keeps its rows."""
import json
import os
import statistics

NOT_MEASURED = "not measured"


def write(path, text):
    """Writes the whole file or leaves the old one: a reader never finds a part."""
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


class Section:
    def __init__(self, title, path=None):
        self.title, self.columns, self.rows, self.notes, self.failures = title, [], [], [], []
        self.passed = 0
        self.missing = ""  # the part of the machine that this step lacks
        self.answers = {}  # compared with those of the emulated device
        self.raw = {}      # every round, in ns
        self._path = path

    def check(self, is_right, what):
        self.passed += bool(is_right)
        if not is_right:
            self.failures.append(what)

    def add(self, *row):
        self.rows.append(list(row))
        self.store()

    def content(self):
        return {key: value for key, value in vars(self).items() if key != "_path"}

    def store(self):
        if self._path:
            write(self._path, json.dumps(self.content()))


def spread(values, form):
    """Median and range as text, or that at least one value is missing."""
    if not values or any(value is None for value in values):
        return NOT_MEASURED
    return f"{form % statistics.median(values)} ({form % min(values)}..{form % max(values)})"


def median(values, form="%.1f"):
    return NOT_MEASURED if not values or any(value is None for value in values) else form % statistics.median(values)


def ratios(rounds, over, under):
    """For each round, the time of `over` divided by that of `under`."""
    return [None if r[over] is None or r[under] is None else r[over] / r[under] for r in rounds]
