"""The self-test before the first lowered product on a device, on devices that compute wrongly or do not end."""
import glob
import json
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

import runner

STRATEGIES = {"cast float16": ("cast", "float16"), "cast bfloat16": ("cast", "bfloat16"), "tf32": ("tf32", "tf32"),
              "library float16": ("library", "float16"), "library bfloat16": ("library", "bfloat16")}
CAST = {"STRATEGY": "cast", "DTYPE": "float16"}
FAILED = r"\Aautoamp: the self-test of [a-z0-9 ]+ on .* failed: its error is [^\n]* Calls on this device run unchanged[^\n]*\n\Z"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LAUNCHES = "cuLaunchKernel cublasLtMatmul cuStreamCreateWithPriority"


class SelfTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.folder = os.path.join(self.room.name, "state")

    def run_case(self, case, preload=True, counted=LAUNCHES, client="self_test", **variables):
        """Returns the case's values, stderr, and the decisions in the report."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
        environment |= {"LD_LIBRARY_PATH": runner.PLACE.emulated, "COUNTED": counted}
        if not self.folder:
            environment |= {"HOME": "", "XDG_STATE_HOME": ""}
        folder = tempfile.mkdtemp(dir=self.room.name)
        environment |= {"AUTOAMP_DIR": self.folder, "AUTOAMP_TRACE_FILE": os.path.join(folder, "trace.aat")}
        environment |= {"LD_PRELOAD": runner.PLACE.preload} if preload else {}
        environment |= {"AUTOAMP_" + name: value for name, value in variables.items()}
        done = subprocess.run([os.path.join(runner.PLACE.clients, client), "--case", case], env=environment,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done)
        values = dict(pair.split("=", 1) for pair in done.stdout.split()[1:])
        rows = []
        if glob.glob(os.path.join(folder, "*.aat")):
            told = subprocess.run([runner.PLACE.autoamp, "report", "--format", "json", folder], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(told.returncode, 0, told)
            rows = [(row["decision"], row["reason"], row["calls"]) for row in json.loads(told.stdout)["ops"]]
        return values, done.stderr, rows

    def bare(self, case="first"):
        return {key: value for key, value in self.run_case(case, preload=False)[0].items() if key.endswith("bits")}

    def bits(self, values):
        return {key: value for key, value in values.items() if key.endswith("bits")}

    def stored(self):
        return glob.glob(os.path.join(self.folder, "self-test.*"))

    def test_each_path_passes_and_is_stored(self):
        for name, (strategy, dtype) in STRATEGIES.items():
            with self.subTest(name):
                for file in self.stored():
                    os.unlink(file)
                settings = {"STRATEGY": strategy, "DTYPE": dtype, "SCALING": "off" if name == "library float16" else "auto"}
                values, errors, rows = self.run_case("first", **settings)
                self.assertEqual((errors, rows), ("", [("lowered", "white_list", 2)]))
                self.assertEqual(values["count_cuStreamCreateWithPriority"], "1")
                (file,) = self.stored()
                self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
                self.assertEqual(stat.S_IMODE(os.stat(self.folder).st_mode), 0o700)
                again, errors, rows = self.run_case("first", **settings)
                self.assertEqual((errors, rows), ("", [("lowered", "white_list", 2)]))
                self.assertEqual(self.bits(again), self.bits(values))
                self.assertEqual(again["count_cuStreamCreateWithPriority"], "0")
                self.assertEqual(int(values["count_cublasLtMatmul"]) - int(again["count_cublasLtMatmul"]),
                                 4 if name == "cast float16" else 3)  # one of them is mended

    def test_wrong_devices_compute_unchanged(self):
        bare = self.bare()
        faults = [(strategy, f"PRODUCT_ROUNDING:{n}") for strategy in STRATEGIES for n in (1, 2, 3)]
        faults += [("cast float16", f"PRODUCT_DEVICE_ALPHA:{n}") for n in (1, 2, 3)]
        for name, fault in faults:
            with self.subTest(name, fault=fault):
                for file in self.stored():
                    os.unlink(file)
                strategy, dtype = STRATEGIES[name]
                settings = {"STRATEGY": strategy, "DTYPE": dtype, "SCALING": "off" if name == "library float16" else "auto"}
                values, errors, rows = self.run_case("first", EMU_FAIL=fault, **settings)
                self.assertRegex(errors, FAILED)
                self.assertIn(name.replace("cast ", "cast to ").replace("library ", "library in "), errors)
                self.assertEqual((rows, self.bits(values)), ([("fallback", "self_test_failed", 2)], bare))
                # The result is stored: the next process launches nothing, whatever the device computes now.
                (file,) = self.stored()
                self.assertIn(file, errors)
                values, errors, rows = self.run_case("first", **settings)
                self.assertRegex(errors, FAILED)
                self.assertEqual((rows, self.bits(values)), ([("fallback", "self_test_failed", 2)], bare))
                self.assertEqual([values["count_" + function] for function in LAUNCHES.split()], ["0", "0", "0"])

    def test_a_failure_keeps_the_calls_of_all_paths(self):
        self.run_case("first", EMU_FAIL="PRODUCT_ROUNDING:1", STRATEGY="tf32")
        values, errors, rows = self.run_case("first", **CAST)
        self.assertRegex(errors, FAILED)
        self.assertEqual((rows, values["count_cuStreamCreateWithPriority"]), ([("fallback", "self_test_failed", 2)], "0"))

    def test_a_process_that_passes_keeps_the_failure_of_another(self):
        """Both run at the same time: the one that passes has read the folder before the other one failed."""
        self.run_case("first", EMU_FAIL="PRODUCT_ROUNDING:1", **CAST)
        (failed,) = self.stored()
        kept = os.path.join(self.room.name, "failed")
        os.rename(failed, kept)
        self.assertEqual(self.run_case("first", STRATEGY="tf32")[2], [("lowered", "white_list", 2)])
        (passed,) = self.stored()
        self.assertNotEqual(passed, failed)
        os.rename(kept, failed)
        for settings in (CAST, {"STRATEGY": "tf32"}):
            values, errors, rows = self.run_case("first", **settings)
            self.assertRegex(errors, FAILED)
            self.assertIn(failed, errors)
            self.assertEqual((rows, values["count_cuStreamCreateWithPriority"]), ([("fallback", "self_test_failed", 2)], "0"))
        os.unlink(failed)  # repeats only the test that failed
        self.assertEqual(self.run_case("first", STRATEGY="tf32")[0]["count_cuStreamCreateWithPriority"], "0")
        self.assertEqual(self.run_case("first", **CAST)[0]["count_cuStreamCreateWithPriority"], "1")

    def test_a_device_that_does_not_end(self):
        values, errors, rows = self.run_case("first", EMU_FAIL="PRODUCT_DURATION:1", **CAST)
        self.assertRegex(errors, r"\Aautoamp: the self-test of cast to float16 on [^\n]* did not end within 5 s\. Calls on this device "
                                 r"run unchanged\n\Z")
        self.assertEqual((rows, self.bits(values)), ([("fallback", "self_test_failed", 2)], self.bare()))
        self.assertEqual(self.stored(), [])  # another process may have occupied the device
        self.assertEqual(self.run_case("first", **CAST)[1:], ("", [("lowered", "white_list", 2)]))

    def test_files_that_are_not_a_result(self):
        good = self.run_case("first", **CAST)
        (file,) = self.stored()
        with open(file, encoding="utf-8") as text:
            whole = text.read()
        for damaged in ("", whole[:-4], whole.replace("passed", "possed"), whole.replace("core", "cure"), "\0" * 5000,
                        whole.replace("cast to", "past to"), whole.replace("end\n", "cast to float16\nend\n"),
                        whole.replace("\nend\n", "\nand\n")):
            with self.subTest(damaged=damaged), open(file, "w", encoding="utf-8") as text:
                text.write(damaged)
            values, errors, rows = self.run_case("first", **CAST)
            self.assertEqual((errors, rows, values), ("", good[2], good[0]))
            with open(file, encoding="utf-8") as text:
                self.assertEqual(text.read(), whole)
        # A link, and a file that others can write: the test runs again. The link's target is not changed.
        other = os.path.join(self.room.name, "other")
        os.rename(file, other)
        os.symlink(other, file)
        self.assertEqual(self.run_case("first", **CAST)[0], good[0])
        self.assertFalse(os.path.islink(file))
        os.chmod(file, 0o666)
        self.assertEqual(self.run_case("first", **CAST)[0], good[0])

    def test_no_folder(self):
        for folder in ("/proc/nobody/writes/here", ""):
            self.folder = folder
            for _ in range(2):
                values, errors, rows = self.run_case("first", **CAST)
                self.assertEqual((errors, rows), ("", [("lowered", "white_list", 2)]))
                self.assertEqual(values["count_cuStreamCreateWithPriority"], "1")
            self.assertEqual(self.run_case("devices", **CAST)[0]["count_cuStreamCreateWithPriority"], "2")

    def test_never_during_capture(self):
        for name, (strategy, dtype) in STRATEGIES.items():
            with self.subTest(name):
                settings = {"STRATEGY": strategy, "DTYPE": dtype, "SCALING": "off" if name == "library float16" else "auto"}
                values, errors, rows = self.run_case("captured", **settings)
                self.assertEqual((errors, rows, self.bits(values)),
                                 ("", [("fallback", "capture_unready", 1)], self.bare("captured")))
                self.assertEqual(values["count_cuStreamCreateWithPriority"], "0")
        self.run_case("first", STRATEGY="tf32")
        self.assertEqual(self.run_case("captured", STRATEGY="tf32")[2], [("lowered", "white_list", 1)])

    def test_threads_devices_and_processes(self):
        values, errors, rows = self.run_case("threads", **CAST)
        self.assertEqual((errors, rows, values["count_cuStreamCreateWithPriority"]), ("", [("lowered", "white_list", 4)], "1"))
        os.unlink(self.stored()[0])
        values, errors, rows = self.run_case("devices", **CAST)
        self.assertEqual((errors, sum(row[2] for row in rows)), ("", 3))
        self.assertEqual({row[0] for row in rows}, {"lowered"})
        self.assertEqual(values["count_cuStreamCreateWithPriority"], "1")  # the second has the name of the first
        os.unlink(self.stored()[0])
        values, errors, rows = self.run_case("forked", **CAST)
        self.assertEqual((errors, sum(row[2] for row in rows), {row[0] for row in rows}), ("", 4, {"lowered"}))
        values, errors, rows = self.run_case("threads", EMU_FAIL="PRODUCT_ROUNDING:2", DIR=self.folder + "2", **CAST)
        self.assertRegex(errors, FAILED)
        self.assertEqual(rows, [("fallback", "self_test_failed", 4)])

    def test_steps_that_fail(self):
        """If a test cannot run, it has not failed: the next call repeats it."""
        ours = " ".join(name for file in ("src/cuda/driver.h", "src/op/vendor.h")
                        for name in re.findall(r"^\tX\((cu(?!dnn)\w+),", (SOURCE / file).read_text(), re.MULTILINE))
        tested = self.run_case("first", counted=ours, **CAST)[0]
        known = self.run_case("first", counted=ours, **CAST)[0]
        count = {name: int(tested["count_" + name]) for name in ours.split()}
        for name in ("cuStreamCreateWithPriority", "cuStreamDestroy_v2", "cuStreamQuery", "cuMemcpyHtoDAsync_v2",
                     "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cublasLtMatmul", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"):
            self.assertGreater(count[name], int(known["count_" + name]))
        bare = self.bare()
        repeated = 0
        for name, calls in count.items():
            if calls == int(known["count_" + name]):
                continue
            for n in range(1, min(calls, 12) + 1):
                with self.subTest(name, n=n):
                    for file in self.stored():
                        os.unlink(file)
                    values, errors, rows = self.run_case("first", EMU_FAIL=f"{name}:{n}", **CAST)
                    self.assertEqual(errors, "")
                    self.assertEqual(sum(row[2] for row in rows), 2)
                    self.assertNotIn("self_test_failed", [row[1] for row in rows])
                    if "fallback" in [row[0] for row in rows]:
                        repeated += 1
                        self.assertIn(self.bits(values), ({**self.bits(tested), "bits": bare["bits"]},
                                                          {**self.bits(tested), "again_bits": bare["again_bits"]},
                                                          # A refusal of the vendor holds for all calls of a signature.
                                                          *([bare] if name == "cublasLtMatmulAlgoGetHeuristic" else [])))
        self.assertGreater(repeated, 9)

    def test_convolutions(self):
        """The legacy API and the graph API. The test runs on the handle of the application, which has its stream again."""
        case = {"client": "convolutions", "case": "math.default.forward"}
        bare = self.bits(self.run_case(preload=False, **case)[0])
        for dtype in ("float16", "bfloat16"):
            with self.subTest(dtype):
                settings = {"STRATEGY": "cast", "DTYPE": dtype, "LOG": "debug", **case}
                values, errors, rows = self.run_case(**settings)
                self.assertEqual((len(re.findall(f"self-test of convolution cast to {dtype} ", errors)), rows),
                                 (1, [("lowered", "white_list", 1)]))
                self.assertNotEqual(self.bits(values), bare)
                again, errors, rows = self.run_case(**settings)
                self.assertNotIn("self-test", errors)
                self.assertEqual((rows, self.bits(again)), ([("lowered", "white_list", 1)], self.bits(values)))
                (file,) = self.stored()
                os.unlink(file)
                # The second convolution has a wrong prediction. The third one has a bfloat16 result, or is the application's.
                for fault in (1, 2) if dtype == "float16" else (1, 2, 3):
                    values, errors, rows = self.run_case(EMU_FAIL=f"PRODUCT_ROUNDING:{fault}", **{**settings, "LOG": "warn"})
                    self.assertRegex(errors, FAILED)
                    self.assertEqual((rows, self.bits(values)), ([("fallback", "self_test_failed", 1)], bare))
                    os.unlink(self.stored()[0])
        settings = {**CAST, **case}
        values, errors, rows = self.run_case(EMU_FAIL="PRODUCT_DURATION:1", **settings)
        self.assertRegex(errors, "did not end within 5 s")
        self.assertEqual((rows, self.bits(values)), ([("fallback", "self_test_failed", 1)], bare))
        for function in ("cudnnSetStream:2", "cudnnSetStream:5"):  # the first is the application's, the fifth the last of the test
            values, errors, rows = self.run_case(EMU_FAIL=function, **settings)
            self.assertEqual((errors, float(values["eta"]) < 0.01), ("", True))
            self.assertNotIn("self_test_failed", str(rows))
        settings["case"] = "capture_first"
        self.folder += "2"
        self.assertEqual(self.run_case(**settings)[2], [("fallback", "capture_unready", 1)])
        settings |= {"client": "dnn_graph", "case": "matmul.rrr"}
        values, errors, rows = self.run_case(LOG="debug", **settings)
        self.assertIn("self-test of convolution cast to float16 ", errors)
        self.assertIn("lowered", [row[0] for row in rows])
        os.unlink(self.stored()[0])
        values, errors, rows = self.run_case(EMU_FAIL="PRODUCT_ROUNDING:1", **settings)
        self.assertRegex(errors, FAILED)
        self.assertNotIn("lowered", [row[0] for row in rows])

    def test_programs_that_are_not_lowered(self):
        for settings in ({"LEVEL": "O0"}, {"STRATEGY": "fp32"}, {"ENABLED": "0"}):
            values, errors, _ = self.run_case("first", **settings)
            self.assertEqual((errors, self.stored(), values["count_cuStreamCreateWithPriority"]), ("", [], "0"))

    def doctor(self, *words, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
        environment["LD_LIBRARY_PATH"] = ""  # Meson adds the emulated device
        return subprocess.run([runner.PLACE.autoamp, "doctor", *words], env=environment | variables, capture_output=True, text=True,
                              timeout=300, check=False)

    def test_doctor(self):
        """The settings of the user do not change the self-test."""
        done = self.doctor("--self-test", "--device", "emulated", "--format", "json", AUTOAMP_LEVEL="O0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(done.stdout)
        self.assertEqual((told["schema"], told["passed"], told["emulated"]), ("autoamp.self-test/1", True, True))
        methods = {method["method"]: method for method in told["methods"]}
        self.assertEqual(list(methods), ["cast to float16", "cast to bfloat16", "tf32", "library in float16", "library in bfloat16",
                                         "convolution cast to float16", "convolution cast to bfloat16"])
        for name, method in methods.items():
            with self.subTest(name):
                self.assertEqual((method["result"], method["reason"]),
                                 ("passed", None if "cast" in name else "1 unsupported"))
                self.assertEqual(method["lowered"], method["calls"] - (method["reason"] is not None))
                self.assertGreater(method["calls"], 17)
                # The rounding of the type must show in every call that was lowered.
                unit = 2.0 ** (-8 if "cast to bfloat16" in name else -11)  # `library` is TF32
                self.assertTrue(unit / 4 < method["largest_error"] < 2 * unit, method)
                self.assertEqual(method["smallest_error"] > unit / 4, method["reason"] is None)

    def test_doctor_on_wrong_devices(self):
        # The first products of each program are those of the library's own test. The later ones are wrong without it.
        for fault, wrong in (("PRODUCT_ROUNDING:2", 7), ("PRODUCT_ROUNDING:20", 7), ("PRODUCT_DEVICE_ALPHA:5", 1)):
            with self.subTest(fault):
                done = self.doctor("--self-test", "--device", "emulated", AUTOAMP_EMU_FAIL=fault)
                self.assertEqual((done.returncode, done.stdout.count("FAILED")), (1, wrong), done)
                self.assertEqual(done.stdout.count(" self_test_failed"), 7 if fault.endswith(":2") else 0)

    def test_doctor_refuses(self):
        for words, text in ((("--self-test",), "no usable NVIDIA driver; --device emulated tests the emulated device"),
                            (("--self-test", "--device", "emulated", "--", "true"), "--self-test takes no program"),
                            (("--device", "emulated"), "--self-test"), (("--self-test", "--device", "cpu"), "cpu")):
            with self.subTest(words):
                done = self.doctor(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    runner.main()
