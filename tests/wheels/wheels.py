#!/usr/bin/env python3
"""Programs that use the wheels of ONNX Runtime or PyTorch, and the cuBLAS references of CuPy and JAX, unmodified, on the
emulated device.

usage: wheels.py [--install|--only-install] onnxruntime|torch|cupy|jax BUILD

The wheels come from PyPI into BUILD/wheels/NAME, once, pinned by hash. Those of PyTorch are several gigabytes: without
--install they are not downloaded. Exit status 77: they cannot be downloaded. --only-install runs nothing. Each program is run in fp32 (every call
kept) and in float16 (every call lowered); the errors of its results and the report decide."""
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NAME, BUILD = sys.argv[-2], pathlib.Path(sys.argv[-1]).resolve()
FOLDER = BUILD / "wheels" / NAME
PYTHON = FOLDER / "bin/python3"
# libcurand is in no wheel of ONNX Runtime. PyTorch was built for this version of cuDNN and refuses an older one.
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "tests/wheels"))
if NAME == "torch":  # the plug-in has the update kernel of its gradient scaler
    ENVIRONMENT |= {"AUTOAMP_EMU_CUDNN": "92600", "AUTOAMP_TRACE": "kernels",
                    "AUTOAMP_EMU_PLUGINS": str(BUILD / "tests/preload/clients/libscaler-kernels.so")}
# PyTorch forbids TF32 for its recurrent networks, and no engine has a grouped gradient with an fp32 result.
KEPT = ("pedantic", "no_fp32_output") if NAME == "torch" else ()
# The largest relative errors; fp32 sums differ in their order, float16 has eleven bits.
TOLERANCE = {"fp32": 1e-5, "cast": 5e-3}


def install():
    """A virtual environment with the wheels; one that was made for other versions is not used."""
    wanted = HERE / f"{NAME}.txt"
    done = FOLDER / wanted.name
    if done.exists() and done.read_text() == wanted.read_text():
        return
    if NAME == "torch" and "--install" not in sys.argv:
        print(f"PyTorch is not in {FOLDER}: wheels.py --install torch {BUILD}")
        sys.exit(77)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", FOLDER],
                    [PYTHON, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-deps", "--only-binary", ":all:",
                     "--require-hashes", "--retries", "1", "--requirement", wanted]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(f"the wheels cannot be had: {ran.stdout}{ran.stderr}")
            sys.exit(77)
    shutil.copy(wanted, done)


def check(strategy):
    """Problems of one run, as texts."""
    trace = FOLDER / f"{strategy}.aat"
    ran = subprocess.run([BUILD / "tools/autoamp", "run", "--device", "emulated", "--strategy", strategy, "--force", "-o", trace, "--",
                          PYTHON, HERE / f"{NAME}_client.py"], capture_output=True, text=True, timeout=900, check=False,
                         env=ENVIRONMENT)
    if ran.returncode:
        return [f"{strategy}: exit status {ran.returncode}\n{ran.stdout}{ran.stderr}"]
    cases = [json.loads(line) for line in ran.stdout.splitlines()]
    print(f"{strategy}: {len(cases)} cases, largest error {max(case['error'] for case in cases):.1e}")
    bad = [f"{strategy}: {case['case']}: error {case['error']:.1e}" for case in cases
           if not case["error"] <= TOLERANCE[strategy]]
    report = json.loads(subprocess.run([BUILD / "tools/autoamp", "report", "--format", "json", trace], capture_output=True, text=True,
                                       check=True).stdout)
    products = [op for op in report["ops"] if op["eligible"]]
    lowered = sum(op["calls"] for op in products if op["decision"] == "lowered")
    print(f"{strategy}: {lowered} of {sum(op['calls'] for op in products)} products lowered")
    bad += [f"{strategy}: {op['entry']} {op['shape']} is {op['decision']}, {op['reason']}" for op in products
            if (op["decision"] == "lowered") == (strategy == "fp32") and op["reason"] not in KEPT]
    scalers = [[each[key] for key in ("steps", "skipped", "scale_last", "how")] for each in report["scaler"].get("gradient", [])]
    if scalers != ([[6, 2, 32768.0, "update_kernel"]] if NAME == "torch" else []):
        bad.append(f"{strategy}: gradient scalers {scalers}")
    return bad + ([] if lowered or strategy == "fp32" else [f"{strategy}: nothing was lowered"])


FOLDER.parent.mkdir(exist_ok=True)
with open(FOLDER.parent / f"{NAME}.lock", "w") as lock:  # another test may install the same
    fcntl.flock(lock, fcntl.LOCK_EX)
    install()
if "--only-install" in sys.argv:
    sys.exit(0)
problems = check("fp32") + check("cast")
print("\n".join(problems) or "passed")
sys.exit(1 if problems else 0)
