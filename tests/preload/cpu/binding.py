"""Which BLAS a call reaches, whatever way a program binds it: each program has the same results as without autoamp.
Arguments: see machine.py."""
import os
import shutil
import signal
import sys
import unittest

from machine import CAST, CORE, FRONT, OBSTACLE, PROGRAMS, ROOM, main, run

CUDA_FRONT = FRONT.parent / "libautoamp.so"
VENDOR = PROGRAMS.parent / "vendor"  # stand-ins for NVIDIA's libraries
BLAS, BLAS64, NEGATES = (PROGRAMS / f"lib{name}.so.3" for name in ("blas", "blas64", "blas_negates"))
OBSERVED, OFF = {**CAST, "AUTOAMP_LEVEL": "O0"}, {**CAST, "AUTOAMP_ENABLED": "0"}


def plugin(name):
    return PROGRAMS / f"libcpu_{name}.so"


def copies(number, library):
    """The stub, in that many files."""
    for i in range(number):
        folder = ROOM / f"copy{i}"
        folder.mkdir(exist_ok=True)
        yield shutil.copy(library, folder)


class Binding(unittest.TestCase):
    maxDiff = None

    def same(self, command, *arguments, calls=None, path=PROGRAMS, lowers=True, **options):
        """Runs without autoamp, observed, switched off and lowered. `lowers`: false, or a string of the first letters of the handles
        whose products can be lowered. Returns the output without autoamp and the report."""
        plain = run(command, *arguments, front=None, path=path, **options)
        self.assertEqual(plain.errors, "")
        for variables in (OBSERVED, {**OBSERVED, "AUTOAMP_TRACE": "off"}, {"AUTOAMP_TRACE": "off"}, OFF):
            made = run(command, *arguments, path=path, **options, **variables)
            self.assertEqual((made.status, made.out, made.errors), (plain.status, plain.out, ""), variables)
        lowered = run(command, *arguments, path=path, **options, **CAST)
        expected = "".join(line.replace(" e\n", " r\n").replace(" n\n", " r\n").replace("-6", "6") if not OBSTACLE and lowers and
                           (lowers is True or line[0] in lowers) else line for line in plain.out.splitlines(keepends=True))
        self.assertEqual((lowered.status, lowered.out, lowered.errors), (plain.status, expected, ""))
        report = lowered.report
        if calls is not None:
            self.assertEqual(report["totals"]["calls"] if report else 0, calls)
        return plain.out.split("\n")[:-1], report

    def test_plugins_with_their_own_library(self):
        for name, result in (("plugin", "e"), ("plugin_now", "e"), ("plugin_negates", "n"), ("plugin64", "e")):
            with self.subTest(name):
                out, report = self.same("host", "open", "a", plugin(name), "run", "a", "again", "a", calls=3 + (name == "plugin64"))
                self.assertEqual(out, ["a " + result, "a " + "-" * (result == "n") + "6"])
                self.assertEqual({row["caller"] for row in report["ops"]}, {f"libcpu_{name}.so"})

    def test_two_abis_in_turn(self):
        both = ["open", "a", plugin("plugin"), "open", "b", plugin("plugin64"), "open", "c", plugin("plugin_negates")]
        out, _ = self.same("host", *both, *["run", "a", "run", "b", "run", "c"] * 3, calls=21)
        self.assertEqual(out, ["a e", "b e", "c n"] * 3)

    def test_tail_calls(self):
        """The return address is the same for all plug-ins. Calls that were made before the next plug-in is loaded count, too."""
        for first, second in (("plugin", "plugin_negates"), ("plugin_now", "plugin_negates_now"), ("plugin_negates_now", "plugin"),
                              ("plugin_negates", "plugin_now")):
            with self.subTest(first):
                open_a, open_b = ["open", "a", plugin(first)], ["open", "b", plugin(second)]
                tails = ["tail", "a", "tail", "b", "run", "a", "run", "b", "tail", "b", "tail", "a"]
                out, report = self.same("host", *open_a, *open_b, *tails, calls=12)
                a, b = ("n", "e") if "negates" in first else ("e", "n")
                self.assertEqual(out, [f"a {a}", f"b {b}", f"a {a}", f"b {b}", f"b {b}", f"a {a}"])
                self.assertEqual({row["calls"] for row in report["ops"] if row["caller"] == "host"}, set())
                self.same("host", *open_a, "tail", "a", *open_b, *tails, "close", "b", *open_b, *tails, calls=26)
                self.same("host", *open_a, *open_b, "open", "c", plugin("plugin64"), "tail64", "c", *tails, "tail64", "c")

    def test_tail_calls_in_more_libraries_than_the_front_knows(self):
        commands = [word for i, file in enumerate(copies(4, BLAS64)) for word in ("open", f"l{i}", file, "ilp64", f"l{i}")]
        commands += ["open", "a", plugin("plugin"), "open", "b", plugin("plugin_negates"), *["tail", "a", "tail", "b"] * 2]
        self.assertEqual(self.same("host", *commands, calls=12, lowers="l")[0][4:], ["a e", "b n"] * 2)

    def test_tail_calls_while_a_thread_looks_up_names(self):
        """That thread has the lock of the loader, and looks for new plug-ins, too."""
        for variables in (OBSERVED, {**OBSERVED, "AUTOAMP_TRACE": "off"}):
            made = run("host", "turns", plugin("plugin"), plugin("plugin_negates"), path=PROGRAMS, **variables)
            self.assertEqual((made.status, made.errors, made.out), (0, "", "e n\n"))

    def test_tail_calls_of_own_functions(self):
        """They have the names of routines."""
        words = ["sum", "a", "sum", "b", "run", "a", "run", "b", "sum", "a"]
        for before in ([], ["sum", "a"]):
            out, _ = self.same("host", "open", "a", plugin("own"), *before, "open", "b", plugin("own_other"), *words, calls=0, lowers=False)
            self.assertEqual(out[len(before) // 2:], ["a 1234", "b 12034", "a e", "b e", "a 1234"])

    def test_two_handles_in_turn(self):
        both = ["open", "a", BLAS, "open", "b", BLAS64, "open", "c", NEGATES]
        out, _ = self.same("host", *both, *["lp64", "a", "ilp64", "b", "lp64", "c"] * 3, calls=21)
        self.assertEqual(out, ["a e", "b e", "c n"] * 3)

    def test_integers_of_an_unmarked_library(self):
        """OpenBLAS reports their width."""
        self.assertEqual(self.same("host", "open", "a", PROGRAMS / "libalgebra.so.3", "ilp64", "a", calls=3)[0], ["a e"])

    def test_handles_next_to_plugins(self):
        commands = ["open", "a", plugin("plugin"), "run", "a", "open", "l", BLAS, "lp64", "l", "open", "b", plugin("plugin64"), "run", "b",
                    "open", "m", BLAS64, "ilp64", "m", "run", "a", "lp64", "l", "run", "b", "ilp64", "m"]
        self.same("host", *commands, calls=20)

    def test_more_libraries_than_the_front_knows(self):
        commands = []
        for i, file in enumerate(copies(6, BLAS)):
            commands += ["open", f"l{i}", file, "lp64", f"l{i}"]
        commands += [word for i in range(6) for word in ("lp64", f"l{i}")]
        plain = run("host", *commands, front=None, path=PROGRAMS)
        lowered = run("host", *commands, path=PROGRAMS, **CAST)
        self.assertEqual((lowered.status, lowered.errors), (0, ""))
        if not OBSTACLE:  # four of them are intercepted
            results = [line.split()[1] for line in lowered.out.splitlines()]
            self.assertEqual((len(plain.out.splitlines()), results), (12, ["r"] * 4 + ["e"] * 2 + ["r"] * 4 + ["e"] * 2))

    def test_closed_plugins(self):
        """A plug-in at the address of one that was closed, with another library: also if the front knows no further one."""
        before = [word for i, file in enumerate(copies(4, BLAS64)) for word in ("open", f"l{i}", file, "ilp64", f"l{i}")]
        for host, looked, prefix in (("host", [], "plugin"), ("host", before, "plugin"), ("host", before, "plugin_late"), ("host_uncounted", before, "plugin")):
            commands = []
            for name in (prefix, prefix + "_negates") * 3:
                commands += ["open", "a", plugin(name), "where", "a", *["run", "a"] * 3, "again", "a", "close", "a"]
            out, _ = self.same(host, *looked, *commands, lowers="l" if looked and host == "host" else True)
            self.assertEqual(out[len(looked) // 5:], ["a 0", *["a e"] * 3, "a 6", "a 0", *["a n"] * 3, "a -6"] * 3)

    def test_plugins_at_exit(self):
        """A plug-in whose finalizers ran is closed by a later destructor, and another one opened at its address."""
        for first, second, results in (("plugin_exit", "plugin_exit_negates", "e\nn\n"), ("plugin_exit_negates", "plugin_exit", "n\ne\n")):
            for variables in (OBSERVED, {**OBSERVED, "AUTOAMP_TRACE": "off"}, OFF):
                made = run("exit_main", plugin(first), plugin(second), path=PROGRAMS, **variables)
                self.assertEqual((made.status, made.errors, made.out), (0, "", results), variables)

    def test_rules_of_closed_plugins(self):
        """The rule of a closed plug-in does not apply to another one at its address."""
        other, rules = ROOM / "libcpu_other.so", ROOM / "rules.toml"
        shutil.copy(plugin("plugin"), other)
        rules.write_text('[[rule]]\ncaller = "libcpu_plugin.so"\nprecision = "float32"\n', encoding="utf-8")
        commands = []
        for file in (plugin("plugin"), other, plugin("plugin")):
            commands += ["open", "a", file, "where", "a", *["run", "a"] * 3, "close", "a"]
        for trace in ("off", "summary"):
            made = run("host", *commands, path=PROGRAMS, **CAST, AUTOAMP_TRACE=trace, AUTOAMP_CONFIG=str(rules))
            results = [f"a {result}" for result in ("e", "e" if OBSTACLE else "r", "e")]
            self.assertEqual((made.status, made.errors), (0, ""))
            self.assertEqual(made.out.split("\n")[:-1], [line for result in results for line in ("a 0", *[result] * 3)])

    def test_replaced_file(self):
        """While autoamp is off, it keeps no library loaded that the program closes."""
        file = ROOM / "replaced.so"
        commands = [word for library in (BLAS, NEGATES) for word in ("copy", library, file, "open", "a", file, *["lp64", "a"] * 2, "close", "a")]
        for name in ("plugin_early", "plugin_negates"):
            commands += ["copy", plugin(name), file, "open", "a", file, "run", "a", "again", "a", "close", "a"]
        plain, off = (run("host", *commands, front=front, path=PROGRAMS, **OFF) for front in (None, FRONT))
        self.assertEqual((off.status, off.errors, off.out), (0, "", plain.out))
        self.assertEqual(plain.out, "a e\na e\na n\na n\na e\na 6\na n\na -6\n")

    def test_first_product_while_a_constructor_multiplies(self):
        """The thread that starts autoamp waits for the loader, which the thread of the constructor holds."""
        for name in ("plugin_early", "plugin_joins"):
            made = run("host", "open", "a", plugin("plugin"), "meanwhile", "a", plugin(name), front=f"{FRONT} {PROGRAMS / 'libcpu_slow_start.so'}", path=PROGRAMS)
            self.assertEqual((made.status, made.errors, made.out), (0, "", "e e\n"))
            self.assertEqual(made.report["losses"][0]["calls_lost"], 2)

    def test_forks_while_a_library_comes_and_goes(self):
        """The children inherit a locked or half-done loader."""
        for variables in (OFF, {**OBSERVED, "AUTOAMP_TRACE": "off"}, OBSERVED):
            made = run("host", "open", "a", plugin("plugin"), "run", "a", "forks", "a", PROGRAMS / "libcpu_dnnl_lacks.so", path=PROGRAMS, **variables)
            self.assertEqual((made.status, made.errors, made.out), (0, "", "a e\n40 right\n"))

    def test_forks_while_a_thread_is_inside_the_loader(self):
        """The children inherit a half-done loader, or its lock: neither ends. Some multiply where the parent has not."""
        clients, first, second = PROGRAMS.parent, plugin("plugin"), plugin("plugin_negates")
        says = "autoamp: off, cannot load the core: the process was forked while a thread loaded a library\n"
        for way in ("walking", clients / "libawaits.so"):
            for earlier in ([], [first], [first, second]):
                words = [clients / "inside_loader", way, ROOM / "libawaited_fifo.so", "run", second, *earlier]
                plain = run(*words, front=None, path=f"{PROGRAMS}:{ROOM}")
                self.assertEqual(plain.out, ["", "e", "en"][len(earlier)] + "nn 0\n")
                for variables in (OFF, {**OBSERVED, "AUTOAMP_TRACE": "off"}, OBSERVED, CAST):
                    for front in (FRONT, *(f"{file} {FRONT}" for file in clients.glob("libno_find_object.so"))):  # glibc before 2.35
                        with self.subTest(way=way, earlier=earlier, front=front, **variables):
                            made = run(*words, front=front, path=f"{PROGRAMS}:{ROOM}", **variables)
                            lowers = variables is CAST and earlier and not OBSTACLE
                            self.assertEqual(made.out, plain.out.replace("e", "r").replace("n", "r") if lowers else plain.out)
                            self.assertEqual((made.status, made.errors), (0, "" if earlier or variables is OFF else says))

    def test_openmp_library_that_is_loaded_later(self):
        """A lookup in a handle finds it, also if a constructor looked first, inside dlopen."""
        before, late = ["open", "a", plugin("plugin_threads"), "run", "a"], PROGRAMS / "libomp_late.so"
        early, joins = ["open", "early", plugin("plugin_early_openmp")], ["open", "joins", plugin("plugin_joins"), "run", "late"]
        for first, then, results in (([], [], ""), (early, [], ""), ([], joins, "late n\n")):  # joins: another thread is inside dlopen
            made = run("host", *before, *first, "open", "late", late, *then, "run", "a", "run", "late", path=PROGRAMS, **CAST)
            self.assertEqual((made.status, made.errors), (0, ""))
            if not OBSTACLE:
                self.assertEqual(made.out, f"a r\n{results}a r\nlate y\n")

    def test_destructor_whose_openmp_library_is_unloaded(self):
        """It multiplies, inside dlclose, from a place where nothing has."""
        self.same("host", "open", "a", plugin("plugin"), "run", "a", "open", "b", plugin("plugin_late_openmp"), "close", "b", "run", "a")

    def test_calls_inside_a_call(self):
        """A library with the C interface calls the Fortran interface of another one: the outer call decides."""
        rules = ROOM / "inside.toml"
        rules.write_text('[[rule]]\ncaller = "libcpu_plugin_wraps.so"\nprecision = "float32"\n', encoding="utf-8")
        for trace in ("off", "summary", "ops"):
            calls = [*["run", "a"] * 5, *["run", "b"] * 5] * 2
            made = run("host", "open", "b", plugin("wraps"), "open", "a", plugin("plugin_wraps"), *calls, path=PROGRAMS, **CAST, AUTOAMP_TRACE=trace, AUTOAMP_CONFIG=str(rules))
            results = "a e\n" * 5 + ("b e\n" if OBSTACLE else "b r\n") * 5
            self.assertEqual((made.status, made.errors, made.out), (0, "", results * 2))
            if trace != "off":
                self.assertEqual({row["caller"]: row["calls"] for row in made.report["ops"] if row["entry"] == "cblas_sgemm"}, {"libcpu_plugin_wraps.so": 10})

    def test_signal_handlers_that_use_another_library(self):
        """At each instruction of a call: the handler may replace what the call has found."""
        for variables in ({"AUTOAMP_TRACE": "off"}, {**OBSERVED, "AUTOAMP_TRACE": "off"}, OBSERVED):
            made = run("steps", BLAS, NEGATES, path=PROGRAMS, **variables)
            self.assertEqual((made.status, made.errors, made.out), (0, "", "0 wrong\n"))

    def test_plugins_come_and_go_while_threads_multiply(self):
        for first, second in (("plugin", "plugin64"), ("plugin64", "plugin_negates")):
            for variables, results in ((CAST, "r r" if not OBSTACLE else None), (OBSERVED, None), (OFF, None)):
                plain = "n e" if second == "plugin_negates" else "e e"
                made = run("host", "open", "a", plugin(first), "churn", "a", plugin(second), path=PROGRAMS, **variables)
                self.assertEqual((made.status, made.out, made.errors), (0, (results or plain) + "\n", ""))

    def test_closed_libraries(self):
        commands = []
        for _ in range(3):
            commands += ["open", "a", BLAS, *["lp64", "a"] * 3, "close", "a", "open", "b", NEGATES, *["lp64", "b"] * 3, "close", "b", "open", "c", BLAS64, *["ilp64", "c"] * 3, "close", "c"]
        out, _ = self.same("host", *commands)
        self.assertEqual(out, [*["a e"] * 3, *["b n"] * 3, *["c e"] * 3] * 3)

    def test_library_that_a_plugin_keeps(self):
        """The host closes it, and the loader keeps it for the references of the plug-in."""
        for library, result, six in ((BLAS, "e", "6"), (NEGATES, "n", "-6")):
            commands = ["open", "g", library, "global", "open", "a", plugin("plugin_undefined"), "run", "a", "again", "a", "close", "g"]
            out, _ = self.same("host", *commands, *["run", "a", "again", "a"] * 2)
            self.assertEqual(out, [f"a {result}", f"a {six}"] * 3)

    def test_library_that_becomes_global_later(self):
        """A plug-in keeps the library that it was loaded with; later ones use the global one."""
        commands = ["open", "a", plugin("plugin_now"), "open", "g", NEGATES, "global", "run", "a", "again", "a", "open", "b", plugin("plugin64"), "lp64", "default"]
        out, _ = self.same("host", *commands)
        self.assertEqual(out, ["a e", "a 6", "default n"])
        called = ["open", "a", plugin("plugin"), "run", "a", "again", "a", "open", "g", NEGATES, "global", "run", "a", "again", "a"]
        out, _ = self.same("host", *called)
        self.assertEqual(out, ["a e", "a 6", "a e", "a 6"])
        after = ["open", "g", NEGATES, "global", "open", "a", plugin("plugin"), "run", "a", "again", "a"]
        out, _ = self.same("host", *after)
        self.assertEqual(out, ["a n", "a -6"])

    def test_functions_of_the_application(self):
        for how in ("", "global"):
            out, report = self.same("host", "open", "a", plugin("own"), *filter(None, [how]), "run", "a", "sym", "a", "sgemm", lowers=False)
            self.assertEqual((out, report), (["a e", "a sgemm: libcpu_own.so"], None))
        out, report = self.same("host", "open", "a", plugin("own"), "run", "a", "open", "b", plugin("plugin"), "run", "b", "run", "a", lowers=False, AUTOAMP_SCOPE="regions")
        self.assertEqual(out, ["a e", "b e", "a e"])
        self.assertEqual({row["caller"] for row in report["ops"]}, {"libcpu_plugin.so"})
        self.assertEqual(self.same("own_main", calls=0, lowers=False)[0], ["42 506 e"])
        self.assertEqual(self.same("own_acml", calls=0, lowers=False)[0], ["42 506 e"])
        out, report = self.same("own_linked")
        self.assertEqual(out, ["42 506 e e"])
        self.assertEqual({row["entry"] for row in report["ops"]}, {"cblas_sgemm", "sgemm_"})

    def test_without_a_library(self):
        """The front exports the names, but lookups must not find them: not without a BLAS, nor if only a plug-in has one."""
        names = ("cblas_sgemm", "sgemm_", "SGEMM", "scipy_cblas_sgemm64_", "dgemm_", "nothing")
        commands = ["open", "program", ""] + [word for where in ("default", "next", "program") for name in names for word in ("sym", where, name)]
        for before in ([], ["open", "a", plugin("plugin")], ["open", "a", plugin("plugin"), "run", "a"]):
            plain = run("host", *before, *commands, front=None, path=PROGRAMS)
            made = run("host", *before, *commands, path=PROGRAMS, **OBSERVED)
            self.assertEqual((made.status, made.errors, made.report is not None), (0, "", "run" in before))
            self.assertEqual(len(plain.out.splitlines()), 18 + ("run" in before))
            # The error names the object that looked the name up: the front instead of the program.
            self.assertEqual(made.out.replace(str(FRONT), str(PROGRAMS / "cpu_host")), plain.out)

    def test_lookups_switched_off(self):
        commands = ["open", "a", BLAS, "lp64", "a", "sym", "a", "sgemm_"]
        plain = run("host", *commands, front=None)
        made = run("host", *commands, **CAST, AUTOAMP_HOOK_DLSYM="0")
        self.assertEqual((made.status, made.out, made.errors, made.report), (0, plain.out, "", None))

    def test_lookups_in_a_library_without_the_name(self):
        commands = ["open", "a", plugin("own")] + [word for name in ("cblas_sgemm", "sgemm_", "strsm_") for word in ("sym", "a", name)]
        self.same("host", *commands, calls=0)

    def test_weak_references(self):
        self.assertEqual(self.same("weak_linked", "call", lowers=False)[0], ["there", "6"])

    def test_weak_references_without_a_library(self):
        """The front exports the names. A call ends the program instead of leaving the result unset."""
        self.assertEqual(run("weak", "call", front=None).out, "null\n0\n")
        made = run("weak", "call", **CAST)
        self.assertEqual((made.status, made.out), (-signal.SIGABRT, "there\n"))
        self.assertRegex(made.errors, r"\Aautoamp: this program works only without libautoamp-cpu.so: [^\n]*: cblas_sgemm\n\Z")

    def test_calls_in_a_constructor(self):
        """Inside dlopen, whose lock the thread holds."""
        out, _ = self.same("host", "open", "a", plugin("plugin_early"), "run", "a", "again", "a", calls=3)
        self.assertEqual(out, ["a e", "a 6"])

    def test_python(self):
        """All calls of ctypes return to one address."""
        script = f"""
import ctypes, array
one, zero = ctypes.c_float(1), ctypes.c_float(0)
a, b = (ctypes.c_float * 400)(*[i % 7 for i in range(400)]), (ctypes.c_float * 400)(*[i % 5 for i in range(400)])
def product(library, size):
    c = (ctypes.c_float * 400)()
    n = size(20)
    library.cblas_sgemm(102, 111, 111, n, n, n, one, a, n, b, n, zero, c, n)
    return list(c)
libraries = [(ctypes.CDLL({str(BLAS)!r}), ctypes.c_int), (ctypes.CDLL({str(BLAS64)!r}), ctypes.c_long), (ctypes.CDLL({str(NEGATES)!r}), ctypes.c_int)]
results = [product(*library) for _ in range(3) for library in libraries]
print(results[0] == results[1] == [-x for x in results[2]] == results[3] == results[7] == [-x for x in results[8]])
print(sum(results[0]) > 0)
"""
        for variables, calls in ((OBSERVED, 9), (OFF, 0)):
            made = run(sys.executable, "-c", script, **variables)
            self.assertEqual((made.out, made.errors), ("True\nTrue\n", ""))
            self.assertEqual(made.report["totals"]["calls"] if made.report else 0, calls)

    def test_core_is_missing(self):
        folder = ROOM / "coreless"
        folder.mkdir()
        shutil.copy(FRONT, folder)
        plain = run("linked", "products", front=None, path=PROGRAMS)
        made = run("linked", "products", front=folder / FRONT.name, path=PROGRAMS, **CAST)
        self.assertEqual((made.status, made.out), (0, plain.out))
        self.assertRegex(made.errors, r"\Aautoamp: off, cannot load the core: [^\n]*\n\Z")

    @unittest.skipIf(os.getuid() or not shutil.which("unshare"), "needs a mount namespace")
    def test_privileged_program(self):
        """A program with the set-user-ID bit, which gets the front by /etc/ld.so.preload."""
        room = ROOM / "privileged"
        (room / "etc").mkdir(parents=True)
        (room / "out").mkdir()
        (room / "out").chmod(0o777)
        ROOM.chmod(0o755)
        for file in (BLAS, FRONT, CORE):
            shutil.copy(file, room)
        shutil.copy("/etc/ld.so.cache", room / "etc")
        (room / "etc" / "ld.so.preload").write_text(f"{room / FRONT.name}\n")
        program = room / "program"
        shutil.copy(PROGRAMS / "cpu_looked", program)
        shutil.chown(program, 65534)
        plain = run(program, room / BLAS.name, "cblas_NAME", "NAME_", "products", front=None)
        for mode, traces in ((0o4755, []), (0o755, ["t.aat"])):
            program.chmod(mode)
            made = run(shutil.which("unshare"), "--mount", "sh", "-c", 'mount --bind "$1" /etc && shift && exec "$@"', "sh", room / "etc", program,
                       room / BLAS.name, "cblas_NAME", "NAME_", "products", front=None, AUTOAMP_TRACE_FILE=str(room / "out" / "t.aat"), **CAST)
            if "mount" in made.errors:
                self.skipTest("not permitted here: " + made.errors)
            self.assertEqual((made.status, made.errors), (0, ""))
            self.assertEqual(made.out == plain.out, bool(OBSTACLE or mode == 0o4755))
            self.assertEqual(os.listdir(room / "out"), traces)

    def test_program_that_forbids_mprotect(self):
        """The references of a program that is linked with -z now are in pages that only mprotect makes writable."""
        for variables in (OBSERVED, {**OBSERVED, "AUTOAMP_TRACE": "off"}, OFF):
            made = run("sandboxed", path=PROGRAMS, **variables)
            self.assertEqual((made.status, made.errors, made.out), (0, "", "6\n6\n"), variables)

    def test_another_preloaded_library(self):
        """It sees the calls if it comes first; otherwise those that run unchanged."""
        other = plugin("interposer")
        plain = run("linked", "products", front=None, path=PROGRAMS, LD_PRELOAD=str(other))
        *results, calls = plain.out.splitlines()
        self.assertGreater(int(calls.split()[1]), 40)
        for fronts, without in ((f"{other}:{FRONT}", calls), (f"{FRONT}:{other}", calls if OBSTACLE else "interposer 0")):
            for variables, expected in ((OBSERVED, calls), (CAST, without)):
                made = run("linked", "products", front=fronts, path=PROGRAMS, **variables)
                self.assertEqual((made.status, made.errors, made.out.splitlines()[-1]), (0, "", expected))
                self.assertEqual(made.report["totals"]["calls"], len(results))
                self.assertEqual(made.out == plain.out, bool(OBSTACLE) or variables is OBSERVED)

    def test_both_fronts(self):
        for fronts in (f"{FRONT}:{CUDA_FRONT}", f"{CUDA_FRONT}:{FRONT}"):
            path = f"{PROGRAMS}:{VENDOR}"
            with self.subTest(fronts):
                plain = run("linked", "products", front=None, path=path)
                observed = run("linked", "products", front=fronts, path=path, **OBSERVED)
                self.assertEqual((observed.status, observed.out, observed.errors), (0, plain.out, ""))
                self.assertEqual(observed.report["totals"]["calls"], len(plain.cases))
                for client in ("linked", "looked"):
                    cuda = run(PROGRAMS.parent / client, front=fronts, path=path, **OBSERVED)
                    self.assertEqual((cuda.status, cuda.report["totals"]["calls"]), (0, 1))
                    self.assertEqual({row["library"] for row in cuda.report["ops"]}, {"cublas"})
                lookups = run("host", "open", "b", BLAS, "open", "c", VENDOR / "libcublas.so.13", "lp64", "b", "sym", "b", "sgemm_", "sym", "c", "cublasSgemm_v2",
                              "sym", "b", "cublasSgemm_v2", "sym", "c", "sgemm_", front=fronts, path=path, **OBSERVED)
                self.assertEqual(lookups.out.splitlines(), ["b e", "b sgemm_: libautoamp-cpu.so", "c cublasSgemm_v2: libautoamp.so",
                                 f"b cublasSgemm_v2: null, {BLAS}: undefined symbol: cublasSgemm_v2", f"c sgemm_: null, {VENDOR}/libcublas.so.13: undefined symbol: sgemm_"])


if __name__ == "__main__":
    main()
