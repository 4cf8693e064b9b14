"""Gradient scalers of a program: their values in the trace are those that the program reads back itself, and those that
the frameworks' own scalers have. Nothing else changes."""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import runner
from runner import emulated_only

REST = runner.parse()
PRELOAD, AUTOAMP, EMULATED = runner.PLACE.preload, runner.PLACE.autoamp, runner.PLACE.emulated
CLIENT, PLUGIN, HOOK, READER = map(runner.program, ("scalers", "libscaler-kernels.so", "liblaunch_hook.so", "read_kernels"))
ORACLE = pathlib.Path(__file__).resolve().parent / "../oracle"
TRAJECTORIES = json.loads((ORACLE / "update_kernels.json").read_text())
FRAMEWORKS = json.loads((ORACLE / "scaler_trajectories.json").read_text())["systems"]
UPDATE = "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi"
TIMEOUT = 300


def cases_of(system, parameters, tracker):
    """The measured cases of a framework, in the form of update_kernels.json. Without steps that found another flag."""
    for case in FRAMEWORKS[system]["cases"]:
        if all(stepped != found for stepped, found in zip(case["stepped"], case["found_inf"])):
            yield {"parameters": [float(case["parameters"].get(name, 0)) for name in parameters], "scale": case["scale"],
                   "found_inf": "".join(map(str, case["found_inf"])), "tracker": case[tracker]}


TORCH = list(cases_of("torch", ("init_scale", "growth_factor", "backoff_factor", "growth_interval", ""), "growth_tracker"))
PADDLE = list(cases_of("paddle", ("init_loss_scaling", "incr_ratio", "decr_ratio", "", ""), "incr_count"))


class Ran:
    def __init__(self, done, trace, report):
        self.status, self.output, self.errors, self.trace = done.returncode, done.stdout, done.stderr, trace
        self.report = " ".join((report or "").split())  # the text, as one line

    def states(self, name):
        """(scale, tracker, hysteresis, flag) of each `print`."""
        rows = [line.split() for line in self.output.splitlines() if line.startswith(name + " ")]
        return [(float.fromhex(row[1]), *map(int, row[2:])) for row in rows]

    def updates(self, scaler):
        return [each for each in self.trace["updates"] if each["scaler"] == scaler["id"]]

    def notes(self, kind):
        return [note[1] for note in self.trace["notes"] if note[0] == kind]


def run(script, preload=True, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    if EMULATED:
        environment.update(LD_LIBRARY_PATH=EMULATED, AUTOAMP_EMU_PLUGINS=str(PLUGIN))
    with tempfile.TemporaryDirectory(prefix="autoamp-gradients-") as folder:
        trace = os.path.join(folder, "a.aat")
        if preload:
            environment.update(LD_PRELOAD=PRELOAD, AUTOAMP_TRACE="kernels", AUTOAMP_TRACE_FILE=trace,
                               XDG_STATE_HOME=folder)
        environment.update(variables)
        done = subprocess.run([CLIENT], input="\n".join(script) + "\n", env=environment, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)
        told = report = None
        if os.path.exists(trace):
            read = subprocess.run([READER, trace], capture_output=True, text=True, timeout=TIMEOUT, check=True)
            told = json.loads(read.stdout)
            report = subprocess.run([AUTOAMP, "report", trace], capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout
    return Ran(done, told, report)


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def step(name, found, growth=2, backoff=0.5, interval=4, hysteresis=1):
    return [f"found {name} {found}", f"update {name} {growth!r} {backoff!r} {interval} {hysteresis}", f"print {name}"]


def scaler(name, kind="torch", scale=65536.0, stream="0", hysteresis=1):
    return f"scaler {name} {kind} {stream} {scale!r} 0 {hysteresis}"


def events_of(states, found, start, growth=2, has_tracker=True):
    """The single events of a scaler with these (scale, tracker) after each step."""
    scale, tracker = start
    expected = []
    for number, ((after, tracker_after), flag) in enumerate(zip(states, found), 1):
        if number == 1:
            expected.append((number, "first"))
        if flag:
            expected.append((number, "backoff" if after != scale else "hold"))
        elif after != scale:
            expected.append((number, "growth"))
        elif has_tracker and tracker >= 0 and tracker_after == 0 and growth != 1:
            expected.append((number, "growth_refused"))
        scale, tracker = after, tracker_after
    return expected


class Test(unittest.TestCase):
    maxDiff = None

    def assertFine(self, ran):
        self.assertEqual((ran.status, ran.errors), (0, ""))
        for each in ran.trace["scalers"] if ran.trace and not ran.notes("kernels_off") else ():
            self.assertEqual(each["kernels"], each["steps"])  # of CUPTI, for the times

    def assertScaler(self, recorded, **wanted):
        recorded = recorded | {"scale": float.fromhex(recorded["scale"])}
        self.assertEqual({key: recorded[key] for key in wanted}, wanted)


class Trajectories(Test):
    """Each case of the oracle, by each kernel that has its rule."""

    def replay(self, kind, cases, has_tracker=True, how="arrows"):
        script = ["product", f"how {how}"]
        for number, case in enumerate(cases):
            start, growth, backoff, interval, hysteresis = case["parameters"]
            script += [scaler(f"s{number}", kind, start, hysteresis=hysteresis if kind == "apex" else 0)]
            for found in case["found_inf"]:
                script += step(f"s{number}", found, growth, backoff, int(interval), int(hysteresis))
        ran, bare = run(script), run(script, preload=False)
        self.assertFine(ran)
        self.assertEqual(ran.output, bare.output)
        self.assertEqual(len(ran.trace["scalers"]), len(cases))
        self.assertEqual(ran.notes("scaler_layout_unknown") + ran.notes("gradient_off"), [])
        for number, (case, recorded) in enumerate(zip(cases, ran.trace["scalers"])):
            with self.subTest(case=number, parameters=case["parameters"]):
                own = ran.states(f"s{number}")
                scales, found = [float(scale) for scale in case["scale"]], [int(digit) for digit in case["found_inf"]]
                trackers = case.get("tracker", [0] * len(scales)) if has_tracker else [-1] * len(scales)
                self.assertEqual([state[0] for state in own], scales)
                if has_tracker:
                    self.assertEqual([state[1] for state in own], trackers)
                if "hysteresis" in case:
                    self.assertEqual([state[2] for state in own], case["hysteresis"])
                start, growth, backoff, interval, _ = case["parameters"]
                start = single(start)
                self.assertScaler(recorded, name=f"{kind.split('_')[0].rstrip('.0123456789')}#{number}", how="update_kernel",
                                  steps=len(found), skipped=sum(found), unseen=0, interval=int(interval), scale=scales[-1],
                                  tracker=trackers[-1])
                if math.isfinite(scales[-1]):
                    self.assertAlmostEqual(float.fromhex(recorded["backoff"]), backoff, 6)
                updates = ran.updates(recorded)
                self.assertEqual([(each["step"], each["kind"]) for each in updates],
                                 events_of(list(zip(scales, trackers)), found, (start, 0), growth, has_tracker))
                for each in updates:
                    at = each["step"] - 1
                    self.assertEqual((float.fromhex(each["after"]), each["tracker_after"]), (scales[at], trackers[at]))
                    self.assertEqual(float.fromhex(each["before"]), scales[at - 1] if at else start)
                    self.assertEqual(each["found_inf"], found[at])
                    if "hysteresis" in case:
                        self.assertEqual(each["hysteresis"], case["hysteresis"][at])
                self.assertEqual([each["time"] for each in updates], sorted(each["time"] for each in updates))

    def test_torch(self):
        for how in ("arrows", "runtime", "config", "thread", "looked"):
            cases = TORCH
            with self.subTest(how=how):
                self.replay("torch", cases if how == "arrows" else cases[::8], how=how)

    def test_older_torch(self):
        """Before 2.1 the scale grows to Inf. Up to 1.8 each update has another address for the new scale."""
        cases = [case for case in TORCH if max(map(float, case["scale"])) * case["parameters"][1] < 3.4e38]
        self.assertGreater(len(cases), 25)
        for kind in ("torch1.6", "torch1.9", "oneflow"):
            with self.subTest(kind=kind):
                self.replay(kind, cases)

    def test_apex(self):
        self.replay("apex", TRAJECTORIES["apex"]["cases"])

    def test_paddle_static(self):
        for kind in ("paddle_static", "paddle_value"):
            with self.subTest(kind=kind):
                self.replay(kind, TRAJECTORIES["paddle_static"]["cases"])

    def test_paddle(self):
        """The program computes the scale. The kernels that unscale the gradients show the scale and the flag."""
        cases = PADDLE
        script = ["product"]
        for number, case in enumerate(cases):
            script += [scaler(f"s{number}", "paddle", case["parameters"][0])]
            for found, scale in zip(case["found_inf"], case["scale"]):
                script += [*step(f"s{number}", found), f"set s{number} {float(scale)!r}"]
        ran, bare = run(script), run(script, preload=False)
        self.assertFine(ran)
        self.assertEqual(ran.output, bare.output)
        self.assertEqual(len(ran.trace["scalers"]), len(cases))
        for number, (case, recorded) in enumerate(zip(cases, ran.trace["scalers"])):
            with self.subTest(case=number, parameters=case["parameters"]):
                scales, found = [float(scale) for scale in case["scale"]], [int(digit) for digit in case["found_inf"]]
                self.assertEqual([state[3] for state in ran.states(f"s{number}")], found)
                # The scale after the last step is not used by any kernel.
                used = scales[:-1] + scales[-2:-1]
                self.assertScaler(recorded, name=f"paddle#{number}", how="unscale_kernel", steps=len(found), skipped=sum(found),
                                  unseen=0, scale=used[-1], tracker=-1)
                self.assertEqual([(each["step"], each["kind"]) for each in ran.updates(recorded)],
                                 events_of([(scale, -1) for scale in used], found, (single(case["parameters"][0]), -1)))


    def test_paddle_with_two_types(self):
        """A step has a pair of kernels for each type of gradients. The scale decreases if one of them finds Inf."""
        script = ["product", scaler("a", "paddle", 8.0), scaler("b", "paddle", 8.0)]
        for a, b, scale in ((1, 0, 4), (0, 0, 4), (0, 1, 2), (0, 0, 2)):
            script += [*step("a", a), *step("b", b), f"set a {scale}", f"set b {scale}"]
        ran = run(script)
        self.assertFine(ran)
        for recorded in ran.trace["scalers"]:
            self.assertScaler(recorded, steps=4, skipped=2, scale=2.0)
            self.assertEqual([(each["step"], each["kind"]) for each in ran.updates(recorded)],
                             [(1, "first"), (1, "backoff"), (3, "backoff")])


class Scalers(Test):
    def test_first_torch(self):
        """Before 1.6 there is no tracker, and every clean step grows."""
        ran = run(["product", scaler("a", "torch1.5", 8.0), *step("a", 1), *step("a", 0), *step("a", 0)])
        self.assertFine(ran)
        self.assertEqual([state[0] for state in ran.states("a")], [4, 8, 16])
        (recorded,) = ran.trace["scalers"]
        self.assertEqual([(each["kind"], each["after"], each["tracker_after"]) for each in ran.updates(recorded)],
                         [("first", "0x1p+2", -1), ("backoff", "0x1p+2", -1), ("growth", "0x1p+3", -1), ("growth", "0x1p+4", -1)])

    def test_old_torch_grows_to_infinity(self):
        ran = run(["product", scaler("a", "torch1.9", 2.0 ** 127), *step("a", 0, interval=1), *step("a", 0, interval=1)])
        self.assertFine(ran)
        self.assertEqual([each["after"] for each in ran.trace["updates"]], ["inf", "inf", "inf"])
        self.assertEqual([each["kind"] for each in ran.trace["updates"]], ["first", "growth", "growth_refused"])

    def test_set_by_the_program(self):
        """load_state_dict and fill_ change the scale without an update."""
        ran = run(["product", scaler("a", scale=8.0), *step("a", 0), "set a 100", *step("a", 0), *step("a", 1)])
        self.assertFine(ran)
        (recorded,) = ran.trace["scalers"]
        self.assertEqual([(each["step"], each["kind"], each["before"], each["after"]) for each in ran.updates(recorded)],
                         [(1, "first", "0x1p+3", "0x1p+3"), (2, "set", "0x1p+3", "0x1.9p+6"),
                          (3, "backoff", "0x1.9p+6", "0x1.9p+5")])

    def test_two_optimizers(self):
        """torch adds their flags: found_inf is the number of bad ones."""
        ran = run(["product", scaler("a"), *step("a", 2), *step("a", 0)])
        self.assertFine(ran)
        self.assertEqual([each["found_inf"] for each in ran.trace["updates"]], [2, 2])
        self.assertScaler(ran.trace["scalers"][0], steps=2, skipped=1)

    @emulated_only("two devices")
    def test_two_devices_and_two_streams(self):
        script = ["product", scaler("a", stream="x", scale=8.0), "device 1", "product", scaler("b", stream="y", scale=16.0),
                  "device 0", scaler("c", stream="z", scale=32.0)]
        for found in (1, 0, 1):
            script += ["device 0", *step("a", found), "device 1", *step("b", 1 - found), "device 0", *step("c", found)]
        ran = run(script)
        self.assertFine(ran)
        self.assertEqual(sorted((each["name"], each["device"], each["steps"], each["skipped"], each["scale"])
                                for each in ran.trace["scalers"]),
                         [("torch#0", 0, 3, 2, "0x1p+1"), ("torch#1", 1, 3, 1, "0x1p+3"), ("torch#2", 0, 3, 2, "0x1p+3")])
        for name, last in (("a", 2), ("b", 8), ("c", 8)):
            self.assertEqual(ran.states(name)[-1][0], last)

    def test_graph_replays(self):
        """The update is inside a graph: each replay is another step. The probes are two nodes more."""
        script = ["product", scaler("a", stream="x", scale=1.0), *step("a", 0, interval=3), "capture g x", "update a 2 0.5 3 1",
                  "end"]
        for found in (0, 0, 1, 1, 0):
            script += [f"found a {found}", "replay g x", "print a"]
        ran, bare = run(script), run(script, preload=False)
        self.assertEqual((ran.status, ran.output), (0, bare.output))
        self.assertEqual((ran.errors, bare.errors), ("nodes 3\n", "nodes 1\n"))
        (recorded,) = ran.trace["scalers"]
        self.assertScaler(recorded, steps=6, skipped=2, longest=2, unseen=0, kernels=6)
        self.assertEqual([(each["step"], each["kind"], each["after"]) for each in ran.updates(recorded)],
                         [(1, "first", "0x1p+0"), (3, "growth", "0x1p+1"), (4, "backoff", "0x1p+0"), (5, "backoff", "0x1p-1")])

    def test_a_capture_before_the_first_update(self):
        """Probes cannot be prepared inside a capture. A later capture has the same nodes."""
        script = ["product", scaler("a", stream="x", scale=1.0), "capture g x", "update a 2 0.5 3 1", "end", "replay g x",
                  *step("a", 1), "capture h x", "update a 2 0.5 3 1", "end", "replay h x", "print a"]
        ran = run(script)
        self.assertEqual((ran.status, ran.errors), (0, "nodes 1\nnodes 1\n"))
        self.assertEqual(ran.notes("gradient_off"), ["an update was captured into a graph before one ran outside of graphs"])
        self.assertScaler(ran.trace["scalers"][0], steps=1, skipped=1)

    def test_many_updates_at_once(self):
        """More updates than the ring has places: the totals stay exact."""
        script = ["product", scaler("a", stream="x", scale=1.0), *step("a", 0, interval=100000), "found a 1", "capture g x",
                  *["update a 2 1 3 1"] * 5000, "end", "replay g x", "found a 0", *step("a", 0)]
        ran = run(script)
        self.assertEqual((ran.status, ran.errors), (0, "nodes 15000\n"))
        recorded = ran.trace["scalers"][0]
        self.assertScaler(recorded, steps=5002, skipped=5000)
        self.assertGreater(recorded["unseen"], 800)

    def test_causes(self):
        """A product with Inf, and the update that it leads to."""
        script = ["product", scaler("a"), *step("a", 0), "product inf", *step("a", 1), *step("a", 1), "product inf", *step("a", 0),
                  *step("a", 1)]
        ran = run(script, AUTOAMP_STRATEGY="cast")
        self.assertFine(ran)
        self.assertEqual([(each["step"], each["kind"], each["operand"]) for each in ran.trace["causes"]],
                         [(2, "nonfinite_input", "A")])
        self.assertIn(ran.trace["causes"][0]["row"], [row["id"] for row in ran.trace["rows"]])

    def test_causes_with_two_scalers(self):
        """The clean update of one scaler does not hide the cause of the other one's skipped step."""
        script = ["product", scaler("a"), scaler("b"), *step("a", 0), *step("b", 0), "product inf", *step("a", 0), *step("b", 1),
                  *step("a", 1), *step("b", 1)]
        ran = run(script, AUTOAMP_STRATEGY="cast")
        self.assertFine(ran)
        ids = [each["id"] for each in ran.trace["scalers"]]
        self.assertEqual([(ids.index(each["scaler"]), each["step"], each["operand"]) for each in ran.trace["causes"]], [(1, 2, "A")])

    def test_causes_of_paddle(self):
        script = ["product", scaler("a", "paddle", 8.0), *step("a", 0), "product inf", *step("a", 1), "set a 4", *step("a", 0)]
        ran = run(script, AUTOAMP_STRATEGY="cast")
        self.assertFine(ran)
        self.assertEqual([(each["step"], each["operand"]) for each in ran.trace["causes"]], [(2, "A")])

    def test_changed_parameters(self):
        """set_growth_interval() and others: the report has those of the latest update."""
        script = ["product", scaler("a"), *step("a", 0, interval=3), *step("a", 0, 4, 0.25, 1000)]
        ran = run(script)
        self.assertFine(ran)
        self.assertScaler(ran.trace["scalers"][0], interval=1000, growth="0x1p+2", backoff="0x1p-2", steps=2)

    def test_update_as_the_first_call_of_a_thread(self):
        script = ["product", scaler("a", stream="x"), "found a 1", *["sync", "thread_update a"] * 3, "print a"]
        ran, bare = run(script), run(script, preload=False)
        self.assertFine(ran)
        self.assertEqual((ran.output, ran.notes("gradient_off")), (bare.output, []))
        self.assertScaler(ran.trace["scalers"][0], steps=3, skipped=3)

    @emulated_only("two devices")
    def test_a_second_capture_on_another_device(self):
        """Captures of one sequence have the same nodes, also if the first one came before the first update there."""
        script = ["product", scaler("a", stream="x"), *step("a", 0), "capture f x", "update a 2 0.5 4 1", "end", "device 1", "product",
                  scaler("b", stream="y"), "capture g y", "update b 2 0.5 4 1", "end", *step("b", 1), "capture g y",
                  "update b 2 0.5 4 1", "end"]
        ran = run(script)
        self.assertEqual((ran.status, ran.errors), (0, "nodes 3\nnodes 1\nnodes 1\nexec update 0\n"))

    def test_killed_while_it_replays(self):
        """Updates in replays are recorded at later launches of graphs."""
        script = ["product", scaler("a", stream="x"), *step("a", 0), "found a 1", "capture g x", "update a 2 0.5 4 1", "end",
                  *["replay g x", "sync"] * 10, "kill"]
        ran = run(script)
        self.assertEqual(ran.status, -9)
        self.assertScaler(ran.trace["scalers"][0], steps=10, skipped=9)
        times = [each["time"] for each in ran.trace["updates"]]
        self.assertEqual(len(set(times)), len(set(each["step"] for each in ran.trace["updates"])))

    def test_threads(self):
        ran, bare = run(["product", "threads 8 50"]), run(["product", "threads 8 50"], preload=False)
        self.assertFine(ran)
        self.assertEqual(ran.output, bare.output)
        self.assertEqual([(each["steps"], each["skipped"], each["scale"]) for each in ran.trace["scalers"]], [(50, 0, "0x1p+5")] * 8)


class Negative(Test):
    def test_another_tool_with_a_launch_function(self):
        """A tool that is preloaded after autoamp sees the same launches as without autoamp."""
        script = ["product", "how runtime", scaler("a"), *step("a", 1), *step("a", 0)]
        bare = run(script, preload=False, LD_PRELOAD=str(HOOK))
        self.assertEqual((bare.status, bare.errors), (0, "hook\n" * 2))
        for trace in ("off", "kernels"):
            with self.subTest(trace=trace):
                ran = run(script, LD_PRELOAD=f"{PRELOAD}:{HOOK}", AUTOAMP_TRACE=trace)
                self.assertEqual((ran.status, ran.output, ran.errors), (0, bare.output, bare.errors))
        self.assertScaler(ran.trace["scalers"][0], steps=2, skipped=1)

    def test_lookups_that_fail(self):
        for name in ("cudaLaunchKernel", "cudaGraphLaunch", "cublasSgemm_v2", "sin", "nonsense"):
            with self.subTest(name=name):
                ran = run([f"lookup {name}"])
                self.assertEqual(ran.output, "lookup 1 0\n" if name == "sin" else "lookup 0 1\n")

    def test_other_layouts(self):
        """The name of a scaler with other parameters is counted. Its parameters are not read."""
        for kind, name in (("modulus", "_Z28amp_update_scale_cuda_kernelPfPiS_ffiffi"), ("longer", UPDATE + "b")):
            script = ["product", scaler("a", kind), *step("a", 1), *step("a", 0)]
            ran, bare = run(script), run(script, preload=False)
            with self.subTest(kind=kind):
                self.assertFine(ran)
                self.assertEqual(ran.output, bare.output)
                self.assertEqual((ran.trace["scalers"], ran.notes("scaler_layout_unknown")), ([], [name]))
                self.assertRegex(ran.report, r"values are missing: (at::native::)?amp_update_scale_cuda_kernel.* has unknown parameters")

    def test_memory_that_is_not_the_devices(self):
        for kind in ("pageable", "pinned"):
            with self.subTest(kind=kind):
                ran = run(["product", scaler("a", stream="x"), *step("a", 0), f"wild a {kind}", *step("a", 0)])
                self.assertFine(ran)
                self.assertEqual(ran.notes("gradient_off"), ["a parameter of the update is not memory of its device"])
                self.assertEqual([(each["name"], each["steps"]) for each in ran.trace["scalers"]], [("torch#0", 2)])
                self.assertIn("values are missing: a parameter of the update is not memory of its device", ran.report)

    def test_without_kernel_tracing(self):
        """The slot leads to the original function."""
        script = ["product", scaler("a"), *step("a", 1)]
        for trace in ("off", "summary", "ops"):
            with self.subTest(trace=trace):
                ran = run(script, AUTOAMP_TRACE=trace)
                self.assertFine(ran)
                self.assertEqual(ran.trace["scalers"] if ran.trace else [], [])

    def test_a_launch_opens_no_core(self):
        """Without a cuBLAS call there is no trace, whatever is launched."""
        ran = run([scaler("a"), *step("a", 1)])
        self.assertFine(ran)
        self.assertIsNone(ran.trace)
        ran = run([scaler("a"), *step("a", 1), "product", *step("a", 1)])  # launches after the first call are seen
        self.assertFine(ran)
        self.assertScaler(ran.trace["scalers"][0], steps=1, skipped=1)

    @emulated_only("its driver fails on request")
    def test_faults(self):
        """Driver functions of the probes fail: the program has its results, and sees no error."""
        script = ["product", scaler("a"), *step("a", 1), *step("a", 0), "error"]
        bare = run(script, preload=False)
        for function in ("cuPointerGetAttribute", "cuLaunchKernel", "cuStreamIsCapturing", "cuLibraryLoadData", "cuMemHostRegister_v2",
                         "cuCtxGetId", "cudaFuncGetName", "cudaGetKernel", "cuKernelGetParamInfo", "cuThreadExchangeStreamCaptureMode"):
            for number in (1, 2, 3):
                with self.subTest(function=function, number=number):
                    ran = run(script, AUTOAMP_EMU_FAIL=f"{function}:{number}")
                    self.assertEqual((ran.status, ran.output), (0, bare.output))

    def test_a_forked_child(self):
        script = ["product", scaler("a"), *step("a", 0), "fork", *step("a", 1)]
        ran, bare = run(script), run(script, preload=False)
        self.assertFine(ran)
        self.assertEqual(ran.output, bare.output)
        self.assertIn("child 7", ran.output)
        self.assertScaler(ran.trace["scalers"][0], steps=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + REST)
