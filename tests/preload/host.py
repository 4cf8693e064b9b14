"""host.py FRONT CORE BUILD AUTOAMP TOOLKIT: the host process keeps the state of its threads (cancellation, floating-point
environment, exceptions, priorities), its descriptors, privileges and names. Clients run as in interposition.py."""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from interposition import AUTOAMP, BUILD, CORELESS, FRONT, PRODUCT, ROOM, Interposition, run


class Host(Interposition):
    number = itertools.count()

    def traced(self, client, *arguments, **options):
        """The client succeeds under autoamp's core and stderr is empty. Returns its output and the report."""
        folder = ROOM / f"host-{next(self.number)}"
        done = run(PRODUCT, client, *arguments, AUTOAMP_TRACE_FILE=str(folder / "%p.aat"), **options)
        if done.returncode == 77:
            self.skipTest("not possible here: " + client)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        report = subprocess.run([AUTOAMP, "report", "--format", "json", folder], check=True, capture_output=True, text=True)
        shutil.rmtree(folder)
        return done.stdout, json.loads(report.stdout)


class Cancellation(Host):
    """At each system call that is made between an entry point and the vendor's function."""

    def test_at_every_system_call(self):
        for scenario, how in itertools.product(("first", "thread", "child", "region", "chunk"), ("deferred", "asynchronous")):
            with self.subTest(scenario, how=how):
                bare = run(None, "cancellation", scenario, how)
                if bare.returncode == 77:
                    self.skipTest("no Syscall User Dispatch")
                self.assertEqual((bare.returncode, bare.stdout), (0, "0 system calls\n"), bare)
                out, report = self.traced("cancellation", scenario, how, AUTOAMP_TRACE="ops")
                self.assertGreater(int(out.split()[0]), 0)
                # Every child made its other calls after the cancellation, and its trace is complete.
                self.assertFalse([each for each in report["runs"] if each["died_inside"]])
                self.assertGreaterEqual(report["totals"]["calls"], 3001 * int(out.split()[0]))
                self.assertFalse(report["loss"]["calls_lost"])


class Unwinding(Host):
    def test_calls_that_do_not_return(self):
        for trace in ("summary", "ops"):
            for ranges in ({}, {"AUTOAMP_CAPTURE_RANGE": "calls:1:1000"}):
                with self.subTest(trace, **ranges):
                    self.assertEqual(run(None, "unwinding").returncode, 0)
                    out, report = self.traced("unwinding", AUTOAMP_TRACE=trace, **ranges)
                    self.assertEqual(f"{report['totals']['calls']} calls\n", out)
                    self.assertEqual([(each["ended"], each["died_inside"]) for each in report["runs"]], [("exit 0", None)])


class FloatingPoint(Host):
    def test_traps_flags_and_modes_are_the_programs(self):
        rows = []
        for mode in ([], ["upward"]):
            self.assertEqual(run(None, "floating_point", *mode).returncode, 0)
            rows.append(self.traced("floating_point", *mode, AUTOAMP_TRACE="ops")[1]["ops"])
        decided = [[{key: value for key, value in row.items() if "ns" not in key or "est" in key} for row in each] for each in rows]
        self.assertEqual(*decided)


class Names(Interposition):
    def test_exported_names_are_absent_without_cuda(self):
        """A program without CUDA sees no vendor name that the front exports."""
        listed = subprocess.run(["nm", "-D", "--defined-only", "--without-symbol-versions", FRONT], check=True,
                                capture_output=True, text=True).stdout.splitlines()
        names = sorted({line.split()[-1] for line in listed if line.split()[-2] != "A"} - {"dlsym", "dlvsym"})
        names = [name for name in names if not name.startswith("autoamp_")]
        self.assertGreater(len(names), 300)
        for preload, hook in itertools.product((PRODUCT, CORELESS), ("0", "1", "got")):
            with self.subTest(preload, hook=hook):
                environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "vendor"), "AUTOAMP_HOOK_DLSYM": hook}
                bare, done = (subprocess.run([BUILD / "absent"], input="\n".join(names), capture_output=True, text=True,
                                             check=False, timeout=20, env={**environment, **more})
                              for more in ({}, {"LD_PRELOAD": preload}))
                self.assertNotIn(": found", bare.stdout)
                self.assertEqual(done.stdout.splitlines(), bare.stdout.splitlines())


class Descriptors(Host):
    def test_descriptor_2_of_a_daemon(self):
        warnings = {"wrong value": (PRODUCT, {"AUTOAMP_LEVEL": "O7"}), "no core": (CORELESS, {}),
                    "no trace": (PRODUCT, {"AUTOAMP_TRACE_FILE": "/proc/nobody/writes/here"})}
        for name, (preload, variables) in warnings.items():
            with self.subTest(name):
                self.assertIn("autoamp: ", run(preload, "linked", **variables).stderr)
                for close in ("", " 2>&-"):  # it closes its descriptors, or it was started without them
                    file = ROOM / f"daemon-{next(self.number)}"
                    done = run(preload, "/bin/sh", "-c", f'exec "$@"{close}', "sh", str(BUILD / "daemon"), str(file), **variables)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                    self.assertEqual(file.read_text(), "data\n")


    def test_stderr_that_takes_nothing(self):
        """A pipe without a reader, a full pipe, and a file at its size limit: no signal, no wait."""
        def without_reader():
            reader, writer = os.pipe()
            os.close(reader)
            return writer

        def full():
            reader, writer = os.pipe()
            self.addCleanup(os.close, reader)
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, b"x" * 512)
            os.set_blocking(writer, True)
            return writer

        def at_limit():
            return os.open(ROOM / "limited", os.O_WRONLY | os.O_CREAT)

        for preload, variables in ((PRODUCT, {"AUTOAMP_LEVEL": "O7"}), (CORELESS, {}), (PRODUCT, {"AUTOAMP_LOG": "debug"})):
            for make in (without_reader, full, at_limit):
                with self.subTest(make.__name__, preload=preload, **variables):
                    target = make()
                    limit = "ulimit -f 0 && " if make == at_limit else ""
                    done = subprocess.run(
                        ["sh", "-c", limit + 'exec env LD_PRELOAD="$0" "$1"', preload, str(BUILD / "linked")], stderr=target,
                        stdout=subprocess.DEVNULL, timeout=60, check=False, cwd=ROOM,
                        env={"PATH": os.environ["PATH"], "HOME": str(ROOM), "AUTOAMP_DIR": str(ROOM / "traces"),
                             "LD_LIBRARY_PATH": f'{BUILD / "vendor"}:{BUILD}', **variables})
                    os.close(target)
                    self.assertEqual(done.returncode, 0)


class Environment(Host):
    def test_settings_of_a_program_that_clears_its_environment(self):
        _, report = self.traced("cleared", AUTOAMP_LEVEL="O0")
        self.assertEqual(report["runs"][0]["config"]["level"], "O0")

    def test_no_folder_for_traces(self):
        done = subprocess.run([BUILD / "linked"], capture_output=True, text=True, timeout=60, check=True,
                              env={"LD_PRELOAD": PRODUCT, "LD_LIBRARY_PATH": f'{BUILD / "vendor"}:{BUILD}'})
        self.assertEqual(done.stderr, "autoamp: no trace: none of AUTOAMP_DIR, XDG_STATE_HOME and HOME is set\n")
        self.assertEqual(list(pathlib.Path("/").glob("linked.*.aat")), [])


class Privileged(Host):
    """A program with the set-user-ID bit, which gets the front by /etc/ld.so.preload of a separate mount namespace."""

    def setUp(self):
        self.room = ROOM / "privileged"
        self.etc, self.out = self.room / "etc", self.room / "out"
        for folder in (self.etc, self.out):
            folder.mkdir(parents=True, exist_ok=True)
        ROOM.chmod(0o755)
        self.out.chmod(0o777)
        (self.room / "vendor").mkdir(exist_ok=True)
        for file in ("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13"):
            shutil.copy(BUILD / "vendor" / file, self.room / "vendor")
        shutil.copy("/etc/ld.so.cache", self.etc)
        (self.etc / "ld.so.preload").write_text(PRODUCT + "\n")
        (self.room / "secret.toml").write_text('secret = "of somebody"\n')

    def start(self, is_privileged, **variables):
        program = self.room / "program"
        shutil.copy(BUILD / "privileged", program)
        if os.getuid() == 0:
            shutil.chown(program, 65534)
        program.chmod(0o4755 if is_privileged else 0o755)
        done = run(None, shutil.which("unshare") or "/no/unshare", "--mount", "sh", "-c",
                   'mount --bind "$1" /etc && shift && exec "$@"', "sh", str(self.etc), str(program),
                   str(self.room / "vendor"), AUTOAMP_DIR=str(self.out), AUTOAMP_TRACE_FILE=str(self.out / "t.aat"), **variables)
        return done, sorted(os.listdir(self.out))

    def test_library_is_off(self):
        if os.getuid() or not shutil.which("unshare"):
            self.skipTest("needs a mount namespace")
        variables = ({}, {"AUTOAMP_CONFIG": str(self.room / "secret.toml")}, {"AUTOAMP_LEVEL": "O7"},
                     {"AUTOAMP_TRACE": "kernels", "AUTOAMP_CUPTI_PATH": str(self.room / "vendor" / "libcublas.so.13")},
                     {"AUTOAMP_HOOK_DLSYM": "got"})
        for each in variables:
            with self.subTest(**each):
                done, written = self.start(True, **each)
                if "privileged 1" not in done.stdout:
                    self.skipTest("not permitted here: " + done.stderr)
                self.assertEqual((done.returncode, done.stdout, done.stderr, written),
                                 (0, "privileged 1 front 1 core 0 active 0\n", "", []))
        done, written = self.start(False)  # the same program without the bit
        self.assertEqual((done.returncode, done.stdout, done.stderr, written),
                         (0, "privileged 0 front 1 core 1 active 1\n", "", ["t.aat"]))
        done, _ = self.start(False, AUTOAMP_CONFIG=str(self.room / "secret.toml"))
        self.assertIn("secret", done.stderr)


class Priorities(Host):
    def test_urgent_thread_waits_asleep(self):
        self.assertEqual(self.traced("priorities")[1]["totals"]["calls"], 2)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    shutil.rmtree(ROOM)
    sys.exit(not result.wasSuccessful())
