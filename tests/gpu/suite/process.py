"""Processes that end: each has its own process group, which is killed with all members at a time-out."""
import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile

KILLED = 124  # the exit status of coreutils' timeout
LIBC = ctypes.CDLL(None)  # loaded before any fork
PARENT_DEATH, SUBREAPER = 1, 36  # options of prctl


def run(command, seconds, **keywords):
    """A CompletedProcess with both outputs. They are files: a child that keeps a pipe open cannot delay the end."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        status = wait(start(command, stdout=out, stderr=err, **keywords), seconds)
        for file in (out, err):
            file.seek(0)
        text = err.read()
        return subprocess.CompletedProcess(command, status, out.read(),
                                           text + f"\nout of time after {seconds:.0f} s" if status == KILLED else text)


def start(command, stdin=subprocess.DEVNULL, **keywords):
    """If this process dies, the new one is killed."""
    return subprocess.Popen(command, stdin=stdin, start_new_session=True, text=True, **keywords,
                            preexec_fn=lambda: LIBC.prctl(PARENT_DEATH, signal.SIGKILL))


def wait(process, seconds):
    """The exit status; KILLED after so many seconds."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return KILLED
    finally:
        kill(process)


def kill(process):
    """Also kills members of the group that outlive the process."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def adopt():
    """Makes this process the parent of all descendants whose parent ends."""
    LIBC.prctl(SUBREAPER, 1)


def sweep():
    """Kills all descendants, also those in other groups. Needs adopt()."""
    while children := [int(stat.parent.name) for stat in pathlib.Path("/proc").glob("[0-9]*/stat") if parent(stat) == os.getpid()]:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def parent(stat):
    try:
        return int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):  # it ended
        return 0
