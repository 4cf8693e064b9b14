"""`run`, `report`, `doctor` and exports for calls of a CPU BLAS: with the real front and core, and with traces made here."""
import csv
import io
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import unittest

from case import PLAIN, PROGRAMS, TRACED, Case

INJECT = pathlib.Path(os.environ["BUILD"]) / "inject"
MULTIPLIES = PROGRAMS / "multiplies"
HAS_BFLOAT16, HAS_AMX = (flag in pathlib.Path("/proc/cpuinfo").read_text() for flag in ("avx512_bf16", "amx_bf16"))
needs_blas = unittest.skipUnless(MULTIPLIES.exists(), "no BLAS to link")


class Cpu(Case):
    def setUp(self):
        super().setUp()
        for name in ("libautoamp-cpu.so", "libautoamp-core.so"):
            shutil.copy(INJECT / name, self.root / "inject")

    def on_cpu(self, *arguments, **variables):
        return self.autoamp("run", "--device", "cpu", *arguments, **variables)


@needs_blas
class Run(Cpu):
    def test_threads_of_openblas_wait_briefly(self):
        """The program sees no other change of its environment at O0, and keeps its own setting."""
        name = "OPENBLAS_THREAD_TIMEOUT"
        for options, variables, expected in (((), {}, "22"), (("--level", "O0"), {}, ""), ((), {name: "20"}, "20")):
            result = self.on_cpu(*options, "--", "sh", "-c", f'echo "[${name}]"', **variables)
            self.assertEqual(result.stdout, f"[{expected}]\n")

    def test_products_are_lowered_without_a_gpu_and_an_emulated_device(self):
        shutil.rmtree(self.root / "tools/emulated")
        result = self.on_cpu("--strategy", "cast", "--dtype", "bfloat16", "-o", "x.aat", "--", MULTIPLIES, "sgemm", "20")
        self.assertEqual((result.returncode, result.stdout), (0, "256 0\n"), result.stderr)
        row, = self.json("x.aat")["ops"]
        self.assertEqual((row["library"], row["entry"], row["device"], row["calls"]), ("blas", "sgemm_", None, 20))
        if row["decision"] != "lowered":
            self.assertEqual(row["reason"], "cpu_too_old")
            return
        self.assertIn("autoamp: lowered 20 of 20 fp32 products (100.0 % of their FLOP) to bfloat16\n", result.stderr)
        self.assertRegex(result.stderr, r"\nautoamp: time \(CPU\) in fp32 products: \S+ \S+ \(lowered \S+ \S+\)\n")
        self.assertNotIn("EMULATED", result.stderr)
        # The last command measures the gain.
        self.assertRegex(result.stderr, r"\nautoamp: gain \(model\): fp32 products: .*; measured as run: \S+ \S+\n")
        slower = self.json("x.aat")["next"]["saves_ns"]  # by the model of this CPU
        change = "--strategy auto" if slower else "--audit 0.02"
        self.assertRegex(result.stderr, rf"\nautoamp: next: \S+ run --device cpu --strategy cast --dtype bfloat16 {change} -o ./%e.%p.aat -- \S+ sgemm 20\n\Z")

    def test_audits_run_the_call_unchanged(self):
        for function, overflows in (("sgemm", 0), ("large", 5)):
            self.on_cpu("--strategy", "cast", "--audit", "0.5", "-o", f"{function}.aat", "--", MULTIPLIES, function, "10")
            report = self.json(f"{function}.aat")
            row, = report["ops"]
            if row["decision"] != "lowered":
                return self.assertEqual(row["reason"], "cpu_too_old")
            self.assertEqual((row["audited"], row["max_error"]), (5, 0))  # powers of two, or no finite difference
            self.assertGreater(row["fp32_ns"], 0)
            self.assertEqual(report["totals"]["gain"]["source"], "measured")
            table = self.autoamp("report", "--report", "audit", f"{function}.aat").stdout
            self.assertEqual("overflowed" in table, overflows > 0, table)

    def test_version_of_the_blas(self):
        self.on_cpu("-o", "x.aat", "--", MULTIPLIES)
        run, = self.json("x.aat")["runs"]
        self.assertRegex(run["versions"]["blas"], r"\Alib\S+\.so")
        if "openblas" in os.path.realpath("/usr/lib/x86_64-linux-gnu/libblas.so.3"):
            self.assertRegex(run["versions"]["blas"], r"\Alib\S+\.so\S* \(OpenBLAS \d+\.\d+\.\d+")
        self.assertIn("on the CPU, " + run["versions"]["blas"][:12], self.autoamp("report", "x.aat").stdout)

    def test_exit_codes(self):
        self.assertEqual(self.on_cpu("--quiet", "--", "sh", "-c", f"'{MULTIPLIES}'; exit 7").returncode, 7)
        self.assertEqual(self.on_cpu("--", "./nothing").returncode, 127)
        self.refused(self.on_cpu("--dtype", "fp7", "--", MULTIPLIES), 125, "fp7")
        (self.root / "inject/libautoamp-cpu.so").unlink()
        self.refused(self.on_cpu("--", MULTIPLIES), 125, "libautoamp-cpu.so is not next to ")

    def test_the_library_is_prepended(self):
        result = self.on_cpu("--quiet", "--", "sh", "-c", "echo $LD_PRELOAD:$NVTX_INJECTION64_PATH:$AUTOAMP_HOOK_DLSYM", LD_PRELOAD="libm.so.6")
        ours = f"{self.root}/inject/libautoamp-cpu.so"
        self.assertEqual(result.stdout, f"{ours}:libm.so.6:{ours}:\n")
        result = self.on_cpu("--quiet", "--no-hook", "--", "sh", "-c", "echo $AUTOAMP_HOOK_DLSYM")
        self.assertEqual(result.stdout, "0\n")

    def test_causes_of_a_run_without_products(self):
        nothing = "no call of a CPU BLAS was intercepted: "
        for program, words in ((["none"], "but did not call its matrix functions"), (["sdot"], "but did not call its matrix functions")):
            self.assertRegex(self.on_cpu("--", MULTIPLIES, *program).stderr, rf"{nothing}.* uses lib\S+, {words}")
        self.assertRegex(self.on_cpu("--", MULTIPLIES, "dgemm", "3").stderr, r"3 calls of dgemm_ \(float64\); nothing to lower")
        self.assertRegex(self.on_cpu("--", PLAIN).stderr, nothing + ".*does not link a shared BLAS")
        for program, sign in (("plain_static_blas", r"OpenBLAS : Program is Terminated"), ("own_blas", "sgemm_")):
            self.assertRegex(self.on_cpu("--", PROGRAMS / program).stderr, rf"{nothing}\S+ contains a static BLAS \({sign}\)")
        self.assertIn("AUTOAMP_ENABLED=0", self.on_cpu("--", MULTIPLIES, AUTOAMP_ENABLED="0").stderr)
        self.assertRegex(self.on_cpu("--no-hook", "--", PLAIN).stderr, nothing + ".*nothing called a CPU BLAS through it, and --no-hook")

    def test_auto_names_the_device(self):
        self.refused(self.autoamp("run", "--", MULTIPLIES), 125, "--device emulated", ", --device cpu lowers the products of its CPU BLAS (lib")
        result = self.autoamp("run", "--", PLAIN)
        self.refused(result, 125, "--device emulated")
        self.assertNotIn("--device cpu", result.stderr)

    def test_auto_finds_numpy(self):
        python = self.here / "bin/python3"
        for folder in (python.parent, self.here / "lib/python3.11/site-packages/numpy"):
            folder.mkdir(parents=True)
        shutil.copy(PLAIN, python)
        self.refused(self.autoamp("run", "--", python), 125, "--device cpu lowers the products of its CPU BLAS (NumPy)")


class Report(Cpu):
    def report(self, *arguments):
        result = self.autoamp("report", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_gain(self):
        name = self.trace("cpu", None, "12")
        text = self.report(name)
        self.assertRegex(" ".join(text.split()), r"gain \(measured, 12 of 300 lowered calls\) time speed program unchanged \S+ \S+ 1\.00x this run \S+ \S+ 1\.\d\dx faster precision of each shape \S+ \S+ 1\.\d\dx without 100 calls of unknown time fp32")
        self.assertRegex(text, r"\nfp32 products +time \(CPU\) +share +calls .*\n  lowered to bfloat16 +\S+ \S+ +\S+ % +400 +88\.9 %")
        self.assertIn("; on the CPU, libblas.so.3 (OpenBLAS 0.3.21)", "; " + text)
        report = self.json(name)
        gain = report["totals"]["gain"]
        kept = sum(row["host_ns"] for row in report["ops"] if row["decision"] == "kept" and row["eligible"])
        self.assertGreater(kept, 0)
        lowered, = (row["host_ns"] for row in report["ops"] if row["audited"])  # also of the calls that were not audited
        times = {field: gain[field] for field in ("as_asked_ns", "as_run_ns", "best_ns")}
        for ns, expected in zip(times.values(), (300 * 4000 + kept, lowered + kept, lowered + kept)):
            self.assertAlmostEqual(ns, expected, delta=3)  # each is rounded
        products = sum(row["host_ns"] for row in report["ops"] if row["eligible"])
        self.assertAlmostEqual(gain.pop("measured_as_run_ns"), products, delta=3)
        self.assertEqual(gain, {**times, "source": "measured", "calls": 350, "unknown_calls": 100, "lowered": 300, "audited": 12,
                                "unmeasured": 100, "by_op": [{"op": "mm", **times}]})
        rows = {row["m"]: row for row in report["ops"] if row["op"] == "mm"}
        self.assertEqual([rows[1024][field] for field in ("audited", "fp32_ns", "audited_ns", "max_error")], [12, 48000, 1024000, 2e-3])
        self.assertEqual([rows[512][field] for field in ("audited", "fp32_ns", "audited_ns", "weights")], [0, None, None, None])
        self.assertRegex(self.report("--report", "ops", name), r"\ncblas_sgemm +TN 1024x1024x1024 .* 300 +lowered: white_list +\S+ > \S+ +(1\.9\d|2\.\d\d)x +12 ")

    def test_a_slower_lowered_call(self):
        """The best precision of such a signature is fp32."""
        name = self.trace("cpu_slower")
        report = self.json(name)
        gain, (row,) = report["totals"]["gain"], report["ops"]
        self.assertAlmostEqual(row["host_ns"], 10 * 3000, delta=300)
        self.assertEqual((gain["as_asked_ns"], gain["as_run_ns"], gain["best_ns"]), (10 * 1000, row["host_ns"], 10 * 1000))
        run = f"{row['host_ns'] / 1000:.1f} us {10 * 1000 / row['host_ns']:.2f}x"
        self.assertIn(f" this run {run}, slower faster precision of each shape 10.0 us 1.00x ", " ".join(self.report(name).split()))

    def test_what_if_float16(self):
        """A type that is set applies to the CPU, which cannot use it; the default of a run does not."""
        report = json.loads(self.report("--format", "json", "--what-if", "DTYPE=float16", self.trace("cpu", None, "12")))
        self.assertEqual({row["reason"] for row in report["ops"] if row["eligible"]} - {"too_small"}, {"unsupported"})

    def test_what_if_of_a_strategy(self):
        """A named strategy lowers what the cost model has kept, also if it knew more than the trace."""
        report = json.loads(self.report("--format", "json", "--what-if", "STRATEGY=cast", self.trace("cpu_threads")))
        self.assertEqual({(row["n"], row["decision"], row["reason"]) for row in report["ops"]},
                         {(1024, "lowered", "white_list"), (512, "lowered", "white_list"), (256, "kept", "solver_caller")})

    def test_what_if_of_another_cpu(self):
        rows = {model: json.loads(self.report("--format", "json", "--what-if", f"CPU_MODEL={model}", self.trace("cpu", None, "12")))["ops"]
                for model in ("zen4", "xeon")}
        lowered = {model: {row["m"] for row in rows[model] if row["decision"] == "lowered"} for model in rows}
        self.assertTrue(lowered["zen4"])
        self.assertEqual(lowered["xeon"], set())

    def test_without_a_measurement(self):
        name = self.trace("cpu", None, "0")
        gain = self.json(name)["totals"]["gain"]
        self.assertEqual([gain[field] for field in ("source", "audited", "as_asked_ns", "as_run_ns")], ["model", None, 450 * 3000, 400 * 1500 + 50 * 3000])
        self.assertGreater(gain["measured_as_run_ns"], 0)
        self.assertRegex(self.report(name), r"\ngain \(model\) (.*\n)+  this run, measured (.*\n)+advice: measure the gain: .*\nnext: \S+ run --device cpu --level O1 --audit 0.02 -- ")
        self.assertEqual(self.json(self.trace("audited", None, "100"))["totals"]["gain"]["source"], "model")  # on a GPU

    def test_what_if_has_no_measured_gain(self):
        name = self.trace("cpu", None, "12")
        result = self.autoamp("report", "--format", "json", "--what-if", "LEVEL=O0", name)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        gain = report["totals"]["gain"]
        self.assertEqual((gain["source"], gain["audited"], gain["measured_as_run_ns"]), ("model", None, None))
        if report["totals"]["lowered"]:  # decisions that cannot be made again are not presented as new ones
            text = " ".join(self.report("--what-if", "LEVEL=O0", name).split())
            self.assertIn(" assumed: the recorded decisions of 455 calls, whose entry points are unknown here ", text)

    def test_receipt(self):
        text = self.on_cpu("--", TRACED, "cpu", "12").stderr
        self.assertRegex(text, r"\nautoamp: time \(CPU\) in fp32 products: \S+ \S+ \(lowered \S+ \S+, kept \S+ \S+\)\n")
        self.assertRegex(text, r"\nautoamp: gain \(measured, 12 of 300 lowered calls\): fp32 products: .* unchanged, .* as run \(1\.\d\dx\), .* at best \(1\.\d\dx\); without 100 calls of unknown time\n")
        self.assertIn("\nautoamp: audited: 12 calls, largest error 2.0e-03 (cblas_sgemm 1024x1024x1024)\n", text)
        self.assertNotIn("--audit 0.02", text)
        self.assertNotIn("scaling", text)

    def test_the_parts_of_the_time_add_up(self):
        """Calls that cannot be lowered are in no part."""
        text = self.on_cpu("--", TRACED, "cpu_observed").stderr
        self.assertRegex(text, r"\nautoamp: time \(CPU\) in fp32 products: (\S+ \S+) \(observed \1\)\n")

    def test_advice_for_a_cpu_names_no_gpu_library(self):
        for routine in ("ssymm_", "strmm_", "ssyrk_"):
            text = self.autoamp("explain", "--entry", routine, "--m", "512", "--n", "512", "--k", "512").stdout
            self.assertRegex(text, r"\n  reason +\w+: a[\w -]*: autoamp lowers only general products\n")
            self.assertNotRegex(text, "(?i)cublas|gpu")
        self.assertIn("CUBLAS_TF32_TENSOR_OP_MATH", self.autoamp("explain", "--entry", "cublasSsymm_v2", "--m", "512", "--n", "512", "--k", "512").stdout)

    @needs_blas
    def test_doctor_finds_the_blas(self):
        """A Python with NumPy, and a program that also links libcurl, whose name begins with libcu like the CUDA libraries."""
        python = self.here / "bin/python3"
        for folder in (python.parent, self.here / "lib/python3.11/site-packages/numpy"):
            folder.mkdir(parents=True)
        shutil.copy(PLAIN, python)
        doctor = lambda program: subprocess.run([os.environ["AUTOAMP"], "doctor", "--", program], env=self.environment, capture_output=True, text=True).stdout
        text = doctor(python)
        self.assertRegex(text, r"\n  autoamp can +intercept the products of NumPy, which has a BLAS of its own \(run --device cpu\)\n(.*\n)*next: \S+ run --device cpu -- ")
        text = doctor(PROGRAMS / "multiplies_downloads")
        self.assertRegex(text, r"\n  needs +libcurl\.so\.4: /")
        self.assertRegex(text, r"\nnext: \S+ run --device cpu -- ")

    def test_weights(self):
        name = self.trace("weights")
        report = self.json(name)
        expected = {"how": "watched", "served": 290, "converted": 10, "made": 1, "recast": 0, "changed": 0, "given_up": 0, "refused": 0,
                    "compared": 0, "repeated": 0, "bytes": 1 << 21, "refused_bytes": 0,
                    "reasons": {"busy": 0, "changes": 8}}
        self.assertEqual(report["totals"]["weights"], expected)
        self.assertEqual([row["weights"] and row["weights"]["bytes"] for row in report["ops"]], [1 << 21, 1 << 21])  # the same copy
        self.assertEqual(report["ops"][0]["weights"], expected)
        self.assertIn(" weights: kept copies replaced 290 of 300 conversions (watched, 2.10 MB); not kept: changes 8 ", " ".join(self.report(name).split()))
        self.assertRegex(self.report("--report", "ops", name), r"watched 96\.7 %, changes +\S+ G +mm")
        self.assertRegex(self.report("--report", "ops", "--format", "csv", name), r'"\{""how"":""watched""')

    def test_groups_by_device(self):
        self.trace("low")
        self.assertRegex(self.report("--by", "device", self.trace("cpu", None, "3")), r"\ncpu +\S+ \S+ +100.0 % ")
        report = self.json("--by", "device", "cpu.aat", "low.aat")
        self.assertIn("cpu", [group["device"] for group in report["groups"]])

    def test_estimates_and_devices_are_not_mixed_with_host_times(self):
        name = self.trace("cpu", None, "3")
        self.assertNotIn(" model", self.report(name))
        self.assertRegex(self.report("--report", "reasons", name), r" on the CPU, ")
        page = self.report("--format", "html", name)
        self.assertIn(">measured, 3 of 300 lowered calls</span>", page)
        self.assertIn(" · level O1, dtype bfloat16</p>", page)
        self.assertRegex(self.report("--report", "reasons", "--format", "md", name), r"\| time \(CPU\) \|")

    def test_exports(self):
        name = self.trace("cpu", None, "12")
        for kind in ("sqlite", "perfetto", "chrome", "csv", "jsonl"):
            result = self.autoamp("export", "--type", kind, "-o", f"x.{kind}", name)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = list(csv.DictReader(io.StringIO((self.here / "x.csv").read_text())))
        self.assertEqual({row["type"] for row in rows}, {"call"})
        self.assertEqual(len(rows), 455)
        with sqlite3.connect(self.here / "x.sqlite") as database:
            self.assertEqual(database.execute("SELECT audited, fp32_ns, device FROM signatures WHERE m = 1024").fetchall(), [(12, 48000, None)])
        self.assertNotIn("GPU", (self.here / "x.chrome").read_text())
        self.assertNotIn(b"GPU", (self.here / "x.perfetto").read_bytes())


class Doctor(Cpu):
    def setUp(self):
        super().setUp()
        shutil.copy(INJECT / "libautoamp.so", self.root / "inject")  # the fake one does not fit the core

    def doctor(self, *command, **variables):
        result = self.autoamp("doctor", *(("--", *command) if command else ()), **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_machine(self):
        text = self.doctor()
        with open("/proc/cpuinfo") as file:
            facts = file.read()
        model = re.search(r"model name\s*: (.*)", facts)
        name = re.escape(model.group(1)) if model else ".*"
        self.assertRegex(text, rf"\nthis CPU\n  CPU +{name}: " + ("AVX512-BF16" if "avx512_bf16" in facts else "no AVX512-BF16"))
        self.assertEqual("\n  oneDNN  " in text, HAS_AMX)
        self.assertRegex(text, r"\n  weights +writes to them (can|cannot) be watched")
        self.assertRegex(text, rf"\n  for a CPU BLAS +{self.root}/inject/libautoamp-cpu\.so\n")
        shutil.copy(PROGRAMS / "libfake_core.so", self.root / "inject/libautoamp-core.so")
        self.assertRegex(self.doctor(), r"\n  for a CPU BLAS .*it has another version than libautoamp-cpu\.so\n")

    @unittest.skipUnless(HAS_AMX, "no AMX")
    def test_amx_that_is_not_used(self):
        text = self.doctor(ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2")
        self.assertRegex(text, r"\n  oneDNN .*AMX is not used: (the kernel or ONEDNN_MAX_CPU_ISA does not allow AMX|libdnnl)")

    @needs_blas
    def test_program(self):
        if pathlib.Path("/usr/lib/x86_64-linux-gnu/libblas.so.3").exists():
            self.assertRegex(self.doctor(), r"\n  BLAS +libblas\.so\.3  /\S+")
        text = self.doctor(MULTIPLIES, "sgemm")
        self.assertRegex(text, r"\n  autoamp can +intercept its calls of lib\S+ \(run --device cpu\)\n")
        self.assertNotIn("static BLAS", text)
        self.assertNotIn("a CPU BLAS (", text)  # its function is undefined in this file
        self.assertRegex(text, r"\nnext: \S+ run --device cpu -- \S+multiplies sgemm\n\Z")

    def test_static_blas(self):
        for program, sign in (("plain_static_blas", "OpenBLAS : Program is Terminated"), ("plain_reference_blas", "Illegal TransA setting, %d"), ("own_blas", "sgemm_")):
            text = self.doctor(PROGRAMS / program)
            self.assertRegex(text, rf'\n  contains +a CPU BLAS \(text found: "{sign}"\)\n')
            self.assertRegex(text, r"\n  autoamp cannot +intercept calls of the static BLAS in \S+; link a shared one, such as -lblas\nnext: ldd \S+\n\Z")
        text = self.doctor(PROGRAMS / "uses_matrices")  # a shared BLAS of unknown name
        self.assertRegex(text, r'\n  contains +a CPU BLAS in libmatrices.so \(text found: "sgemm_"\)\n')
        self.assertRegex(text, r"\n  autoamp can +intercept its calls of the BLAS in libmatrices.so \(run --device cpu\)\n")
        self.assertNotIn("static BLAS", text)
        self.assertRegex(text, r"\nnext: \S+ run --device cpu -- \S+uses_matrices\n\Z")
        text = self.doctor(PROGRAMS / "uses_named_matrices")  # one that contains the texts of OpenBLAS
        self.assertRegex(text, r"\n  autoamp can +intercept its calls of the BLAS in libnamed_matrices.so \(run --device cpu\)\n")
        self.assertNotIn("static BLAS", text)
        stripped = self.here / "stripped"
        subprocess.run(["strip", "-o", stripped, PROGRAMS / "own_blas"], check=True)
        self.assertNotIn("a CPU BLAS (", self.doctor(stripped))


class Calibrate(Cpu):
    def setUp(self):
        super().setUp()
        self.state = self.here / "state/here"
        self.file = self.state / "cpu-calibration"
        self.environment |= {"AUTOAMP_DIR": str(self.state), "OPENBLAS_CORETYPE": "SkylakeX"}  # an OpenBLAS may be older than the CPU

    def constants(self):
        result = self.autoamp("doctor")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return re.search(r"\n  constants +(.*)\n", result.stdout).group(1)

    def calibrate(self, *arguments, **variables):
        return self.autoamp("doctor", "--calibrate", *arguments, **variables)

    def needs_engine(self):
        if not HAS_BFLOAT16 or "AMX is not used" in self.autoamp("doctor").stdout:
            self.skipTest("no AVX512-BF16, or no AMX")

    def explained(self):
        text = self.autoamp("explain", "--entry", "sgemm_", "--m", "1024", "--n", "1024", "--k", "1024", "--format", "json").stdout
        return json.loads(text)

    def test_constants_in_use(self):
        self.assertRegex(self.constants(), r"\Abuilt-in; \S+ doctor --calibrate measures those of this CPU\Z")
        self.state.mkdir(parents=True)
        self.file.write_text("version=3\nmodel=other\ncheck=0\n")
        self.assertEqual(self.constants(), f"built-in; {self.file} is not used: it is damaged")
        self.file.write_text("version=1\n")
        self.assertEqual(self.constants(), f"built-in; {self.file} is not used: it has another version, or is not a calibration")

    @needs_blas
    def test_measures_and_stores(self):
        self.needs_engine()
        before = self.explained()
        self.assertIn("built-in constants", before["steps"][2]["says"])
        self.state.mkdir(parents=True)
        self.file.write_text("damaged")
        result = self.calibrate("--blas", "libblas.so.3")
        if "too busy" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertTrue(result.stdout.startswith("products on one thread, CPU time; fp32 by libblas.so.3\n"), result.stdout)
        self.assertTrue(result.stdout.endswith(f"\nstored: {self.file}\n"), result.stdout)
        self.assertRegex(result.stdout, r"\n64x64x64( +\S+ [nu]s){4} +(fp32|bfloat16) +(fp32|bfloat16)\n")
        self.assertRegex(result.stdout, r"\n4096x8x4096( +\S+ [um]s){6} +bfloat16( with a kept weight)? ")
        self.assertEqual([path.name for path in self.state.iterdir()], ["cpu-calibration"])
        self.assertRegex(self.constants(), rf"\Ameasured \d{{4}}-\d\d-\d\d \d\d:\d\d on .+ with libblas\.so\.3: {self.file}\Z")
        after = self.explained()
        self.assertIn("calibrated constants, one thread", after["steps"][2]["says"])
        self.assertNotEqual(after["est_ns"], before["est_ns"])
        self.assertEqual(after, self.explained())

    def test_times_that_no_constants_describe(self):
        """The BLAS does nothing, so each of its products takes the same time."""
        self.needs_engine()
        self.state.mkdir(parents=True)
        self.file.write_text("earlier")
        result = self.calibrate("--blas", PROGRAMS / "libmatrices.so")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, r"\Aautoamp: doctor: (the model predicts \S+ of the measured time of \S+|the machine is too busy.*); nothing was stored\n\Z")
        self.assertEqual(self.file.read_text(), "earlier")
        self.assertEqual(len(list(self.state.iterdir())), 1)

    def test_what_is_wrong(self):
        for arguments, words in ((["--", "ls"], ["--calibrate takes no program"]), (["--self-test"], ["--self-test", "--calibrate"]), (["--blas"], ["--blas"])):
            self.refused(self.calibrate(*arguments), 2, *words)
        self.refused(self.autoamp("doctor", "--blas", "x"), 2, "--blas", "--calibrate")
        self.refused(self.calibrate(AUTOAMP_LEVEL="O7"), 2, "AUTOAMP_LEVEL")
        self.refused(self.calibrate(AUTOAMP_CPU_MODEL="zen4"), 2, "unset AUTOAMP_CPU_MODEL")
        if not HAS_BFLOAT16:
            self.refused(self.calibrate(), 1, "no AVX512-BF16")
        self.needs_engine()
        for library, words in (("nothing.so", ["nothing.so", "cannot open"]), ("libm.so.6", ["libm.so.6 has no sgemm_"])):
            self.refused(self.calibrate("--blas", library), 1, *words)
        if HAS_AMX:
            self.refused(self.calibrate(ONEDNN_MAX_CPU_ISA="AVX2", DNNL_MAX_CPU_ISA="AVX2"), 1, "AMX is not used")
        self.assertFalse(self.state.exists())


unittest.main()
