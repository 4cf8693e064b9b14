"""check_binaries.py FRONT CORE ENTRIES…: checks the properties of the two objects on which every process depends."""
import re
import subprocess
import sys
import unittest

FRONT, CORE, *ENTRIES = sys.argv[1:]


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


class Front(unittest.TestCase):
    def test_needs_libc_only(self):
        self.assertEqual(needed(FRONT), {"libc.so.6", "ld-linux-x86-64.so.2"})

    def test_symbol_floor(self):
        self.assertLessEqual(newest(FRONT), (2, 17))

    def test_one_constructor_and_no_destructor(self):
        tags = dict(dynamic(FRONT))
        self.assertEqual(tags["INIT_ARRAYSZ"].split()[0], "8")
        self.assertFalse({"INIT", "FINI", "FINI_ARRAY", "PREINIT_ARRAY"} & set(tags))

    def test_exports_are_the_tables_and_the_seam(self):
        names = set()
        for entries in ENTRIES:
            with open(entries, encoding="utf-8") as file:
                names |= set(re.findall(r"ENTRY\((\w+),", file.read()))
        self.assertLessEqual({"cublasSgemm_v2_64", "__cudaLaunchKernel"}, names)
        seam = {"dlsym", "dlvsym", "autoamp_front_thread", "autoamp_front_originals", "autoamp_front_original", "autoamp_front_divert",
                "autoamp_front_unseen", "autoamp_front_second", "autoamp_front_hold_forks",
                "autoamp_front_release_forks", "autoamp_front_has_stderr", "autoamp_push", "autoamp_pop", "autoamp_enter", "autoamp_leave", "autoamp_require_regions", "autoamp_current", "autoamp_active",
                "autoamp_record_update", "autoamp_scaler_create", "autoamp_scaler_destroy", "autoamp_scaler_scale", "autoamp_scaler_unscale",
                "autoamp_scaler_step", "autoamp_scaler_update", "autoamp_scaler_get", "autoamp_scaler_load", "autoamp_scaler_pointers",
                "autoamp_error", "autoamp_front_profiled", "InitializeInjectionNvtx2"}
        switches = {"cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart", "cuProfilerStop"}
        self.assertEqual(exports(FRONT), names | seam | switches)

    def test_no_reference_to_the_loader(self):
        undefined = read("nm", "-D", "--undefined-only", "--without-symbol-versions", FRONT).split()
        forbidden = {"dlopen", "dlclose", "dlerror", "getenv", "malloc", "memcpy", "memset", "strlen", "__tls_get_addr"}
        self.assertFalse(forbidden & set(undefined))

    def test_stack_and_thread_block(self):
        found = segments(FRONT)
        self.assertEqual(found["GNU_STACK"][6], "RW")
        self.assertLessEqual(int(found["TLS"][5], 16), 64)

    def test_entry_points_begin_with_endbr64(self):
        code = read("objdump", "-d", "--no-show-raw-insn", FRONT)
        functions = re.findall(r"<(\w+)(?:@\S+)?>:\n\s*\w+:\s*(\w+)", code)
        data = {f"autoamp_front_{name}" for name in ("thread", "originals", "unseen", "second", "profiled")}
        self.assertFalse(exports(FRONT) - data - {name for name, _ in functions})
        for name, first in functions:
            self.assertTrue(first == "endbr64" or name not in exports(FRONT), name)

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

    def test_never_unloaded_and_bound_at_once(self):
        flags = dict(dynamic(FRONT))["FLAGS_1"]
        self.assertIn("NODELETE", flags)
        self.assertIn("NOW", flags)


class Core(unittest.TestCase):
    def test_needs_front_and_libc_only(self):
        allowed = {"libautoamp.so", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
        self.assertLessEqual(needed(CORE), allowed)
        self.assertIn("libautoamp.so", needed(CORE))

    def test_no_runtime_of_another_compiler(self):
        for family in ("GLIBCXX", "CXXABI", "GCC"):
            self.assertEqual(newest(CORE, family), ())

    def test_exports_one_constant(self):
        self.assertEqual(exports(CORE), {"autoamp_core"})

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
