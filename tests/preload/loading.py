"""loading.py AUTOAMP BUILD: plug-ins that reach cuBLAS in the ways of CuPy, ggml, JAX and TensorFlow, on the emulated
device. docs/clients.md describes these ways. The product of each is lowered; without the dlsym hook only those of
references that the loader binds."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

AUTOAMP, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
MODULE = "cublas.cpython-311-x86_64-linux-gnu.so"
HOST = """
import ctypes, os, sys
def opened(name, mode=os.RTLD_LOCAL):
    return ctypes.CDLL(name, os.RTLD_NOW | mode)
def multiplies(library):
    library.pluginMultiplies.restype = ctypes.c_bool
    return library.pluginMultiplies()
"""

# One product whose operands come from the driver: all elements of A and B are one.
DRIVER = """
import ctypes, sys
cuda, cublas, size = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13"), 64
context, handle, scalars = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_float * 2)(1, 0)
host, bytes = (ctypes.c_float * size**2)(*[1] * size**2), ctypes.c_size_t(4 * size**2)
device = [ctypes.c_void_p() for _ in "ABC"]
assert cuda.cuInit(0) == 0 == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and cuda.cuCtxSetCurrent(context) == 0
for each in device:
    assert cuda.cuMemAlloc_v2(ctypes.byref(each), bytes) == 0 == cuda.cuMemcpyHtoD_v2(each, host, bytes)
assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
one, zero = ctypes.byref(scalars), ctypes.byref(scalars, 4)
assert cublas.cublasSgemm_v2(handle, 0, 0, size, size, size, one, device[0], size, device[1], size, zero, device[2], size) == 0
assert cuda.cuMemcpyDtoH_v2(host, device[2], bytes) == 0 and set(host) == {size}
assert "libcudart" not in open("/proc/self/maps").read()
"""


class Loading(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.here = pathlib.Path(place.name)

    def callers(self, script, *options):
        """Opens the libraries under autoamp. Returns caller and decision of each row of the report."""
        trace = self.here / "trace.aat"
        trace.unlink(missing_ok=True)
        done = subprocess.run([AUTOAMP, "run", "--device", "emulated", "--strategy", "cast", "-o", trace, *options, "--", sys.executable, "-c",
                               f"{HOST}\nsys.exit(not ({script}))"], cwd=BUILD, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done)
        if not trace.exists():
            self.assertIn("no cuBLAS or cuDNN call was intercepted", done.stderr)
            return []
        return self.rows(trace)

    def rows(self, trace):
        report = json.loads(subprocess.run([AUTOAMP, "report", "--format", "json", trace], check=True, capture_output=True, text=True).stdout)
        self.assertEqual({row["entry"] for row in report["ops"]}, {"cublasSgemm_v2"})
        return sorted((row["caller"], row["decision"], row["calls"]) for row in report["ops"])

    def loads(self, script, *callers, is_bound):
        lowered = [(caller, "lowered", 1) for caller in sorted(callers)]
        self.assertEqual(self.callers(script), lowered)
        self.assertEqual(self.callers(script, "--no-hook"), lowered if is_bound else [])

    def test_cupy(self):
        """The library is opened before the module that is linked to it. The name of the module begins with `cublas`."""
        shutil.copy(BUILD / "libplugin_rpath.so", self.here / MODULE)
        self.loads(f"opened('libcublas.so.13', os.RTLD_GLOBAL) and multiplies(opened('{self.here / MODULE}'))", MODULE, is_bound=True)

    def test_ggml(self):
        """A backend with RTLD_LOCAL. The vendor's libraries in its DT_RPATH are not the ones that it reaches."""
        shutil.copy(BUILD / "libplugin_rpath.so", self.here / "libggml-cuda.so")
        self.loads(f"multiplies(opened('{self.here}/libggml-cuda.so'))", "libggml-cuda.so", is_bound=True)

    def test_jax(self):
        """The library is opened by its path, and by the plug-in by its name. The plug-in does not export its stubs."""
        cublas = AUTOAMP.parent / "emulated/libcublas.so.13"
        self.loads(f"opened('{cublas}') and multiplies(opened('./libplugin_hidden.so'))", "libplugin_hidden.so", is_bound=False)

    def test_tensorflow(self):
        """One library exports the stubs and calls them. Another one is linked to it."""
        self.loads("multiplies(opened('./libplugin_trampoline.so')) and multiplies(opened('./libplugin_over.so'))", "libplugin_over.so",
                   "libplugin_trampoline.so", is_bound=True)

    def test_static_runtime(self):
        """CuPy's modules contain the CUDA runtime: the process has no libcudart. Neither vendor nor autoamp needs one."""
        trace, tools = self.here / "trace.aat", AUTOAMP.parent
        done = subprocess.run([sys.executable, "-c", DRIVER], capture_output=True, text=True, timeout=60, check=False,
                              env={"LD_PRELOAD": str(tools.parent / "inject/libautoamp.so"), "LD_LIBRARY_PATH": str(tools / "emulated"),
                                   "AUTOAMP_STRATEGY": "cast", "AUTOAMP_TRACE_FILE": str(trace)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([row[1:] for row in self.rows(trace)], [("lowered", 1)])

    def test_plugins_have_an_rpath(self):
        for name in ("hidden", "rpath"):
            self.assertIn("(RPATH)", subprocess.run(["readelf", "-d", BUILD / f"libplugin_{name}.so"], check=True, capture_output=True,
                                                    text=True).stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
