"""surroundings.py FRONT CORE OTHER_CORE AUTOAMP EMULATED CLIENT BUSY READER SMALL_TRACE: runs a program while some part
of autoamp's surroundings is broken, missing, full or wrong: one clear line, the right status, and the program is
unchanged."""
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

FRONT, CORE, OTHER_CORE, AUTOAMP, EMULATED, CLIENT, BUSY, READER, SMALL = (pathlib.Path(a).resolve() for a in sys.argv[1:10])
ROOM = pathlib.Path(tempfile.mkdtemp(prefix="autoamp-surroundings-"))
CHUNK, EVENTS = b"AACk", 2  # docs/trace-format.md
RANDOM = random.Random(int(os.environ.get("FAULTS_SEED", "1")))
ENTRIES = ["cublasSgemm_v2", "cublasGemmEx"]


def environment(preload=FRONT, **variables):
    found = {"PATH": os.environ["PATH"], "HOME": str(ROOM), "LD_LIBRARY_PATH": str(EMULATED),
             "AUTOAMP_DIR": str(ROOM / "traces"), "AUTOAMP_STRATEGY": "cast", **variables}
    return {**found, "LD_PRELOAD": str(preload)} if preload else found


def run(command, limit=None, **settings):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120,
                          preexec_fn=limited if limit is not None else None, **settings)


def autoamp(*arguments, **settings):
    settings.setdefault("env", environment(None))
    return run([AUTOAMP, *arguments], **settings)


class Surroundings(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.bare = run([CLIENT], env=environment(None))
        cls.lowered = run([CLIENT], env=environment())
        assert (cls.bare.returncode, cls.lowered.returncode, cls.lowered.stderr) == (0, 0, ""), cls.lowered
        assert cls.bare.stdout != cls.lowered.stdout

    def as_it_was(self, done, like, *, says=None):
        """The client's output and status equal those of another run; stderr is one line with these words, or empty."""
        self.assertEqual((done.returncode, done.stdout), (like.returncode, like.stdout), done.stderr)
        if says is None:
            self.assertEqual(done.stderr, "")
        else:
            self.one_line(done, *says)

    def one_line(self, done, *words):
        self.assertRegex(done.stderr, r"\Aautoamp: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, done.stderr)

    def report(self, *paths):
        """`autoamp report` reads it, or prints one line with the reason; True: it read it."""
        told = [autoamp("report", "--color", "never", "--format", kind, *paths) for kind in ("table", "json")]
        self.assertEqual(told[0].returncode, told[1].returncode)
        for done in told:
            self.assertIn(done.returncode, (0, 2), done)
            if done.returncode == 2:
                self.one_line(done, os.path.basename(paths[0]))
                self.assertEqual(done.stdout, "")
            else:
                self.assertEqual(done.stderr, "")
                self.assertFalse(re.search("[\0-\x08\x0e-\x1f\x7f]", done.stdout), "control characters")
        if told[1].returncode == 0:
            json.loads(told[1].stdout)
        return told[0].returncode == 0


class Disk(Surroundings):
    @contextlib.contextmanager
    def small_disk(self, size):
        folder = pathlib.Path(tempfile.mkdtemp(dir=ROOM))
        mounted = run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)])
        if mounted.returncode:
            self.skipTest("may not mount a small disk: " + mounted.stderr.strip())
        try:
            yield folder
        finally:
            run(["umount", str(folder)])

    def check(self, folder, level, **settings):
        done = run([CLIENT], env=environment(AUTOAMP_TRACE=level, AUTOAMP_TRACE_FILE=str(folder / "t.aat")), **settings)
        self.as_it_was(done, self.lowered, says=["trace"] if done.stderr else None)
        for trace in folder.glob("*.aat"):
            self.report(trace)
            trace.unlink()
        return done.stderr

    def test_full_disk(self):
        for size in (0, 4, 8, 16, 32, 64):  # KiB left
            for level in ("summary", "ops"):
                with self.subTest(size, level=level), self.small_disk(f"{size + 4}k") as folder:
                    (folder / "other").write_bytes(b"\0" * 4096)
                    said = self.check(folder, level)
                    if size < 16:  # not enough space even for the header
                        self.assertTrue(said)

    def test_limit_on_file_sizes(self):
        folder = ROOM / "limited"
        folder.mkdir()
        said = [self.check(folder, level, limit=size) for size in (0, 100, 4096, 20000, 65536)
                for level in ("summary", "ops")]
        self.assertTrue(said[0] and said[1])

    def test_unwritable_folder(self):
        (ROOM / "a file").write_text("")
        for folder in ("/proc/nobody/writes/here", str(ROOM / "a file" / "below"), "/sys"):
            for variables in ({"AUTOAMP_DIR": folder}, {"AUTOAMP_TRACE_FILE": folder + "/t.aat"}):
                with self.subTest(**variables):
                    self.as_it_was(run([CLIENT], env=environment(**variables)), self.lowered, says=[folder])


class Killed(Surroundings):
    def begin(self, number, level, threads):
        counts, trace = ROOM / f"counts{number}", ROOM / f"killed{number}.aat"
        process = subprocess.Popen([BUSY, counts, str(threads)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=environment(AUTOAMP_TRACE=level, AUTOAMP_TRACE_FILE=str(trace)))
        return process, counts, trace

    def kill(self, process):
        process.kill()
        _, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (-signal.SIGKILL, b""))

    def counted(self, counts):
        data = counts.read_bytes() if counts.exists() else b""
        return [struct.unpack_from("QQQ", data, at) for at in range(0, len(data), 64)]

    def test_at_random_moments(self):
        inside = number = 0
        while number < 30 or (not inside and number < 400):  # most of the time the program waits for its stream
            number += 1
            threads, level = number % 2 * 2 + 1, ("ops", "summary")[number // 2 % 2]
            process, counts, trace = self.begin(number, level, threads)
            deadline = time.monotonic() + 60
            while not sum(returned for _, _, returned in self.counted(counts)) and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(RANDOM.uniform(0, 0.05))
            self.kill(process)
            with self.subTest(number, level=level, threads=threads):
                inside += bool(self.check(self.counted(counts), trace, level))
        self.assertGreater(inside, 0, f"never inside a call in {number} kills")

    def check(self, counted, trace, level):
        self.assertTrue(self.report(trace))
        lines = [line.split("\t") for line in run([READER, trace]).stdout.splitlines()]
        ended, died_inside, lost = next(line[1:] for line in lines if line[0] == "end")
        calls = sum(int(line[4]) for line in lines if line[0] == "row")
        singles = sum(line[0] == "call" for line in lines)
        begun, returned = sum(c[1] for c in counted), sum(c[2] for c in counted)
        self.assertEqual((ended, lost), ("killed" if died_inside else "no exit seen", "0"))
        self.assertTrue(returned <= calls <= begun, (returned, calls, begun))
        if level == "ops":
            self.assertTrue(calls - len(counted) <= singles <= calls, (singles, calls))
        for line in lines:
            if line[0] == "row" and int(line[4]):
                self.assertEqual((line[1] in ENTRIES, line[2]), (True, "lowered"), line)
        running = {ENTRIES[entry] for entry, began, came_back in counted if began > came_back}
        if died_inside:
            self.assertIn(died_inside, running)
        return died_inside

    def test_while_it_starts(self):
        """Before, inside and after the first call: a trace is complete, incomplete or absent."""
        for number in range(1000, 1020):  # a name that no other test has used
            process, counts, trace = self.begin(number, "ops", 1)
            time.sleep(RANDOM.uniform(0, 0.08))
            self.kill(process)
            if trace.exists():
                with self.subTest(number):
                    self.report(trace)


class Harmed(Surroundings):
    """The trace of a running program is truncated, removed, moved or replaced."""

    WAYS = {"emptied": lambda path: os.truncate(path, 0), "cut": lambda path: os.truncate(path, 100),
            "halved": lambda path: os.truncate(path, os.path.getsize(path) // 2), "removed": os.unlink}

    def harm(self, way, level, products, **variables):
        folder = pathlib.Path(tempfile.mkdtemp(dir=ROOM))
        counts, trace = folder / "counts", folder / "t.aat"
        process = subprocess.Popen([BUSY, counts, "3", str(products), "wait"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=environment(AUTOAMP_TRACE=level, AUTOAMP_TRACE_FILE=str(trace), **variables))
        done = 0
        while process.poll() is None:
            returned = sum(count[2] for count in Killed.counted(self, counts))
            if returned == 3 * products:  # the program waits: the last change comes before its end
                process.stdin.close()
                process.wait()
            elif returned > done:  # repeatedly, at moments that the program's progress sets
                done = returned + 1000
                with contextlib.suppress(FileNotFoundError):
                    way(trace)
            if products > 10**6 and returned > 10000:
                process.kill()
            time.sleep(0.002)
        return process, process.stderr.read().decode(), Killed.counted(self, counts), trace

    def read(self, trace):
        lines = [line.split("\t") for line in run([READER, trace]).stdout.splitlines()]
        ended = next(line[1] for line in lines if line[0] == "end")
        missing = next(int(line[1]) for line in lines if line[0] == "missing")
        return ended, sum(int(line[4]) for line in lines if line[0] == "row"), missing, sum(line[0] == "call" for line in lines)

    def test_totals_are_exact_and_what_is_missing_is_named(self):
        for name, way in self.WAYS.items():
            for level, variables in (("ops", {}), ("summary", {}), ("ops", {"AUTOAMP_LEVEL": "O0"})):
                with self.subTest(name, level=level, **variables):
                    process, errors, counted, trace = self.harm(way, level, 5000, **variables)
                    self.assertEqual((process.returncode, errors), (0, ""))
                    self.assertEqual(sorted(path.name for path in trace.parent.iterdir()), ["counts", "t.aat"])
                    ended, calls, missing, singles = self.read(trace)
                    self.assertEqual((ended, calls, singles + missing), ("exit 0", 15000, 15000 if level == "ops" else 0))
                    report = json.loads(autoamp("report", "--format", "json", trace).stdout)
                    self.assertEqual((report["totals"]["calls"], report["loss"]["events_missing"]), (15000, missing))
                    self.assertEqual(report["loss"]["truncated"], missing > 0)
                    if missing:
                        self.assertIn(f"{missing:,} single events missing", autoamp("report", trace).stdout)

    def test_truncated_and_extended(self):
        """Zeros in place of single events are missing events, wherever the file was cut."""
        process, _, _, trace = self.harm(lambda _: None, "ops", 5000)
        self.assertEqual((process.returncode, self.read(trace)), (0, ("exit 0", 15000, 0, 15000)))
        content = trace.read_bytes()
        chunks = [at for at in range(4096, len(content), 4096)
                  if content[at:at + 4] == CHUNK and struct.unpack_from("I", content, at + 4)[0] == EVENTS]
        self.assertGreaterEqual(len(chunks), 6)
        for chunk in chunks:
            for cut in (chunk + 33, chunk + 48, chunk + 2000, chunk + 4096, chunk + 9001):
                for back in (0, len(content) - cut):  # extended to its old size
                    if any(kept > cut for kept in chunks) and not back:
                        continue
                    end = min([at for at in chunks if at > chunk], default=len(content))
                    trace.write_bytes(content[:cut] + bytes(end - cut) + content[end:] if back else content[:cut])
                    with self.subTest(chunk=chunk, cut=cut - chunk, back=back):
                        ended, calls, missing, singles = self.read(trace)
                        self.assertEqual((ended, calls, singles + missing), ("exit 0", 15000, 15000))
                        self.assertGreater(missing, 0)
                        self.assertTrue(json.loads(autoamp("report", "--format", "json", trace).stdout)["loss"]["truncated"])

    def test_killed_as_well(self):
        for name in ("emptied", "cut", "halved"):
            with self.subTest(name):
                process, errors, counted, trace = self.harm(self.WAYS[name], "ops", 10**9)
                self.assertEqual((process.returncode, errors), (-signal.SIGKILL, ""))
                ended, calls, missing, singles = self.read(trace)
                self.assertIn(ended, ("killed", "no exit seen"))
                self.assertTrue(sum(c[2] for c in counted) <= calls <= sum(c[1] for c in counted), (calls, counted))
                self.assertTrue(calls - 3 <= singles + missing <= calls, (calls, singles, missing))

    def test_replaced(self):
        def by_folder(path):
            if path.is_file():
                path.unlink()
                path.mkdir()
        for way in (by_folder, lambda path: shutil.copyfile(SMALL, path.parent / "x") and os.replace(path.parent / "x", path)):
            process, errors, counted, trace = self.harm(way, "ops", 5000)
            self.assertEqual(process.returncode, 0)
            self.assertEqual([line[:9] for line in errors.splitlines()], ["autoamp: "] * len(errors.splitlines()))
            self.assertIn(f"the rest is in {trace.parent}/.t.aat.tail", errors)
            self.assertEqual(self.read(trace.parent / ".t.aat.tail")[:2], ("exit 0", 15000))

    def test_run_leaves_no_tail(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=ROOM))
        done = autoamp("run", "--device", "emulated", "-o", "t.aat", "--", "sh", "-c", f"{BUSY} counts 1 & "
                       "while [ ! -e .t.aat.tail ]; do sleep 0.01; done; sleep 0.2; kill -9 $!; wait $!", cwd=folder)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["counts", "t.aat"])
        counted = Killed.counted(self, folder / "counts")
        ended, calls, missing, singles = self.read(folder / "t.aat")
        self.assertTrue(counted[0][2] <= calls <= counted[0][1], (calls, counted))
        self.assertEqual(missing, 0)

    def test_small_disk_keeps_totals(self):
        """64 KiB: no space for single events, but enough for all totals."""
        for level in ("ops", "summary"):
            with Disk.small_disk(self, "64k") as folder:
                done = run([BUSY, ROOM / f"small-{level}", "1", "3000"],
                           env=environment(AUTOAMP_TRACE=level, AUTOAMP_TRACE_FILE=str(folder / "t.aat")))
                self.assertEqual(done.returncode, 0)
                ended, calls, missing, singles = self.read(folder / "t.aat")
                self.assertEqual((ended, calls), ("exit 0", 3000))


class Core(Surroundings):
    def beside(self, name, core=None):
        folder = ROOM / name
        folder.mkdir()
        shutil.copy(FRONT, folder / "libautoamp.so")
        if core is not None:
            (folder / "libautoamp-core.so").write_bytes(core)
        return folder / "libautoamp.so"

    def check(self, preload, *words):
        self.as_it_was(run([CLIENT], env=environment(preload)), self.bare,
                       says=["off, cannot load the core", *words])

    def test_missing(self):
        self.check(self.beside("missing"), "No such file")

    def test_of_another_version(self):
        self.check(self.beside("other", OTHER_CORE.read_bytes()), "another version")

    def test_cut(self):
        whole = CORE.read_bytes()
        start, count = struct.unpack_from("Q", whole, 32)[0], struct.unpack_from("H", whole, 56)[0]
        segments = [struct.unpack_from("IIQQQQ", whole, start + 56 * i) for i in range(count)]
        needed = max(offset + size for kind, _, offset, _, _, size in segments if kind == 1)  # the rest is for debuggers
        for size in (0, 3, 64, 200, start + 56, 1000, 5000, needed // 10, needed // 3, needed - 5000, needed - 1):
            with self.subTest(size):
                self.check(self.beside(f"cut{size}", whole[:size]))
        whole_enough = run([CLIENT], env=environment(self.beside("needed", whole[:needed])))
        self.as_it_was(whole_enough, self.lowered)

    def test_of_other_bytes(self):
        self.check(self.beside("noise", RANDOM.randbytes(100000)))
        self.check(self.beside("other-machine", CORE.read_bytes()[:18] + b"\xb7\0" + CORE.read_bytes()[20:]))


class Traces(Surroundings):
    def test_cut(self):
        whole, path = SMALL.read_bytes(), ROOM / "cut.aat"
        head = struct.unpack_from("I", whole, 16)[0]
        # The reader's own test cuts every byte of it; this test checks the messages.
        sizes = {*range(0, 130, 5), head - 1, head, head + 1, *RANDOM.sample(range(len(whole)), 40)}
        read = 0
        for size in sorted(sizes):
            path.write_bytes(whole[:size])
            with self.subTest(size):
                read += self.report(path)
        self.assertGreater(read, 10)

    def test_random_bytes(self):
        whole, path = SMALL.read_bytes(), ROOM / "noise.aat"
        read = 0
        for number in range(60):
            damaged = bytearray(whole)
            for _ in range(RANDOM.choice((1, 10, 1000))):
                damaged[RANDOM.randrange(len(damaged) if number % 3 else 4096 * 3)] = RANDOM.randrange(256)
            path.write_bytes(damaged)
            with self.subTest(number):
                read += self.report(path)
        self.assertGreater(read, 5)
        for size in (0, 1, 8, 4096, 100000):
            path.write_bytes(RANDOM.randbytes(size))
            self.assertFalse(self.report(path))
        path.write_bytes(whole[:16] + RANDOM.randbytes(len(whole) - 16))
        self.report(path)

    def test_what_is_no_file_stays_and_has_none_beside_it(self):
        # This test never uses /dev/null itself, because a failure could remove it.
        pipe = ROOM / "pipe"
        os.mkfifo(pipe)
        self.as_it_was(run([CLIENT], env=environment(AUTOAMP_TRACE_FILE=str(pipe))), self.lowered, says=("no trace", str(pipe)))
        for arguments in (["run", "--device", "emulated", "-o", str(pipe), "--force", "--", CLIENT],
                          ["export", "--type", "csv", "-o", str(pipe), "--force", str(pipe)]):
            done = autoamp(*arguments)
            self.assertEqual(done.returncode, 125 if arguments[0] == "run" else 2)
            self.one_line(done, str(pipe))
        self.assertEqual([path.name for path in ROOM.glob("pipe*")], ["pipe"])
        self.assertTrue(pipe.is_fifo())

    def test_no_trace_at_all(self):
        for path in (ROOM / "no such file.aat", pathlib.Path("/dev/null"), AUTOAMP):
            self.assertFalse(self.report(path))


WRONG = [("AUTOAMP_LEVEL", "O7", "O0, O1"), ("AUTOAMP_DTYPE", "float8", "float16"), ("AUTOAMP_STRATEGY", "fast", "cast"),
         ("AUTOAMP_MEMORY", "much", "K, M or G"), ("AUTOAMP_TRACE", "2", "summary"), ("AUTOAMP_ENABLED", "yes", "0, 1"),
         ("AUTOAMP_CUSTOM_BLACK_LIST", "no_such_op", "no_such_op"), ("AUTOAMP_LEVLE", "O1", "AUTOAMP_LEVEL"),
         ("AUTOAMP_SCOPE", "region", "regions"), ("AUTOAMP_LOG", "", "warn")]


class Variables(Surroundings):
    def test_wrong_ones(self):
        for name, value, accepted in WRONG:
            with self.subTest(name, value=value):
                traces = ROOM / f"of {name}"
                done = run([CLIENT], env=environment(**{"AUTOAMP_DIR": str(traces), name: value}))
                self.as_it_was(done, self.bare, says=["off: ", name, value, accepted])
                self.assertFalse(traces.exists())

    def test_run_refuses_them_before_the_start(self):
        for name, value, accepted in WRONG:
            with self.subTest(name, value=value):
                done = autoamp("run", "--device", "emulated", "--", CLIENT, env=environment(None, **{name: value}))
                self.assertEqual((done.returncode, done.stdout), (125, ""))
                self.one_line(done, name, value, accepted)

    def test_report_refuses_them(self):
        done = autoamp("report", SMALL, env=environment(None, AUTOAMP_LEVEL="O7"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.one_line(done, "AUTOAMP_LEVEL", "O7", "O0")


class Programs(Surroundings):
    def check(self, program, status):
        done = autoamp("run", "--device", "emulated", "--", program, cwd=ROOM)
        self.assertEqual((done.returncode, done.stdout), (status, ""))
        self.one_line(done, os.path.basename(program))
        self.assertFalse(list(ROOM.glob("no*.aat")))

    def test_missing(self):
        self.check("./no-such-program", 127)
        self.check("no-such-program-on-the-path", 127)
        self.check(str(ROOM / "no folder" / "no-program"), 127)

    def test_not_executable(self):
        text, folder = ROOM / "not-executable", ROOM / "not-a-program"
        text.write_text("#!/bin/sh\n")
        text.chmod(0o644)
        folder.mkdir()
        self.check(str(text), 126)
        self.check(str(folder), 126)
        noise = ROOM / "noise-program"
        noise.write_bytes(b"\x7fELF" + RANDOM.randbytes(200))
        noise.chmod(0o755)
        self.check(str(noise), 126)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    shutil.rmtree(ROOM)
    sys.exit(not result.wasSuccessful())
