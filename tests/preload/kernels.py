"""Device activity recorded by CUPTI: every kernel of a call is attributed to it, whatever else uses CUPTI, and no CUPTI
failure reaches the program or the trace of its calls."""
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PRELOAD, CLIENT, READER, EMULATED, PLUGIN, AUTOAMP = (pathlib.Path(a).resolve() for a in sys.argv[1:7])
UNKNOWN, NO, YES = range(3)
# As in torch 1.7's binary, and a Paddle kernel that does not belong to a scaler.
UNSCALE = ("_ZN2at6native46_GLOBAL__N__c660ad18_13_AmpKernels_cu_3810c27325multi_tensor_apply_kernelINS1_18TensorListMetadata"
           "ILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_finite_check_and_unscale_cuda_EN3c108ArrayRef"
           "INS_6TensorEEERS9_RKS9_ENKUlvE_clEvENKUlvE2_clEvEUlfE_EEEvT_T0_DpT1_")
OTHER = "_ZN3phi5funcs27VectorizedElementwiseKernelIfNS_12ScaleFunctorIffEELi1ELi1ELi4EEEvv"
TIMEOUT = 120


class Ran:
    def __init__(self, done, traces, report):
        self.status, self.errors, self.traces = done.returncode, done.stderr, traces
        self.report = " ".join(report.split())
        self.cases = {}
        for line in done.stdout.splitlines():
            name, *pairs = line.split()
            self.cases[name] = dict(pair.split("=", 1) for pair in pairs)

    @property
    def trace(self):
        assert len(self.traces) == 1, self.traces
        return self.traces[0]


def run(*cases, trace="kernels", preload=True, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    environment["LD_LIBRARY_PATH"] = str(EMULATED)
    environment.update({name: str(value) for name, value in variables.items()})
    with tempfile.TemporaryDirectory(prefix="autoamp-kernels-") as folder:
        if preload:
            environment.update(LD_PRELOAD=str(PRELOAD), AUTOAMP_TRACE=trace,
                               AUTOAMP_TRACE_FILE=os.path.join(folder, "a.aat"))
            environment.setdefault("AUTOAMP_STRATEGY", "cast")
        command = [str(CLIENT)]
        for case in cases:
            command += ["--case", case]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        traces = []
        files = sorted(glob.glob(os.path.join(folder, "*.aat")))
        if files:
            told = subprocess.run([READER, *files], capture_output=True, text=True, timeout=TIMEOUT, check=True)
            traces = [json.loads(line) for line in told.stdout.splitlines()]
        report = "".join(subprocess.run([AUTOAMP, "report", "--report", view, *files], capture_output=True, text=True, timeout=TIMEOUT,
                                        check=False).stdout for view in ("summary", "kernels")) if files else ""
    return Ran(done, traces, report)


def row_of(trace, case):
    (row,) = [row for row in trace["rows"] if row["m"] == int(case["m"]) and row["entry"] == case["entry"]]
    return row


def launches_of(trace, row):
    """Number of autoamp kernels and of vendor kernels that a row's calls launched, without copies and fills."""
    of_row = [total for total in trace["totals"] if total["row"] == row["id"] and not total["memory"]]
    return tuple(sum(total["count"] for total in of_row if total["ours"] == ours) for ours in (True, False))


class Test(unittest.TestCase):
    maxDiff = None

    def assertFine(self, ran, says=""):
        self.assertEqual(ran.status, 0, ran.errors)
        if says:
            self.assertRegex(ran.errors, r"\Aautoamp: kernels are (?:not traced|missing): [^\n]*" + says + r"[^\n]*\n\Z")
        else:
            self.assertEqual(ran.errors, "")

    def assertClean(self, trace):
        self.assertEqual({key: trace[key] for key in ("has_kernels", "unattributed", "invalid", "dropped", "unknown_calls",
                                                      "odd_times", "lost")},
                         {"has_kernels": True, "unattributed": 0, "invalid": 0, "dropped": 0, "unknown_calls": 0,
                          "odd_times": 0, "lost": 0})
        self.assertGreaterEqual(trace["clocks"], 2)
        self.assertTrue(trace["emulated"])
        self.assertComplete(trace)
        self.assertFalse([total for total in trace["totals"] if total["ns"] is not None], "times of the emulated device")

    def assertComplete(self, trace):
        """CUPTI has returned every kernel that was launched."""
        self.assertEqual(trace["received"], trace["launched"])
        self.assertEqual(trace["graphs_received"], trace["graphs"])
        self.assertEqual(trace["received"] + trace["graph_kernels"],
                         sum(total["count"] for total in trace["totals"] if not total["memory"]))

    def assertCast(self, trace, case):
        """Each call has cast, settled and multiplied."""
        row, calls = row_of(trace, case), int(case["calls"])
        self.assertEqual((row["decision"], *launches_of(trace, row), row["tensor_cores"]),
                         ("lowered", 2 * calls, calls, YES))
        self.assertEqual({total["dtype"] for total in trace["totals"] if total["row"] == row["id"] and not total["ours"]},
                         {"float16"})


class Attributed(Test):
    def test_eager(self):
        ran, bare = run("eager", "light"), run("eager", "light", preload=False)
        self.assertFine(ran)
        self.assertClean(ran.trace)
        for name in ("eager", "light"):
            self.assertCast(ran.trace, ran.cases[name])
            self.assertNotEqual(ran.cases[name]["bits"], bare.cases[name]["bits"], "it was not lowered at all")

    def test_bfloat16(self):
        ran = run("eager", AUTOAMP_DTYPE="bfloat16")
        self.assertFine(ran)
        row = row_of(ran.trace, ran.cases["eager"])
        self.assertEqual((*launches_of(ran.trace, row), row["tensor_cores"]), (5, 5, YES))

    def test_calls_that_run_as_they_were_asked(self):
        for variables in ({}, {"AUTOAMP_LEVEL": "O0"}, {"AUTOAMP_STRATEGY": "fp32"}):
            ran = run("kept", **variables)
            self.assertFine(ran)
            self.assertClean(ran.trace)
            row = row_of(ran.trace, ran.cases["kept"])
            self.assertEqual((row["calls"], row["casts"], row["kernels"], row["tensor_cores"]), (5, 0, 5, NO))
            self.assertEqual(launches_of(ran.trace, row), (0, 5))

    def test_what_belongs_to_no_call(self):
        ran = run("beside")
        self.assertFine(ran)
        self.assertClean(ran.trace)
        self.assertCast(ran.trace, ran.cases["beside"])
        fills = [total for total in ran.trace["totals"] if total["name"] == "[memset]" and total["row"] == 0]
        self.assertEqual([total["count"] for total in fills], [1])
        self.assertGreaterEqual(ran.trace["outside"], 2)

    def test_graphs(self):
        ran = run("graph")
        self.assertFine(ran)
        self.assertClean(ran.trace)
        case = ran.cases["graph"]
        row = row_of(ran.trace, case)
        self.assertEqual((row["calls"], row["captured"]), (2, 1))
        launches = 1 + int(case["replays"])
        self.assertEqual(launches_of(ran.trace, row), (2 * launches, launches))
        self.assertEqual(ran.trace["graph_kernels"], 3 * int(case["replays"]))
        # Kernels of graphs are not expected one by one, so none of them can be missing.
        launched, graphs = ran.trace["launched"], ran.trace["graphs"]
        self.assertGreaterEqual(graphs, int(case["replays"]))
        self.assertIn(f"launched: {launched:,} kernels outside of graphs, {launched:,} received; {graphs:,} graph launches, kernels of "
                      f"{graphs:,} received (the number of kernels in a graph is unknown)", ran.report)
        self.assertNotIn("lost:", ran.report)

    def test_graph_that_is_older_than_the_collector(self):
        ran = run("old_graph", AUTOAMP_EMU_PLUGINS=PLUGIN, KERNEL_NAMES="one\ntwo")
        self.assertFine(ran)
        case, trace = ran.cases["old_graph"], ran.trace
        replayed = int(case["replays"])
        self.assertEqual((case["nodes"], trace["unattributed"], trace["graph_kernels"]), ("2", 2 * replayed, 2 * replayed))
        self.assertEqual({total["name"]: (total["row"], total["count"]) for total in trace["totals"]
                          if total["name"] in ("one", "two")}, {"one": (0, replayed), "two": (0, replayed)})
        self.assertCast(trace, case)

    def test_threads(self):
        for name in ("threads", "per_thread"):
            with self.subTest(name):
                ran = run(name)
                self.assertFine(ran)
                self.assertClean(ran.trace)
                case = ran.cases[name]
                rows = [row for row in ran.trace["rows"] if row["m"] >= 60]
                self.assertEqual(len(rows), int(case["count"]))
                self.assertGreaterEqual(ran.trace["streams"], int(case["count"]))
                for row in rows:
                    self.assertEqual((row["calls"], *launches_of(ran.trace, row)),
                                     (int(case["calls"]), 2 * int(case["calls"]), int(case["calls"])))

    def test_more_threads_than_buffers(self):
        """Each thread has its own buffer. Records without a buffer are lost, and the loss is counted."""
        ran = run("crowd")
        self.assertFine(ran)
        case, trace = ran.cases["crowd"], ran.trace
        rows = [row for row in trace["rows"] if row["m"] >= 60]
        self.assertEqual({row["calls"] for row in rows}, {int(case["calls"])})
        self.assertEqual(len(rows), int(case["count"]))
        self.assertEqual((trace["unattributed"] > 0, trace["dropped"] > 0), (trace["dropped"] > 0,) * 2)
        attributed = sum(sum(launches_of(trace, row)) for row in rows)
        wanted = 3 * int(case["count"]) * int(case["calls"])
        self.assertLessEqual(wanted, attributed + trace["unattributed"] + trace["dropped"])
        if not trace["dropped"]:
            self.assertEqual(attributed, wanted)

    def test_context_that_is_gone(self):
        ran = run("reset", AUTOAMP_EMU_CUPTI="late")
        self.assertFine(ran)
        self.assertClean(ran.trace)
        self.assertCast(ran.trace, ran.cases["reset"])

    def test_contexts_that_come_back(self):
        for word in ("", "late"):
            with self.subTest(word):
                ran = run("resets", **({"AUTOAMP_EMU_CUPTI": word} if word else {}))
                self.assertFine(ran)
                self.assertClean(ran.trace)
                for m in (55, 58, 59):
                    (row,) = [row for row in ran.trace["rows"] if row["m"] == m]
                    self.assertEqual((row["calls"], *launches_of(ran.trace, row)), (3, 6, 3))

    def test_forked_child(self):
        ran = run("fork")
        self.assertFine(ran)
        self.assertEqual(len(ran.traces), 2)
        parent, child = sorted(ran.traces, key=lambda trace: -trace["singles"])
        self.assertClean(parent)
        row = row_of(parent, ran.cases["fork"])
        self.assertEqual((row["calls"], *launches_of(parent, row)), (4, 8, 4))
        self.assertEqual((child["has_kernels"], child["totals"]), (False, []))
        self.assertIn(["kernels_off", "CUPTI does not work in a forked child"], child["notes"])

    def test_no_handler_runs(self):
        """Data that the helper thread had written is complete, with whole kernels; that of the last second may be
        missing."""
        for case, status, word in (("killed", -9, "late"), ("left", 7, "shuffled")):
            with self.subTest(case):
                ran = run(case, AUTOAMP_EMU_CUPTI=word)
                self.assertEqual((ran.status, ran.errors), (status, ""))
                trace, row = ran.trace, row_of(ran.trace, ran.cases[case])
                self.assertEqual((row["calls"], trace["ended"], trace["unattributed"]), (5, "no exit seen", 0))
                casts, products = launches_of(trace, row)
                self.assertGreaterEqual((casts, products), (6, 3))
                self.assertLessEqual((casts, products), (10, 5))
                self.assertGreater(trace["singles"], 9)
                # CUPTI's own overhead is counted; a time of the emulated device is never reported.
                ((kind, count, ns),) = trace["overhead"]
                self.assertEqual((kind, count > 0, ns), ("buffer_flush", True, None))

    def test_main_thread_leaves(self):
        """pthread_exit in main: the process ends with its last thread, as it does without autoamp, and not before."""
        for case, status in (("leaves", 0), ("leaves_workers", 9)):
            with self.subTest(case):
                self.assertEqual(run(case, preload=False).status, status)
                ran = run(case)
                self.assertEqual((ran.status, ran.errors), (status, ""))
                self.assertEqual(ran.cases["handlers"], {"ran": "1"})
                self.assertEqual(ran.trace["ended"], f"exit {status}")
                self.assertClean(ran.trace)
                for m, calls in ((57, 2), (58, 3), (59, 3)):
                    (row,) = [row for row in ran.trace["rows"] if row["m"] == m]
                    self.assertEqual((row["calls"], *launches_of(ran.trace, row)), (calls, 2 * calls, calls))

    def test_work_left_on_the_device(self):
        """The exit waits for it, and every kernel has its call."""
        ran = run("queued")
        self.assertFine(ran)
        self.assertClean(ran.trace)
        row, calls = row_of(ran.trace, ran.cases["queued"]), int(ran.cases["queued"]["queued"]) + 1
        self.assertEqual((row["calls"], *launches_of(ran.trace, row)), (calls, 2 * calls, calls))
        calls_only = run("queued", trace="ops")
        self.assertLess(int(ran.cases["peak"]["kib"]) - int(calls_only.cases["peak"]["kib"]), 100 << 10)

    def test_kernels_that_a_killed_run_lost(self):
        ran = run("queued_and_killed", AUTOAMP_EMU_CUPTI="held")
        self.assertEqual(ran.status, -9)
        trace = ran.trace
        self.assertEqual(trace["launched"], 3 * (1 + int(ran.cases["queued_and_killed"]["queued"])))
        self.assertEqual((trace["received"], trace["unattributed"]), (0, 0))
        self.assertIn("lost: 3,003 of 3,003 kernels (killed, or ended by _exit)",
                      ran.report)

    def test_other_levels_load_no_cupti(self):
        for level in ("ops", "summary", "off"):
            ran = run("eager", trace=level, AUTOAMP_EMU_FAIL="cuptiSubscribe_v2:1")
            self.assertFine(ran)
            self.assertFalse([trace for trace in ran.traces if trace["has_kernels"] or trace["clocks"]])


class Disturbed(Test):
    """CUPTI loses, delays and mixes up records, is used by another client, or fails."""

    def test_late_and_shuffled(self):
        for word in ("late", "shuffled", "late,shuffled"):
            with self.subTest(word):
                ran = run("eager", "beside", "graph", AUTOAMP_EMU_CUPTI=word)
                self.assertFine(ran)
                self.assertClean(ran.trace)
                self.assertCast(ran.trace, ran.cases["eager"])

    def test_lost_times(self):
        for word in ("lost", "early", "reversed"):
            with self.subTest(word):
                ran = run("eager", AUTOAMP_EMU_CUPTI=word)
                self.assertFine(ran)
                self.assertCast(ran.trace, ran.cases["eager"])
                kernels = sum(total["count"] for total in ran.trace["totals"])
                self.assertEqual((ran.trace["invalid"], ran.trace["singles"]), (kernels // 3, kernels - kernels // 3))

    def test_orphaned(self):
        """Their launches are not reported."""
        ran = run("kept", AUTOAMP_EMU_CUPTI="orphaned,lost")
        self.assertFine(ran)
        totals = ran.trace["totals"]
        kernels = sum(total["count"] for total in totals if not total["memory"])
        every = sum(total["count"] for total in totals)
        self.assertEqual(({total["row"] for total in totals}, kernels), ({0}, 5))
        self.assertEqual((ran.trace["unattributed"], ran.trace["invalid"]), (kernels, every // 3))

    def test_dropped(self):
        ran = run("eager", AUTOAMP_EMU_CUPTI="dropped")
        self.assertFine(ran)
        kernels = sum(total["count"] for total in ran.trace["totals"])
        dropped = ran.trace["dropped"]
        self.assertEqual((dropped > 0, dropped, ran.trace["unattributed"]), (True, (kernels + dropped) // 3, 0))

    def test_buffers_run_out(self):
        """CUPTI returns no buffer, gets no more than 64, and reports how many records it dropped."""
        ran = run("many", AUTOAMP_EMU_CUPTI="held")
        self.assertFine(ran)
        trace = ran.trace
        missing = trace["launched"] - trace["received"]
        self.assertEqual(trace["launched"], 3 * int(ran.cases["many"]["calls"]))
        self.assertLessEqual(trace["received"], 64 * 16)
        self.assertGreater(trace["received"], 60 * 16)
        # Copies and fills are dropped as well.
        self.assertGreaterEqual(trace["dropped"], missing)
        self.assertLessEqual(trace["dropped"], missing + 100)
        self.assertEqual(trace["unattributed"], 0)

    def test_times_without_sense(self):
        ran = run("many", AUTOAMP_EMU_CUPTI="lost")
        self.assertOff(ran, r"more than one in ten CUPTI timestamps is invalid", calls=1400)
        self.assertGreater(ran.trace["invalid"], 4096 // 3 - 10)
        ran = run("many")
        self.assertFine(ran)
        self.assertClean(ran.trace)

    def assertOff(self, ran, says, calls=5):
        """The trace of calls is complete, and contains the reason for missing kernels."""
        self.assertFine(ran, says)
        self.assertEqual(row_of(ran.trace, ran.cases[next(iter(ran.cases))])["calls"], calls)
        (note,) = [text for kind, text in ran.trace["notes"] if kind == "kernels_off"]
        self.assertRegex(note, says)

    def test_somebody_else_is_there(self):
        ran = run("first")
        self.assertOff(ran, "CUPTI for Kineto already uses CUPTI in this process; CUPTI supports one client")
        self.assertEqual((ran.cases["first"]["status"], ran.trace["has_kernels"]), ("0", False))
        self.assertOff(run("eager", AUTOAMP_EMU_CUPTI="taken"), "Nsight Systems already uses CUPTI")

    def test_somebody_else_comes_later(self):
        ran = run("second")
        self.assertFine(ran)
        self.assertEqual((ran.cases["second"]["status"], ran.cases["second"]["holder"]), ("39", "CUPTI_for_autoamp"))
        self.assertCast(ran.trace, ran.cases["second"])

    def test_somebody_else_takes_the_buffers(self):
        """There is no notification, and the other client frees CUPTI's buffers. The recording ends, with the reason."""
        taken = "another CUPTI client (seems to receive the buffers: CUPTI returns none|received the buffers)"
        ran = run("afterwards")
        self.assertOff(ran, taken)
        self.assertTrue(ran.trace["has_kernels"])
        self.assertOff(run("after_flush"), taken)
        ran = run("for_long")
        self.assertOff(ran, taken, calls=39)
        self.assertNotEqual(ran.cases["for_long"]["strangers"], "0", "activities of the other client were disabled")
        # autoamp launches nothing, but a buffer does not return.
        self.assertOff(run("afterwards", AUTOAMP_LEVEL="O0", AUTOAMP_EMU_CUPTI="held"), taken)
        self.assertOff(run("finalized"), "cuptiActivityFlushAll failed")

    def test_somebody_else_had_buffers(self):
        """Their buffers are passed to autoamp's callbacks, which must ignore them."""
        ran = run("beforehand")
        self.assertFine(ran)
        self.assertClean(ran.trace)

    def test_cupti_of_cuda_12(self):
        """It has no cuptiSubscribe_v2, and does not name the other subscriber."""
        older = EMULATED / "libcupti12.so"
        ran = run("eager", AUTOAMP_CUPTI_PATH=older)
        self.assertFine(ran)
        self.assertClean(ran.trace)
        self.assertCast(ran.trace, ran.cases["eager"])
        self.assertOff(run("eager", AUTOAMP_CUPTI_PATH=older, AUTOAMP_EMU_CUPTI="taken"),
                       "another tool already uses CUPTI in this process; CUPTI supports one client")
        self.assertOff(run("eager", AUTOAMP_CUPTI_PATH=older, AUTOAMP_EMU_FAIL="cuptiSubscribe:1"),
                       r"cuptiSubscribe failed \(999\)")

    def test_no_cupti(self):
        self.assertOff(run("eager", AUTOAMP_CUPTI_PATH="/nowhere/libcupti.so"), "/nowhere/libcupti.so")
        self.assertOff(run("eager", AUTOAMP_CUPTI_PATH="/lib/x86_64-linux-gnu/libm.so.6"), "libcupti has no cupti")

    def test_path(self):
        ran = run("eager", AUTOAMP_CUPTI_PATH=EMULATED / "libcupti.so.13")
        self.assertFine(ran)
        self.assertClean(ran.trace)

    FUNCTIONS = ("cuptiGetVersion cuptiGetTimestamp cuptiSubscribe_v2 cuptiEnableCallback cuptiGetGraphNodeId "
                 "cuptiActivityRegisterCallbacks cuptiActivityEnable cuptiActivityDisable cuptiActivityFlushAll "
                 "cuptiActivityGetNextRecord cuptiActivityGetNumDroppedRecords cuptiActivitySetAttribute cuptiUnsubscribe").split()
    # Failures after which the recording continues: they change nothing, or come at the end.
    HARMLESS = {"cuptiActivityDisable", "cuptiActivitySetAttribute", "cuptiUnsubscribe"}

    def test_every_function_fails(self):
        sound = run("graph", "eager")
        for function in self.FUNCTIONS:
            for call in (1, 2, 5):
                with self.subTest(f"{function}:{call}"):
                    ran = run("graph", "eager", AUTOAMP_EMU_FAIL=f"{function}:{call}")
                    self.assertEqual(ran.status, 0, ran.errors)
                    self.assertEqual(ran.cases, sound.cases)
                    counted = ("entry", "decision", "m", "calls", "captured")
                    self.assertEqual([[row[key] for key in counted] for row in ran.trace["rows"]],
                                     [[row[key] for key in counted] for row in sound.trace["rows"]])
                    self.assertEqual(ran.trace["ended"], "exit 0")
                    off = [text for kind, text in ran.trace["notes"] if kind == "kernels_off"]
                    if function in self.HARMLESS:
                        self.assertEqual((ran.errors, off), ("", []))
                    elif call == 1:
                        self.assertEqual(len(off), 1)
                    lines = ran.errors.replace("kernels are missing: ", "kernels are not traced: ")  # if some came
                    self.assertEqual(lines, "".join(f"autoamp: kernels are not traced: {text}\n" for text in off))


class Scaler(Test):
    """Work of the program's own gradient scaler is recognized by the names of its kernels."""

    def test_steps(self):
        names = [UNSCALE] * 3 + ["_ZN2at6native28amp_update_scale_cuda_kernelEPfPiS1_ddi"] * 2 + [
            "_ZN3phi21CheckFiniteAndUnscaleIffEEvPPKT_PKT0_lPlPbPPS1_",
            "_ZN3phi20GpuUpdateLossScalingIfPKbEEvT0_PKT_PKiS7_iiS4_S4_PS4_PiS9_",
            "_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EE12ScaleFunctorIffEJfEEvlPViT_T0_DpT1_", OTHER]
        ran = run("named", AUTOAMP_EMU_PLUGINS=PLUGIN, KERNEL_NAMES="\n".join(names))
        self.assertFine(ran)
        self.assertClean(ran.trace)
        self.assertEqual(ran.cases["named"]["launches"], str(len(names)))
        self.assertEqual(sorted(ran.trace["observed"]),
                         [["apex", "unscale", 1], ["paddle", "unscale", 1], ["paddle", "update", 1],
                          ["torch", "unscale", 3], ["torch", "update", 2]])
        self.assertEqual([total["count"] for total in ran.trace["totals"] if total["name"] == OTHER], [1])


# A program with a kernel that no plug-in has, launched like nvcc's code does, between two products.
UNKNOWN_KERNEL = """
import ctypes
runtime, blas = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcublas.so.13")
class Dim3(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in "xyz"]
register, launch = getattr(runtime, "__cudaRegisterFunction"), runtime.cudaLaunchKernel
launch.argtypes = [ctypes.c_char_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
stub = ctypes.create_string_buffer(8)
register(None, stub, None, b"_Z5scalePffi", -1, None, None, None, None, None)
handle = ctypes.c_void_p()
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
assert blas.cublasSgemm_v2(handle, 0, 0, 0, 0, 0, None, None, 1, None, 1, None, None, 1) == 0
for _ in range(3):
    assert launch(ctypes.cast(stub, ctypes.c_char_p), Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None) != 0
"""
# The same without a cuBLAS call, in this process and in one that it starts.
KERNEL_WITHOUT_CALL = "\n".join(line for line in UNKNOWN_KERNEL.splitlines() if "assert blas." not in line)
# The same through the driver, which does not have the kernel; before the first product, and after it.
LOOKED_UP_KERNEL = """
import ctypes, os, signal
driver, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
handle, library, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuLibraryLoadData(ctypes.byref(library), b".version 8.0 .target sm_75", None, None, 0, None, None, 0) == 0
assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, b"early") != 0
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
assert blas.cublasSgemm_v2(handle, 0, 0, 0, 0, 0, None, None, 1, None, 1, None, None, 1) == 0
assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, b"late") != 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), library, b"late") != 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), library, b"later") != 0
"""
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


CUDA_NOT_STARTED = """
import ctypes
blas = ctypes.CDLL("libcublas.so.13")
assert blas.cublasSgemm_v2(None, 0, 0, 0, 0, 0, None, None, 1, None, 1, None, None, 1) == 1
"""


# Harmless signatures, and then one whose float16 product loses small values next to a large feature: 2^36 in A, 2^-36 in B.
LATE_LOSS = """
import ctypes, random
runtime, blas = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcublas.so.13")
handle, size = ctypes.c_void_p(), 64
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
one, zero = ctypes.c_float(1), ctypes.c_float(0)
def device(values):
    pointer, host = ctypes.c_void_p(), (ctypes.c_float * len(values))(*values)
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(ctypes.sizeof(host))) == 0
    assert runtime.cudaMemcpy(pointer, host, ctypes.c_size_t(ctypes.sizeof(host)), 1) == 0
    return pointer
def product(m, n, k):
    assert blas.cublasSgemm_v2(handle, 0, 0, m, n, k, ctypes.byref(one), a, size, b, size, ctypes.byref(zero), c, size) == 0
random.seed(1)
a, b, c = (device([random.gauss(0, 1) for _ in range(size * size)]) for _ in range(3))
for i in range(4200):
    product(1 + i % 16, 1 + i // 16 % 16, 1 + i // 256)
a = device([random.gauss(0, 1) * (2.0 ** 36 if i // size == 5 else 1) for i in range(size * size)])
b = device([random.gauss(0, 1) * (2.0 ** -36 if i % size == 5 else 1) for i in range(size * size)])
product(size, size, size)
product(size, size, size)
assert runtime.cudaDeviceSynchronize() == 0
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def autoamp(self, *arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
        return subprocess.run([AUTOAMP, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=TIMEOUT)

    def record(self, script, *options):
        done = self.autoamp("run", "--device", "emulated", *options, "-o", "t.aat", "--", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(done.stderr.split())

    def test_kernels_that_are_not_emulated_are_counted(self):
        receipt = self.record(UNKNOWN_KERNEL)
        line = "could not run 1 kernel (launches: 3), the first: scale(float*, float, int); tools/emulated/README.md"
        self.assertIn(line, receipt)
        text = self.autoamp("report", "t.aat").stdout
        self.assertIn("could not run 1 kernel (launches: 3)", " ".join(text.split()))
        self.assertNotIn("failures:", text)  # cublasCreate has started CUDA
        report = json.loads(self.autoamp("report", "--format", "json", "t.aat").stdout)
        self.assertEqual(report["not_emulated"], [{"kernel": "_Z5scalePffi", "demangled": "scale(float*, float, int)", "launches": 3}])
        self.assertEqual(report["totals"]["fallbacks"], 0)

    def test_a_program_without_a_call_has_no_trace_but_its_refused_kernels_are_counted(self):
        child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {KERNEL_WITHOUT_CALL!r}], check=True)\n"
        for script, launches in ((KERNEL_WITHOUT_CALL, 3), (child + KERNEL_WITHOUT_CALL, 6)):
            for end, status in (("", 0), ("\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 137)):
                done = self.autoamp("run", "--device", "emulated", "-o", "t.aat", "--", sys.executable, "-c", script + end)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(f"could not run 1 kernel (launches: {launches}), the first: scale(float*, float, int); tools/emulated/README.md",
                              " ".join(done.stderr.split()))
                self.assertFalse(os.path.exists(os.path.join(self.folder, "t.aat")))

    def test_the_receipt_tells_why_autoamp_could_not_work_in_a_program(self):
        """The program reaches each limit after it has started, and before its first call."""
        cases = (("NOFILE, (3, 3)", r"autoamp stayed off in a process: .*Too many open files"),
                 ("FSIZE, (0, 0)", r"a process could not write its trace: .*t\.aat: File too large"))
        for limit, cause in cases:
            script = UNKNOWN_KERNEL.replace("handle = ", f"import os, resource, signal; resource.setrlimit(resource.RLIMIT_{limit})\nhandle = ", 1)
            for more in ("", KILL):
                with self.subTest(limit, more=more):
                    done = self.autoamp("run", "--device", "emulated", "-o", "t.aat", "--", sys.executable, "-c", script + more)
                    self.assertEqual(done.returncode, 137 if more else 0, done.stderr)
                    self.assertRegex(" ".join(done.stderr.split()), cause)
                    self.assertNotIn("not called", done.stderr)
                    self.assertIn("could not run 1 kernel (launches: 3)", " ".join(done.stderr.split()))
        # One process with a trace, one without.
        both = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {script!r}])\n{UNKNOWN_KERNEL}"
        done = self.autoamp("run", "--device", "emulated", "-o", "t.aat", "--", sys.executable, "-c", both)
        text = " ".join(done.stderr.split())
        self.assertRegex(text, r"no trace was written in a process: \S*t\.\S*aat: File too large")
        self.assertIn("could not run 1 kernel (launches: 6)", text)

    def test_every_refused_kernel_is_counted_under_its_whole_name(self):
        script = KERNEL_WITHOUT_CALL + """
for name in [f"_Z{len(str(i)) + 8000}k{'x' * 7999}{i}v" for i in range(200)] + [""]:
    stub = ctypes.create_string_buffer(8)
    register(None, stub, None, name.encode(), -1, None, None, None, None, None)
    assert launch(ctypes.cast(stub, ctypes.c_char_p), Dim3(1, 1, 1), Dim3(1, 1, 1), None, 0, None) != 0
"""
        text = " ".join(self.autoamp("run", "--device", "emulated", "--", sys.executable, "-c", script).stderr.split())
        self.assertIn("could not run 202 kernels (launches: 204), the first: (no name); ", text)

    def test_messages_of_the_emulated_device_harm_no_program(self):
        """Not at the limit of file sizes, not to a pipe without a reader, and not into a file that became descriptor 2."""
        opened = "import os\nos.close(2); assert os.open('data', os.O_CREAT | os.O_RDWR) == 2\n"
        signals = "import signal\nfor one in (signal.SIGXFSZ, signal.SIGPIPE): signal.signal(one, signal.SIG_DFL)\n"
        limited = signals + "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        reader, pipe = os.pipe()
        os.close(reader)
        with open(os.path.join(self.folder, "log"), "w") as log, open(pipe, "w") as pipe:
            for name, script, target in (("file", opened, log), ("limit", limited, log), ("pipe", signals, pipe)):
                done = subprocess.run([AUTOAMP, "run", "--quiet", "--device", "emulated", "--", sys.executable, "-c", script + KERNEL_WITHOUT_CALL],
                                      cwd=self.folder, stderr=target, timeout=TIMEOUT)
                self.assertEqual((name, done.returncode), (name, 0))
        self.assertEqual(os.path.getsize(os.path.join(self.folder, "data")), 0)

    def test_the_loss_of_a_late_signature_is_told(self):
        self.record(LATE_LOSS, "--strategy", "cast", "--dtype", "float16")
        report = json.loads(self.autoamp("report", "--format", "json", "t.aat").stdout)
        self.assertEqual({event["kind"] for event in report["scaler"]["events"]} & {"underflow"}, {"underflow"})

    def test_kernels_that_had_not_finished_at_the_exit(self):
        """A host function that does not return holds them back."""
        script = """import ctypes
runtime, one, memory = ctypes.CDLL("libcudart.so.13"), ctypes.byref(ctypes.c_float(1)), ctypes.c_void_p()
runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
blas, handle = ctypes.CDLL("libcublas.so.13"), ctypes.c_void_p()
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
assert runtime.cudaLaunchHostFunc(None, ctypes.CDLL(None).pause, None) == 0
for _ in range(3):
    assert blas.cublasSgemm_v2(handle, 0, 0, 512, 512, 512, one, memory, 512, memory, 512, one, memory, 512) == 0
"""
        # Without a record CUPTI may have requested a buffer for them, or none.
        self.assertRegex(self.record(script, "--trace", "kernels"),
                         r"they had not finished at exit, or another CUPTI client|lost: 3 of 3 kernels \(unfinished at exit\)")

    def test_a_call_before_cuda_has_started_is_no_failure(self):
        self.record(CUDA_NOT_STARTED)
        self.assertNotIn("failures:", self.autoamp("report", "t.aat").stdout)

    def test_a_killed_program_and_refused_lookups(self):
        for script, kernels, words in (
                (UNKNOWN_KERNEL, {"_Z5scalePffi": 3}, "could not run 1 kernel (launches: 3), the first: scale(float*, float, int); "),
                (LOOKED_UP_KERNEL, {"early": 0, "late": 0, "later": 0}, "could not run 3 kernels (lookups failed), the first: early; ")):
            for end, status in (("", 0), (KILL, 137)):
                with self.subTest(kernels=kernels, status=status), tempfile.TemporaryDirectory() as folder:
                    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
                    def autoamp(*arguments):
                        return subprocess.run([AUTOAMP, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
                    done = autoamp("run", "--device", "emulated", "-o", "t.aat", "--", sys.executable, "-c", script + end)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn(words, " ".join(done.stderr.split()))
                    report = json.loads(autoamp("report", "--format", "json", "t.aat").stdout)
                    self.assertEqual({each["kernel"]: each["launches"] for each in report["not_emulated"]}, kernels)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[7:]])
