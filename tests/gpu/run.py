#!/usr/bin/env python3
"""The suite for real devices: runs the contents of the bundle on this machine's CUDA libraries; docs/bench/README.md.

Exit status: 0 all passed, 1 something failed, 2 wrong usage, 77 no usable GPU."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
# pylint: disable=wrong-import-position
from suite import machine, process, step as step_module
from suite.results import Results
from suite.steps import STEPS

LOG_PART = 1 << 20  # bytes of a step's log that are kept, at its end


def arguments():
    parser = argparse.ArgumentParser(description="Runs the suite for real devices; docs/bench/README.md describes it.")
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    parser.add_argument("--cuda", type=int, choices=(12, 13), help="CUDA version of the libraries; default: the newest that works")
    parser.add_argument("--out", default=os.environ.get("OUT", "results"), help="folder for results; default: $OUT or results")
    parser.add_argument("--minutes", type=float, default=9, help="total limit; steps that have not begun by then do not run (9)")
    parser.add_argument("--seconds", type=float, help="limit of each step; default: its own")
    parser.add_argument("--steps", "--only", nargs="+", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    parser.add_argument("--skip-done", action="store_true", help="continue the run in --out")
    parser.add_argument("--small", action="store_true", help="fewer tests, small sizes: shows that the suite works")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)  # name and context of a step
    options = parser.parse_args()
    if re.search("[ :]", str(HERE)):
        parser.error(f"{HERE}: the loader takes no LD_PRELOAD with a space or a colon")
    return options


def run_step(name, context, seconds, scratch):
    """Runs the step in its own process. Returns its section, and None or the reason why it did not end by itself."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    context = {**context, "folder": str(folder), "section": str(folder / "section.json"), "seconds": seconds}
    (folder / "context.json").write_text(json.dumps(context))
    with open(folder / "log", "wb") as log:
        child = process.start([sys.executable, __file__, "--child", name, str(folder / "context.json")], stdout=log, stderr=log)
        try:
            status = process.wait(child, seconds)
        finally:
            process.sweep()
    with open(folder / "log", "rb") as log:
        log.seek(max(0, (folder / "log").stat().st_size - LOG_PART))
        text = log.read().decode(errors="replace")
    try:
        section = json.loads((folder / "section.json").read_text())
    except (OSError, ValueError):
        section = None
    shutil.rmtree(folder, ignore_errors=True)
    why = None if status == 0 else f"out of time: killed after {seconds:.0f} s" if status == process.KILLED else \
        f"crashed: exit status {status}: {text.strip()[-300:]}"
    return section, why, text


def interrupted(number, _):
    raise KeyboardInterrupt(number)


def main():
    options = arguments()
    if options.child:
        name, context = options.child
        return step_module.main(STEPS[name].function, context)
    started = time.monotonic()
    here = machine.emulated(options.cuda) if options.device == "emulated" else machine.present(options.cuda)
    if isinstance(here, str):
        print(here, file=sys.stderr)
        return 77
    process.adopt()
    signal.signal(signal.SIGTERM, interrupted)
    results = Results(pathlib.Path(options.out), here, options.small, options.skip_done or options.steps)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for environment in (here.environment, here.plain):  # no results of earlier self-tests
            environment["XDG_STATE_HOME"] = folder + "/state"
        context = {"is_emulated": here.is_emulated, "is_small": options.small, "programs": machine.link(here, scratch),
                   "environment": here.environment, "plain": here.plain, "cuda": here.cuda, "libraries": here.libraries,
                   "pythons": here.pythons}
        try:
            for name in options.steps or STEPS:
                if options.skip_done and results.is_done(name):
                    continue
                begun = time.monotonic()
                left = 60 * options.minutes - (begun - started)
                if left <= 0:
                    results.add(name, STEPS[name].order, None, "not run: out of time", 0, "")
                    continue
                limit = min(left, options.seconds or STEPS[name].seconds)
                section, why, log = run_step(name, context, limit, scratch)
                results.add(name, STEPS[name].order, section, why, time.monotonic() - begun, log)
        except KeyboardInterrupt as signal_number:
            print("interrupted; run.py --skip-done continues", file=sys.stderr)
            results.finish(time.monotonic() - started)
            return 128 + (signal_number.args[0] if signal_number.args else signal.SIGINT)
    return results.finish(time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main())
