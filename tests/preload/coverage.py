"""coverage.py INJECT INCLUDE: every function of the vendor's headers is in a table or on the list of functions that are
not intercepted, and no function that computes is on that list."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

INJECT, INCLUDE = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(INJECT))
from gen_entries import header_at, parameter_name, prototypes, read_families, read_table  # noqa: E402

TABLES = [INJECT / f"{library}.entries" for library in ("cublas", "cublaslt", "cudnn")]
# The data type is an argument, but the function touches no data.
SETTINGS = {"cublasXtSetCpuRatio", "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutInit_internal",
            "cublasLtMatmulDescCreate", "cublasLtMatmulDescInit_internal", "cublasLtMatrixTransformDescCreate",
            "cublasLtMatrixTransformDescInit_internal", "cublasLtMatmulAlgoGetIds", "cublasLtMatmulAlgoInit",
            "cudnnSetDropoutDescriptor", "cudnnGetDropoutDescriptor", "cudnnRestoreDropoutDescriptor"}
# They get device data, but only to return positions in it, to do no work on data of the descriptor's type, or for a
# search.
NO_CALLS = {"cudnnGetRNNWeightParams", "cudnnGetMultiHeadAttnWeights", "cudnnFindConvolutionForwardAlgorithmEx",
            "cudnnFindConvolutionBackwardDataAlgorithmEx", "cudnnFindConvolutionBackwardFilterAlgorithmEx"}


def all_names(header):
    """Every declared function, with any return type."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header_at(INCLUDE, header).read_text(), flags=re.S)
    found = re.findall(r"(\w+)[\s*]+(?:CUBLASWINAPI\s+|CUDNNWINAPI\s+)?((?:cublas|cudnn)\w+)\s*\([^;{}()]*\)\s*;", text)
    return {name for before, name in found if before != "return"}


def left_alone():
    """{name: reason}"""
    found, reason = {}, None
    for line in (INJECT / "left_alone").read_text().splitlines():
        if line.startswith("because "):
            reason = line
        elif not line.startswith("#"):
            for name in line.split():
                found[name] = reason
    return found


HEADERS, ROWS = [], []
for table in TABLES:
    headers, rows = read_table(table)
    HEADERS += headers
    ROWS += rows
DECLARED = {}
for header in HEADERS:
    DECLARED |= prototypes(header_at(INCLUDE, header))
IN_TABLES = [row[0] for row in ROWS]
LEFT = left_alone()


def is_left_alone(name):
    return name in LEFT or name.removesuffix("_64") in LEFT


def touches_fp32(name):
    return re.search(r"\bfloat\b|\bcuComplex\b|\bcudaDataType(_t)?\b", ", ".join(DECLARED[name])) is not None


class Coverage(unittest.TestCase):
    def test_every_function_is_accounted_for(self):
        for header in HEADERS + ["cublas_v2.h", "cudnn.h"]:
            missing = {n for n in all_names(header) if n not in IN_TABLES and not is_left_alone(n)}
            self.assertFalse(missing, f"{header} declares functions that are in no table and not on the left-alone list")

    def test_the_headers_were_read(self):
        for name in ("cublasSgemm_v2_64", "cublasGemmEx", "cublasXtSgemm", "cublasLtMatmul", "cublasGetStatusName",
                     "cudnnBackendExecute", "cudnnConvolutionForward", "cudnnGetErrorString", "cudnnSoftmaxBackward", "cudnnRNNForward"):
            self.assertTrue(any(name in all_names(header) for header in HEADERS), name)

    def test_nothing_stands_twice(self):
        self.assertEqual(len(IN_TABLES), len(set(IN_TABLES)))
        self.assertFalse({n for n in IN_TABLES if is_left_alone(n)})

    def test_names_on_the_left_alone_list_exist(self):
        declared = set().union(*(all_names(header) for header in HEADERS))
        self.assertFalse(set(LEFT) - declared)
        self.assertTrue(all(LEFT.values()))

    def test_no_fp32_entry_point_is_left_alone(self):
        fp32 = {n for n in DECLARED if touches_fp32(n) and n not in SETTINGS}
        self.assertFalse({n for n in fp32 if n not in IN_TABLES})
        products = {n for n in fp32 if "gemm" in n.lower() or n == "cublasLtMatmul"}
        self.assertGreater(len(products), 20)

    def test_no_entry_point_of_blas_is_left_alone(self):
        takes = {n for n, parameters in DECLARED.items() if re.match(r"cublas(Xt)?Handle_t handle", parameters[0]) and
                 any(re.search(r"\b(double|float|cuComplex|cuDoubleComplex|unsigned char)\b.*\*", p) or p.startswith("void *") or
                     p.startswith("const void *") for p in parameters)}
        self.assertGreater(len(takes), 450)
        self.assertFalse({n for n in takes if n not in IN_TABLES} - {"cublasSetWorkspace_v2", "cublasSetWorkspace_v2_64"})

    def test_counted_calls_have_no_lower_form(self):
        for name, family, dtype, obstacle, kind in ROWS:
            if name.startswith("cublas"):
                self.assertEqual(family == "Counted", dtype in ("float64", "complex64", "complex128", "other"), name)
            if family == "Counted":
                self.assertIn(obstacle, ("float64", "complex", "not_float32"))
                sizes = {"m", "n", "k"} if kind in ("mm", "bmm") else {"m", "n"} if kind == "mv" else set()
                self.assertLessEqual(sizes, {parameter_name(p) for p in DECLARED[name]})
                is_product = re.search(r"gem[mv]", name) and "Grouped" not in name
                self.assertEqual(bool(is_product), kind != "none", name)

    def test_cublaslt_products_are_in_the_table(self):  # their types are in descriptors
        self.assertIn("cublasLtMatmul", IN_TABLES)
        self.assertIn("cublasLtMatrixTransform", IN_TABLES)
        alone = {n for n in LEFT if n.startswith("cublasLt") and "cudaStream_t" in ", ".join(DECLARED.get(n, []))}
        self.assertFalse(alone, "takes a stream, so it may enqueue work")

    def test_cudnn_calls_that_work_on_data_are_in_the_table(self):  # their types are in descriptors, too
        takes = {n for n, parameters in DECLARED.items()
                 if n.startswith("cudnn") and parameters[0] == "cudnnHandle_t handle" and
                 (n.startswith("cudnnBackend") or n.endswith("Execute") or
                  any(re.search(r"(?<!udata)(?<!states)\bvoid \*+\w+$", p) and p not in ("void *workSpace", "void *workspace")
                      for p in parameters))}
        self.assertEqual(takes - NO_CALLS, {row[0] for row in ROWS if row[0].startswith("cudnn") and row[1] != "Watched"})

    def test_the_parameter_that_describes_the_data_exists(self):
        for name, family, parameter, *_ in ROWS:
            if family == "Dnn" and parameter != "-":
                self.assertIn(parameter, [parameter_name(p) for p in DECLARED[name]])

    def test_twins(self):
        for name in IN_TABLES:
            if name + "_64" in DECLARED:
                self.assertIn(name + "_64", IN_TABLES)

    def test_the_handle_less_api_is_never_defined(self):
        self.assertFalse(set(IN_TABLES) & all_names("cublas.h"))

    def test_only_products_without_obstacle_can_be_lowered(self):
        lowerable = {name.removesuffix("_64") for name, _, _, obstacle, _ in ROWS if obstacle in ("none", "grouped")}
        self.assertEqual(lowerable, {"cublasSgemm_v2", "cublasSgemmEx", "cublasGemmEx", "cublasSgemmStridedBatched",
                                     "cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8",
                                     "cublasGemmStridedBatchedEx", "cublasSgemmBatched", "cublasGemmBatchedEx",
                                     "cublasSgemmGroupedBatched", "cublasGemmGroupedBatchedEx", "cublasLtMatmul",
                                     "cublasHgemm", "cublasHgemmStridedBatched", "cublasHgemmBatched",  # raised
                                     "cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward",
                                     "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter", "cudnnBackendExecute"})

    def test_a_vanished_function_fails_the_build(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "cublas.entries"
            arguments = INJECT.parent / "src/op/arguments.h"
            for row, is_there in (("cublasSgemm_v2[_64] Gemm float32", True), ("cublasSgone_v2 Plain float32 copy", False)):
                table.write_text(f"headers cublas_api.h\n{row}\n")
                done = subprocess.run([sys.executable, INJECT / "gen_entries.py", INCLUDE, arguments, folder, INJECT / "blas.entries", table],
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode == 0, "declare no cublasSgone_v2" in done.stderr),
                                 (is_there, not is_there), done)

    def test_families_copy_what_they_need(self):
        families = read_families(INJECT.parent / "src/op/arguments.h")
        for _, family, *_ in ROWS:
            if family not in ("Watched", "Counted"):  # not a call, so nothing is copied; a Plain call
                self.assertIn(family, families)
        # Every argument is copied except those that a lowered call chooses itself, and no member is misspelt.
        for entry, family, own in (("cublasGemmStridedBatchedEx", "Gemm", {"algo"}), ("cublasGemmGroupedBatchedEx", "Grouped", set()),
                                   ("cublasLtMatmul", "LtMatmul", {"algo", "workspace", "workspaceSizeInBytes"})):
            arguments = {re.sub("^([ABC])array$", r"\1", parameter_name(parameter)) for parameter in DECLARED[entry]}
            self.assertLessEqual(arguments - own, set(families[family]))
            self.assertLessEqual(set(families[family]) - {"groups"}, arguments)  # `groups`: the Grouped family is one batch
        for name in (name for name, family, *_ in ROWS if family == "Convolution"):
            arguments = {re.sub("^d(?=[xwy])|(?<=alpha)1$", "", parameter_name(p)).replace("alpha2", "beta") for p in DECLARED[name]}
            others = set() if "Activation" in name else {"z", "zDesc", "bias", "biasDesc", "activationDesc"}
            self.assertEqual(arguments, set(families["Convolution"]) - {"direction", "isFused"} - others, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
