#!/usr/bin/env python3
"""Each example of examples/ runs as its header says. Without a GPU, on the emulated device or on the CPU.

usage: examples.py EXAMPLES TREE TOOLKIT   (TREE: a build folder, or the prefix of an installed tree)
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

examples, tree, toolkit = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
source = examples.parent
is_installed = (tree / "bin/autoamp").exists()
commands = tree / ("bin" if is_installed else "tools")
package = tree / "lib/autoamp/python" if is_installed else source / "tools/python"
emulated = tree / ("lib/autoamp/emulated" if is_installed else "tools/emulated")
numpy_folder = tree / "numpy"  # installed by tools/quickstart
inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOAMP_", "DEVICE", "TRACES"))}
inherited["PATH"] = f"{pathlib.Path(sys.executable).parent}:{inherited['PATH']}"  # torchrun of this Python
MPIRUN_OPTIONS = "--allow-run-as-root --oversubscribe"


class Examples(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        """Compiles the C++ example with the command in its header."""
        room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(room.cleanup)
        cls.room = pathlib.Path(room.name)
        description = cls.room / "autoamp.pc"
        if is_installed:
            shutil.copy(tree / "share/pkgconfig/autoamp.pc", description)
            description.write_text(description.read_text().replace("${pcfiledir}", str(tree / "share/pkgconfig")))
        else:
            description.write_text(f"Name: autoamp\nDescription: a build folder\nVersion: 0\nCflags: -I{source}/inject\n")
        cls.commands = re.findall(r"^//     (.*)$", (examples / "regions/regions.cpp").read_text(), re.M)
        for name, place in (("include", toolkit / "include"), ("lib64", emulated)):  # the packages of PyPI have no libcublas.so
            (cls.room / name).symlink_to(place)
        shutil.copy(examples / "regions/regions.cpp", cls.room)
        subprocess.run(["sh", "-ec", "\n".join(cls.commands[:2])], cwd=cls.room, check=True,
                       env={**inherited, "PKG_CONFIG_PATH": str(cls.room), "CUDA_HOME": str(cls.room)})
        cls.program = cls.room / "regions"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.environment = {**inherited, "PATH": f"{commands}:{inherited['PATH']}", "PYTHONPATH": str(package), "DEVICE": "emulated",
                            "OPENBLAS_NUM_THREADS": "1", "AUTOAMP_DIR": str(self.here / "state"), "AUTOAMP_STRATEGY": "cast",
                            "MPIRUN_OPTIONS": MPIRUN_OPTIONS}

    def run_(self, *command, status=0, **variables):
        result = subprocess.run(command, cwd=self.here, env=self.environment | variables, capture_output=True, text=True, timeout=170)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def rows(self, *traces):
        """The products in the traces, by the region that they were in."""
        rows = json.loads(self.run_("autoamp", "report", "--format", "json", *traces).stdout)["ops"]
        return {row["region"]: (row["decision"], row["dtype_compute"]) for row in rows}

    def test_regions(self):
        shutil.copy(self.program, self.here)
        run, report = (command.replace("autoamp run", "autoamp run --device emulated") for command in self.commands[2:])
        said = self.run_("sh", "-ec", run, AUTOAMP_STRATEGY="auto").stdout
        features, solver = (float(error) for error in re.findall(r"relative error (\S+)\n", said))
        self.assertTrue(1e-3 < features < 5e-3 and solver < 1e-6, said)
        self.assertEqual(self.rows("regions.aat"), {"features": ("lowered", "bfloat16"), "solver": ("kept", "float32")})
        listed = self.run_("sh", "-ec", report).stdout
        self.assertTrue("features" in listed and "solver" in listed, listed)
        bare = self.run_("./regions", LD_LIBRARY_PATH=str(emulated)).stdout
        self.assertLess(max(float(error) for error in re.findall(r"relative error (\S+)\n", bare)), 1e-6)

    def test_python(self):
        paths = [package, numpy_folder] if numpy_folder.exists() else [package]
        paths = os.pathsep.join(map(str, paths))
        if subprocess.run([sys.executable, "-c", "import numpy"], env=inherited | {"PYTHONPATH": paths}, capture_output=True).returncode:
            self.skipTest("NumPy is not installed")
        script = examples / "python/train.py"
        said = self.run_("autoamp", "run", "--device", "cpu", "-o", "train.aat", "--", sys.executable, script, PYTHONPATH=paths).stdout
        losses, scales = zip(*((float(loss), float(scale)) for loss, scale in re.findall(r"loss (\S+)  scale (\S+)\n", said)))
        self.assertLess(losses[-1], losses[0] / 4, said)
        self.assertEqual((scales[0], scales[-1]), (65536, 262144), said)  # grows twice
        self.assertEqual(set(self.rows("train.aat")), {"forward", "backward"})
        alone = self.run_(sys.executable, script, PYTHONPATH=paths)
        self.assertIn("autocast(\"cpu\") has no effect", alone.stderr)

    def test_tutorial(self):
        """The commands of the tutorial after the build of llama.cpp, and what they print."""
        page = (source / "docs/tutorial.md").read_text()
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.partition("\n## 3.")[2], re.M | re.S)
        script = "".join(text for kind, text in blocks if kind == "sh")
        self.assertIn("autoamp bisect", script)
        if not all(map(importlib.util.find_spec, ("llama_cpp", "gguf"))):
            self.skipTest("llama-cpp-python is not installed")
        shutil.copytree(examples / "llama", self.here, dirs_exist_ok=True)
        del self.environment["AUTOAMP_STRATEGY"]
        self.run_("python3", "make_model.py")
        result = self.run_("sh", "-ec", script)
        printed = (result.stdout + result.stderr).splitlines()
        for kind, text in blocks:
            if kind != "sh":
                self.assertEqual([line for line in text.splitlines() if line not in printed], [])

    def test_mpi(self):
        if not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        result = self.run_(examples / "mpi/job.sh", "2", self.program, TRACES="traces")
        self.assertEqual(sorted(path.name for path in (self.here / "traces").iterdir()), ["0.aat", "1.aat"])
        self.assertEqual(result.stderr.count("autoamp: lowered "), 1, result.stderr)  # rank 0 only
        self.assertRegex(result.stdout, r"(?m)\bcalls\b.*\brank$|^ *rank\b.*\bcalls\b")
        groups = json.loads(self.run_("autoamp", "report", "--by", "rank", "--format", "json", "traces").stdout)["groups"]
        self.assertEqual(sorted((group["rank"], group["calls"]) for group in groups), [("0", 2), ("1", 2)])

    def launcher(self):
        """A launcher that starts workers like torchrun: with the variable RANK, in sessions of their own."""
        stand_in = self.here / "bin/torchrun"
        stand_in.parent.mkdir()
        stand_in.write_text(f"#!{sys.executable}\nimport os, subprocess, sys\n_, standalone, option, count, *command = sys.argv\n"
                            "assert (standalone, option) == ('--standalone', '--nproc_per_node')\n"
                            "workers = [subprocess.Popen(command, start_new_session=True, env=os.environ | {'RANK': str(rank)})"
                            " for rank in range(int(count))]\nsys.exit(max(worker.wait() for worker in workers))\n")
        stand_in.chmod(0o755)
        return f"{stand_in.parent}:{self.environment['PATH']}"

    def test_torchrun_job(self):
        result = self.run_(examples / "torchrun/job.sh", "2", self.program, PATH=self.launcher(), TRACES="traces")
        self.assertEqual(sorted(path.name for path in (self.here / "traces").iterdir()), ["0.aat", "1.aat"])
        self.assertIn("lowered 2 of 4 ", result.stderr)
        self.assertIn("2 processes", result.stdout)

    def test_a_second_job_has_its_own_traces(self):
        path = self.launcher()
        for job in range(2):
            result = self.run_(examples / "torchrun/job.sh", "2", self.program, PATH=path)
            self.assertIn("2 processes", result.stdout)
            time.sleep(1)
        self.assertEqual(len(list((self.here / "traces").iterdir())), 2)

    def test_torchrun(self):
        script = examples / "torchrun/ddp.py"
        compile(script.read_text(), script, "exec")
        if not importlib.util.find_spec("torch") or not shutil.which("torchrun", path=inherited["PATH"]):
            self.skipTest("PyTorch is not installed: ddp.py was compiled, and job.sh ran with a stand-in for torchrun")
        said = self.run_(examples / "torchrun/job.sh", "2", script, DEVICE="cpu", CUDA_VISIBLE_DEVICES="", TRACES="traces").stdout
        losses = [float(loss) for loss in re.findall(r"loss (\S+)  scale", said)]
        self.assertLess(losses[-1], losses[0], said)
        self.assertEqual(sorted(path.name for path in (self.here / "traces").iterdir()), ["0.aat", "1.aat"])

    def test_container(self):
        entry, traces = examples / "container/entrypoint.sh", self.here / "traces"
        containerfile = (examples / "container/Containerfile").read_text()
        self.assertIn('ENTRYPOINT ["entrypoint.sh"]', containerfile)
        self.assertTrue(os.access(entry, os.X_OK) and "COPY entrypoint.sh app /usr/local/bin/" in containerfile)
        result = self.run_(entry, self.program, TRACES=str(traces))
        self.assertIn("autoamp: lowered 1 of 2 ", result.stderr)
        trace, = traces.iterdir()
        self.assertEqual(self.rows(trace)["features"], ("lowered", "bfloat16"))
        self.assertRegex(trace.name, rf"^regions\.{re.escape(os.uname().nodename)}\.\d+\.aat$")
        self.run_(entry, "sh", "-c", "exit 7", TRACES=str(traces), status=7)
        unchanged = self.run_(entry, "sh", "-c", "echo \"${LD_PRELOAD:-none}\"", AUTOAMP_ENABLED="0")
        self.assertEqual((unchanged.stdout, unchanged.stderr), ("none\n", ""))

    def test_container_stops(self):
        """A signal to the entry point, which `docker stop` sends, reaches the command."""
        command = "trap 'echo stopped; exit 3' TERM; echo started; for i in $(seq 100); do sleep 0.05; done; echo finished"
        entry = subprocess.Popen([examples / "container/entrypoint.sh", "sh", "-c", command], cwd=self.here, text=True,
                                 env=self.environment | {"TRACES": "traces"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(entry.stdout.close)
        self.assertEqual(entry.stdout.readline(), "started\n")
        entry.send_signal(signal.SIGTERM)
        self.assertEqual((entry.stdout.read(), entry.wait(timeout=60)), ("stopped\n", 3))

    def test_gate(self):
        gate = examples / "ci/gate.sh"
        self.run_("autoamp", "run", "--device", "emulated", "--audit", "1", "-o", "baseline.aat", "--", self.program)
        rounded = self.run_(gate, "baseline.aat", self.program, status=1, MAX_ERROR="1e-3")  # the region asks for bfloat16
        self.assertRegex(rounded.stderr, r"autoamp: diff: error [12]\.\d+e-03, more than 0\.001\n")
        self.assertIn("Gate `--fail-if-error 1e-3`: failed", rounded.stdout.replace("0.001", "1e-3"))
        other = self.run_(gate, "baseline.aat", self.program, AUTOAMP_STRATEGY="auto", MAX_ERROR="5e-3")  # one of two calls differs
        self.assertIn(r"| kept float32 \(region_disabled\), lowered bfloat16 \(white_list\) "
                      r"| kept float32 \(region_disabled\), lowered tf32 \(white_list\) |", other.stdout)
        self.run_(gate, "baseline.aat", self.program, MAX_ERROR="5e-3")
        self.run_(gate, "baseline.aat", self.program)
        missing = self.run_(gate, "missing.aat", "touch", "started", status=2)
        self.assertEqual((missing.stderr.count("\n"), "no baseline missing.aat" in missing.stderr), (1, True))
        self.assertFalse((self.here / "started").exists())
        failed = self.run_(gate, "baseline.aat", "sh", "-c", "exit 1", status=1)
        self.assertIn("gate.sh: the program failed with status 1; nothing was compared\n", failed.stderr)

    def test_usage(self):
        for script in ("mpi/job.sh", "torchrun/job.sh", "ci/gate.sh"):
            self.assertIn(f"usage: {pathlib.Path(script).name} ", self.run_(examples / script, status=2).stderr)

    def test_gate_of_times(self):
        """Without DEVICE=emulated, the gate compares times, which emulated runs do not have."""
        wrapper = self.here / "bin/autoamp"
        wrapper.parent.mkdir()
        wrapper.write_text(f"#!/bin/sh\n[ \"$1\" != run ] || {{ shift 3; set -- run --device emulated \"$@\"; }}\nexec '{commands}/autoamp' \"$@\"\n")
        wrapper.chmod(0o755)
        path = f"{wrapper.parent}:{self.environment['PATH']}"
        self.run_("autoamp", "run", "--device", "emulated", "--audit", "1", "-o", "baseline.aat", "--", self.program)
        refused = self.run_(examples / "ci/gate.sh", "baseline.aat", self.program, status=2, PATH=path, DEVICE="cuda")
        self.assertIn("--fail-if-slower: times of emulated runs cannot be compared", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
