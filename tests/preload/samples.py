#!/usr/bin/env python3
"""NVIDIA's samples, unmodified, bare and under the library: samples.py PRELOAD AUTOAMP EMULATED NVCC [SAMPLE…].

$NVIDIA_SAMPLES is a folder that contains CUDALibrarySamples and cuda-samples; without it the test is skipped. A sample
is judged by its exit status and, if it only prints, by its output."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

preload, autoamp, emulated, nvcc, *only = sys.argv[1:]
WAYS = {"bare": None, "fp32": {"STRATEGY": "fp32"}, "float16": {"STRATEGY": "cast"},
        "bfloat16": {"STRATEGY": "cast", "DTYPE": "bfloat16"}}
NO_RESULT = re.compile(r".*(elapsed|Performance=|algo=).*\n")  # depends on the time it took

# Folder, effect of cast on its calls, whether 16 bits exceed its own tolerance. Those of CUDALibrarySamples multiply a
# few small integers, batchCUBLAS multiples of 1/256 below 1: exact in every type. Samples without a row in the report
# use fp64.
LOWERED = "lowered white_list"
ROWS = [
    ("4_CUDA_Libraries/simpleCUBLAS", {LOWERED}, True),
    ("4_CUDA_Libraries/matrixMulCUBLAS", {LOWERED}, True),
    ("4_CUDA_Libraries/batchCUBLAS", {LOWERED}, False),
    ("cuBLASLt/LtSgemm", {LOWERED}, False),
    ("cuBLASLt/LtSgemmSimpleAutoTuning", {LOWERED}, False),
    ("Emulation/bf16x9_sgemm", {LOWERED, "kept emulated_fp32"}, False),
    ("Emulation/bf16x9_gemmEx", {LOWERED, "kept emulated_fp32"}, False),
    ("Extensions/GemmEx", {"kept float64"}, False),
    ("Extensions/GemmGroupedBatchedEx", {"kept grouped"}, False),
    ("Level-3/gemm", set(), False),
    ("Level-3/gemmBatched", set(), False),
    ("Level-3/gemmStridedBatched", set(), False),
    ("Level-3/gemm3m", {"kept complex"}, False),
    ("Level-3/trsm", set(), False),
]


def sources(root, sample):
    """The sample's files, those of the folders that it shares with others, and the folders of their headers."""
    for folder in root.rglob(sample):
        shared = [parent / name for parent in folder.parents for name in ("Common", "utils") if (parent / name).is_dir()]
        return sorted(folder.glob("*.c*")) + sorted(shared[0].glob("helpers.cpp")), shared[0]
    return None


def run(program, way, folder):
    """Exit status, output except for times, the rows of the report."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "LD_PRELOAD"))}
    environment["LD_LIBRARY_PATH"] = emulated
    trace = folder / f"{program.name}.{way}.aat"
    if WAYS[way] is not None:
        environment |= {"LD_PRELOAD": preload, "AUTOAMP_TRACE_FILE": str(trace)}
        environment |= {"AUTOAMP_" + name: value for name, value in WAYS[way].items()}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300, check=False)
    rows = []
    if trace.exists():
        report = subprocess.run([autoamp, "report", "--format", "json", trace], capture_output=True, text=True, check=True)
        rows = json.loads(report.stdout)["ops"]
    decisions = {f"{row['decision']} {row['reason']}" for row in rows}
    return (done.returncode, NO_RESULT.sub("", done.stdout), done.stderr), decisions


def check(root, folder, sample, expected, is_strict):
    found = sources(root, sample)
    if not found:
        return None
    program = folder / sample.replace("/", ".")
    command = [nvcc, "-std=c++17", "-cudart", "shared", "-arch=sm_90", "-I", found[1], *found[0], "-o", program]
    for library in ("libcublas.so.13", "libcublasLt.so.13"):  # a toolkit from PyPI has them only under these names
        command += ["-Xlinker", os.path.join(emulated, library)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        return f"does not build: {built.stderr or built.stdout}"
    results = {way: run(program, way, folder) for way in WAYS}
    (status, said, _), _ = results["bare"]
    if status:
        return f"fails bare: {said}"
    for way, (result, decisions) in results.items():
        lowers = way not in ("bare", "fp32")
        if is_strict and lowers:
            fine = result[0] != 0
        else:
            fine = result == results["bare"][0]
        if lowers:
            fine = fine and decisions == expected
        if not fine:
            return f"{way}: {result} {decisions}; bare: {results['bare'][0]}"
    return ""


def main():
    if not os.environ.get("NVIDIA_SAMPLES"):
        print("NVIDIA_SAMPLES names no folder of samples")
        return 77
    root = pathlib.Path(os.environ["NVIDIA_SAMPLES"])
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = [row for row in ROWS if not only or row[0] in only]
        answers = list(pool.map(lambda row: check(root, pathlib.Path(folder), *row), rows))
    for (sample, *_), answer in zip(rows, answers):
        print(f"{sample}: {'not there' if answer is None else answer or 'as expected'}")
    return 77 if all(answer is None for answer in answers) else int(any(answers))


if __name__ == "__main__":
    sys.exit(main())
