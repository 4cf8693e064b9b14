"""check_binaries.py FRONT CPU_FRONT CORE BLAS ENTRIES…: checks the properties of the objects on which every process
depends. BLAS, ENTRIES: the names of the slots of both fronts."""
import re
import subprocess
import sys
import unittest

FRONT, CPU_FRONT, CORE, BLAS, *ENTRIES = sys.argv[1:]


def read(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic(file):
    return re.findall(r"\((\w+)\)\s+(.*)", read("readelf", "-dW", file))


def needed(file):
    return {re.search(r"\[(.*)\]", value).group(1) for tag, value in dynamic(file) if tag == "NEEDED"}


def exports(file):
    names = read("nm", "-D", "--defined-only", "--without-symbol-versions", file).splitlines()
    return {line.split()[-1] for line in names if line.split()[-2] != "A"}  # A: the name of a version


def newest(file, family="GLIBC"):
    versions = re.findall(rf"\b{family}_([\d.]+)", read("objdump", "-T", file))
    return max((tuple(map(int, v.split("."))) for v in versions), default=())


def segments(file):
    return {line.split()[0]: line.split() for line in read("readelf", "-lW", file).splitlines()
            if re.match(r"\s+[A-Z_]+\s+0x", line)}


# The functions and data of inject/front.h and autoamp.h that both fronts have.
COMMON = {"dlsym", "dlvsym", "autoamp_front_thread", "autoamp_front_hold_forks", "autoamp_front_release_forks",
          "autoamp_front_has_stderr", "autoamp_front_iterate", "autoamp_front_loading", "autoamp_front_profiled", "autoamp_push", "autoamp_pop", "autoamp_enter",
          "autoamp_leave", "autoamp_require_regions", "autoamp_require_regions_of", "autoamp_current", "autoamp_active", "autoamp_error",
          "autoamp_record_update", "autoamp_scaler_create", "autoamp_scaler_destroy", "autoamp_scaler_scale",
          "autoamp_scaler_unscale", "autoamp_scaler_step", "autoamp_scaler_update", "autoamp_scaler_get",
          "autoamp_scaler_load", "autoamp_scaler_pointers", "InitializeInjectionNvtx2"}
DEVICE = {f"autoamp_front_{name}" for name in ("originals", "original", "divert", "unseen", "second")}
# Parts of libc from glibc 2.34 on, where empty libraries remain.
MOVED = {"libdl.so.2", "libpthread.so.0"}
CPU = {"autoamp_cpu_original", "autoamp_cpu_unseen", "autoamp_cpu_closes", "autoamp_cpu_in_parallel"}


def slots(file, macro):
    with open(file, encoding="utf-8") as text:
        return set(re.findall(rf"{macro}\((\w+),", text.read()))


class AnyFront:
    def test_needs_libc_only(self):
        self.assertEqual(needed(self.file), {"libc.so.6", "ld-linux-x86-64.so.2"})

    def test_symbol_floor(self):
        self.assertLessEqual(newest(self.file), (2, 17))

    def test_one_constructor_and_no_destructor(self):
        tags = dict(dynamic(self.file))
        self.assertEqual(tags["INIT_ARRAYSZ"].split()[0], "8")
        self.assertFalse({"INIT", "FINI", "FINI_ARRAY", "PREINIT_ARRAY"} & set(tags))

    def test_exports_are_the_tables_and_the_seam(self):
        self.assertEqual(exports(self.file), self.names() | COMMON | self.own)

    def test_no_reference_to_the_loader(self):
        undefined = read("nm", "-D", "--undefined-only", "--without-symbol-versions", self.file).split()
        forbidden = {"dlopen", "dlclose", "dlerror", "getenv", "malloc", "memcpy", "memset", "strlen", "__tls_get_addr"}
        self.assertFalse(forbidden & set(undefined))

    def test_stack_and_thread_block(self):
        found = segments(self.file)
        self.assertEqual(found["GNU_STACK"][6], "RW")
        self.assertLessEqual(int(found["TLS"][5], 16), 64)

    def test_entry_points_begin_with_endbr64(self):
        code = read("objdump", "-d", "--no-show-raw-insn", self.file)
        functions = re.findall(r"<(\w+)(?:@\S+)?>:\n\s*\w+:\s*(\w+)", code)
        data = {f"autoamp_front_{name}" for name in ("thread", "originals", "unseen", "second", "profiled")}
        self.assertFalse(exports(self.file) - data - (CPU - {"autoamp_cpu_original"}) - {name for name, _ in functions})
        for name, first in functions:
            self.assertTrue(first == "endbr64" or name not in exports(self.file), name)

    def test_never_unloaded_and_bound_at_once(self):
        flags = dict(dynamic(self.file))["FLAGS_1"]
        self.assertIn("NODELETE", flags)
        self.assertIn("NOW", flags)


class CpuFront(AnyFront, unittest.TestCase):
    file, own = CPU_FRONT, CPU | {"__cxa_finalize"}

    def names(self):
        found = slots(BLAS, "BLAS")
        self.assertLessEqual({"cblas_sgemm", "sgemm_", "SGEMM", "scipy_cblas_sgemm64_", "zgemm_64_"}, found)
        return found

    def test_no_versions(self):
        """A reference without a version and one with the version of any library bind to a name without a version."""
        names = re.findall(r"\s(\w*gemm\w*)(@\S+)?\n", read("readelf", "--dyn-syms", "-W", CPU_FRONT))
        self.assertIn(("sgemm_", ""), names)
        self.assertFalse([name for name, version in names if version])


class Front(AnyFront, unittest.TestCase):
    file, own = FRONT, DEVICE | {"cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart", "cuProfilerStop"}

    def names(self):
        found = set().union(*(slots(entries, "ENTRY") for entries in ENTRIES))
        self.assertLessEqual({"cublasSgemm_v2_64", "__cudaLaunchKernel"}, found)
        return found

    def test_every_entry_point_in_three_versions(self):
        """The loader distinguishes these names. With one version alone a program of the other version would get the
        wrong copy."""
        found = re.findall(r"\s(cu(?:blas|dnn)\w+|(?:__)?cuda(?:L|Unregister)\w+)@@?([\w.]+)", read("readelf", "--dyn-syms", "-W", FRONT))
        parts = set()
        for name in {name for name, _ in found}:
            library, newer, older = (("libcudnn.so", 9, 8) if name.startswith("cudnn") else
                                     ("libcudart.so" if "cuda" in name else "libcublasLt.so" if name.startswith("cublasLt") else "libcublas.so", 13, 12))
            versions = {version for each, version in found if each == name}
            if name.startswith("cudnn"):  # and the version of its part, to which programs may link
                part = {version for version in versions if version.startswith("libcudnn_")}
                self.assertEqual(sorted(version[-1] for version in part), ["8", "9"], name)
                versions -= part
                parts |= part
            self.assertEqual(versions, {"autoamp", f"{library}.{older}", f"{library}.{newer}"}, name)
        older = {f"{part}_{half}.so.8" for part in ("ops", "cnn", "adv") for half in ("infer", "train")}
        self.assertEqual(parts, {f"libcudnn_{part}" for part in {"graph.so.9", "ops.so.9", "cnn.so.9", "adv.so.9"} | older})


class Core(unittest.TestCase):
    def test_needs_libc_only(self):
        self.assertLessEqual(needed(CORE), {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"} | MOVED)

    def test_symbols_of_fronts(self):
        """The core is linked to no front. It needs what both have; symbols that one front lacks are weak."""
        undefined = dict(reversed(line.split()) for line in read("nm", "-D", "--undefined-only", CORE).splitlines())
        ours = {name for name in undefined if "@" not in name and not name.startswith("_")}
        self.assertLessEqual(ours, COMMON | DEVICE | CPU)
        self.assertEqual({name for name in ours if undefined[name] not in "wv"} - COMMON, set())
        self.assertIn("autoamp_front_thread", ours)

    def test_no_runtime_of_another_compiler(self):
        for family in ("GLIBCXX", "CXXABI", "GCC"):
            self.assertEqual(newest(CORE, family), ())

    def test_exports_constants(self):
        self.assertEqual(exports(CORE), {"autoamp_core", "autoamp_cpu_core"})

    def test_no_initial_exec_storage_of_its_own(self):
        relocations = re.findall(r"R_X86_64_TPOFF64\s+(.*)", read("readelf", "-rW", CORE))
        self.assertTrue(all("autoamp_front_thread" in r for r in relocations), relocations)
        self.assertTrue(relocations)

    def test_thread_storage_is_small(self):
        self.assertLess(int(segments(CORE).get("TLS", ["0"] * 6)[5], 16), 512)

    def test_stack_and_flags(self):
        self.assertEqual(segments(CORE)["GNU_STACK"][6], "RW")
        flags = dict(dynamic(CORE))["FLAGS_1"]
        self.assertIn("NODELETE", flags)
        self.assertIn("NOW", flags)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
