"""`autoamp explain` agrees with the library. For a table of calls it reports what a preloaded run records; for every
row of the entry tables it reports what the row contains."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from case import PROGRAMS, Case

AUTOAMP = os.environ["AUTOAMP"]  # in the build tree: with the library and the emulated device
TABLES = [table for table in pathlib.Path(os.environ["TABLES"]).glob("*.entries") if table.stem != "blas"]
HAS_BFLOAT16 = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
FIELDS = ["entry", "op", "category", "decision", "reason", "precision", "strategy", "est_ns", "est_lowered_ns", "steps"]

SHAPES = [f"{entry},{m},{n},{k},1,float32" for entry in ("cublasSgemm_v2", "cublasGemmEx", "cublasLtMatmul")
          for m, n, k in ((8, 8, 8), (64, 64, 64), (320, 320, 320), (512, 512, 512), (1, 1024, 1024), (1000, 24, 777),
                          (640, 640, 640))]
SHAPES += [f"{entry},{m},{n},{k},{batch},float32" for entry in ("cublasSgemmStridedBatched", "cublasLtMatmul",
                                                             "cublasGemmStridedBatchedEx", "cublasSgemmBatched",
                                                             "cublasGemmBatchedEx")
           for m, n, k, batch in ((32, 32, 32, 3), (256, 256, 256, 12), (256, 256, 64, 24))]
SHAPES += [f"{entry},64,48,32,1,{dtype}" for entry in ("cublasGemmEx", "cublasSgemmEx", "cublasScalEx")
           for dtype in ("float16", "bfloat16", "float64", "float32")]
SHAPES += [f"{entry},64,48,32,1,float32" for entry in ("cublasSgemm_v2_64", "cublasSgemv_v2", "cublasSaxpy_v2", "cublasSsyrk_v2",
                                                     "cublasStrsm_v2", "cublasCgemm_v2")]
SHAPES += ["cublasSgemm_v2,0,64,64,1,float32", "cublasGemmEx,64,64,0,1,float32",
           "cublasSgemmStridedBatched,64,64,64,0,float32"]

RULES = tempfile.NamedTemporaryFile("w", suffix=".toml")
RULES.write('''
rule = [{entry = "*Gemm*", m = "<512", precision = "bfloat16"}, {op = "bmm", k = 64, precision = "float32"},
        {caller = "shapes", flops = ">=1e9", precision = "tf32"}, {n = 24, precision = "float16"}]
''')
RULES.flush()
CONFIGURATIONS = [{}, {"CONFIG": RULES.name}, {"CONFIG": RULES.name, "STRATEGY": "cast", "CUSTOM_BLACK_LIST": "mm"}, {"STRATEGY": "cast"}, {"STRATEGY": "cast", "DTYPE": "bf16"}, {"DTYPE": "bfloat16"}, {"SCALING": "off"},
                  {"STRATEGY": "library", "DTYPE": "bf16"}, {"STRATEGY": "library", "SCALING": "off"}, {"STRATEGY": "tf32"},
                  {"DTYPE": "tf32"}, {"DTYPE": "tf32", "_NVIDIA_TF32_OVERRIDE": "0"}, {"STRATEGY": "fp32"}, {"LEVEL": "O0"}, {"GPU_MODEL": "rtx4090"}, {"GPU_MODEL": "b200"},
                  {"CUSTOM_BLACK_LIST": "bmm,cublasGemm*"}, {"CUSTOM_WHITE_LIST": "torch:mm"},
                  {"_CUBLAS_EMULATE_SINGLE_PRECISION": "1"}, {"_NVIDIA_TF32_OVERRIDE": "0"}]


class Explain(Case):
    def explain(self, *arguments, **variables):
        result = subprocess.run([AUTOAMP, "explain", "--format", "json", *arguments], capture_output=True, text=True,
                                env=self.environment | variables, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return json.loads(result.stdout)

    def plain(self, entry, *arguments, size=4096, **variables):
        return self.explain("--entry", entry, "--m", str(size), "--n", str(size), "--k", str(size), *arguments, **variables)


class AsRecorded(Explain):
    def run_shapes(self, variables, name):
        result = subprocess.run([AUTOAMP, "run", "--device", "emulated", "--quiet", "-o", name, "--trace", "summary", "--",
                                 PROGRAMS / "shapes", *SHAPES], cwd=self.here, env=self.environment | variables,
                                capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.json(name)["ops"]

    def test_decisions_reasons_and_estimates(self):
        decided = set()
        for number, configuration in enumerate(CONFIGURATIONS):
            variables = {key[1:] if key[0] == "_" else "AUTOAMP_" + key: value for key, value in configuration.items()}
            rows = self.run_shapes(variables, f"{number}.aat")
            self.assertEqual(sum(row["calls"] for row in rows), len(SHAPES))
            for row in rows:
                arguments = ["--entry", row["entry"], "--dtype-in", row["dtype_in"], "--caller", row["caller"]]
                for size in ("m", "n", "k", "batch"):
                    arguments += ["--" + size, str(row[size])]
                with self.subTest(configuration, arguments=arguments):
                    told = self.explain(*arguments, **variables)
                    for name in ("op", "decision", "reason", "strategy"):
                        self.assertEqual(told[name], row[name], name)
                    for name in ("est_ns", "est_lowered_ns"):
                        self.assertEqual(told[name], row[name] and row[name] / row["calls"], name)
                    self.assertEqual(told["precision"], row["dtype_compute"])
                    last = told["steps"][-1]
                    self.assertEqual((last["decision"], last["reason"]), (told["decision"], told["reason"]))
                decided.add((row["decision"], row["reason"]))
        self.assertLessEqual({("lowered", "white_list"), ("lowered", "custom_white_list"), ("observed", "white_list"),
                              ("observed", "too_small"), ("kept", "too_small"), ("kept", "not_profitable"),
                              ("kept", "custom_black_list"), ("kept", "disabled"), ("kept", "already_low"), ("kept", "float64"),
                              ("kept", "zero_size"), ("kept", "emulated_fp32"), ("kept", "vector_op"), ("kept", "complex"),
                              ("kept", "matrix_vector"), ("kept", "rank_update"), ("kept", "triangular")}, decided)


class Answers(Explain):
    def test_every_entry_of_the_tables(self):
        rows = [line.split("#")[0].split() for table in TABLES for line in table.read_text().splitlines()]
        count = 0
        for name, family, dtype, *obstacle in (row for row in rows if row and row[0] != "headers"):
            short = name.removesuffix("[_64]")
            for entry in [short] + [short + "_64"] * (short != name):
                told = self.plain(entry)
                self.assertEqual([key for key in FIELDS if key not in told], [])
                self.assertEqual(told["entry"], entry)
                if (family, dtype) == ("Gemm", "float16"):
                    self.assertEqual(self.plain(entry, AUTOAMP_CUSTOM_BLACK_LIST="mm,bmm")["decision"], "raised")
                    obstacle = ["already_low"]
                wanted = ("lowered", "white_list") if obstacle[:1] in ([], ["none"], ["grouped"]) else ("kept", obstacle[0])
                if family == "Rnn":  # bfloat16 alone
                    self.assertEqual(self.plain(entry, AUTOAMP_DTYPE="bfloat16")["decision"], "lowered", entry)
                    wanted = ("kept", "no_fp32_output")
                self.assertEqual((told["decision"], told["reason"]), wanted, entry)
                self.assertNotIn("available", told)  # every row has a wrapper
                count += 1
        self.assertGreater(count, 250)

    def test_the_contract(self):
        told = self.plain("cublasSgemm_v2")
        self.assertEqual([told[name] for name in FIELDS[:7]],
                         ["cublasSgemm_v2", "mm", "lower_precision", "lowered", "white_list", "float16", "cast"])
        self.assertLess(told["est_lowered_ns"], told["est_ns"])
        self.assertEqual([step["step"] for step in told["steps"]], ["call", "lists", "strategy", "level"])
        told = self.plain("cublasSgemm_v2", AUTOAMP_ENABLED="0")
        self.assertEqual((told["decision"], told["reason"], told["est_ns"]), ("kept", "disabled", None))
        told = self.plain("cublasLtMatmul", AUTOAMP_LEVEL="O0")
        self.assertEqual((told["decision"], told["reason"], told["strategy"], told["precision"]),
                         ("observed", "white_list", "cast", "float32"))
        told = self.plain("cublasSaxpy_v2")
        self.assertEqual((told["op"], told["category"], told["decision"], told["reason"]),
                         ("none", "unlisted", "kept", "vector_op"))
        for dtype, reason in (("float16", "already_low"), ("bfloat16", "already_low"), ("float64", "float64"),
                              ("complex64", "complex")):
            for entry in ("cublasGemmEx", "cublasLtMatmul", "cublasSgemm_v2"):
                self.assertEqual(self.plain(entry, "--dtype-in", dtype)["reason"], reason)
        # The mode, variable or feature behind a reason.
        for entry, variables, reason, cause in (
                ("cublasSgemmBatched", {"AUTOAMP_STRATEGY": "tf32"}, "unsupported", "arrays of pointers"),
                ("cublasSgemmBatched", {"AUTOAMP_STRATEGY": "library", "AUTOAMP_DTYPE": "bfloat16"}, "unsupported", "arrays of pointers"),
                ("cublasSgemm_v2", {"CUBLAS_EMULATE_SINGLE_PRECISION": "1"}, "emulated_fp32", "CUBLAS_EMULATE_SINGLE_PRECISION=1"),
                ("cublasHgemm", {}, "already_low", "CUBLAS_COMPUTE_16F"), ("cublasDgemm_v2", {}, "float64", None)):
            told = self.plain(entry, **variables)
            self.assertEqual(told["reason"], reason, entry)
            self.assertTrue(cause in told["cause"] if cause else told["cause"] is None, told)
        self.assertIn("16-bit operands", self.plain("cublasGemmEx", "--dtype-in", "float16")["cause"])
        # If only TF32 is possible, there is no conversion that is too expensive.
        for variables, reason in (({}, "too_small"), ({"AUTOAMP_DTYPE": "tf32"}, "not_profitable")):
            self.assertEqual(self.plain("cublasSgemm_v2", size=16, **variables)["reason"], reason)
        for caller, decision, reason in (("/usr/lib/libcusolver.so.12", "kept", "vendor_caller"), ("libcudnn.so.9", "kept", "vendor_caller"),
                                         ("libmagma.so.2", "kept", "solver_caller"), ("libmagmadnn.so", "lowered", "white_list")):
            told = self.plain("cublasSgemm_v2", "--caller", caller)
            self.assertEqual((told["decision"], told["reason"]), (decision, reason))

    def test_names_of_the_header_and_sizes_of_64_bits(self):
        for name, entry in (("cublasSgemm", "cublasSgemm_v2"), ("cublasSgemm_64", "cublasSgemm_v2_64"), ("cublasSaxpy", "cublasSaxpy_v2")):
            self.assertEqual(self.plain(name), self.plain(entry))
            self.assertEqual(self.plain(name)["entry"], entry)
        for entry in ("cublasSgemm_64", "cublasLtMatmul"):
            told = self.explain("--entry", entry, "--m", str(5 * 10**9), "--n", "512", "--k", "512")
            self.assertEqual((told["decision"], told["reason"]), ("lowered", "white_list"))
            self.assertGreater(told["est_ns"], 1e7)
        said = {entry: self.plain(entry, "--batch", "4")["steps"][0]["says"] for entry in
                ("cublasSgemmGroupedBatched", "cublasGemmGroupedBatchedEx", "cublasSgemmBatched")}
        self.assertEqual(["groups are identical" in says for says in said.values()], [True, True, False])

    def test_estimates_of_every_strategy(self):
        told = self.plain("cublasSgemm_v2", AUTOAMP_CUSTOM_BLACK_LIST="mm", AUTOAMP_DTYPE="bf16")
        self.assertEqual(told["reason"], "custom_black_list")
        ways = {way["strategy"]: way for way in told["strategies"]}
        words = re.search(r"AUTOAMP_STRATEGY\n.*\n +values: (.*)\n", self.autoamp("help", "env").stdout).group(1).split(", ")
        self.assertEqual(set(ways) | {"library"}, {word for word in words if word != "auto"})
        self.assertNotIn("library", ways)  # has no clamp: runs only if named
        named = self.plain("cublasSgemm_v2", AUTOAMP_STRATEGY="library", AUTOAMP_DTYPE="bf16")
        self.assertIn("library", {way["strategy"] for way in named["strategies"]})
        self.assertEqual(ways["fp32"]["est_ns"], told["est_ns"])
        self.assertEqual(min(way["est_ns"] for way in ways.values()), told["est_lowered_ns"])
        for word in ways:  # as if it were named
            variables = {"AUTOAMP_STRATEGY": word, "AUTOAMP_DTYPE": "bf16"}
            if word == "tf32":
                variables["AUTOAMP_DTYPE"] = "tf32"
            named = self.plain("cublasSgemm_v2", **variables)
            self.assertEqual(named["strategy"], word)
            self.assertEqual(ways[word]["est_ns"], named["est_ns" if word == "fp32" else "est_lowered_ns"])
            self.assertEqual(ways[word]["precision"], named["precision"])
        self.assertEqual(self.plain("cublasSaxpy_v2")["strategies"], [])

    def test_gpu(self):
        models = {model: self.plain("cublasSgemm_v2", "--gpu", model)["est_ns"] for model in ("a100", "h100", "b200", "rtx4090")}
        self.assertEqual(len(set(models.values())), 4)
        self.assertEqual(self.plain("cublasSgemm_v2", AUTOAMP_GPU_MODEL="a100")["est_ns"], models["a100"])
        self.assertEqual(self.plain("cublasSgemm_v2", "--gpu", "b200", AUTOAMP_GPU_MODEL="a100")["est_ns"], models["b200"])
        self.assertEqual(self.plain("cublasSgemm_v2")["est_ns"], models["h100"])

    def test_this_machines_gpu(self):
        driver = {"LD_LIBRARY_PATH": str(self.root / "driver"), "FAKE_DEVICES": "1"}
        self.assertEqual(self.plain("cublasSgemm_v2", **driver, FAKE_NAME="NVIDIA A100-SXM4-80GB", FAKE_CAPABILITY="80")["est_ns"],
                         self.plain("cublasSgemm_v2", "--gpu", "a100")["est_ns"])
        for variables, reason in (({"FAKE_CAPABILITY": "70"}, "gpu_too_old"), ({"FAKE_VERSION": "11080", "AUTOAMP_STRATEGY": "cast"}, "driver_too_old"),
                                  ({"FAKE_CAPABILITY": "75", "AUTOAMP_DTYPE": "bf16"}, "gpu_too_old"), ({}, "white_list"),
                                  ({"FAKE_DEVICES": "0", "FAKE_CAPABILITY": "70"}, "white_list")):
            told = self.plain("cublasSgemm_v2", **driver | variables)
            self.assertEqual(told["reason"], reason)
            self.assertIn("strategy", [step["step"] for step in told["steps"]])
        self.assertEqual(self.plain("cublasSgemm_v2", "--gpu", "h100", **driver, FAKE_CAPABILITY="70")["reason"], "white_list")

    def test_products_of_host_memory(self):
        for entry, dtype in (("cublasXtSgemm", "float32"), ("cublasXtDgemm", "float64")):
            told = self.plain(entry)
            self.assertEqual((told["op"], told["decision"]), ("mm", "kept"))
            self.assertEqual(told["steps"][0]["says"], f"mm of {dtype} operands")

    def test_calls_of_a_cpu_blas(self):
        self.environment = self.environment | {"AUTOAMP_CPU_MODEL": "zen5"}
        lowered = ("lowered", "white_list") if HAS_BFLOAT16 else ("kept", "cpu_too_old")
        for entry in ("cblas_sgemm", "sgemm_", "SGEMM", "scipy_cblas_sgemm64_", "cblas_sgemm_64"):
            told = self.plain(entry, "--device", "cpu", size=1024)
            self.assertEqual(told, self.plain(entry, size=1024))
            self.assertEqual([told[name] for name in ("entry", "op", "category")], [entry, "mm", "lower_precision"])
            self.assertEqual((told["decision"], told["reason"]), lowered)
            self.assertEqual([step["step"] for step in told["steps"]][:3], ["call", "lists", "strategy"])
            self.assertEqual([way["strategy"] for way in told["strategies"]], ["fp32", "cast"])
            self.assertEqual(told["weights"]["est_converted_ns"], told["est_lowered_ns"])
            self.assertIsNone(told["weights"]["est_kept_ns"])  # too many rows
            self.assertFalse(told["weights"]["needed"])
        few = self.explain("--entry", "sgemm_", "--m", "4096", "--n", "64", "--k", "4096")["weights"]
        self.assertLess(few["est_kept_ns"], few["est_converted_ns"])
        self.assertEqual(self.plain("cblas_sgemm", size=16)["reason"], "too_small" if HAS_BFLOAT16 else "cpu_too_old")
        self.assertIsNone(self.plain("cblas_sgemm", size=16)["weights"]["est_kept_ns"])
        self.assertIsNone(self.plain("cublasSaxpy_v2")["weights"])
        for entry, reason in (("cblas_dgemm", "float64"), ("zgemm_", "complex"), ("cblas_ssyrk", "rank_update"), ("strsm_", "triangular"),
                              ("ssymm_", "symmetric"), ("SGEMV", "matrix_vector"), ("cblas_sbgemm", "already_low")):
            told = self.plain(entry)
            self.assertEqual((told["decision"], told["reason"]), ("kept", reason), entry)
        for arguments, variables, reason in ((["--caller", "liblapack.so.3"], {}, "solver_caller"), ([], {"AUTOAMP_CUSTOM_BLACK_LIST": "sgemm_"}, "white_list"),
                                             ([], {"AUTOAMP_CUSTOM_BLACK_LIST": "cblas_sgemm*"}, "custom_black_list"),
                                             ([], {"AUTOAMP_DTYPE": "float16"}, "unsupported"), ([], {"AUTOAMP_STRATEGY": "tf32"}, "unsupported")):
            told = self.plain("cblas_sgemm", *arguments, **variables)
            self.assertEqual(told["reason"], reason if HAS_BFLOAT16 or reason != "white_list" else "cpu_too_old")
        self.assertIn("float16 or TF32", self.plain("cblas_sgemm", AUTOAMP_DTYPE="float16")["cause"])
        self.assertIn("TF32, which no CPU product has", self.plain("cblas_sgemm", AUTOAMP_STRATEGY="tf32")["cause"])
        self.assertEqual(self.plain("cblas_sgemm_batch", "--batch", "4")["op"], "bmm")

    @unittest.skipUnless(HAS_BFLOAT16, "the CPU has no bfloat16")
    def test_weights_of_a_cpu_blas(self):
        self.environment = self.environment | {"AUTOAMP_CPU_MODEL": "zen4"}
        few = ["--entry", "cblas_sgemm", "--m", "4096", "--n", "1", "--k", "4096"]
        told = self.explain(*few)
        self.assertEqual((told["decision"], told["reason"], told["weights"]["needed"]), ("lowered", "white_list", True))
        self.assertEqual(told["est_lowered_ns"], told["weights"]["est_kept_ns"])
        self.assertEqual(told, self.explain(*few, "--weights", "watched"))
        for variables in ({"AUTOAMP_WEIGHTS": "off"}, {}):
            told = self.explain(*few, *([] if variables else ["--weights", "off"]), **variables)
            self.assertEqual((told["decision"], told["reason"], told["weights"]["needed"]), ("kept", "not_profitable", False))
            self.assertEqual(told["steps"][-1]["step"], "weights")
        for memory, has_room in (("43M", True), ("42M", False)):  # copies take three quarters of it
            says = self.explain(*few, AUTOAMP_MEMORY=memory)["steps"][-2]["says"]
            self.assertIn("; until there is one, the call runs unchanged" if has_room else "; AUTOAMP_MEMORY has no room for one", says)
        text = self.autoamp("explain", *few).stdout
        self.assertTrue(text.startswith("cblas_sgemm 4096x1x4096: lowered to bfloat16 by cast, once its weight is kept\n"), text)
        for words in (r"\n  strategy +auto to bfloat16; built-in constants, one thread\n", r"\n  weights +watched: a gain needs a kept copy of the weight \(64.0 MiB",
                      r"\n  model +fp32 [\d.]+ ms, cast [\d.]+ ms \([\d.]+ ms with a kept weight\)\n"):
            self.assertRegex(text, words)

    @unittest.skipUnless(HAS_BFLOAT16, "the CPU has no bfloat16")
    def test_models_of_cpus(self):
        told = {model: self.plain("cblas_sgemm", size=1024, AUTOAMP_CPU_MODEL=model) for model in ("zen4", "zen5", "xeon")}
        self.assertEqual([each["reason"] for each in told.values()], ["white_list", "white_list", "not_profitable"])
        self.assertEqual(len({each["est_ns"] for each in told.values()}), 3)

    def test_weights_of_a_gpu(self):
        few = ["--entry", "cublasSgemm_v2", "--m", "4096", "--n", "1", "--k", "4096", "--gpu", "h100"]
        bfloat16 = {"AUTOAMP_DTYPE": "bfloat16"}
        told = self.explain(*few, **bfloat16)
        self.assertEqual((told["decision"], told["reason"]), ("kept", "not_profitable"))
        self.assertEqual([told["weights"][name] for name in ("mode", "kept", "reason", "est_kept_ns")], ["off", False, "off", None])
        for mode in ("checked", "frozen"):
            told = self.explain(*few, "--weights", mode, **bfloat16)
            self.assertEqual((told["decision"], told["reason"], told["strategy"]), ("lowered", "white_list", "cast"))
            self.assertEqual([told["weights"][name] for name in ("mode", "kept", "reason", "needed")], [mode, True, None, False])
            self.assertEqual(told["est_lowered_ns"], told["weights"]["est_kept_ns"])
            self.assertLess(told["weights"]["est_kept_ns"], told["est_ns"])
            self.assertGreater(told["weights"]["est_converted_ns"], told["est_ns"])
            self.assertEqual([step["step"] for step in told["steps"]], ["call", "lists", "strategy", "weights", "level"])
            self.assertTrue(told["steps"][3]["says"].startswith(f"{mode}: a copy of the weight (64.0 MiB of fp32) is kept"), told["steps"])
        self.assertEqual(self.explain(*few, "--weights", "watched", **bfloat16)["weights"]["mode"], "off")
        cases = (("cublasSgemm_v2", 256, [], "too_small"), ("cublasSgemmStridedBatched", 1024, ["--batch", "2"], "batched"),
                 ("cublasSgemm_v2", 1024, [], "not_profitable"), ("cudnnRNNForward", 1024, [], "recurrent"))
        for entry, size, arguments, reason in cases:
            told = self.plain(entry, *arguments, "--weights", "checked", "--gpu", "h100", size=size, **bfloat16)
            self.assertEqual((told["weights"]["kept"], told["weights"]["reason"]), (False, reason), entry)
        strict = self.plain("cublasSgemm_v2", "--weights", "frozen", AUTOAMP_SCALING="strict")
        self.assertEqual(strict["weights"]["reason"], "strict_scaling")
        tf32 = self.plain("cublasSgemm_v2", "--weights", "frozen", AUTOAMP_STRATEGY="tf32")
        self.assertEqual(tf32["weights"]["reason"], "not_cast")
        self.assertEqual(self.plain("cublasSgemm_v2", "--weights", "frozen", AUTOAMP_LEVEL="O0")["weights"]["kept"], True)
        text = self.autoamp("explain", *few, "--weights", "checked", **bfloat16).stdout
        self.assertRegex(text, r"\n  weights +checked: a copy of the weight \(64.0 MiB of fp32\) is kept once it has been the same four times\n")
        self.assertRegex(text, r"\n  model +fp32 [\d.]+ us, cast [\d.]+ us \([\d.]+ us with a kept weight\), tf32 [\d.]+ us\n")

    def test_rules_about_weights(self):
        rules = self.here / "weights.toml"
        rules.write_text('[[rule]]\nm = 4096\nweights = "frozen"\n[[rule]]\nprecision = "bfloat16"\n')
        told = self.plain("cublasSgemm_v2", AUTOAMP_CONFIG=str(rules))
        self.assertEqual((told["precision"], told["reason"], told["weights"]["mode"], told["weights"]["kept"]), ("bfloat16", "rule", "frozen", True))
        self.assertEqual(told["rule"], f"{rules}:4:1")
        self.assertEqual([step["says"] for step in told["steps"] if step["step"] == "rules"],
                         [f'{rules}:4:1: precision = "bfloat16"; {rules}:1:1: m = "4096", weights = "frozen"'])
        told = self.plain("cublasSgemm_v2", size=2048, AUTOAMP_CONFIG=str(rules))
        self.assertEqual((told["precision"], told["weights"]["mode"]), ("bfloat16", "off"))
        rules.write_text('[[rule]]\nm = 4096\nweights = "frozen"\n')
        told = self.plain("cublasSgemm_v2", AUTOAMP_CONFIG=str(rules))
        self.assertEqual((told["reason"], told["rule"], told["weights"]["mode"]), ("white_list", None, "frozen"))

    def test_calibration_that_is_not_of_this_cpu(self):
        usual = self.plain("cblas_sgemm", size=1024)
        folder = self.here / "state"
        folder.mkdir()
        (folder / "cpu-calibration").write_text("version=3\nmodel=other\ncheck=0\n")
        told = self.plain("cblas_sgemm", size=1024, AUTOAMP_DIR=str(folder))
        self.assertEqual(told["est_ns"], usual["est_ns"])
        self.assertIn("built-in constants, one thread (cpu-calibration: it is damaged)", told["steps"][2]["says"])

    def test_text(self):
        sizes = ["--m", "64", "--n", "64", "--k", "64"]
        text = self.autoamp("explain", "--entry", "cublasSgemm_v2", *sizes).stdout
        self.assertRegex(text, r"\AcublasSgemm_v2 64x64x64: kept\n")
        for words in (r"\n  call +mm of float32 operands\n", r"\n  strategy +auto to float16; no GPU here, constants of h100\n", r"\n  model +fp32 [\d.]+ us, cast [\d.]+ us",
                      r"\n  reason +too_small: too little work", r"\n  try +batch small products\n"):
            self.assertRegex(text, words)
        text = self.autoamp("explain", "--entry", "cublasSgemmStridedBatched", *sizes, "--batch", "512", AUTOAMP_STRATEGY="cast").stdout
        self.assertTrue(text.startswith("cublasSgemmStridedBatched 64x64x64 b512: lowered to float16 by cast\n"), text)

    def test_what_is_wrong(self):
        sizes = ["--m", "64", "--n", "64", "--k", "64"]
        sgemm = ["--entry", "cublasSgemm_v2"]
        for arguments, words in (([*sizes], ["--entry"]), ([*sgemm, "--m", "64"], ["--n is missing"]),
                                 ([*sizes, "--entry", "cublasSgem_v2"], ["cublasSgem_v2", "cublasSgemm_v2"]),
                                 ([*sizes, "--entry", "cublasSgem_v2"], ["did you mean cublasSgemm_v2?"]),
                                 ([*sizes, "--entry", "cublasSgem"], ["did you mean cublasSgemm_v2?"]),
                                 ([*sizes, "--entry", "cublasSgem_64"], ["did you mean cublasSgemm_v2_64?"]),
                                 ([*sizes, "--entry", "cudnnConvForward"], ["did you mean cudnnConvolutionForward?"]),
                                 ([*sizes, "--entry", "cublasSetMathMode"], ["cublasSetMathMode is not intercepted, because it manages a handle"]),
                                 ([*sizes, "--entry", "cublasCreate"], ["cublasCreate is not intercepted, because it manages a handle"]),
                                 ([*sizes, "--entry", "cublasSetStream_v2"], ["not intercepted, because it manages a handle"]),
                                 ([*sizes, "--entry", "cublasLtMatmulAlgoGetHeuristic"], ["because it describes a cublasLt call"]),
                                 ([*sizes, "--entry", "cudnnSetStream"], ["cudnnSetStream is not intercepted, because it"]),
                                 ([*sizes, "--entry", "embedding"], ["no entry point 'embedding'; autoamp lists"]),
                                 (["--m", "3000000000", "--n", "64", "--k", "64", "--entry", "cublasSgemm"], ["2^31", "_64"]),
                                 (["--m", "3000000000", "--n", "3000000000", "--k", "64", "--entry", "cublasSgemm_64"], ["elements"]),
                                 ([*sizes, "--entry", "cudnnConvolutionForwrd"], ["did you mean cudnnConvolutionForward?"]),
                                 ([*sizes, *sgemm, "--batch", "2"], ["no batch"]), ([*sizes, "--entry", "cblas_sgemm", "--batch", "2"], ["no batch"]),
                                 ([*sizes, *sgemm, "--device", "cpu"], ["--device cpu", "cublas"]), ([*sizes, *sgemm, "--device", "gpu"], ["gpu"]),
                                 ([*sizes, "--entry", "sgemm_", "--device", "cuda"], ["--device cuda", "CPU BLAS"]),
                                 ([*sizes, *sgemm, "--weights", "on"], ["--weights on", "auto, off, checked, watched, frozen"]),
                                 ([*sizes, "--entry", "cblas_sgem"], ["did you mean cblas_sgemm?"]),
                                 ([*sizes, *sgemm, "--dtype-in", "tf32"], ["float32"]), ([*sizes, *sgemm, "--gpu", "v100"], ["h100"]),
                                 ([*sizes, *sgemm, "--gpu", ""], ["h100"]), ([*sizes, *sgemm, "--format", "csv"], ["csv"]),
                                 ([*sgemm, "--m", "-1", "--n", "1", "--k", "1"], ["-1"]),
                                 ([*sgemm, "--m", "x", "--n", "1", "--k", "1"], ["x"]),
                                 ([*sgemm, "--m", "1.5", "--n", "1", "--k", "1"], ["1.5"]),
                                 ([*sgemm, "--m", "99999999999", "--n", "1", "--k", "1"], ["2^31"]),
                                 ([*sizes, *sgemm, "word"], ["word"])):
            self.refused(self.autoamp("explain", *arguments), 2, *words)
        self.refused(self.autoamp("explain", *sizes, *sgemm, AUTOAMP_LEVEL="O9"), 2, "AUTOAMP_LEVEL=O9")


unittest.main()
