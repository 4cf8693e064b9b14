"""Finds the CUDA libraries and Python packages of this machine, and the versions for which the programs must be linked."""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from suite import retarget
from suite.bundle_files import EMULATED, PROGRAMS

# For each CUDA version: libraries that the programs need, and those that more steps use.
NEEDED = {13: ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"),
          12: ("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12")}
WELCOME = {13: ("libcudnn.so.9", "libcupti.so.13", "libcusolver.so.12", "libcusparse.so.12", "libnvJitLink.so.13", "libnvrtc.so.13"),
           12: ("libcudnn.so.9", "libcupti.so.12", "libcusolver.so.11", "libcusparse.so.12", "libnvJitLink.so.12", "libnvrtc.so.12")}
PACKAGES = ("torch", "cupy", "jax", "onnxruntime")
DRIVER = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
version, count, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
assert driver.cuDriverGetVersion(ctypes.byref(version)) == 0 and driver.cuDeviceGetName(name, 256, 0) == 0
print(version.value, name.value.decode())
"""
VERSIONS = """
import importlib.metadata, importlib.util, json, sys
found = {}
for name in sys.argv[1:]:
    if importlib.util.find_spec(name):
        owners = importlib.metadata.packages_distributions().get(name, [])
        found[name] = importlib.metadata.version(owners[0]) if owners else "installed"
print(json.dumps(found))
"""


class Machine:
    """Where the suite runs. `environment` has the libraries' folders, `plain` is that of the user's own programs."""

    def __init__(self, environment, plain, driver, name, cuda, found, pythons):
        self.environment, self.plain, self.driver, self.name, self.cuda = environment, plain, int(driver), name, cuda
        self.is_emulated = "emulated" in name
        self.libraries = {library: folder for library, folder in found.items() if folder}
        self.missing = [library for library, folder in found.items() if not folder]
        self.pythons = pythons  # for each package: the python that has it, and the version
        self.missing += [package for package in PACKAGES if package not in pythons]

    def lines(self):
        cuda = f"CUDA {self.driver // 1000}.{self.driver % 1000 // 10}"
        yield f"{self.name}, driver{' ' + number if (number := driver_number()) and not self.is_emulated else ''} for {cuda}; " \
              f"programs linked to CUDA {self.cuda}"
        if self.is_emulated:
            yield "EMULATED: precision and decisions are real, times are not"
        yield "present: " + ", ".join([*self.libraries, *(f"{name} {version}" for name, (_, version) in self.pythons.items())])
        if self.missing:
            yield "missing: " + ", ".join(self.missing)


def driver_number():
    """Such as 580.159.04; empty if it is unknown."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        text = said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return found[0] if found else ""


def said(command, environment=None):
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
                              check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def folders(environment):
    """Folders that may contain CUDA libraries, the likeliest first."""
    yield from filter(None, environment.get("LD_LIBRARY_PATH", "").split(":"))
    for home in filter(None, [environment.get("CUDA_HOME"), *sorted(glob.glob("/usr/local/cuda*"))]):
        yield from (home + "/lib64", home + "/lib", home + "/targets/x86_64-linux/lib", home + "/extras/CUPTI/lib64")
    told = said(["python3", "-c", "import sys; print('\\n'.join(sys.path))"])
    for place in dict.fromkeys(filter(None, sys.path + told.splitlines())):
        yield from sorted(glob.glob(place + "/nvidia/*/lib"))
    told = said(["ldconfig", "-p"]) or said(["/sbin/ldconfig", "-p"])
    yield from (os.path.dirname(path) for path in re.findall(r"=> (\S+)", told) if "libcu" in path)
    yield from ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib")


def find(environment, libraries):
    places = [folder for folder in dict.fromkeys(folders(environment)) if os.path.isdir(folder)]
    return {name: next((p for p in places if os.path.exists(os.path.join(p, name))), None) for name in libraries}


def probe(environment, driver="libcuda.so.1"):
    """CUDA version of the driver and name of the device, in another process: a driver may not survive a fork."""
    told = said([sys.executable, "-c", DRIVER, driver], environment)
    return told.strip().split(" ", 1) if told else None


def packages(environment):
    found = {}
    for python in dict.fromkeys((sys.executable, shutil.which("python3") or sys.executable)):
        for name, version in json.loads(said([python, "-c", VERSIONS, *PACKAGES], environment) or "{}").items():
            found.setdefault(name, (python, version))
    return found


def own_environment():
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("AUTOAMP_") and name not in ("LD_PRELOAD", "NVIDIA_TF32_OVERRIDE")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def emulated(cuda):
    environment = own_environment()
    environment["LD_LIBRARY_PATH"] = EMULATED
    found = probe(environment)
    if not found or "emulated" not in found[1]:
        return "the bundle has no emulated device"
    cuda = cuda or 13
    names = {name: os.path.join(EMULATED, name.replace(".so.12", ".so.13")) for name in NEEDED[cuda] + WELCOME[cuda]}
    return Machine(environment, environment, *found, cuda,
                   {name: EMULATED if os.path.exists(path) else None for name, path in names.items()}, {})


def choose(driver, libraries, cuda=None):
    """The newest CUDA version for which there are a driver and libraries, or a line that names the missing part."""
    for version in (13, 12):
        if driver >= 1000 * version and cuda in (None, version) and all(libraries.get(name) for name in NEEDED[version]):
            return version
    wanted = cuda or max(12, min(13, driver // 1000))
    if driver < 1000 * wanted:
        return f"the driver is for CUDA {driver // 1000}; these programs need one for CUDA {wanted}"
    absent = ", ".join(name for name in NEEDED[wanted] if not libraries.get(name))
    return f"not found: {absent}; say where with LD_LIBRARY_PATH"


def present(cuda=None):
    """The machine with its GPU, or a line that names the missing part."""
    environment = own_environment()
    plain, paths, found = dict(environment), [], probe(environment)
    if not found:
        folder = find(environment, ["libcuda.so.1"])["libcuda.so.1"]
        found = folder and probe(environment, folder + "/libcuda.so.1")
        paths.append(folder)
    if not found or "emulated" in found[1]:
        return "no usable NVIDIA driver and device here; --device emulated runs the same programs without one"
    libraries = find(environment, [name for names in (NEEDED, WELCOME) for version in names for name in names[version]])
    version = choose(int(found[0]), libraries, cuda)
    if isinstance(version, str):
        return version
    used = {name: libraries[name] for name in NEEDED[version] + WELCOME[version]}
    environment["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(filter(None, [*paths, *used.values(), environment.get("LD_LIBRARY_PATH")])))
    return Machine(environment, plain, *found, version, used, packages(plain))


def link(machine, scratch):
    """Folder of the programs, linked for the machine's CUDA version."""
    if machine.cuda == 13:
        return str(PROGRAMS)
    for source, target in [(PROGRAMS, scratch / "programs")] + [(pathlib.Path(EMULATED), scratch / "emulated")] * machine.is_emulated:
        shutil.copytree(source, target)
        for file in [file for file in target.rglob("*") if file.is_file()]:
            file.write_bytes(retarget.to_cuda12(file.read_bytes()))
            if file.name.endswith(".so.13"):
                file.rename(file.with_name(file.name[:-2] + "12"))
    if machine.is_emulated:
        machine.environment["LD_LIBRARY_PATH"] = str(scratch / "emulated")
    return str(scratch / "programs")
