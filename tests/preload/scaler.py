"""Gradient scalers of programs that can be changed: updates that the program records, and the scaler of autoamp.h."""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "../oracle"))
import runner  # noqa: E402
import scaler_rules  # noqa: E402
from runner import emulated_only  # noqa: E402

REST = runner.parse()
CLIENT, READER = map(runner.program, ("scaler", "read_gradients"))
TIMEOUT = 120
UNKNOWN, BAD_VALUE, BAD_STAGE, FAILED = "1", "-1", "-4", "-5"
HERE = pathlib.Path(__file__).resolve().parent
TRAJECTORIES = json.loads((HERE / "../oracle/scaler_trajectories.json").read_text(encoding="utf-8"))["systems"]
OTHER_DEVICE = [(["device 1"], ["device 0"])] if runner.PLACE.emulated else []  # before and after a call
BAD = (math.inf, -math.inf, math.nan)
FLOAT32, FLOAT16, BFLOAT16, FLOAT64 = range(4)
FORMATS = {FLOAT32: "f", FLOAT16: "e", FLOAT64: "d"}


class Ran:
    def __init__(self, done, scalers):
        self.status, self.output, self.errors, self.scalers = done.returncode, done.stdout, done.stderr, scalers
        self.cases = {}
        self.said = []  # by the operations of a script: status, and other words
        for line in done.stdout.splitlines():
            if line.startswith("="):
                self.said.append(line.split()[1:])
                continue
            name, *pairs = line.split()
            self.cases[name] = dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def run(*cases, preload=True, script=(), **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    if runner.PLACE.emulated:
        environment["LD_LIBRARY_PATH"] = runner.PLACE.emulated
    environment.update({"AUTOAMP_" + name: str(value) for name, value in variables.items()})
    with tempfile.TemporaryDirectory() as folder:
        if preload:
            environment["LD_PRELOAD"] = runner.PLACE.preload
            environment["AUTOAMP_TRACE_FILE"] = folder + "/%p.aat"
        environment["XDG_STATE_HOME"] = folder
        environment["CLIENT_SCRIPT"] = folder + "/script"
        pathlib.Path(environment["CLIENT_SCRIPT"]).write_text("\n".join(script), encoding="utf-8")
        environment["PYTHONPATH"] = f"{HERE}/../../tools/python:{HERE}/../oracle"
        command = cases if cases[0] == sys.executable else [CLIENT] + [word for case in cases for word in ("--case", case)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        traces = sorted(pathlib.Path(folder).glob("*.aat"), key=lambda file: file.stat().st_mtime_ns)
        told = subprocess.run([READER, *traces], capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout
    return Ran(done, [json.loads(line) for line in told.splitlines()])


def narrow(value):
    """To float32 and back: nearest, ties to even; too large becomes Inf."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def store(value, dtype):
    """The bytes of a value that is rounded to the type."""
    if dtype == BFLOAT16:
        bits = struct.unpack("<I", struct.pack("<f", narrow(value)))[0]
        if math.isnan(value):
            return b"\xff\x7f"
        return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    if dtype == FLOAT32:
        value = narrow(value)
    try:
        return struct.pack("<" + FORMATS[dtype], value)
    except OverflowError:
        return struct.pack("<" + FORMATS[dtype], math.copysign(math.inf, value))


def fetch(data, dtype):
    size = {FLOAT32: 4, FLOAT16: 2, BFLOAT16: 2, FLOAT64: 8}[dtype]
    parts = [data[i:i + size] for i in range(0, len(data), size)]
    if dtype == BFLOAT16:
        return [struct.unpack("<f", b"\0\0" + part)[0] for part in parts]
    return [struct.unpack("<" + FORMATS[dtype], part)[0] for part in parts]


def gradient(values, optimizer=0, dtype=FLOAT32, shift=0):
    return f"gradient {optimizer} {dtype} {shift} " + b"".join(store(value, dtype) for value in values).hex()


def new(rule="torch", scale=65536.0, growth=2.0, backoff=0.5, interval=2000, every=1, hysteresis=1, least=1.0,
        flags=0):
    return f"new {rule} {number(scale)} {number(growth)} {number(backoff)} {interval} {every} {hysteresis} {number(least)} {flags}"


def number(value):
    value = float(value)
    return value.hex() if math.isfinite(value) else str(value)


class Test(unittest.TestCase):
    maxDiff = None

    def assertFine(self, result):
        self.assertEqual((result.status, result.errors), (0, ""))


class Recorded(Test):
    """autoamp_record_update()."""

    def test_updates_become_events(self):
        for trace in ("ops", "summary"):
            result = run("record", TRACE=trace)
            self.assertFine(result)
            self.assertEqual(result.cases["record"]["status"], "0")
            one, other = result.scalers
            self.assertEqual(one["events"], [["first", 1, 8, 4, 1, -1, -1, -1], ["backoff", 1, 8, 4, 1, -1, -1, -1],
                                             ["growth", 3, 4, 8, 0, -1, -1, -1], ["backoff", 4, 8, 4, 1, -1, -1, -1]])
            del one["events"]
            self.assertEqual(one, {"name": "mine#0", "how": "python", "device": 1, "growth": 2, "backoff": None, "interval": 3,
                                   "steps": 4, "skipped": 2, "unseen": 0, "growths": 1, "backoffs": 2, "sets": 0, "refusals": 0,
                                   "holds": 0, "scale_first": 8, "scale_last": 4, "tracker": -1, "kernels": 0})
            self.assertEqual((other["name"], other["steps"]), ("mine#1", 1))

    def test_wrong_structs_are_refused(self):
        result = run("refused")
        self.assertEqual(result.cases["refused"]["statuses"].split(","), [BAD_VALUE] * 8 + ["0", BAD_VALUE])
        self.assertEqual(result.scalers[0]["steps"], 1)

    def test_nothing_to_record_to(self):
        for variables in ({"preload": False}, {"TRACE": "off"}, {"ENABLED": "0"}):
            result = run("record", **variables)
            self.assertEqual((result.status, result.cases["record"]["status"], result.scalers), (0, UNKNOWN, []))

    def test_a_forked_child_has_its_own_trace(self):
        result = run("forked")
        self.assertEqual((result.cases["forked"]["status"], result.cases["forked"]["child"]), ("0", "0"))
        self.assertEqual(sorted((scaler["steps"], scaler["scale_last"]) for scaler in result.scalers), [(1, 2), (1, 4)])


def make(system, parameters):
    rule, arguments = scaler_rules.arguments(system, parameters)
    return new(rule, **{**arguments, **({"interval": 0} if scaler_rules.is_fixed(parameters) else {})})


class Trajectories(Test):
    """The states of the frameworks' own scalers."""

    def test_every_step_of_every_case(self):
        self.assertEqual(set(scaler_rules.RULES), set(TRAJECTORIES))
        for system in TRAJECTORIES:
            cases = TRAJECTORIES[system]["cases"] + TRAJECTORIES[system]["sequences"]
            script = []
            for case in cases:
                script.append(make(system, case["parameters"]))
                for i, found in enumerate(case["found_inf"]):
                    script += ["clear 0", gradient([1.0, BAD[i % 3] if found else -2.0, 0.0]), "unscale 0", "step 0", "update", "get"]
            result = run("play", script=script)
            self.assertFine(result)
            said = iter(result.said)
            for case in cases:
                self.assertEqual(next(said), ["new", "0"])
                for i in range(len(case["found_inf"])):
                    with self.subTest(system, case=case["parameters"], step=i):
                        self.step(system, case, i, [next(said) for _ in range(6)])

    def step(self, system, case, i, said):
        wanted = [float(case["scale"][i]), *scaler_rules.counters(system, case, i)]
        got = said[5]
        self.assertEqual([words[1] for words in (said[2], said[4], got)], ["0"] * 3)
        self.assertEqual([float.fromhex(got[2]), *map(int, got[3:3 + len(wanted) - 1])], wanted)
        self.assertEqual(said[3][1], str(int(scaler_rules.is_stepped(system, case, i))))
        if "cur_iter" in case:  # a step with an error does not count
            first = 0 if system == "deepspeed" else 1
            self.assertEqual(int(got[5]) - sum(case.get("raised", [])[:i + 1]), case["cur_iter"][i] - first)

    def test_events_are_those_of_the_trajectory(self):
        case = next(each for each in TRAJECTORIES["torch"]["sequences"] if each["name"] == "alternating")
        script = [make("torch", case["parameters"])]
        for found in case["found_inf"]:
            script += ["clear 0", gradient([math.inf if found else 1.0]), "unscale 0", "step 0", "update"]
        scaler, = run("play", script=script).scalers
        scales = [case["parameters"]["init_scale"], *case["scale"]]
        backoffs = [["backoff", i + 1, scales[i], scales[i + 1], 1, 0 if i == 0 or case["found_inf"][i - 1] else 1, 0, -1]
                    for i, found in enumerate(case["found_inf"]) if found]
        self.assertEqual([event for event in scaler["events"] if event[0] != "first"], backoffs)
        self.assertEqual((scaler["name"], scaler["how"], scaler["steps"], scaler["skipped"], scaler["unseen"]),
                         ("autoamp#0", "autoamp", len(case["found_inf"]), sum(case["found_inf"]), 0))


class Stages(Test):
    """Order of calls, several optimizers, and errors, as in torch."""

    def statuses(self, *script, **variables):
        result = run("play", script=[new(interval=4), *script], **variables)
        self.assertEqual((result.status, result.errors), (0, ""))
        return [" ".join(words[1:2]) for words in result.said[1:] if words[0] in ("unscale", "step", "update", "set")], result

    def test_errors(self):
        good = gradient([1.0])
        for script, wanted in (
                ([good, "unscale 0", "unscale 0"], ["0", BAD_STAGE]),
                ([good, "unscale 0", "step 0", "unscale 0"], ["0", "1", BAD_STAGE]),
                ([good, "unscale 0", "step 0", "step 0"], ["0", "1", BAD_STAGE]),
                ([good, "step 0"], [BAD_STAGE]),
                (["update"], [BAD_STAGE]),
                (["unscale 0", "step 0", "update"], ["0", BAD_STAGE, BAD_STAGE]),
                ([good, "unscale 0", "update", "unscale 0", "step 0"], ["0", "0", "0", "1"]),
                ([good, "unscale 0", "set 8", "unscale 0", "step 0"], ["0", "0", "0", "1"])):
            with self.subTest(script):
                self.assertEqual(self.statuses(*script)[0], wanted)

    def test_one_of_two_optimizers_overflows(self):
        script = [gradient([math.nan]), gradient([1.0], optimizer=31), "unscale 0", "unscale 31", "step 0", "step 31", "update", "get"]
        statuses, result = self.statuses(*script)
        self.assertEqual(statuses, ["0", "0", "0", "1", "0"])
        self.assertEqual(float.fromhex(result.said[-1][2]), 32768)
        both = [gradient([math.nan]), gradient([math.inf], optimizer=1), "unscale 0", "unscale 1", "update"]
        self.assertEqual(self.statuses(*both)[1].scalers[0]["events"][-1][:5], ["backoff", 1, 65536, 32768, 2])
        # Paddle: the optimizer that is stepped last decides.
        for first, second, scale in ((math.inf, 1.0, 65536), (1.0, math.inf, 32768)):
            result = run("play", script=[new("paddle"), gradient([first]), gradient([second], optimizer=1), "unscale 0", "step 0", "unscale 1", "step 1",
                                         "update", "get"])
            self.assertEqual(float.fromhex(result.said[-1][2]), scale)

    def test_paddle_updates_twice(self):
        """Without a step between two updates, the flag of the step before counts again."""
        result = run("play", script=[new("paddle"), gradient([math.inf]), "unscale 0", "step 0", "update", "update", "get"])
        self.assertEqual((float.fromhex(result.said[-1][2]), result.said[-1][5:7]), (16384, ["2", "2"]))

    def test_state_is_saved_and_loaded(self):
        step = [gradient([1.0]), "unscale 0", "step 0", "update"]
        result = run("play", script=[new(interval=4), *step * 3, "get", new(interval=9), "load 8 3 0.25 2 1 -1", "get", *step, "get",
                                     "load nan nan 0.125 -1 -1 -1", "get", "load nan nan nan 1 -1 -1", *step, "get"])
        got = [words[1:] for words in result.said if words[0] == "get"]
        states = [[float.fromhex(words[1]), int(words[2]), float.fromhex(words[6]), float.fromhex(words[7]), int(words[8])] for words in got]
        self.assertEqual(states, [[65536, 3, 2, 0.5, 4], [8, 1, 3, 0.25, 2], [24, 0, 3, 0.25, 2], [24, 0, 3, 0.125, 2], [72, 0, 3, 0.125, 1]])

    def test_each_scaler_has_its_own_events(self):
        """Also if it is at the address of one that was destroyed."""
        step = [gradient([1.0]), "unscale 0", "update"]
        scalers = run("play", script=[new(), *step, new(), *step, *step]).scalers
        self.assertEqual([(scaler["name"], scaler["steps"]) for scaler in scalers], [("autoamp#0", 1), ("autoamp#1", 2)])

    def test_a_fixed_scale(self):
        step = ["clear 0", gradient([math.inf]), "unscale 0", "step 0", "update"]
        result = run("play", script=[new(interval=0), *step * 2, "get"])
        self.assertEqual([float.fromhex(result.said[-1][2]), *result.said[-1][3:7]], [65536, "0", "0", "2", "2"])

    def test_without_the_library(self):
        script = [gradient([3.0]), "scale 0", "unscale 0", "print 0", "step 0", "step 0", "update", "load 8 3 0.25 2 1 -1", "get", "pointers 0"]
        for variables in ({"preload": False}, {"ENABLED": "0"}):
            result = run("play", script=[new(), *script], **variables)
            self.assertEqual(result.said, [["new", UNKNOWN], ["gradient"], ["scale", "0"], ["unscale", "0"], ["print", store(3.0, FLOAT32).hex()],
                                           ["step", "1"], ["step", "1"], ["update", "0"], ["load", "0"],
                                           ["get", UNKNOWN, "0x1p+0", *["0"] * 4, "0x0p+0", "0x0p+0", "0"], ["pointers", UNKNOWN, "0x0p+0", "0x0p+0"]])

    def test_wrong_arguments(self):
        case = run("wrong").cases["wrong"]
        self.assertEqual(case["statuses"].split(","), [BAD_VALUE] * 10 + ["0"] + [BAD_VALUE] * 6 + ["0", "0", BAD_VALUE, "0"])
        self.assertEqual((case["early"], case["many"], case["status"], case["child"]), (BAD_STAGE, "128", "-3", "0"))


class Gradients(Test):
    """The multiplication, against arithmetic in Python."""

    def test_bits(self):
        chance = random.Random(20261123)
        script, wanted = [], []
        for rule in ("torch", "paddle", "mindspore"):
            for scale in (65536.0, 1.0, 3.0, 1000.3, 2.0 ** -140, 0.25, 2.0 ** 127):
                for dtype in (FLOAT32, FLOAT16, BFLOAT16, FLOAT64):
                    count = chance.choice((1, 3, 4, 7, 8, 17, 33, 100))
                    values = [chance.choice((0.0, -0.0, chance.gauss(0, 1), chance.gauss(0, 1e4), 1e-7, 3e4)) for _ in range(count)]
                    if chance.random() < 0.4:
                        values[chance.randrange(count)] = chance.choice((math.inf, -math.inf, math.nan, 3e38))
                    line = gradient(values, dtype=dtype, shift=chance.choice((0, 0, 1, 3)))
                    script += [new(rule, scale), line, "unscale 0", "pointers 0", "print 0"]
                    wanted.append((rule, scale, dtype, fetch(bytes.fromhex(line.split()[-1]), dtype)))
        result = run("play", script=script)
        self.assertFine(result)
        for i, (rule, scale, dtype, values) in enumerate(wanted):
            with self.subTest(rule, scale=scale, dtype=dtype):
                _, _, status, pointers, printed = result.said[5 * i:5 * i + 5]
                self.assertEqual(status, ["unscale", "0"])
                inverse = 1 / narrow(scale)
                inverse = narrow(inverse) if rule != "paddle" or dtype != FLOAT64 else inverse
                if rule == "mindspore":
                    inverse = fetch(store(inverse, dtype), dtype)[0]
                products = [value if inverse == 1 else value * inverse if dtype == FLOAT64 else narrow(value * inverse) for value in values]
                expected = b"".join(store(product, dtype) for product in products)
                tested = fetch(expected, dtype) if rule == "paddle" else values
                found = any(not math.isfinite(narrow(value)) for value in tested)
                self.assertEqual(float.fromhex(pointers[3]), found)
                self.assertEqual(*([repr(value) for value in fetch(data, dtype)] for data in (bytes.fromhex(printed[1]), expected)))

    def test_each_place_of_a_bad_value(self):
        script, places = [], (0, 1, 7, 8, 255, 256, 8191, 8192, 16383, 16384, 16390)
        for place in places:
            for shift in (0, 1):
                values = [1.0] * 16391
                values[place] = BAD[place % 3]
                script += [new(), gradient(values, shift=shift), "unscale 0", "pointers 0"]
        result = run("play", script=script)
        self.assertEqual([words[3] for words in result.said if words[0] == "pointers"], ["0x1p+0"] * len(places) * 2)

    def test_many_and_empty_tensors(self):
        """More than one launch takes, of all types in turn."""
        for bad in (None, 0, 956, 960, 1164, 1199):
            lines = [gradient([] if i % 50 == 7 else [math.nan if i == bad else 2.0] * (i % 5 + 1), dtype=i % 4, shift=i % 3) for i in range(1200)]
            result = run("play", script=[new(scale=4.0), *lines, "unscale 0", "pointers 0", "print 0", "step 0"])
            self.assertEqual(result.said[-3][3], "0x0p+0" if bad is None else "0x1p+0")
            self.assertEqual(result.said[-1], ["step", str(int(bad is None))])
            wanted = [store(math.nan if i == bad else 0.5, i % 4).hex() * (i % 5 + 1) for i in range(1200) if i % 50 != 7]
            if bad is None:
                self.assertEqual(result.said[-2][1:], wanted)
            self.assertNotIn("!", "".join(result.said[-2]))


class Devices(Test):
    def test_threads(self):
        result = run("threads")
        self.assertFine(result)
        self.assertEqual(result.cases["threads"]["wrong"], "0")
        self.assertEqual(sorted(scaler["steps"] for scaler in result.scalers), [24] * 4)

    def test_two_streams(self):
        script = [new(interval=1, scale=1.0)]
        for i in range(6):
            script += [f"stream {i % 3}", "clear 0", gradient([1.0]), "unscale 0", "step 0", "update", "get"]
        result = run("play", script=script)
        self.assertEqual([float.fromhex(words[2]) for words in result.said if words[0] == "get"], [2, 4, 8, 16, 32, 64])

    @emulated_only("two devices")
    def test_two_devices(self):
        step = ["device 1", "clear 0", gradient([1.0]), "unscale 0", "device 0", gradient([1.0]), "unscale 0"]
        bad = [line.replace("0000803f", "0000807f") if i == 2 else line for i, line in enumerate(step)]
        for turn in (step, bad):
            result = run("play", script=[new(scale=8.0), *turn, "print 0", "device 1", "pointers 0", "device 0", "pointers 0", "step 0", "update", "get"],
                         EMU_DEVICES="2")
            self.assertFine(result)
            pointers = [float.fromhex(words[3]) for words in result.said if words[0] == "pointers"]
            self.assertEqual(pointers, [(turn is bad), 0])
            self.assertEqual(float.fromhex(result.said[-1][2]), 4 if (turn is bad) else 8)
            self.assertEqual(result.said[-3], ["step", "0" if (turn is bad) else "1"])
            printed = next(words[1:] for words in result.said if words[0] == "print")
            self.assertEqual(printed[1], store(0.125, FLOAT32).hex())

    def test_calls_run_in_their_order(self):
        """Each call waits for those before: on another stream, on the same handle in another thread, and on another device."""
        bad = gradient([math.inf])
        for unscale, other in ((["stream 1"], ["stream 2"]), (["stream 4", "thread "], []), (["stream 1"], ["stream 4", "thread "]),
                               *OTHER_DEVICE):
            *place, prefix = unscale if unscale[-1] == "thread " else [*unscale, ""]
            *otherPlace, otherPrefix = other if other and other[-1] == "thread " else [*other, ""]
            for calls in (["step 0", "update"], ["update"]):
                script = [new(), *place, bad, prefix + "slow", prefix + "unscale 0", *otherPlace, *(otherPrefix + call for call in calls), "get"]
                with self.subTest(script):
                    result = run("play", script=script, EMU_DEVICES="2")
                    self.assertFine(result)
                    told = [words[1] for words in result.said if words[0] in ("unscale", "step", "update", "thread") and words[1:]]
                    self.assertEqual((told, float.fromhex(result.said[-1][2])), (["0"] * (len(calls) + 1), 32768))

    @emulated_only("two devices")
    def test_updates_on_two_devices_in_turn(self):
        """They arrive in two rings. The trace has them in their order."""
        script = [new(scale=16.0, interval=2)]
        for i in range(20):
            script += [f"device {i % 2}", "clear 0", gradient([1.0]), "unscale 0", "update"]
        for waits in ([], ["device 0", "slow"]):  # the first updates arrive together
            result = run("play", script=[script[0], *waits, *script[1:], "get"], EMU_DEVICES="2")
            self.assertFine(result)
            scaler, = result.scalers
            self.assertEqual((scaler["steps"], scaler["unseen"], scaler["growths"], scaler["sets"], scaler["scale_last"]), (20, 0, 10, 0, 2 ** 14))
            self.assertEqual([event[1] for event in scaler["events"]], [1, *range(2, 21, 2)])

    @emulated_only("its driver fails on request")
    def test_a_context_of_unknown_state(self):
        """If the driver does not tell whether the context of an earlier call still exists, the call fails."""
        statuses = set()
        for number in range(1, 40):
            script = [new(scale=2.0), "stream 1", gradient([math.inf]), "slow", "unscale 0", "stream 2", "step 0"]
            result = run("play", script=script, EMU_FAIL=f"cuCtxGetId:{number}")
            words = [each[1] for each in result.said if each[0] in ("new", "unscale", "step")]
            self.assertFalse(words[:2] == ["0", "0"] and words[2] == "1", (number, words))
            statuses.add(words[2])
        self.assertIn("0", statuses)
        self.assertIn(FAILED, statuses)

    def test_destroy_waits(self):
        """From another stream, device or thread, and while a stream is captured. The capture goes on."""
        many = gradient([1.0] * 100)
        for before, after in (([], []), (["stream 1"], []), (["stream 1"], ["stream 2", "begin"]), *OTHER_DEVICE):
            for prefix in ("", "thread "):
                script = [new(scale=2.0), *before, many, "slow", "unscale 0", "update", *after, prefix + "destroy"]
                script += ["end"] * (after[-1:] == ["begin"]) + ["print 0"]
                with self.subTest(script):
                    result = run("play", script=script, EMU_DEVICES="2")
                    self.assertFine(result)
                    self.assertEqual(result.said[-2 - script.count("end")][1:], ["0"])
                    self.assertEqual(result.said[-1][1], store(0.5, FLOAT32).hex() * 100)

    @emulated_only("two devices")
    def test_reset_of_another_device(self):
        """The events of that device are gone. The scaler goes on with those of the others."""
        script = [new(scale=2.0), "device 1", gradient([1.0]), "slow", "unscale 0", "reset", "device 0", gradient([1.0], optimizer=1), "unscale 1",
                  "step 1", "update", "get", "device 1", gradient([math.inf], optimizer=2), "unscale 2", "update", "device 0", "get", "destroy"]
        result = run("play", script=script, EMU_DEVICES="2")
        self.assertFine(result)
        self.assertEqual([float.fromhex(words[2]) for words in result.said if words[0] == "get"], [2, 1])
        self.assertEqual([words[1] for words in result.said if words[0] in ("unscale", "step", "update", "destroy")], list("0010000"))

    def test_graph(self):
        """A graph with the whole step, except the one function that waits."""
        script = [new(interval=2, scale=1.0), "stream 1", gradient([1.0]), "unscale 0", "update", "begin", "scale 0", "unscale 0", "step 0", "get",
                  "update", "end", *["replay"] * 5, "get", "print 0"]
        result = run("play", script=script, TRACE="kernels")
        self.assertFine(result)
        refused = [words[1] for words in result.said[5:10] if words[0] in ("step", "get")]
        self.assertEqual(refused, [FAILED, FAILED])
        self.assertEqual((float.fromhex(result.said[-2][2]), result.said[-2][3:7]), (8, ["0", "0", "6", "0"]))
        self.assertEqual(result.said[-1][1], store(1.0, FLOAT32).hex())
        scaler, = result.scalers
        self.assertEqual((scaler["steps"], scaler["growths"], scaler["unseen"], scaler["kernels"]), (6, 3, 0, 6))

    def test_graph_of_the_backward_pass(self):
        """A graph unscales; steps and updates are outside of it."""
        good, bad = gradient([2.0]), gradient([math.inf])
        turn = ["replay", "step 0", "update"]
        for rule, scales in (("torch", [2, 1, 2, 4]), ("paddle", [2, 1, 2, 4])):
            script = [new(rule, interval=1, scale=1.0), "stream 1", good, "unscale 0", "update", "set 1", "begin", "unscale 0", "end"]
            for i in range(4):
                script += [f"write 0 {(bad if i == 1 else good).split()[-1]}", *turn, "get"]
            result = run("play", script=[*script, "step 0", "step 0", "update", gradient([1.0], optimizer=1), "unscale 1", "unscale 1"])
            self.assertFine(result)
            self.assertEqual([float.fromhex(words[2]) for words in result.said if words[0] == "get"], scales)
            self.assertEqual([words[1] for words in result.said if words[0] == "step"], ["1", "0", "1", "1", "1", "1"])
            self.assertEqual([words[1] for words in result.said if words[0] == "unscale"][2:], ["0", BAD_STAGE])

    def test_graph_of_the_update(self):
        script = [new(interval=1, scale=1.0), "stream 1", gradient([1.0]), "unscale 0", "begin", "update", "end", "replay", "get"]
        script += ["unscale 0", "step 0", "replay", "get"] * 2
        result = run("play", script=script)
        self.assertFine(result)
        self.assertEqual([words[1] for words in result.said if words[0] in ("unscale", "step")], ["0", "0", "1", "0", "1"])
        self.assertEqual([float.fromhex(words[2]) for words in result.said if words[0] == "get"], [2, 4, 8])

    def test_whole_graphs_with_the_rule_of_paddle(self):
        script = [new("paddle", interval=1, scale=1.0), "stream 1", gradient([1.0]), "unscale 0", "update", "begin", "unscale 0", "update", "end",
                  "write 0 " + gradient([math.inf]).split()[-1], "replay", "get"]
        result = run("play", script=script)
        self.assertEqual(float.fromhex(result.said[-1][2]), 1)

    def test_a_captured_update_of_paddle_after_steps(self):
        """The replay uses the flags of all optimizers, not only that of the one stepped last before the capture."""
        script = [new("paddle", interval=1, scale=1.0), "stream 1", gradient([1.0]), gradient([1.0], optimizer=1), "unscale 0", "step 0",
                  "unscale 1", "step 1", "begin", "update", "end", "replay", "get", "write 0 " + gradient([math.inf]).split()[-1],
                  "unscale 0", "unscale 1", "replay", "get"]
        result = run("play", script=script)
        self.assertEqual([float.fromhex(words[2]) for words in result.said if words[0] == "get"], [2, 1])

    @emulated_only("two devices")
    def test_after_a_reset(self):
        """The state was mapped in the context that is gone: no call may use its address, also on another device."""
        calls = ["unscale 0", "step 0", "update", "get", "pointers 0", "scale 0"]
        for devices in (["device 0"], ["device 1"]):
            script = [new(), *devices, gradient([1.0]), "unscale 0", "get", "device 0", "reset", *devices, "clear 0", gradient([1.0]), *calls]
            result = run("play", script=[*script, "device 0", new(scale=4.0), "get"], EMU_DEVICES="2")
            self.assertFine(result)
            self.assertEqual([words[1] for words in result.said[-9:-3]], [FAILED] * 6)
            self.assertEqual((result.said[-2], float.fromhex(result.said[-1][2])), (["new", "0"], 4))

    def test_threads_without_other_calls(self):
        script = ["thread " + new(), gradient([1.0]), "thread unscale 0", "thread step 0", "thread update", "thread pointers 0", "thread get"]
        result = run("play", script=script)
        self.assertFine(result)
        self.assertEqual([words[1] for words in result.said if len(words) > 1], ["0", "0", "1", "0", "0", "0"])

    @emulated_only("its driver fails on request")
    def test_driver_failures(self):
        """The call returns an error, and the next one works."""
        script = [new(), new(), gradient([1.0]), "unscale 0", "unscale 0", "step 0", "step 0", "update", "update", "get"]
        wanted = {"cuMemHostRegister_v2:2": [FAILED, "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"],
                  "cuMemHostGetDevicePointer_v2:2": [FAILED, "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"],
                  "cuMemPoolCreate:1": [FAILED, "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"],
                  "cuLaunchKernel:1": ["0", "0", FAILED, "0", "1", BAD_STAGE, "0", BAD_STAGE, "0"],
                  "cuLaunchKernel:2": ["0", "0", "0", BAD_STAGE, "1", BAD_STAGE, FAILED, "0", "0"],
                  "cuStreamSynchronize:1": ["0", "0", "0", BAD_STAGE, FAILED, "1", "0", BAD_STAGE, "0"],
                  "cuEventSynchronize:1": ["0", "0", "0", BAD_STAGE, FAILED, "1", "0", BAD_STAGE, "0"],
                  "cuStreamWaitEvent:1": ["0", "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"],  # after a step: nothing to wait for
                  "cuEventCreate:1": ["0", "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"],  # waits for the stream instead
                  "cuEventRecord:1": ["0", "0", "0", BAD_STAGE, "1", BAD_STAGE, "0", BAD_STAGE, "0"]}
        for failure, statuses in wanted.items():
            with self.subTest(failure):
                result = run("play", script=script, EMU_FAIL=failure)
                self.assertEqual([words[1] for words in result.said if len(words) > 1], statuses)


    @emulated_only("its driver fails on request")
    def test_a_refused_wait(self):
        """The call has no effect, and the next one works."""
        script = [new(scale=2.0), gradient([1.0]), "unscale 0", gradient([1.0], optimizer=1), "unscale 1", "unscale 1", "update", "print 1", "get"]
        result = run("play", script=script, EMU_FAIL="cuStreamWaitEvent:1")
        self.assertFine(result)
        self.assertEqual([words[1] for words in result.said if words[0] in ("unscale", "update")], ["0", FAILED, "0", "0"])
        self.assertEqual((result.said[-2][1], result.said[-1][5]), (store(0.5, FLOAT32).hex(), "1"))

    @emulated_only("its driver fails on request")
    def test_an_event_that_is_not_recorded(self):
        """The call waits for its stream instead."""
        for failure in ("cuEventCreate:1", "cuEventRecord:1"):
            script = [new(), "stream 1", gradient([math.inf]), "slow", "unscale 0", "stream 2", "step 0", "update", "get", "destroy"]
            result = run("play", script=script, EMU_FAIL=failure)
            self.assertFine(result)
            self.assertEqual([words[1] for words in result.said if words[0] in ("unscale", "step", "update", "destroy")], ["0"] * 4)

    @emulated_only("its driver fails on request")
    def test_destroy_without_a_wait(self):
        """The memory is not freed, because a kernel may use it."""
        for failure in ("cuEventSynchronize:1", "cuEventDestroy_v2:1"):
            script = [new(scale=2.0), gradient([1.0]), "slow", "unscale 0", "destroy", "print 0", new(), "get"]
            result = run("play", script=script, EMU_FAIL=failure)
            self.assertFine(result)
            self.assertEqual((result.said[4], result.said[5][1], result.said[6:8][0]), (["destroy", FAILED], store(0.5, FLOAT32).hex(), ["new", "0"]))


class Python(Test):
    """autoamp.GradScaler on device memory. tests/unit/grad_scaler.py tests it on the host."""

    CLIENT = str(HERE / "clients/grad_scaler.py")

    def test_device_memory(self):
        seeds = 150
        result = run(sys.executable, self.CLIENT, str(seeds))
        self.assertFine(result)
        told = json.loads(result.output)
        oracle = json.loads((HERE / "../oracle/scaler_random.json").read_text(encoding="utf-8"))
        self.assertEqual(told["digests"], oracle["torch"]["digests"].split()[:seeds])
        self.assertEqual(told["kinds"], [
            [1, 2], [1], [2], 3, 32, {"scale": 32, "growth_factor": 8, "backoff_factor": 0.5, "growth_interval": 1, "_growth_tracker": 0},
            "ValueError", "TypeError", "ValueError", "ValueError", "the gradients of one call must be on one stream", None,
            "the gradients of one", 16])
        last = result.scalers[-1]
        self.assertEqual((last["steps"], last["skipped"], last["growths"], last["backoffs"], last["scale_last"]), (2, 1, 1, 1, 16))

    def of(self, name, **variables):
        result = run(sys.executable, self.CLIENT, name, **variables)
        self.assertFine(result)
        return json.loads(result.output), result.scalers

    def test_two_streams(self):
        """The flag of each optimizer is read after the stream of its gradients."""
        self.assertEqual(self.of("streams")[0], [None, "stepped", 2.0, "stepped", None, 1.0])

    @emulated_only("two devices")
    def test_devices_and_threads(self):
        """The stream handles 0 and 2 mean another stream on each device and in each thread."""
        self.assertEqual(self.of("devices", EMU_DEVICES="2")[0], [[None, 2.0]] * 2)
        self.assertEqual(self.of("threads")[0], [None, 2.0])

    def test_replays_of_a_captured_step(self):
        """They change the scale that numbers are multiplied by, and go on after the scaler."""
        self.assertEqual(self.of("captured")[0], [[8.0, 8.0], [16.0, 16.0], [32.0, 32.0], 64.0, 0])

    def test_lifetime(self):
        """Scalers are freed by `del`, after the device has finished their work."""
        self.assertEqual(self.of("lifetime")[0], 0)

    def test_scalers_in_the_trace(self):
        told, scalers = self.of("identities")
        self.assertEqual([(scaler["name"], scaler["steps"], scaler["sets"]) for scaler in scalers],
                         [(name, 1, 0) for name in ("autoamp#0", "autoamp#1", "autoamp#2", "autoamp.paddle#0", "autoamp.paddle#1", "autoamp.mindspore#0",
                                                    "autoamp.mindspore#1", "autoamp#3", "autoamp#4")])

    def test_scale_of_a_number_does_not_wait(self):
        self.assertEqual(self.of("waits")[0], [[True, False]] * 3)

    def test_growth_intervals(self):
        """Those that no step reaches, as in torch."""
        self.assertEqual(self.of("intervals")[0], [[32768, 0], [32768, 1]] * 5)

    def test_switched_off(self):
        self.assertEqual(self.of("off", ENABLED="0")[0], [[4.0], 2.0, "stepped", 1.0, False, [4.0], ["autoamp is off"]])
        self.assertIs(self.of("off_with_torch", ENABLED="0")[0], True)

    def test_before_the_first_cuda_call(self):
        code = "import autoamp; scaler = autoamp.GradScaler(); scaler.scale(1.0); scaler.unscale_(print, grads=[(4096, 1, 'float32')])"
        done = run(sys.executable, "-c", code)
        self.assertTrue(done.errors.endswith("RuntimeError: no CUDA context is current on this thread, or the process was forked\n"), done.errors)

    def test_messages(self):
        self.assertEqual(self.of("messages")[0], [
            "fused optimizers need torch tensors or host memory", "fused optimizers need torch tensors or host memory",
            "at most 32 optimizers can have gradients in device memory between two updates",
            "the scale, a factor, the interval or another parameter is not possible for device memory",
            "a forked process cannot use device memory", "gradients of the DLPack device type 10 are not supported", [7]])

    def test_rules(self):
        """Each rule on the device and on the host."""
        for device, host in self.of("rules")[0]:
            self.assertEqual(device, host)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + REST)
