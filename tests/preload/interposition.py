"""interposition.py FRONT CORE BUILD AUTOAMP TOOLKIT: preloads the front for the clients in BUILD, with cores that print
calls, are missing, or are broken. Every client checks its own numbers. Calls of the tests' core are read from stderr,
those of autoamp's core from the report."""
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

FRONT, CORE, BUILD, AUTOAMP = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
TOOLKIT = sys.argv[5]
CLIENTS = pathlib.Path(__file__).parent / "clients"
ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-interposition-"))
OFF = "autoamp: off, cannot load the core: "


def layout(name, core=None):
    """A folder with a front and a core; returns the front's path."""
    folder = ROOM / name
    folder.mkdir()
    shutil.copy(FRONT, folder / "libautoamp.so")
    if core:
        shutil.copy(core, folder / "libautoamp-core.so")
    return str(folder / "libautoamp.so")


(ROOM / "broken-core").write_text("not a library")
TELLING = layout("telling", BUILD / "libtest-core.so")
PRODUCT = layout("product", CORE)
CORELESS = layout("coreless")
BROKEN = layout("broken", ROOM / "broken-core")
OTHER = layout("other", BUILD / "libother-core.so")
SPACED = layout("with space", BUILD / "libtest-core.so")
UNUSABLE = {"coreless": CORELESS, "broken": BROKEN, "other abi": OTHER}
WAYS = ["linked", "linked_now", "looked", "looked_version", "linked12", "looked12", "looked_version12"]


# Makes the core find the library of an address without the function of glibc 2.35, if it is linked for older ones.
NO_FIND_OBJECT = BUILD / "libno_find_object.so"


def run(preload, client, *arguments, cwd=None, path="", **environment):
    command = [str(BUILD / client) if not client.startswith("/") else client, *arguments]
    libraries = ":".join(filter(None, [path, str(BUILD / "vendor"), str(BUILD)]))
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": libraries, "AUTOAMP_DIR": str(ROOM / "traces"),
                   "HOME": str(ROOM), **({"LD_PRELOAD": preload} if preload else {}), **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children hang as well
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Interposition(unittest.TestCase):
    maxDiff = None

    def passes(self, done):
        self.assertEqual(done.returncode, 0, done)
        # autoamp's core does not record calls that cuBLAS makes itself.
        return [line for line in done.stderr.splitlines() if line.startswith("core: ") and " from libcublas.so" not in line]

    def works(self, preload, client, *arguments, calls=None, caller=None, **options):
        """The client succeeds, and the tests' core saw that many calls, all from that file."""
        seen = self.passes(run(preload, client, *arguments, **options))
        if calls is not None:
            self.assertEqual(seen, [f"core: cublasSgemm_v2 64x48x32 from {caller or client}"] * calls)
        return seen

    trace = itertools.count()

    def reports(self, client, *arguments, **options):
        """The client succeeds under autoamp's core. Returns the report."""
        file = ROOM / f"{next(self.trace)}.aat"
        self.passes(run(PRODUCT, client, *arguments, AUTOAMP_TRACE_FILE=str(file), **options))
        return json.loads(subprocess.run([AUTOAMP, "report", "--format", "json", file], check=True, capture_output=True,
                                         text=True).stdout)


class Binding(Interposition):
    def test_clients_are_right_without_us(self):
        for client in [*WAYS, "every_entry", "every_part", "early_main", "early_looked_main", "vendor_callers", "next_main"]:
            with self.subTest(client):
                self.works(None, client, calls=0)

    def test_linked_and_looked_up(self):
        for client in WAYS:
            for now in ("", "1"):
                with self.subTest(client, LD_BIND_NOW=now):
                    self.works(TELLING, client, calls=1, LD_BIND_NOW=now)

    def test_every_entry_point_passes_every_argument(self):
        for client in ("every_entry", "every_part"):
            seen = self.works(TELLING, client)
            names = [line.split()[1] for line in seen]
            self.assertEqual(len(names), len(set(names)))
            self.assertTrue({"cublasSgemm_v2_64", "cublasLtMatmul", "cublasXtSgemm", "cublasGemmGroupedBatchedEx",
                             "cudnnConvolutionForward", "cudnnBackendExecute", "cudnnRNNForward", "cudnnAddTensor"} <= set(names))
            self.assertGreater(len(names), 340)
            for preload in (PRODUCT, CORELESS):
                self.works(preload, client)

    def test_plugins_in_a_scope_of_their_own(self):
        for plugin in ("plugin", "plugin_carrier", "plugin_trampoline"):
            with self.subTest(plugin):
                file = f"lib{plugin}.so"
                self.works(None, "plugin_host", str(BUILD / file), calls=0)
                carried = ", no cublasLt" if plugin == "plugin_carrier" else ""
                self.works(TELLING, "plugin_host", str(BUILD / file), calls=1, caller=file + carried)
                self.works(CORELESS, "plugin_host", str(BUILD / file))

    def test_static_library(self):
        """A program that contains cuBLAS and does not export it is not intercepted."""
        for mode in ("plain", "threads"):
            self.works(None, "static_cublas", mode, calls=0)
            for preload in (TELLING, CORELESS):
                self.works(preload, "static_cublas", mode, calls=0)

    def test_library_that_a_wheel_renamed(self):
        plugin = str(BUILD / "libplugin_repaired.so")
        self.works(None, "plugin_host", plugin, calls=0)
        for hook in "01":  # 0: only the reference itself leads to the front
            self.works(TELLING, "plugin_host", plugin, calls=1, caller="libplugin_repaired.so", AUTOAMP_HOOK_DLSYM=hook)
            self.works(CORELESS, "plugin_host", plugin, AUTOAMP_HOOK_DLSYM=hook)

    def test_python(self):
        for how in ("ctypes", "cffi"):
            with self.subTest(how):
                command = [sys.executable, str(CLIENTS / "lookup.py"), how]
                if run(None, *command).returncode == 77:
                    self.skipTest("no " + how)
                seen = self.works(TELLING, *command)
                self.assertEqual([line.split(" from ")[0] for line in seen], ["core: cublasSgemm_v2 3x2x4"])

    def test_fortran(self):
        if not (BUILD / "fortran").exists():
            self.skipTest("no Fortran compiler")
        self.works(None, "fortran", calls=0)
        self.works(TELLING, "fortran", calls=1)
        self.works(PRODUCT, "fortran")

    def test_one_call_is_one_call(self):
        """Calls that the vendor makes itself do not count: each entry point counts once, cublasXt under its own
        name."""
        rows = self.reports("every_entry")["ops"]
        self.assertEqual({row["calls"] for row in rows}, {1})
        self.assertEqual(len({row["entry"] for row in rows}), len(rows))
        reasons = {row["reason"] for row in rows if row["entry"].startswith("cublasXtS")}
        self.assertEqual(reasons, {"host_blocked"})
        products = {row["entry"]: (row["op"], row["eligible"]) for row in rows if row["entry"] in ("cublasXtSgemm", "cublasXtDgemm")}
        self.assertEqual(products, {"cublasXtSgemm": ("mm", False), "cublasXtDgemm": ("mm", False)})

    def test_constructor_before_ours(self):
        self.works(TELLING, "early_main", calls=1, caller="libearly.so")
        self.works(TELLING, "early_looked_main", calls=1, caller="libearly_looked.so")

    def test_threads_race_to_the_first_call(self):
        for client in ("linked", "looked"):
            for _ in range(20):
                self.works(TELLING, client, "threads", calls=16)

    def test_fork(self):
        for client in ("linked", "looked"):
            self.works(TELLING, client, "fork", calls=2)
            self.works(TELLING, client, "forklate", calls=3)

    def test_fork_during_the_first_call(self):
        for client in ("linked", "looked"):
            for preload in (TELLING, CORELESS):
                with self.subTest(client, preload=preload):
                    self.works(preload, client, "forkrace")

    def test_fork_while_a_thread_is_inside_the_loader(self):
        first, *plugins = (str(BUILD / f"libplugin{name}.so") for name in ("_rpath", "", "12", "_carrier"))
        for way, plugin, earlier in itertools.product(("walking", str(BUILD / "libawaits.so")), plugins, ([], [first])):
            if earlier and plugin.endswith("carrier.so"):
                continue  # it does not get its own copy
            for preload in (None, PRODUCT, CORELESS, f"{NO_FIND_OBJECT}:{PRODUCT}" if NO_FIND_OBJECT.exists() else PRODUCT):
                with self.subTest(way, plugin=plugin, earlier=earlier, preload=preload):
                    done = run(preload, "inside_loader", way, str(ROOM / "libawaited_fifo.so"), "pluginMultiplies", plugin, *earlier, path=str(ROOM))
                    self.passes(done)
                    self.assertEqual(done.stdout, "1" * len(earlier) + "11 0\n")

    def test_exec(self):
        for client in WAYS:
            self.works(TELLING, client, "exec", calls=2)

    def test_library_closed_and_opened_again(self):
        self.works(TELLING, "looked", "reopen", calls=4)
        self.works(CORELESS, "looked", "reopen")

    def test_real_core(self):
        for client in WAYS:
            for mode in ("plain", "threads", "fork", "forklate", "exec"):
                with self.subTest(client, mode=mode):
                    self.works(PRODUCT, client, mode)
        for client in ("linked", "looked"):
            self.works(PRODUCT, client, "forkrace")


class Loading(Interposition):
    """While a plug-in is loaded, its constructor waits for a thread that makes three calls, and then one of an entry
    point that was not called before."""
    joiner = str(BUILD / "libplugin_joiner.so")

    def test_the_first_call_goes_by(self):
        self.works(None, "plugin_host", self.joiner, calls=0)
        self.works(TELLING, "plugin_host", self.joiner, calls=1, caller="libplugin_joiner.so")
        self.works(CORELESS, "plugin_host", self.joiner)
        report = self.reports("plugin_host", self.joiner)
        self.assertEqual((report["totals"]["calls"], report["loss"]["calls_lost"]), (1, 4))

    def test_later_calls_do_not(self):
        plugins = [str(BUILD / "libplugin.so"), self.joiner]
        seen = self.works(TELLING, "plugin_host", *plugins)
        self.assertEqual([line.split(" from ")[1] for line in seen], ["libplugin.so"] + ["libplugin_joiner.so"] * 4)
        report = self.reports("plugin_host", *plugins)
        self.assertEqual((report["totals"]["calls"], report["loss"]["calls_lost"]), (5, 1))
        self.assertEqual({site["caller"] for site in report["ops"]}, {"libplugin.so", "libplugin_joiner.so"})


@unittest.skipUnless(NO_FIND_OBJECT.exists(), "the core is not linked for older versions of glibc")
class LoadingWithOldGlibc(Loading):
    """The same with a core that finds the library of an address by dl_iterate_phdr."""

    def reports(self, client, *arguments, **options):
        return super().reports(client, *arguments, LD_PRELOAD=f"{NO_FIND_OBJECT}:{PRODUCT}", **options)

    def test_threads_and_forks(self):
        for mode in ("plain", "threads", "fork", "forklate", "forkrace"):
            with self.subTest(mode):
                self.works(f"{NO_FIND_OBJECT}:{PRODUCT}", "looked", mode)


class Copies(Interposition):
    """If there are several copies of the library, the first used one is served; a handle of one is an error to
    another."""

    def test_looked_up(self):
        shutil.copytree(BUILD / "vendor", ROOM / "copy", ignore=shutil.ignore_patterns("*.p"))
        copy = str(ROOM / "copy" / "libcublas.so.13")
        # Both are used twice in turn; the last column is the served one.
        for first, second, served in [("libcublas.so.13", "libcublas.so.12", {0}), ("libcublas.so.12", "libcublas.so.13", {0}),
                                      ("libcublas.so.13", copy, {0}), (copy, "libcublas.so.12", {0}),
                                      (copy, "libcublas.so.13", {0, 1}),  # the loader uses the loaded one
                                      ("libcublas.so.13", "new:libcublas.so.13", {0}),
                                      ("new:libcublas.so.12", "libcublas.so.13", {1}),
                                      ("libcublas.so.12", "linked", {0}), ("libcublas.so.13", "linked", {0, 1}),
                                      (copy, "linked", {1})]:  # copies of one version: the linked one, which was loaded first
            client = "copies_linked" if second == "linked" else "copies"
            with self.subTest(first=first, second=second):
                self.works(None, client, first, second, calls=0)
                seen = [line.split()[1] for line in self.works(TELLING, client, first, second)]
                self.assertEqual(seen, (["cublasSgemm_v2"] * len(served) + ["cublasSscal_v2"] * (1 in served)) * 2)
                self.works(CORELESS, client, first, second)
                left = {row["entry"] for row in self.reports(client, first, second)["ops"]
                        if row["reason"] == "second_copy" and row["decision"] == "kept"}
                self.assertEqual(left, set(["cublasSgemm_v2"] * (len(served) == 1) + ["cublasSscal_v2"] * (1 not in served)))

    def test_versions_that_nobody_knows(self):
        self.works(None, "copies", "libcublas.so.11", "libcublas.so.13", calls=0)
        self.works(TELLING, "copies", "libcublas.so.11", calls=0)
        rows = self.reports("copies", "libcublas.so.11", "libcublas.so.13")["ops"]
        self.assertEqual([(row["reason"] == "second_copy", row["calls"]) for row in rows], [(False, 2), (False, 2)])
        self.works(TELLING, "linked11", calls=0)

    def test_linked(self):
        plugins = [str(BUILD / "libplugin.so"), str(BUILD / "libplugin12.so")]
        for order in (plugins, plugins[::-1]):
            with self.subTest(order):
                self.works(None, "plugin_host", *order * 2, calls=0)
                self.works(TELLING, "plugin_host", *order * 2, calls=2, caller=pathlib.Path(order[0]).name)
                self.works(CORELESS, "plugin_host", *order * 2)
                report = self.reports("plugin_host", *order * 2)
                self.assertEqual([(row["reason"] == "second_copy", row["calls"]) for row in report["ops"]],
                                 [(False, 2), (True, 3)])  # two lookups, and the first call of a linked one


class RealLibraries(Interposition):
    """The vendor's own libraries, if installed: the toolkit's, and CUDA 12's from PyPI. Without a device they load, and
    refuse calls."""
    entries = ["cublasGemmEx", "cublasLtMatmul", "cublasSasum_v2", "cublasSgemm_v2"]

    def test_they_answer_as_without_us(self):
        wheels = [str(folder / "nvidia/cublas/lib") for folder in map(pathlib.Path, sys.path)]
        found = [file for file in ("libcublas.so.13", "libcublas.so.12")
                 if any((pathlib.Path(folder) / file).exists() for folder in [TOOLKIT, *wheels])]
        if not found:
            self.skipTest("none here")
        options = {"path": ":".join([TOOLKIT, *wheels])}
        for libraries in itertools.chain.from_iterable(itertools.permutations(found, i + 1) for i in range(len(found))):
            with self.subTest(libraries):
                command = [sys.executable, str(CLIENTS / "statuses.py"), *libraries]
                bare = run(None, *command, **options)
                self.assertEqual(bare.returncode, 0, bare)
                for preload in (TELLING, CORELESS, PRODUCT):
                    self.assertEqual(run(preload, *command, **options).stdout, bare.stdout)
                rows = [(row["entry"], row["reason"] == "second_copy") for row in self.reports(*command, **options)["ops"]]
                self.assertEqual(sorted(rows), sorted((entry, is_second) for entry in self.entries
                                                      for is_second in [False, True][:len(libraries)]))


class BoundPastUs(Interposition):
    """Plug-ins opened with RTLD_DEEPBIND, whose own libraries come before preloaded ones."""
    names = ["plugin", "plugin_calls", "plugin_now", "plugin_table"]

    def test_each(self):
        for name, how in itertools.product(self.names, ("deep", "lazy")):
            with self.subTest(name, how=how):
                plugin = f"{how}:{BUILD}/lib{name}.so"
                self.works(None, "plugin_host", plugin, calls=0)
                self.works(TELLING, "plugin_host", plugin, calls=0)
                for variables in ({}, {"LD_BIND_NOW": "1"}):
                    self.works(TELLING, "plugin_host", plugin, calls=1, caller=f"lib{name}.so", AUTOAMP_HOOK_DLSYM="got",
                               **variables)
                    self.works(CORELESS, "plugin_host", plugin, AUTOAMP_HOOK_DLSYM="got", **variables)

    def test_later_ones(self):
        plugins = [f"{how}:{BUILD}/lib{name}.so" for name in self.names for how in ("deep", "lazy")]
        seen = self.works(TELLING, "plugin_host", *plugins, AUTOAMP_HOOK_DLSYM="got")
        self.assertEqual([line.split(" from ")[1] for line in seen], [f"lib{name}.so" for name in self.names for _ in "12"])
        report = self.reports("plugin_host", *plugins, AUTOAMP_HOOK_DLSYM="got")
        self.assertEqual(report["totals"]["calls"], 2 * len(self.names))

    def test_second_copy(self):
        plugins = [f"deep:{BUILD}/lib{name}.so" for name in ("plugin12", "plugin", "plugin12")]
        self.works(TELLING, "plugin_host", *plugins, calls=2, caller="libplugin12.so", AUTOAMP_HOOK_DLSYM="got")

    def test_every_way(self):
        for client in WAYS:
            for mode in ("plain", "threads", "fork"):
                with self.subTest(client, mode=mode):
                    self.works(PRODUCT, client, mode, AUTOAMP_HOOK_DLSYM="got")


class Lookups(Interposition):
    def test_presence(self):
        """A program's test for cuBLAS gives the same result with autoamp; weak references are the exception that cannot
        be fixed."""
        for preload, hook, opened in itertools.product((TELLING, CORELESS, PRODUCT), "01", ([], ["libcublas.so.13"])):
            with self.subTest(preload, hook=hook, opened=opened):
                bare = run(None, "absent", *opened).stdout.splitlines()
                done = run(preload, "absent", *opened, AUTOAMP_HOOK_DLSYM=hook)
                self.assertEqual(done.stdout.splitlines(), bare)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_names_and_addresses(self):
        for client in WAYS:
            for preload in (None, TELLING, CORELESS, PRODUCT):
                self.works(preload, client, "named")

    def test_next_belongs_to_the_caller(self):
        self.works(TELLING, "next_main")

    def test_hook_switched_off(self):
        self.works(TELLING, "looked", calls=0, AUTOAMP_HOOK_DLSYM="0")
        self.works(TELLING, "looked_version", calls=0, AUTOAMP_HOOK_DLSYM="0")
        self.works(TELLING, "linked", calls=1, AUTOAMP_HOOK_DLSYM="0")
        self.works(TELLING, "looked", calls=1, AUTOAMP_HOOK_DLSYM="no")  # only the core checks the value

    def test_vendor_callers(self):
        """cuDNN's own lookup returns the original function; cuSOLVER's call arrives with its caller, so that the core
        can ignore it."""
        seen = self.works(TELLING, "vendor_callers")
        self.assertEqual(seen, ["core: cublasSgemm_v2 64x48x32 from vendor_callers",
                                "core: cublasSgemm_v2 64x48x32 from libcusolver.so.12"])


class Folders(Interposition):
    def test_relative_path_then_chdir(self):
        for cwd in (pathlib.Path(TELLING).parent, pathlib.Path(SPACED).parent):
            self.works("./libautoamp.so", "linked", "chdir", calls=1, cwd=cwd)

    def test_bare_name_in_a_folder_with_a_space(self):
        self.works("libautoamp.so", "linked", "chdir", calls=1, path=str(pathlib.Path(SPACED).parent))

    def test_symlink_in_another_folder(self):
        (ROOM / "link.so").symlink_to(TELLING)
        self.works(str(ROOM / "link.so"), "linked", calls=1)
        self.works("./link.so", "linked", "chdir", calls=1, cwd=ROOM)


class Untouched(Interposition):
    def test_unusable_core(self):
        for name, preload in UNUSABLE.items():
            for client in WAYS:
                for mode in ("plain", "threads", "reopen" if client.startswith("looked") else "exec"):
                    with self.subTest(name, client=client, mode=mode):
                        done = run(preload, client, mode)
                        self.passes(done)
                        lines = done.stderr.splitlines()
                        self.assertEqual(len(lines), 2 if mode == "exec" else 1, done)
                        self.assertTrue(all(line.startswith(OFF) for line in lines), done)
        self.assertIn("No such file", run(CORELESS, "linked").stderr)
        self.assertIn("another version", run(OTHER, "linked").stderr)

    def test_switched_off(self):
        for preload in (TELLING, PRODUCT, *UNUSABLE.values()):  # the core is not even searched for, so a broken one is not reported
            for client in [*WAYS, "every_entry"]:
                done = run(preload, client, AUTOAMP_ENABLED="0")
                self.passes(done)
                self.assertEqual(done.stderr, "")
        self.works(TELLING, "linked", calls=1, AUTOAMP_ENABLED="no")  # only the core checks the value

    def test_other_programs_notice_nothing(self):
        for preload in (TELLING, PRODUCT, CORELESS):
            for program in ("/bin/true", "/bin/ls"):
                done = run(preload, program, cwd=ROOM)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    shutil.rmtree(ROOM)
    sys.exit(not result.wasSuccessful())
