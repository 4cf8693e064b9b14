"""A folder with the layout of a build tree: a copy of the command-line program and stand-ins for the libraries."""
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import termios
import threading
import unittest

PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
TRACED, PLAIN = PROGRAMS / "traced", PROGRAMS / "plain"
EMULATED_LIBRARIES = [f"lib{name}" for name in "cuda.so.1 cudart.so.13 cublas.so.13 cublasLt.so.13 cudnn.so.9 cudnn_adv.so.9 cudnn_cnn.so.9 "
                      "cudnn_graph.so.9 cudnn_ops.so.9 cupti.so.13".split()]
EMULATED = "EMULATED: precision and decisions are real, times are not"


class Case(unittest.TestCase):
    folder = "tree"
    rows = 24  # of terminals

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name) / self.folder
        self.here = pathlib.Path(place.name) / "work"
        for folder in (self.root / "tools/emulated", self.root / "inject", self.here, self.root / "driver"):
            folder.mkdir(parents=True)
        shutil.copy(os.environ["AUTOAMP"], self.root / "tools/autoamp")
        shutil.copy(PROGRAMS / "libfake_autoamp.so", self.root / "inject/libautoamp.so")
        shutil.copy(PROGRAMS / "libfake_core.so", self.root / "inject/libautoamp-core.so")
        for name in EMULATED_LIBRARIES:
            shutil.copy(PROGRAMS / "fake_cudart.so", self.root / "tools/emulated" / name)
        shutil.copy(PROGRAMS / "libfake_driver.so", self.root / "driver/libcuda.so.1")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.here), "LC_ALL": "C.UTF-8"}

    def autoamp(self, *arguments, **variables):
        """With COLUMNS: on a terminal of that width, without colours."""
        if variables.get("COLUMNS"):
            return self.on_terminals(("stdout", "stderr"), *arguments, NO_COLOR="1", **variables)
        return subprocess.run([self.root / "tools/autoamp", *arguments], cwd=self.here, capture_output=True, text=True,
                              errors="replace", env=self.environment | variables, timeout=60)

    def on_terminals(self, streams, *arguments, **variables):
        """The result if the named streams are terminals."""
        terminals = {stream: os.openpty() for stream in streams}
        for _, theirs in terminals.values():
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, 80, 0, 0))
        done = subprocess.Popen([self.root / "tools/autoamp", *arguments], cwd=self.here, env=self.environment | variables,
                                **{stream: theirs for stream, (_, theirs) in terminals.items()})
        shown = {"stdout": None, "stderr": None}

        def read(stream, ours):
            text = b""
            try:
                while part := os.read(ours, 4096):
                    text += part
            except OSError:  # the other end is closed
                pass
            shown[stream] = text.decode(errors="replace").replace("\r\n", "\n")
        readers = [threading.Thread(target=read, args=(stream, ours)) for stream, (ours, _) in terminals.items()]
        for _, theirs in terminals.values():
            os.close(theirs)
        for reader in readers:
            reader.start()
        done.wait(timeout=60)
        for reader in readers:
            reader.join()
        for ours, _ in terminals.values():
            os.close(ours)
        return subprocess.CompletedProcess(arguments, done.returncode, shown["stdout"], shown["stderr"])

    def on_a_terminal(self, stream, *arguments, **variables):
        """Exit status, and the output if the named stream (stdout or stderr) is a terminal."""
        result = self.on_terminals((stream,), *arguments, **variables)
        return result.returncode, getattr(result, stream)

    def run_(self, *arguments, **variables):
        return self.autoamp("run", "--device", "cuda", *arguments, **variables)

    def trace(self, scenario, name=None, *arguments):
        name = name or f"{scenario}.aat"
        subprocess.run([TRACED, scenario, *arguments], cwd=self.here, env={"AUTOAMP_TRACE_FILE": name}, timeout=60)
        return name

    def json(self, *arguments):
        result = self.autoamp("report", "--format", "json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def refused(self, result, status, *words):
        """One line of error on stderr, nothing on stdout."""
        self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("autoamp: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
