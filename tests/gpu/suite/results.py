"""The results of a run. They are stored after each step, and the text files are made from them."""
import contextlib
import json
import re
import sys
import time

from suite.bundle_files import HERE
from suite.section import write

ENDED = ("passed", "failed", "not available")  # --skip-done runs the other steps again
RESULTS, SUMMARY, LOG = "results.json", "summary.txt", "log.txt"
SHOWN = 40  # differences of a step in texts; results.json has all


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


class Results:
    def __init__(self, out, machine, is_small, is_continued):
        self.out, self.machine, self.has_failed_to_write = out, machine, False
        self.expected = load(HERE / "emulated.json").get("steps", {})
        self.about = {**load(HERE / "bundle.json"), "device": machine.name, "driver_cuda": machine.driver, "cuda": machine.cuda,
                      "is_emulated": machine.is_emulated, "is_small": is_small, "machine": list(machine.lines()),
                      "libraries": machine.libraries, "missing": machine.missing,
                      "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.steps, self.log = {}, ""
        self.about["page"] = self.page()
        before = load(out / RESULTS)
        if before.get("page", self.page()) != self.page():
            with contextlib.suppress(OSError):
                (out / before["page"]).unlink()
        if is_continued and before and all(before.get(key) == self.about[key] for key in ("commit", "device", "is_small", "cuda")):
            self.about["started"], self.steps = before["started"], before["steps"]
            self.log = (out / LOG).read_text(errors="replace") if (out / LOG).exists() else ""
        print("\n".join(self.heading()), flush=True)
        self.store()  # a folder without room is reported now

    def heading(self):
        return [f"autoamp {self.about.get('commit', 'unknown')}, {self.about['started']}", *self.about["machine"]]

    def is_done(self, name):
        return self.steps.get(name, {}).get("status") in ENDED

    def add(self, name, order, section, why, seconds, log):
        """`why`: the reason why the step did not end by itself."""
        section = section or {"title": name, "columns": [], "rows": [], "notes": [], "failures": [], "passed": 0, "missing": "",
                              "answers": {}, "raw": {}}
        status = why.split(":")[0] if why else "not available" if section["missing"] else \
            "failed" if section["failures"] else "passed"
        section["failures"] += [why] if why else []
        for row in section["rows"]:  # a step that was killed can lack the last columns
            row += [""] * (len(section["columns"]) - len(row))
        expected = self.expected.get(name, {}).get("answers", {})
        section["differences"] = [[row, answer, expected[row]] for row, answer in section["answers"].items()
                                  if row in expected and answer != expected[row]]
        self.steps[name] = {"order": order, "status": status, "seconds": round(seconds, 1), **section}
        self.log += f"==== {name}: {status}\n{log}\n"
        print(text(name, self.steps[name]), flush=True)
        self.store()

    def store(self):
        steps = sorted(self.steps.items(), key=lambda item: item[1]["order"])
        summary = "\n".join([*self.heading(), *(text(*item) for item in steps), "", self.total()]) + "\n"
        contents = {RESULTS: json.dumps({**self.about, "steps": self.steps}, indent=1), SUMMARY: summary,
                    self.page(): self.figures(steps), LOG: self.log[-(8 << 20):]}
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            for name, content in contents.items():
                write(self.out / name, content)
        except OSError as error:
            if not self.has_failed_to_write:
                print(f"the results cannot be written, they are printed only: {error}", file=sys.stderr, flush=True)
            self.has_failed_to_write = True

    def total(self):
        of = {status: [name for name, step in self.steps.items() if step["status"] == status]
              for status in dict.fromkeys(step["status"] for step in self.steps.values())}
        checks = sum(step["passed"] for step in self.steps.values()), sum(len(step["failures"]) for step in self.steps.values())
        return f"{checks[0]} passed, {checks[1]} failed; steps: " + \
               "; ".join(f"{status} {', '.join(names)}" for status, names in of.items())

    def page(self):
        """Name of the page in docs/bench/: device and commit."""
        return re.sub("[^a-z0-9]+", "-", f"{self.machine.name} {self.about.get('commit', 'unknown')[:12]}".lower()) + ".md"

    def figures(self, steps):
        """Markdown for docs/bench/."""
        lines = [f"# {self.machine.name} at {self.about.get('commit', 'unknown')[:12]}", "",
                 f"`run.py` of the bundle for {self.about.get('commit', 'unknown')}, {self.about['started'][:10]}. "
                 "[Method](README.md#the-summary).", ""]
        lines += [f"- {line}" for line in self.about["machine"]]
        lines += ["", "| step | result | passed | failed | s |", "|---|---|---|---|---|"]
        lines += [f"| `{name}` | {step['status']} | {step['passed']} | {len(step['failures'])} | {step['seconds']:.0f} |"
                  for name, step in steps]
        for name, step in steps:
            if step["rows"]:
                lines += ["", f"## `{name}`", "", step["title"][:1].upper() + step["title"][1:] + ".", "",
                          "| " + " | ".join(step["columns"]) + " |", "|---" * len(step["columns"]) + "|"]
                lines += ["| " + " | ".join(map(str, row)) + " |" for row in step["rows"]]
            lines += [""] * bool(step["failures"] or step["differences"])
            lines += [f"- failed: {' '.join(failure.split())}" for failure in step["failures"]]
            lines += [f"- {line}" for line in differences(step)]
        return "\n".join(lines) + "\n"

    def finish(self, seconds):
        print(f"\n{self.total()}; {seconds:.0f} s; more in {self.out}")
        return int(self.has_failed_to_write or any(step["failures"] for step in self.steps.values()))


def differences(step):
    found = step["differences"]
    yield from (f"differs from the emulated device: {row}: here {here}, emulated {emulated}" for row, here, emulated in found[:SHOWN])
    if len(found) > SHOWN:
        yield f"{len(found) - SHOWN} other answers differ from the emulated device, see results.json"


def text(name, step):
    lines = ["", f"== {name}: {step['status']}; {step['title']}: {step['passed']} passed, {len(step['failures'])} failed, "
                 f"{step['seconds']:.0f} s"]
    table = [step["columns"], *step["rows"]] if step["rows"] else []
    widths = [max(len(str(row[i])) for row in table) for i in range(len(step["columns"]))] if table else []
    lines += ["  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]
    lines += step["notes"] + [f"missing: {step['missing']}"] * bool(step["missing"])
    return "\n".join([*lines, *(f"FAILED {failure}" for failure in step["failures"]), *differences(step)])
