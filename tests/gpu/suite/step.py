"""A step: its process gets the machine as JSON, and stores its section in a file while it runs."""
import glob
import itertools
import json
import os
import sys
import time

from suite import process, section
from suite.bundle_files import AUTOAMP, LIBRARY


class Step:
    def __init__(self, context):
        self.is_emulated, self.is_small = context["is_emulated"], context["is_small"]
        self.environment, self.plain, self.programs = context["environment"], context["plain"], context["programs"]
        self.cuda, self.libraries, self.pythons = context["cuda"], context["libraries"], context["pythons"]
        self.folder, self.deadline = context["folder"], time.monotonic() + context["seconds"]
        self.path = context["section"]
        self.traces = itertools.count()

    def section(self, title, *columns):
        made = section.Section(title, self.path)
        made.columns = list(columns)
        made.store()
        return made

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def program(self, name):
        return os.path.join(self.programs, name)

    def preloaded(self, variables, environment=None):
        """The environment with the library and these settings, and the folder of the traces."""
        trace = os.path.join(self.folder, f"{os.getpid()}-{next(self.traces)}")
        return {**(environment or self.environment), "LD_PRELOAD": LIBRARY, "AUTOAMP_TRACE_FILE": trace + "/%n.%p.aat",
                **{"AUTOAMP_" + key: value for key, value in variables.items()}}, trace

    def run(self, command, environment=None, limit=240):
        done = process.run(command, min(limit, self.left()), env=environment or self.environment, cwd=self.folder)
        note(f"{' '.join(map(str, command))}: exit status {done.returncode}", done.stdout + done.stderr)
        return done

    def report(self, trace):
        """The report on a trace or a folder of traces; None without one."""
        if not glob.glob(trace + "/*.aat") and not os.path.isfile(trace):
            return None
        done = self.run([AUTOAMP, "report", "--format", "json", trace])
        return json.loads(done.stdout) if done.returncode == 0 else None


def note(title, text):
    print(f"---- {title}\n{text.rstrip()}", flush=True)


def main(function, path):
    """Runs in the step's own process: its standard output is the log."""
    with open(path, encoding="utf-8") as file:
        step = Step(json.load(file))
    function(step).store()
    sys.stdout.flush()
