"""sweep.py FRONT EMULATED CLIENT READER SOURCE: every CUDA and vendor function that autoamp calls fails once, at each
of its calls in turn, under a program on the emulated device. The program must not notice: each of its products equals
the bare one or the lowered one bit for bit, and the trace contains which one and why."""
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FRONT, EMULATED, CLIENT, READER, SOURCE = (pathlib.Path(place).resolve() for place in sys.argv[1:6])
ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-faults-"))

# Functions that autoamp calls, from its tables; the versions are queried for the trace's header.
TABLES = [("src/cuda/driver.h", "AUTOAMP_DRIVER_FUNCTIONS"), ("src/op/vendor.h", "AUTOAMP_CUBLAS_FUNCTIONS"),
          ("src/op/vendor.h", "AUTOAMP_CUBLASLT_FUNCTIONS"), ("src/op/vendor.h", "AUTOAMP_CUDNN_FUNCTIONS"),
          ("src/op/vendor.h", "AUTOAMP_CUDNN_OPS_FUNCTIONS"), ("src/op/vendor.h", "AUTOAMP_CUDNN_CNN_FUNCTIONS"),
          ("src/op/vendor.h", "AUTOAMP_CUDNN_GRAPH_FUNCTIONS")]
BESIDE = {"cublasGetProperty", "cudnnGetProperty",
          # In a table whose other functions are for convolutions with another math type.
          *(f"cudnnGetConvolution{direction}WorkspaceSize" for direction in ("Forward", "BackwardData", "BackwardFilter"))}
# Called only when something else has failed already, so one failure cannot reach them.
SECOND = {"cuMemPoolDestroy", "cuMemHostUnregister", "cuUserObjectRelease"}
# For layers that are never lowered, or that this client does not use; and functions that cannot fail.
LAYERS = {"cudnnGetActivationDescriptor", "cudnnGetPoolingNdDescriptor", "cudnnGetReduceTensorDescriptor",
          "cudnnGetOpTensorDescriptor", "cudnnGetVersion", "cublasLtGetVersion"}
# Called only by the self-test, whose result is stored before the sweep: tests/preload/self_test.py lets each of them fail.
SELF_TEST = {"cuStreamCreateWithPriority", "cuStreamDestroy_v2", "cuStreamQuery", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
             "cudnnSetStream",
             # only by gradient scalers: tests/preload/scaler.py
             "cuStreamSynchronize", "cuStreamWaitEvent", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize",
             "cuPointerGetAttribute",  # only by probes of the program's scalers: tests/preload/gradients.py
             "cuEventQuery",  # only by kept weights: tests/preload/weights.py
             "cuStreamGetId"}  # only by later calls on a stream that is not captured: tests/unit/lower_context_state.cpp


def table(file, name):
    text = re.search(rf"#define {name}\(X\)(.*?[^\\])\n\n", (SOURCE / file).read_text(), re.DOTALL).group(1)
    return re.findall(r"X\((\w+),", text)


def exported():
    for library in ("cuda", "cublas", "cublaslt", "cudnn"):
        text = (SOURCE / "tools/emulated" / library / "exports.txt").read_text()
        yield from (line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#"))


OURS = [name for file, x in TABLES for name in table(file, x)]
NAMES = ROOM / "names"
NAMES.write_text("\n".join(sorted({*exported(), *OURS, *BESIDE})))


class Run:
    """One run of the client: its output, by kind of line."""

    def __init__(self, preload, fail=None, names=None, trace=None, **environment):
        environment = {"PATH": os.environ["PATH"], "HOME": str(ROOM), "LD_LIBRARY_PATH": str(EMULATED), **environment}
        if preload:
            environment |= {"LD_PRELOAD": str(FRONT), "AUTOAMP_TRACE": "ops", "AUTOAMP_TRACE_FILE": str(trace),
                            "AUTOAMP_MEMORY": "1M"}  # the pool has memory for a graph
        if fail:
            environment["AUTOAMP_EMU_FAIL"] = fail
        done = subprocess.run([CLIENT, *([names] if names else [])], capture_output=True, text=True, timeout=60,
                              env=environment)
        self.code, self.stderr = done.returncode, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        self.counts = {line[1]: int(line[2]) for line in lines if line[0] == "count"}
        self.own = [(line[1], int(line[2])) for line in lines if line[0] == "own"]
        self.stopped = [line[1:] for line in lines if line[0] == "stopped:"]
        self.captured = [line[1:] for line in lines if line[0] == "captured"]
        calls = [line[1:] for line in lines if line[0] == "call"]
        self.hashes = [call[-1] for call in calls]
        self.answers = [call[:-1] for call in calls] + self.captured


class Trace:
    """The reader's output for one trace."""

    def __init__(self):
        self.calls, self.rows, self.notes = [], [], []


def read(paths):
    done = subprocess.run([READER, *paths], capture_output=True, text=True, timeout=60, check=True)
    traces = {}
    for line in done.stdout.splitlines():
        kind, *rest = line.split("\t")
        if kind == "file":
            trace = traces[rest[0]] = Trace()
            trace.error = rest[1]
        elif kind == "end":
            trace.ended, trace.died_inside, trace.lost = rest
        elif kind == "missing":
            trace.missing = rest
        elif kind != "note" or rest[0] != "plan_built":  # not a failure
            getattr(trace, kind + "s").append(rest)
    return traces


class Sweep:
    def __init__(self, strategy, dtype):
        self.strategy, self.dtype = strategy, dtype
        # Arrays of pointers, sums of an operand and convolutions are lowered only by cast; raised sums have no
        # substitute.
        self.environment = {} if strategy == "cast" else {"WITHOUT_ARRAYS": "1"}
        eager = 9 if self.environment else 22
        # The results to which each call of the client contributes: the captured ones are replayed twice.
        self.results = [*([i] for i in range(eager)), [eager, eager + 2], [eager + 1, eager + 3], [eager + 4]]
        self.bare = Run(False, names=NAMES, **self.environment)
        self.read([self.run(None)])  # stores the result of the self-test
        self.clean = self.run(None, names=NAMES)
        self.trace = self.read([self.clean])[0]
        bare = self.bare.counts
        self.functions = sorted({name for name, count in self.clean.counts.items() if count > bare.get(name, 0)})

    def run(self, fail, names=None):
        path = ROOM / f"{self.strategy}.{self.dtype}.{fail}.aat"
        run = Run(True, fail, names, path, AUTOAMP_STRATEGY=self.strategy, AUTOAMP_DTYPE=self.dtype,
                  AUTOAMP_CUSTOM_BLACK_LIST="cublasHgemm*", **self.environment)
        run.fail, run.path = fail, str(path)
        return run

    def read(self, runs):
        traces = read([run.path for run in runs])
        for run in runs:
            os.unlink(run.path)
        return [traces[run.path] for run in runs]

    def own(self, function, run):
        return [n for name, n in run.own if name == function]

    def wrong(self, run, trace):
        """The errors of a run in which one of autoamp's calls failed."""
        function = run.fail.split(":")[0]
        if run.code or run.stderr != (UNMAPPED if function in MAPPING else ""):
            return f"exit {run.code}, stderr {run.stderr!r}"
        if run.answers != self.clean.answers:
            return f"the application received {[a for a in run.answers if a not in self.clean.answers]}"
        if [call[0] for call in trace.calls] != [call[0] for call in self.trace.calls] or trace.ended != "exit 0":
            return f"the trace has calls {trace.calls}, ended {trace.ended!r}"
        if sum(int(row[3]) for row in trace.rows) != len(trace.calls):
            return f"totals {trace.rows}"
        fallbacks = []
        for (entry, decision, reason), results in zip(trace.calls, self.results):
            if decision == "fallback":
                fallbacks.append(reason)
            elif decision != ("raised" if entry == "cublasHgemm" else "lowered"):
                return f"{entry} {decision} {reason}"
            expected = self.bare if decision == "fallback" else self.clean
            # Without memory for a workspace the vendor's other algorithm runs.
            others = [self.bare] if decision == "lowered" and self.strategy != "cast" and function in ALLOCATING else []
            if any(run.hashes[i] in [other.hashes[i] for other in others] if others else run.hashes[i] != expected.hashes[i]
                   for i in results):
                return f"{entry} {decision} {reason}: other bits"
        if function == "cublasLtMatmulAlgoGetHeuristic" and set(fallbacks) == {"no_fp32_output"} and trace.notes:
            return None  # a refusal is cached for all calls of its signature
        if len(fallbacks) > 1:
            return f"{len(fallbacks)} fallbacks: {fallbacks}"
        if not trace.notes:
            return f"fallback {fallbacks[0]}, no note" if fallbacks else SILENT
        if len(trace.notes) > 1 or any(count != "1" for _, _, count in trace.notes):
            return f"notes {trace.notes}"
        if not fallbacks and self.strategy != "cast" and function in ALLOCATING:
            text = f"no workspace; {self.strategy} ran without it"
            return None if trace.notes[0][:2] == ["out_of_memory", text] else f"notes {trace.notes}"
        if fallbacks and trace.notes and trace.notes[0][0] != fallbacks[0]:
            return f"fallback {fallbacks[0]}, note {trace.notes[0]}"
        return None


SILENT = "lowered, no note"
UNMAPPED = "autoamp: the device cannot map host memory; scaler events are not recorded\n"
MAPPING = {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"}
ALLOCATING = {"cuMemAllocFromPoolAsync", "cuMemAlloc_v2", "cuMemPoolCreate"}


def attributes_that_do_not_exist(kind):
    """The number of attributes that the vendor's objects lack. autoamp finds the attributes by querying each of 64
    once, and again if a query is refused. For attributes that do not exist, either answer may be a failure."""
    text = (SOURCE / "tools/emulated/cublaslt/objects.cpp").read_text()
    return 2 * (64 - len(re.findall(rf"FIELD\({kind},", text)))


ASKED = {"cublasLtMatmulDescGetAttribute": attributes_that_do_not_exist("MatmulDesc"),
         "cublasLtMatrixLayoutGetAttribute": attributes_that_do_not_exist("MatrixLayout"),
         # The first CUDA call of a thread: there is no context yet, and the failure means the same.
         "cuCtxGetDevice": 1,
         "cuDeviceGetAttribute": 1}  # whether there are memory pools: after a failure one is created all the same


class Faults(unittest.TestCase):
    maxDiff = None

    def test_the_tables_are_what_is_called(self):
        called = {name: set(sweep.functions) for name, sweep in SWEEPS.items()}
        for name, functions in called.items():
            self.assertEqual(functions - set(OURS) - BESIDE, set())
            if name.startswith("cast"):
                of_float16 = {"cuLaunchKernelEx"} if "bfloat16" in name else set()  # of settle
                self.assertEqual(set(OURS) - functions - SECOND - LAYERS, SELF_TEST | of_float16)
            else:
                self.assertIn("cuMemFreeAsync", functions)  # of a workspace
                self.assertNotIn("cuLaunchKernel", functions)

    def test_clean_runs(self):
        for sweep in SWEEPS.values():
            bare, clean = sweep.bare, sweep.clean
            self.assertEqual((bare.code, bare.stderr, clean.code, clean.stderr), (0, "", 0, ""))
            self.assertEqual(clean.answers, bare.answers)
            raised = set() if sweep.environment else {"raised"}
            self.assertEqual({call[1] for call in sweep.trace.calls}, {"lowered"} | raised)
            self.assertEqual(len(sweep.trace.calls), len(sweep.results))
            self.assertEqual(sweep.trace.notes, [])
            # A convolution uses TF32 by default, which rounds like float16.
            same = [answer[0] for answer, *pair in zip(bare.answers, bare.hashes, clean.hashes) if pair[0] == pair[1]]
            self.assertFalse([call for call in same if sweep.dtype != "float16" or "cudnn" not in call])

    def test_every_call_of_ours_fails_once(self):
        problems, silent = [], collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for sweep in SWEEPS.values():
                for function in sweep.functions:
                    own = sweep.own(function, sweep.clean)
                    numbers = [n for n in range(1, sweep.clean.counts[function] + 1) if n not in own]
                    runs = list(pool.map(lambda n: sweep.run(f"{function}:{n}"), numbers))
                    for run, trace in zip(runs, sweep.read(runs)):
                        wrong = sweep.wrong(run, trace)
                        if wrong == SILENT and function in ASKED:
                            silent[sweep.strategy, sweep.dtype, function] += 1
                        elif wrong == SILENT and function in MAPPING:
                            pass  # a line on stderr instead
                        elif wrong:
                            problems.append(f"{sweep.strategy} {sweep.dtype} {run.fail}: {wrong}")
        self.assertFalse(problems, "\n".join(["", *problems]))
        self.assertEqual(silent, {(sweep.strategy, sweep.dtype, function): count for sweep in SWEEPS.values()
                                  for function, count in ASKED.items()})

    def test_a_call_of_the_applications_own_fails_as_it_did(self):
        for sweep in SWEEPS.values():
            for function in sweep.functions:
                pairs = zip(sweep.own(function, sweep.bare), sweep.own(function, sweep.clean), strict=True)
                for alone, beside in pairs:
                    bare = Run(False, f"{function}:{alone}", **sweep.environment)
                    run = sweep.run(f"{function}:{beside}")
                    with self.subTest(f"{sweep.strategy} {sweep.dtype} {function}:{beside}"):
                        self.assertEqual((run.code, run.stderr, run.stopped), (3, "", bare.stopped))
                        self.assertEqual((run.answers, len(run.hashes)), (bare.answers, len(bare.hashes)))


if __name__ == "__main__":
    try:
        SWEEPS = {f"{strategy} {dtype}": Sweep(strategy, dtype)
                  for strategy, dtype in (("cast", "float16"), ("cast", "bfloat16"), ("tf32", "tf32"), ("library", "bfloat16"))}
        result = unittest.main(argv=sys.argv[:1], exit=False).result
    finally:
        shutil.rmtree(ROOM)
    sys.exit(not result.wasSuccessful())
