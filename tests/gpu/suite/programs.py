"""Steps with programs of frameworks, unmodified, on the framework's own CUDA libraries."""
import json
import os

from suite.bundle_files import AUTOAMP, HERE
from suite.figures import check_kernels
from suite.section import NOT_MEASURED, median, ratios, spread

MODES = ("fp32", "tf32", "autocast", "autoamp")
COLUMNS = {"autoamp/fp32": ("fp32", "autoamp"), "autoamp/TF32": ("tf32", "autoamp"), "autoamp/autocast": ("autocast", "autoamp"),
           "TF32/fp32": ("fp32", "tf32")}
# Exit with 0 if the framework can use the GPU.
USABLE = {"torch": "import torch; raise SystemExit(not torch.cuda.is_available())",
          "cupy": "import cupy; cupy.zeros(1)",
          "jax": "import jax; jax.devices('gpu')",
          "onnxruntime": "import onnx, onnxruntime; raise SystemExit('CUDAExecutionProvider' not in onnxruntime.get_available_providers())"}
LARGEST_ERROR = 5e-3  # of float16, relative to the largest element


def frameworks(step):
    """A few products and convolutions of each framework that is installed: errors against its own CPU, and lowered calls."""
    section = step.section("frameworks: products and convolutions under autoamp run", "framework", "version", "cases", "largest error",
                           "calls lowered")
    for name in USABLE:
        if name not in step.pythons:
            section.add(name, "missing", "", "", "")
            continue
        python, version = step.pythons[name]
        environment = {**step.plain, "XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if step.run([python, "-c", USABLE[name]], environment, limit=60).returncode:
            section.add(name, version, "no GPU support", "", "")
            continue
        trace = os.path.join(step.folder, name + ".aat")
        done = step.run([AUTOAMP, "run", "--device", "cuda", "--strategy", "cast", "--trace", "ops", "--quiet", "-o", trace, "--",
                         python, str(HERE / "frameworks" / f"{name}_client.py")], environment, limit=120)
        cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        report = step.report(trace)
        lowered = report["totals"]["lowered"] if report else 0
        section.check(done.returncode == 0 and cases and lowered,
                      f"{name}: exit status {done.returncode}, {lowered} calls lowered: {done.stderr.strip()[-300:]}")
        for case in cases:
            section.check(case["error"] <= LARGEST_ERROR, f"{name}, {case['case']}: error {case['error']:.1e}")
        section.add(name, version, len(cases), f"{max((case['error'] for case in cases), default=0):.1e}", lowered)
    if not step.pythons:
        section.missing = "PyTorch, CuPy, JAX, ONNX Runtime"
    return section


def models(step):
    """One process for all ways: a region of autoamp is open in its own rounds only."""
    section = step.section("PyTorch models, random weights: how many times as fast (one process; median and range)",
                           "model", "pass", "fp32 ms", *COLUMNS, "calls lowered", "difference to fp32")
    if "torch" not in step.pythons:
        section.missing = "PyTorch"
        return section
    path = ":".join(filter(None, [str(HERE), step.plain.get("PYTHONPATH")]))
    environment, trace = step.preloaded({"SCOPE": "regions", "TRACE": "ops"}, {**step.plain, "PYTHONPATH": path})
    command = [step.pythons["torch"][0], str(HERE / "frameworks/torch_models.py"), *["--small"] * step.is_small,
               "--seconds", str(int(step.left() - 15))]
    done = step.run(command, environment)
    if done.returncode == 77:
        section.missing = done.stdout.strip()
        return section
    section.check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    report = step.report(trace)
    for result in [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"model"')]:
        rounds, name = result["rounds"], f"{result['model']} {result['pass']}"
        section.raw[name] = rounds
        rows = [row for row in report["ops"] if row["region"] == name] if report else []
        lowered = sum(row["calls"] for row in rows if row["decision"] == "lowered")
        section.check(lowered, f"{name}: nothing was lowered")
        section.add(result["model"], result["pass"], median([r["fp32"] and r["fp32"] * 1e3 for r in rounds]),
                    *(spread(ratios(rounds, *pair), "%.2f") for pair in COLUMNS.values()),
                    f"{lowered} of {sum(row['calls'] for row in rows if row['eligible'])}", f"{result['difference']:.1e}")
    section.check(section.rows, "no model ran")
    if not step.is_small:
        traced(step, section)
    return section


def traced(step, section):
    """Kernels of a PyTorch program: none is lost, and nearly all belong to a call or to none."""
    trace = os.path.join(step.folder, "kernels.aat")
    done = step.run([AUTOAMP, "run", "--trace", "kernels", "--quiet", "-o", trace, "--", step.pythons["torch"][0],
                     str(HERE / "frameworks/torch_demo.py")], step.plain)
    section.check(done.returncode == 0, f"torch_demo.py: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    report = step.report(trace)
    if report:
        check_kernels(section, "torch_demo.py", report)
        section.notes.append(step.run([AUTOAMP, "report", "--report", "kernels", trace], step.plain).stdout.rstrip())
