"""AUTOAMP_CAPTURE_RANGE, AUTOAMP_DELAY and AUTOAMP_DURATION: calls inside are recorded exactly, calls outside are
counted, and no product has other bits because of it."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import runner

API = "cudaProfilerApi"
FORMS = range(6)  # forms of NVTX calls: clients/ranges.h

# Range, actions of the program, number of recorded calls, of calls that are not recorded, and of range starts.
CASES = [
    ("calls:3:5", "call:4 kept:4", 3, 5, 1),
    ("calls:1:1", "kept:3", 1, 2, 1),
    ("calls:3:", "call:4 kept:4", 6, 2, 1),
    ("calls:3:100", "call:2 kept:4", 4, 2, 1),
    ("calls:7:100", "call:2 kept:4", 0, 6, 0),
    (API, "call start call:2 stop kept:3 start kept call stop call", 4, 5, 2),
    (API, "start call:2 stop call", 2, 1, 1),
    (API, "start stop start call:2 stop call", 2, 1, 2),
    (API, "start start call stop call stop call", 1, 2, 1),
    (API, "call start call", 1, 1, 1),
    (API, "call driver-start call:2 driver-stop call", 2, 2, 1),
    (API, "call looked-start call:2 looked-stop call", 2, 2, 1),
    (API, "call start call driver-stop call", 1, 2, 1),
    (API, "call start thread:call:2+kept stop call", 3, 2, 1),
    (API, "call:3", 0, 3, 0),
    (API, "call start stop call", 0, 2, 1),
    *(("nvtx:train", f"call push:train/{form} call:2 push:other/{form} call pop:{form} kept pop:{form} call", 4, 2, 1)
      for form in FORMS),
    *(("nvtx:train", f"call begin:train/{form} call:2 begin:other/{form} call end:{form} kept end:{form} call", 4, 2, 1)
      for form in FORMS),
    ("nvtx:tra*", "push:trainer call pop push:eval call pop push:train call pop", 2, 1, 2),
    ("nvtx:train", "push:outer push:train call pop call pop call", 1, 2, 1),
    ("nvtx:train", "push:train push:train call pop call pop call", 2, 1, 1),
    ("nvtx:train", "push:train begin:train call pop call end call", 2, 1, 1),
    ("nvtx:train", "push:train thread:call:2 pop call", 2, 1, 1),
    ("nvtx:train", "call begin:train thread:call:2+push:other+call end call", 3, 2, 1),
    ("nvtx:train", "call thread:push:train+call call", 1, 2, 1),
    ("nvtx:train", "push:train thread:push:train+call call pop call", 2, 1, 1),
    ("nvtx:train", "push:eval call:3 pop", 0, 3, 0),
]


def run(script, range_=None, **variables):
    if range_ is not None:
        variables["CAPTURE_RANGE"] = range_
        if range_.startswith("nvtx:"):
            variables.setdefault("_NVTX_INJECTION64_PATH", runner.PLACE.preload)
    variables.setdefault("STRATEGY", "cast")
    return runner.run("capture_ranges", "script", _CLIENT_SCRIPT=script, **variables)


def kernels_of(report):
    """{(entry point, is an autoamp kernel, is a copy or fill): count}."""
    counts = {}
    for kernel in report["kernels"]:
        key = (kernel["entry"], kernel["cast"], kernel["copy"])
        counts[key] = counts.get(key, 0) + kernel["count"]
    return counts


class Test(runner.Test):
    def captured(self, result):
        self.assertFine(result)
        (process,) = result.report["runs"]
        return process["capture"]

    def assertCaptured(self, result, recorded, outside, begun):
        capture = self.captured(result)
        self.assertEqual((capture["calls"], capture["calls_outside"], capture["begun"]), (recorded, outside, begun))
        self.assertEqual(result.report["totals"]["calls"], recorded)
        self.assertEqual(sum(row["calls"] for row in result.report["ops"]), recorded)
        self.assertEqual(bool(capture["why_nothing"]), recorded == 0)


class Ranges(Test):
    def test_exactly_what_is_inside(self):
        for range_, script, recorded, outside, begun in CASES:
            for trace in ("summary", "ops"):
                with self.subTest(range=range_, script=script, trace=trace):
                    self.assertCaptured(run(script, range_, TRACE=trace), recorded, outside, begun)

    def test_no_other_bits(self):
        for range_, script, *_ in CASES:
            with self.subTest(range=range_, script=script):
                whole, bare = run(script), runner.bare("capture_ranges", "script", _CLIENT_SCRIPT=script)
                self.assertEqual(run(script, range_).bits(), whole.bits())
                self.assertIsNone(whole.report["runs"][0]["capture"])
                if "call" in script.replace("calls", ""):
                    self.assertNotEqual(whole.bits(), bare.bits(), "it was not lowered at all")

    def test_which_calls(self):
        rows = run("call:4 kept:4", "calls:3:5").report["ops"]
        self.assertEqual({(row["m"], row["decision"], row["calls"]) for row in rows},
                         {(64, "lowered", 2), (65, "kept", 1)})

    def test_rules_and_regions_stay(self):
        """A capture range does not change decisions. Its rows have the name of the NVTX range, as without it."""
        for variables in ({"SCOPE": "regions"}, {}):
            script = "push:train call:2 pop call"
            plain = run(script, _NVTX_INJECTION64_PATH=runner.PLACE.preload, **variables)
            result = run(script, "nvtx:train", **variables)
            self.assertCaptured(result, 2, 1, 1)
            self.assertEqual(result.bits(), plain.bits())
            self.assertEqual({row["region"] for row in result.report["ops"]}, {"train"})
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('capture_range = "nvtx:tr*"\n[[rule]]\nregion = "train"\nprecision = "bfloat16"\n')
            file.flush()
            result = run("call push:train call pop push:trial call pop call", CONFIG=file.name,
                         _NVTX_INJECTION64_PATH=runner.PLACE.preload)
            self.assertCaptured(result, 2, 2, 2)
            self.assertEqual({(row["region"], row["dtype_compute"]) for row in result.report["ops"]},
                             {("train", "bfloat16"), ("trial", "float16")})

    def test_scaler_events(self):
        whole = run("call:4").scaler_totals()
        self.assertEqual(whole, {"init": 2})
        self.assertEqual(run("call:4", "calls:3:4").scaler_totals(), whole)
        self.assertEqual(run("call:4", "calls:5:").scaler_totals(), {})
        self.assertEqual(run("call graph replay kept", "calls:3:3").scaler_totals(), {})

    def test_no_call_is_lost_in_a_storm(self):
        """Threads that call while another one switches the range: each call is recorded or counted exactly once."""
        for trace in ("ops", "kernels"):
            result = run("storm:300", API, TRACE=trace)
            self.assertEqual((result.status, result.errors), (0, ""))
            capture = result.report["runs"][0]["capture"]
            self.assertEqual(capture["calls"] + capture["calls_outside"], 900)
            self.assertEqual((result.report["totals"]["calls"], bool(capture["begun"])), (capture["calls"], True))
            self.assertFalse(result.report["loss"]["kernels_unattributed"])

    def test_size_cap(self):
        result = run("kept:9000", "calls:1000:8999", TRACE="ops", TRACE_MAX_SIZE="64K")
        self.assertCaptured(result, 8000, 1000, 1)
        self.assertGreater(result.report["loss"]["events_dropped"], 0)


class Time(Test):
    def test_delay(self):
        script = "call sleep:8100 call:2"
        self.assertCaptured(run(script, DELAY="8s"), 2, 1, 1)
        self.assertCaptured(run("call:3", DELAY="1ms"), 3, 0, 1)
        late = run("call:3", DELAY="60m")
        self.assertCaptured(late, 0, 3, 0)
        self.assertEqual(self.captured(late)["delay_s"], 3600)
        self.assertIn("before the delay was over", self.captured(late)["why_nothing"])

    def test_duration(self):
        self.assertCaptured(run("call sleep:50 call:3", DURATION="1ms"), 1, 3, 1)
        self.assertCaptured(run("call:3 sleep:50 call:3", DURATION="60m"), 6, 0, 1)
        self.assertIsNone(run("call:3", DURATION="0", DELAY="0").report["runs"][0]["capture"])

    def test_with_a_range(self):
        self.assertCaptured(run("call:2 sleep:50 call:2", "calls:2:", DURATION="1ms"), 1, 3, 1)
        self.assertCaptured(run("call:3", "calls:2:3", DELAY="1ms"), 2, 1, 1)
        late = run("start call:3", API, DELAY="1000.5")
        self.assertCaptured(late, 0, 3, 1)
        self.assertEqual((self.captured(late)["delay_s"], self.captured(late)["range"]), (1000.5, API))


class Kernels(Test):
    def assertKernels(self, script, range_, lowered, kept=0, fills=0, **variables):
        """That many of each, cast by two autoamp kernels, and no kernel of unknown origin."""
        result = run(script, range_, TRACE="kernels", **variables)
        self.assertFine(result)
        loss, counts = result.report["loss"], kernels_of(result.report)
        self.assertEqual([loss[key] for key in ("kernels_unattributed", "invalid_timestamps", "kernels_dropped")], [0, 0, 0])
        entry = "cublasSgemm_v2"
        self.assertEqual((counts.get((entry, True, False), 0), counts.get((entry, False, False), 0),
                          counts.get((None, False, True), 0)), (2 * lowered, lowered + kept, fills))
        self.assertEqual({key for key in counts if key[0] not in (entry, None)}, set())
        return result

    def test_launched_inside(self):
        self.assertKernels("call:2 fill sync start call:3 fill kept:2 stop sync call fill", API, 3, 2, 1)
        self.assertKernels("fill call fill push:train call fill pop fill kept", "nvtx:train", 1, 0, 1)
        self.assertKernels("call fill call fill kept fill call fill", "calls:2:3", 1, 1, 1)
        self.assertKernels("start call stop call start call stop call", API, 2)
        self.assertKernels("call:3", API, 0)

    def test_finished_later(self):
        for word in ("", "late", "late,shuffled"):
            variables = {"EMU_CUPTI": word} if word else {}
            self.assertKernels("call sync start block call:2 fill stop call kept", API, 2, 0, 1, **variables)

    def test_launched_before(self):
        self.assertKernels("call sync block call:2 fill start call stop kept", API, 1)

    def test_replays_of_older_graphs(self):
        """The graph's nodes belong to the call that was captured, outside or inside."""
        for script in ("call graph sync start replay replay stop replay", "call start graph replay stop replay start replay stop"):
            self.assertKernels(script, API, 2, fills=0)

    def test_in_other_threads(self):
        self.assertKernels("call push:train thread:call:2 pop thread:call", "nvtx:train", 2)

    def test_time(self):
        self.assertKernels("call sync sleep:50 call:2 sync fill", None, 1, DURATION="1ms")
        self.assertKernels("call:2", None, 0, DELAY="1000")

    def test_cupti_fails_between(self):
        sound = run("call start call stop call start call stop", API, TRACE="kernels")
        for function in ("cuptiActivityEnable", "cuptiActivityDisable", "cuptiActivityEnableRuntimeApi",
                         "cuptiActivityEnableDriverApi"):
            for call in (1, 3, 7, 30):
                with self.subTest(f"{function}:{call}"):
                    result = run("call start call stop call start call stop", API, TRACE="kernels",
                                 EMU_FAIL=f"{function}:{call}")
                    self.assertEqual((result.status, result.bits()), (0, sound.bits()))
                    capture = result.report["runs"][0]["capture"]
                    self.assertEqual((capture["calls"], capture["calls_outside"]), (2, 2))


class Said(Test):
    def test_bad_values(self):
        for name, values, accepted in (
                ("CAPTURE_RANGE", ("cudaprofilerapi", "nvtx:", "nvtx", "calls", "calls:", "calls:1", "calls:0:1", "calls:2:1",
                                   "calls:1:x", "calls::2", "calls:1:2:3", "train"),
                 "cudaProfilerApi, nvtx:NAME or calls:A:B (from 1, both included)"),
                ("DELAY", ("", "x", "-1", "1h", "1.", ".5", "1e3", "1 s"), "seconds, or a number with ms, s or m"),
                ("DURATION", ("s", "1,5"), "seconds, or a number with ms, s or m")):
            for value in values:
                with self.subTest(name, value=value):
                    result = run("call", **{name: value})
                    self.assertEqual((result.status, result.report), (0, None))
                    self.assertEqual(result.errors, f"autoamp: off: AUTOAMP_{name}={value}: bad value; accepted: {accepted}\n")
                    option = "--" + name.lower().replace("_", "-")
                    done = self.command("call", option, value)
                    self.assertEqual((done.returncode, done.stdout), (125, ""))
                    self.assertIn(f"{option} {value}: bad value", done.stderr)

    def command(self, script, *options, folder=None):
        with tempfile.TemporaryDirectory() as other:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTOAMP_")}
            return subprocess.run([runner.PLACE.autoamp, "run", "--device", "emulated", "--strategy", "cast", "-o",
                                   (folder or other) + "/a.aat", *options, "--",
                                   os.path.join(runner.PLACE.clients, "capture_ranges"), "--case", "script"],
                                  env=environment | {"CLIENT_SCRIPT": script}, capture_output=True, text=True,
                                  timeout=runner.TIMEOUT, check=False)

    def receipt(self, script, *options):
        done = self.command(script, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    @runner.emulated_only("`run --device emulated`")
    def test_receipts(self):
        self.assertIn("autoamp: recorded: calls 3 to 5 of 8 (capture range calls:3:5)\n",
                      self.receipt("call:4 kept:4", "--capture-range", "calls:3:5"))
        self.assertIn("autoamp: recorded: 2 of 3 calls (capture range nvtx:tr*, duration 60 s)\n",
                      self.receipt("push:train call:2 pop call", "--capture-range", "nvtx:tr*", "--duration", "1m"))
        for range_, cause in ((API, "the program did not call cudaProfilerStart\n"),
                              ("nvtx:train", "the program opened no NVTX range of that name"),
                              ("calls:5:9", "the program made only 3 calls")):
            said = self.receipt("call:3", "--capture-range", range_)
            self.assertIn(f"autoamp: recorded: 0 of 3 calls (capture range {range_}); the range never began: {cause}", said)
            self.assertNotIn("no cuBLAS or cuDNN call was intercepted", said)
        self.assertIn("; the program made its last call before the delay was over", self.receipt("call", "--delay", "60m"))

    @runner.emulated_only("`run --device emulated`")
    def test_summary(self):
        """One line for all processes together."""
        for script, says in (("call:3 kept:2", "calls 2 to 3 of 5"), ("call:3 fork raw:4 join", "4 of 7 calls")):
            with tempfile.TemporaryDirectory() as folder:
                self.command(script, "--capture-range", "calls:2:3", folder=folder)
                told = subprocess.run([runner.PLACE.autoamp, "report", folder], capture_output=True, text=True,
                                      timeout=runner.TIMEOUT, check=True)
                self.assertIn(f"\nrecorded: {says} (capture range calls:2:3)\n", told.stdout)

    def test_no_receiver_of_nvtx(self):
        for path in ({}, {"_NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}):
            result = run("push:train call pop", CAPTURE_RANGE="nvtx:train", **path)
            self.assertEqual(result.status, 0)
            why = "no NVTX range is received: NVTX_INJECTION64_PATH does not lead to libautoamp.so"
            self.assertEqual(result.errors.count("\n"), 1)
            self.assertIn("autoamp: AUTOAMP_CAPTURE_RANGE=nvtx:train: " + why, result.errors)
            self.assertIn(why, result.report["runs"][0]["capture"]["why_nothing"])

    def test_without_a_trace(self):
        result = run("call:2 start call stop", API, TRACE="off")
        self.assertFine(result)
        self.assertIsNone(result.report)
        self.assertEqual(result.bits(), run("call:2 start call stop").bits())


class Processes(Test):
    def test_forked_children_count_for_themselves(self):
        for range_, script, expected in (
                (API, "call start call:2 fork raw:3 stop raw join call stop call", [(3, 2, 1), (3, 1, 1)]),
                (API, "call start call stop fork raw start raw join call", [(1, 2, 1), (1, 1, 1)]),
                ("calls:2:3", "call:2 fork raw:4 join call:2", [(2, 2, 1), (2, 2, 1)]),
                ("nvtx:train", "push:train call fork raw pop raw:2 join call pop call", [(2, 1, 1), (1, 2, 1)]),
                ("nvtx:train", "hold:train call fork raw push:train raw pop join release call", [(1, 1, 1), (1, 1, 1)]),
                ("nvtx:train", "begin:train call fork raw end raw join end call", [(1, 1, 1), (1, 1, 1)])):
            with self.subTest(range_, script=script):
                result = run(script, range_, TRACE="ops")
                self.assertFine(result)
                told = [process["capture"] for process in result.report["runs"]]
                self.assertEqual(sorted((each["calls"], each["calls_outside"], each["begun"]) for each in told),
                                 sorted(expected))

    def test_killed(self):
        for script, expected in (("call start call:2 kill", (2, 1, 1)), ("start call:2 stop call:3 kill", (2, 3, 1)),
                                 ("call:3 kill", (0, 3, 0))):
            result = run(script, API, TRACE="ops")
            self.assertEqual((result.status, result.errors), (-9, ""))
            told = result.report["runs"][0]["capture"]
            self.assertEqual((told["calls"], told["calls_outside"], told["begun"]), expected)

    def test_the_switch_is_the_programs_own(self):
        """The call reaches CUDA and returns its status. If cuBLAS is never called, autoamp starts nothing."""
        script = "start stop driver-start driver-stop looked-start looked-stop"
        for variables in ({"CAPTURE_RANGE": API}, {}):
            result = run(script, LEVEL="wrong", **variables)
            bare = runner.bare("capture_ranges", "script", _CLIENT_SCRIPT=script)
            self.assertEqual((result.errors, result.cases, result.report), (bare.errors, bare.cases, None))
        for function in ("cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart", "cuProfilerStop"):
            with self.subTest(function):
                failing = {"EMU_FAIL": f"{function}:1"}
                bare = runner.bare("capture_ranges", "script", _CLIENT_SCRIPT="kept " + script, **failing)
                result = run("kept " + script, API, **failing)
                self.assertEqual((result.status, result.errors, result.cases), (bare.status, bare.errors, bare.cases))
                self.assertEqual((bare.status, bare.errors.count("\n")), (1, 1))


if __name__ == "__main__":
    runner.main()
