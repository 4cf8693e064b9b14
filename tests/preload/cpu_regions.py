"""cpu_regions.py FRONT CPU_FRONT AUTOAMP CLIENT EMULATED: regions of the calls of a CPU BLAS, through autoamp.h and through
autoamp.autocast. The rounding of each product shows its precision."""
import ctypes.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

FRONT, CPU_FRONT, AUTOAMP, CLIENT, EMULATED = sys.argv[1:6]
HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = [sys.executable, os.path.join(HERE, "clients/cpu_autocast.py")]
WARNING = "autocast(\"cpu\") has no effect"

B, S = "bfloat16", "float32"
RAN = {
    "nested": [B, B, S, B, B],
    "devices": [B, B, S],
    "types": [S, B, S, B, B, B, "float16"],
    "required": ["-1", B, S, S, "0", B, "1", S],
    "all": [S, B, B, "0", S, S, B, S],
    "sizes": ["0", S, "-1", "0", S, "0", "off", "-1", "-1", B],
    "described": ["bfloat16/1/bfloat16/-1", "float16/1"],
    "named": [B, B],
}
RAN_SCRIPT = {
    "nested": [B, B, S, B, B, S],
    "dtypes": [B, S, S, B],
    "other_devices": [B, B, B, S],
    "workers": [S, B, S, B, B, S],
    "states": ["True/bfloat16", "True/float16", "False/float16", "False/float16", "False/float32", "False/bfloat16", "True"],
    "custom_functions": [B, B, B, S, S, B, B, B, S, S, S, S],
}


class Run:
    def __init__(self, command, case, preload=CPU_FRONT, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
        environment.update({"AUTOAMP_" + name: value for name, value in {"STRATEGY": "cast", **variables}.items()})
        environment["PYTHONPATH"] = os.path.join(HERE, "../../tools/python")
        environment["LD_LIBRARY_PATH"] = EMULATED
        with tempfile.TemporaryDirectory() as folder:
            environment.update(LD_PRELOAD=preload, AUTOAMP_TRACE_FILE=os.path.join(folder, "trace.aat"), XDG_STATE_HOME=folder)
            done = subprocess.run([*command, case], env=environment, capture_output=True, text=True, timeout=120, check=False)
            self.ops = []
            if os.path.exists(environment["AUTOAMP_TRACE_FILE"]):
                report = subprocess.run([AUTOAMP, "report", "--format", "json", environment["AUTOAMP_TRACE_FILE"]],
                                        capture_output=True, text=True, check=True)
                self.ops = json.loads(report.stdout)["ops"]
        self.status, self.errors, self.ran = done.returncode, done.stderr, done.stdout.strip().split(",")


class CpuRegions(unittest.TestCase):
    maxDiff = None

    def check(self, run, ran, errors=""):
        self.assertEqual((run.ran, run.errors, run.status), (ran, errors, 0))

    def test_header(self):
        for case, ran in RAN.items():
            for trace in ("summary", "off"):
                with self.subTest(case, trace=trace):
                    self.check(Run([CLIENT], case, LOG="error", TRACE=trace), ran)

    def test_header_without_autoamp(self):
        for case in ("nested", "devices", "types", "named"):
            with self.subTest(case):
                self.assertEqual(set(Run([CLIENT], case, preload="").ran) - {"1"}, {S})  # 1: nothing to describe

    def test_scope(self):
        self.check(Run([CLIENT], "nested", SCOPE="regions"), [S, B, S, B, B])
        self.check(Run([CLIENT], "devices", SCOPE="regions"), [S, B, S])  # a region for CUDA does not count
        self.check(Run([CLIENT], "required", SCOPE="process"), ["-1", B, B, B, "1", B, "1", B])

    def test_reports_and_rules_name_regions_of_the_cpu_only(self):
        run = Run([CLIENT], "named")
        self.assertEqual({(row["region"], row["calls"]) for row in run.ops}, {("cpu", 3), (None, 3)})
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[rule]]\nregion = "cuda"\nprecision = "float32"\n')
            file.flush()
            self.check(Run([CLIENT], "named", CONFIG=file.name), [B, B])
            file.write('[[rule]]\nregion = "cpu"\nprecision = "float32"\n')
            file.flush()
            self.check(Run([CLIENT], "named", CONFIG=file.name), [S, B])

    def test_type_that_the_cpu_lacks(self):
        run = Run(SCRIPT, "dtypes")
        self.assertEqual({(row["decision"], row["reason"]) for row in run.ops},
                         {("lowered", "white_list"), ("kept", "unsupported"), ("kept", "region_disabled")})

    def test_python(self):
        for case, ran in RAN_SCRIPT.items():
            with self.subTest(case):
                run = Run(SCRIPT, case)
                if case in ("dtypes", "states"):
                    self.assertEqual(run.errors.count("target dtype is not supported"), 1)
                    run.errors = ""
                elif case == "other_devices":
                    self.assertEqual(run.errors.count("Use autocast(\"cpu\") for products of a CPU BLAS."), 1)
                    run.errors = ""
                self.check(run, ran)

    def test_python_process_scope(self):
        self.check(Run(SCRIPT, "nested", SCOPE="process"), [B, B, S, B, B, B])

    def test_python_off(self):
        self.check(Run(SCRIPT, "nested", ENABLED="0"), [S] * 6)
        run = Run(SCRIPT, "nested", LEVEL="O0")
        self.check(run, [S] * 6)
        self.assertEqual({row["decision"] for row in run.ops}, {"observed"})

    def test_python_without_autoamp(self):
        for preload in ("", FRONT):
            run = Run(SCRIPT, "nested", preload=preload)
            self.assertEqual(run.ran, [S] * 6)
            self.assertEqual(run.errors.count(WARNING), 1, run.errors)

    def test_both_fronts(self):
        for preload in (f"{FRONT}:{CPU_FRONT}", f"{CPU_FRONT}:{FRONT}"):
            run = Run(SCRIPT, "both", preload=preload)
            H = "float16"
            self.check(run, [f"{B}/{H}", f"{B}/{H}", f"{S}/{H}", f"{S}/{H}", f"{S}/{B}", f"{B}/{B}", f"{S}/{S}", f"{B}/{B}",
                             f"{S}/{S}", "True/True"])
            regions = {(row["library"], row["region"]) for row in run.ops if row["region"]}
            self.assertEqual(regions, {("cublas", "gpu"), ("blas", "host")})
            # A region of the CPU is not a part of the site of a CUDA call.
            sites = {row["site"] for row in run.ops if row["library"] == "cublas" and not row["region"]}
            self.assertEqual(len(sites), 1)


if __name__ == "__main__":
    with open("/proc/cpuinfo", encoding="ascii") as CPU:
        if "avx512_bf16" not in CPU.read() or not ctypes.util.find_library("dnnl"):
            sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
