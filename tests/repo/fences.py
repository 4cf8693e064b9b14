#!/usr/bin/env python3
"""The fences between the layers: allowed includes, and the allowed places for CUDA headers, dlsym and getenv. A unit is
a header with its source; no units include each other, directly or through others.

usage: fences.py ROOT   (tests/repo/fences_test.py gives it small trees that are wrong in each way)
"""
import pathlib
import re
import sys

# Layer: the layers and single files that its files may include, in addition to itself. A file belongs to the layer with
# the longest matching name.
SEAM = ["inject/autoamp.h", "inject/front.h", "inject/launches.h", "inject/launches.inc", "inject/vendors.h"]  # shared by front and core, and reported on by the command line
BELOW_STATE = [f"src/{name}" for name in ("base", "cuda", "op", "lists", "config", "policy", "scale", "lower")]
BELOW_STATE += ["src/trace", "src/trace/write", "src/trace/cupti", *SEAM]
LAYERS = {
    "inject": ["src/base"],
    "kernels": [],
    "src/base": [],
    "src/cuda": ["src/base"],
    "src/op": ["src/base", "src/cuda/library.h"],
    "src/lists": ["src/op", "src/base"],
    "src/config": ["src/lists", "src/op", "src/base"],
    "src/policy": ["src/config", "src/lists", "src/op", "src/base"],
    "src/scale": ["src/op", "src/base", "src/cuda", "kernels/cast.h"],
    "src/cpu": ["src/base"],
    "src/trace": ["src/base"],  # the format, and names of files
    "src/trace/write": ["src/trace", "src/base"],
    "src/trace/read": ["src/trace", "src/base"],
    "src/trace/cupti": ["src/trace/write", "src/trace", "src/base"],
    "src/lower": ["src/op", "src/policy", "src/scale", "kernels", "src/cuda", "src/base"],
    # The core proper: each includes those above it.
    "src/state": BELOW_STATE,
    "src/place": [*BELOW_STATE, "src/state"],
    "src/site": [*BELOW_STATE, "src/cpu", "src/state", "src/place", "kernels/images.h"],
    "src/life": [*BELOW_STATE, "src/state", "src/place", "src/site"],
    "src/gradient": [*BELOW_STATE, "kernels", "src/state", "src/place", "src/site", "src/life"],
    "src/call": [*BELOW_STATE, "src/cpu", "src/state", "src/place", "src/site", "src/life", "src/gradient"],
    "tools": ["src/cpu/dnnl.h", "src/cpu/processor.h", "src/cpu/product.h", "src/cpu/reason.h", "src/trace", "src/trace/read", "src/policy", "src/config", "src/lists", "src/op", "src/base", "kernels/images.h", *SEAM],
    "tools/demo": ["inject/autoamp.h"],
    "examples": [],  # as a user compiles them, with <autoamp.h>
    "tools/self_test": [],
    "tools/emulated": [],
    "tools/emulated/plugins": ["tools/emulated", "kernels"],  # the project's kernels as host functions
}
FREE = ["tests"]
INCLUDE_FOLDERS = ["tools/emulated", "tools/emulated/device", "tools/emulated/cudart", "tools/emulated/cuda"]  # -I

# Name: (pattern in the code, allowed places).
USES = {
    "a CUDA library header": (
        r'#\s*include\s*[<"](cublas|cudnn|cuda_runtime)\w*\.h',
        [r"src/call/wrapper\.h", r"src/op/\w+\.cpp", "src/lower/", "tools/demo/", "examples/", "tools/emulated/", "tools/self_test/", "tests/"],
    ),
    "cuda.h": (r'#\s*include\s*[<"]cuda\.h', ["src/cuda/", "tools/emulated/", "tools/self_test/", "tests/"]),
    "cupti.h": (r'#\s*include\s*[<"]cupti', ["src/trace/cupti", "tools/emulated/cupti/", "tests/"]),
    "dlsym or dlopen": (
        r"\b(dlv?sym|dlm?open)\s*\(",
        ["inject/", "kernels/nvrtc/", r"src/cpu/(dnnl|library|library_threads)\.cpp", "src/cuda/", "src/trace/cupti", r"tools/autoamp/machine\.cpp", "tools/emulated/", "tools/self_test/", "tests/"],
    ),
    "getenv": (r"\b(secure_)?getenv\s*\(", ["tools/", "tests/"]),
}
FRONT_VARIABLES = {"AUTOAMP_ENABLED", "AUTOAMP_HOOK_DLSYM", "AUTOAMP_SCOPE", "_AUTOAMP_RUN_BOARD", "MKL_INTERFACE_LAYER"}  # the front may read these

COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|(#\s*include\s*"[^"\n]*")|"(?:\\.|[^"\\\n])*"', re.S)


def cycles(includes):
    """Groups of units that include each other; `includes`: unit -> units. Tarjan's algorithm."""
    number, low, stack, groups = {}, {}, [], []

    def visit(unit):
        number[unit] = low[unit] = len(number)
        stack.append(unit)
        for other in sorted(includes.get(unit, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[unit] = min(low[unit], low[other])
        if low[unit] == number[unit]:
            at = stack.index(unit)
            groups.append(sorted(stack[at:]))
            del stack[at:]

    for unit in sorted(includes):
        if unit not in number:
            visit(unit)
    return [group for group in groups if len(group) > 1]


def layer_of(path):
    return max((name for name in LAYERS if f"{path}/".startswith(f"{name}/")), key=len, default=None)


def violations(root):
    root = pathlib.Path(root)
    includes = {}  # unit, a header with its source: the units that it includes
    for top in sorted({name.split("/")[0] for name in LAYERS} | set(FREE)):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".c", ".cu", ".cuh", ".inc", ".S"):
                continue
            path = file.relative_to(root).as_posix()
            text = file.read_text()
            code = COMMENTS_AND_STRINGS.sub(lambda match: match[1] or '""', text)
            for what, (pattern, places) in USES.items():
                if re.search(pattern, code) and not any(re.match(place, path) for place in places):
                    yield f"{path}: {what} may not be used here"
            if top == "inject":
                for name in sorted(set(re.findall(r'[(=]\s*"(\w+)="', text)) - FRONT_VARIABLES):
                    yield f"{path}: the front may not read {name}"
            here = layer_of(path)
            for name in re.findall(r'#\s*include\s*"([^"\n]+)"', code):
                folders = (root, file.parent, *(root / folder for folder in INCLUDE_FOLDERS))
                target = next((base / name for base in folders if (base / name).is_file()), None)
                if target is None or here is None:
                    continue  # generated, or a file that may include everything
                target = target.resolve().relative_to(root.resolve()).as_posix()
                unit, other = path.rsplit(".", 1)[0], target.rsplit(".", 1)[0]
                if unit != other:
                    includes.setdefault(unit, set()).add(other)
                if layer_of(target) not in (here, *LAYERS[here]) and target not in LAYERS[here]:
                    yield f"{path}: {here} may not include {name}"
    for group in cycles(includes):
        yield f"{', '.join(group)}: include each other"


if __name__ == "__main__":
    found = list(violations(sys.argv[1]))
    print("\n".join(found) or "fences hold")
    sys.exit(bool(found))
