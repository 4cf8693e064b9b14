"""`autoamp run --watch-python`: the trace has the updates of scalers in Python, and the program does not notice. The modules in
clients/python_scalers have the names and state machines of the frameworks; tests/oracle/scalers.json has what these did."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

AUTOAMP, MODULES, ORACLE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
TIMEOUT = 120
DEEPSPEED = "from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler as D; s = D(8); s.update_scale(True); s.update_scale(False)"


class Run:
    def __init__(self, *command, path=(MODULES,), options=("--watch-python",), given="", files=None, python=sys.executable, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD", "PYTHON"))}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", **variables}
        with tempfile.TemporaryDirectory() as folder:
            environment |= {"PYTHONPATH": os.pathsep.join(map(str, [*path, folder])), "XDG_STATE_HOME": folder}
            for name, text in (files or {}).items():
                (pathlib.Path(folder) / name).write_text(text)
            whole = [AUTOAMP, "run", "--device", "cuda", "--quiet", "-o", f"{folder}/%p.aat", *options, "--", python, *command]
            self.done = subprocess.run(whole, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=TIMEOUT)
            self.traces = list(pathlib.Path(folder).glob("*.aat"))
            self.scalers = []
            if self.traces:
                report = subprocess.run([AUTOAMP, "report", "--format", "json", folder], capture_output=True, text=True, timeout=TIMEOUT)
                self.scalers = json.loads(report.stdout)["scaler"]["gradient"]
            self.output = self.done.stdout.replace(folder, "FOLDER")


def single(value):
    return math.inf if value == "Infinity" else float(value)


def kind_of(before, after, found):
    if found:
        return "backoff" if after != before else "hold"
    return "growth" if after != before else None


class WatchPython(unittest.TestCase):
    def test_trajectories_of_the_frameworks(self):
        oracle = json.loads(ORACLE.read_text())
        self.assertEqual(set(oracle), {"source", "deepspeed", "megatron", "paddle", "mindspore"})
        for system in ("deepspeed", "megatron", "paddle", "mindspore"):
            with self.subTest(system):
                run = Run(str(MODULES / "replay.py"), system, given=json.dumps(oracle[system]))
                self.assertEqual((run.done.returncode, run.done.stderr), (0, ""))
                answer = json.loads(run.done.stdout)
                self.assertEqual(answer["scales"], [list(map(single, case["scale"])) for case in oracle[system]])
                scalers = {scaler["scaler"]: scaler for scaler in run.scalers}
                self.assertEqual(list(scalers), [f"{system}#{number}" for number in range(len(oracle[system]))])
                changes = 0
                for case, scaler in zip(oracle[system], scalers.values()):
                    first = next(value for name, value in case["parameters"].items() if name in
                                 ("init_scale", "initial_scale", "init_loss_scaling", "scale_value"))
                    is_tensor = system in ("megatron", "paddle")
                    expected, before = [], struct.unpack("f", struct.pack("f", first))[0] if is_tensor else single(first)
                    for step, (found, scale) in enumerate(zip(case["found_inf"], map(single, case["scale"])), 1):
                        kind, old, before = kind_of(before, scale, found), before, scale
                        if kind:
                            expected.append((kind, step, old, scale))
                    events = [(event["kind"], event["step"], float(event["scale_before"]), float(event["scale_after"]))
                              for event in scaler["events"] if event["kind"] not in ("first", "growth_refused")]
                    self.assertEqual(events, expected)
                    self.assertEqual((scaler["how"], scaler["steps"], scaler["skipped"]), ("python", 24, sum(case["found_inf"])))
                    self.assertEqual((scaler["device"], float(scaler["scale_last"])), (int(is_tensor), before))
                    changes += sum(kind != "hold" for kind, *_ in expected)
                # One read for each scaler and each new tensor, and the two factors of Megatron-LM.
                once = {"megatron": 3, "paddle": 1}.get(system, 0)
                self.assertEqual(answer["reads"], once * len(scalers) + answer["replaced"] * bool(once))
                self.assertGreaterEqual(answer["replaced"], changes)

    def test_trackers(self):
        text = ("from megatron.core.optimizer.grad_scaler import DynamicGradScaler as D; s = D(8, 1, 2, .5, 3, 2)\n"
                "for found in (1, 1, 0, 0, 0): s.update(bool(found))\n"
                "s._scale.fill_(64)\n"
                "s.update(False)")
        scaler, = Run("-c", text).scalers
        self.assertEqual([scaler[name] for name in ("growth", "backoff", "interval", "tracker", "holds", "backoffs", "growths", "sets")],
                         [2, .5, 3, 1, 1, 1, 1, 1])
        events = {event["kind"]: event for event in scaler["events"]}
        self.assertEqual([events["hold"]["hysteresis"], events["backoff"]["hysteresis"], events["growth"]["hysteresis"]], [1, 0, 2])
        self.assertEqual([events["growth"]["tracker_before"], events["growth"]["tracker_after"]], [2, 0])
        self.assertEqual([events["set"]["scale_before"], events["set"]["scale_after"]], [8, 64])

    def test_ways_to_start_python(self):
        spawn = ("import multiprocessing\n"
                 "def work():\n    " + DEEPSPEED + "\n"
                 "if __name__ == '__main__':\n"
                 "    child = multiprocessing.get_context('spawn').Process(target=work); child.start(); child.join()")
        files = {"train.py": DEEPSPEED, "spawn.py": spawn}
        for command in (["-c", DEEPSPEED], ["train.py"], ["-m", "train"], ["spawn.py"], ["-u", "-B", "-c", DEEPSPEED]):
            with self.subTest(command):
                run = Run(*command, files=files)
                self.assertEqual((run.done.returncode, run.done.stderr), (0, ""))
                scaler, = run.scalers
                self.assertEqual((scaler["scaler"], scaler["steps"], scaler["skipped"], scaler["scale_last"]), ("deepspeed#0", 2, 1, 4))
        for isolated in ("-E", "-I", "-S"):
            run = Run(isolated, "-c", f"import sys; sys.path.append({str(MODULES)!r}); {DEEPSPEED}; print('done')")
            self.assertEqual((run.done.stdout, run.scalers), ("done\n", []))
        self.assertEqual(Run("-c", DEEPSPEED, options=()).scalers, [])
        self.assertEqual(Run("-c", DEEPSPEED, AUTOAMP_TRACE="off").traces, [])
        self.assertEqual(len(Run("-c", DEEPSPEED, AUTOAMP_TRACE="summary").scalers), 1)
        self.assertEqual(len(Run("-c", DEEPSPEED, AUTOAMP_TRACE="kernels").scalers), 1)

    def test_the_program_does_not_notice(self):
        look = """
import inspect, pickle, sys
print(sys.path, "sitecustomize" in sys.modules, getattr(sys.modules.get("sitecustomize"), "__file__", None))
from deepspeed.runtime.fp16 import loss_scaler
D = loss_scaler.DynamicLossScaler
print(D.update_scale.__doc__, D.update_scale.__name__, D.update_scale.__qualname__, D.update_scale.__module__)
print(inspect.signature(D.update_scale), inspect.getsource(D.update_scale)[:40], type(loss_scaler.__loader__).__name__)
print(vars(loss_scaler.__loader__).keys(), loss_scaler.__spec__.origin, inspect.getsourcefile(loss_scaler))
scaler = D(1)
for arguments in ((True,), (), (1, 2)):
    try:
        print(scaler.update_scale(*arguments))
    except Exception as error:
        print(type(error).__name__, error, error.__cause__, error.__context__)
print(scaler.update_scale(overflow=False), sorted(vars(scaler)))
again = pickle.loads(pickle.dumps(scaler))
print(vars(again) == vars(scaler), pickle.loads(pickle.dumps(D.update_scale)) is D.update_scale)
class Mine(D):
    def update_scale(self, overflow):
        return super().update_scale(overflow)
print(Mine(4).update_scale(True), D.__mro__, sorted(vars(D)))
from torch.amp import GradScaler
print(hasattr(GradScaler.update, "__wrapped__"))
"""
        own = {"sitecustomize.py": "import sys; print('own', __name__, __spec__.name, sys.modules[__name__].__file__)"}
        fails = {"sitecustomize.py": "raise ValueError('no')"}
        lacks = {"sitecustomize.py": "import no_such_module"}
        for files in ({}, own, fails, lacks):
            with self.subTest(files):
                watched, plain = Run("-c", look, files=files), Run("-c", look, files=files, options=())
                self.assertEqual(watched.output, plain.output)
                self.assertEqual((watched.done.returncode, plain.done.returncode), (0, 0))
                self.assertEqual(watched.done.stderr.count("Error"), plain.done.stderr.count("Error"))
                self.assertEqual("".join(watched.done.stderr.splitlines()[-1:]), "".join(plain.done.stderr.splitlines()[-1:]))
                self.assertEqual([scaler["steps"] for scaler in watched.scalers], [2, 1])  # without the calls with wrong arguments

    def test_deepspeed_without_zero(self):
        text = ("from deepspeed.runtime.fp16.fused_optimizer import FP16_Optimizer as F\n"
                "from deepspeed.runtime.fp16.unfused_optimizer import FP16_UnfusedOptimizer as U\n"
                "for each in (F(8), F(8, has_config=False), U(8), F(8, is_dynamic=False)):\n"
                "    for skip in (True, False, True): each._update_scale(skip)")
        scalers = Run("-c", text).scalers
        self.assertEqual([(scaler["steps"], scaler["skipped"], scaler["scale_last"], scaler["interval"], scaler["how"]) for scaler in scalers],
                         [(3, 2, 2, 1000, "python")] * 3 + [(3, 2, 8, None, "python")])

    def test_older_paddle(self):
        """Its flag has another name."""
        text = ("class AmpScaler:\n"
                "    def __init__(self):\n"
                "        self._scale, self._incr_ratio, self._decr_ratio, self._incr_every_n_steps, self._incr_count = 8.0, 2.0, .5, 1000, 0\n"
                "        {}\n"
                "    def _update(self):\n"
                "        pass\n")
        for attribute, skipped in (("self._cache_founf_inf = True", 1), ("pass", 0), ("del self._scale", None)):
            with tempfile.TemporaryDirectory() as folder:
                place = pathlib.Path(folder) / "paddle/amp"
                place.mkdir(parents=True)
                (place / "grad_scaler.py").write_text(text.format(attribute))
                scaler, = Run("-c", "from paddle.amp.grad_scaler import AmpScaler; AmpScaler()._update()", path=[folder]).scalers
            self.assertEqual((scaler["steps"], scaler["skipped"]), (1, skipped))
            if skipped is None:  # neither the flag nor the scale is known
                self.assertEqual((scaler["skipped_percent"], scaler["longest_skipped"]), (None, None))

    def test_older_pythons(self):
        """They have no hook, but run the program's own sitecustomize."""
        ran = 0
        for name in ("python2.7", "python3.6", "python3.7"):
            places = [shutil.which(name) or "", *map(str, pathlib.Path.home().glob(f".pyenv/versions/*/bin/{name}"))]
            found = next((each for each in places if each and not subprocess.run([each, "-c", ""], capture_output=True).returncode), None)
            if found is None:
                continue
            ran += 1
            look = "import sys; print('sitecustomize' in sys.modules, [each for each in sys.path if 'watch' in each])"
            for files in ({}, {"sitecustomize.py": "import sys; print('own ' + __name__ + str(sys.modules[__name__].__file__).rsplit('/')[-1][:13])"},
                          {"sitecustomize.py": "import no_such_module"}):
                with self.subTest(name, files=files):
                    watched, plain = (Run("-c", look, files=files, options=options, python=found) for options in (["--watch-python"], []))
                    self.assertEqual((watched.output, watched.done.returncode), (plain.output, 0))
        if not ran:
            self.skipTest("no older Python is installed")

    def test_a_sitecustomize_of_another_finder(self):
        """Where Python reads .pth files of the user, one can append a finder before sitecustomize is imported."""
        finder = ("import sys\n"
                  "from importlib import util\n"
                  "class Finder:\n"
                  "    @staticmethod\n"
                  "    def find_spec(name, path=None, target=None):\n"
                  "        return util.spec_from_file_location(name, __file__[:-9] + 'other.py') if name == 'sitecustomize' else None\n"
                  "sys.meta_path.append(Finder)\n")
        with tempfile.TemporaryDirectory() as base:
            place = pathlib.Path(base) / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
            place.mkdir(parents=True)
            for name, text in (("finder.py", finder), ("own.pth", "import finder"), ("other.py", "print('other', __name__)")):
                (place / name).write_text(text)
            watched, plain = (Run("-c", "import site; print(site.ENABLE_USER_SITE)", options=options, PYTHONUSERBASE=base)
                              for options in (["--watch-python"], []))
        self.assertEqual((watched.output, watched.done.stderr), (plain.output, plain.done.stderr))

    def test_a_finder_that_was_removed(self):
        text = ("import sys; finder = sys.meta_path.pop(0); print(type(finder).__name__)\n"
                "print(finder.find_spec('paddle.amp.grad_scaler', None) is None, finder.find_spec('sys') is None)")
        self.assertEqual(Run("-c", text).done.stdout, "_Finder\nTrue True\n")

    def test_failures_are_in_the_trace_only(self):
        text = ("import deepspeed.runtime.fp16.loss_scaler as module; s = module.DynamicLossScaler(8); del s.scale_window\n"
                "try: s.update_scale(False)\nexcept AttributeError as error: print(error)\ns.update_scale(True); print(s.cur_scale)")
        run = Run("-c", text)
        self.assertEqual((run.done.stdout.splitlines()[-1], run.done.stderr), ("4.0", ""))
        scaler, = run.scalers
        self.assertRegex(scaler["how"], "^python: AttributeError: .*scale_window")
        self.assertEqual((scaler["steps"], scaler["scale_last"]), (2, None))
        with tempfile.TemporaryDirectory() as folder:  # a module of this name without the class
            place = pathlib.Path(folder) / "paddle/amp"
            place.mkdir(parents=True)
            (place / "grad_scaler.py").write_text("AmpScaler = None")
            run = Run("-c", "import paddle.amp.grad_scaler as module; print(module.AmpScaler)", path=[folder])
        self.assertEqual((run.done.stdout, run.done.stderr, run.scalers), ("None\n", "", []))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
