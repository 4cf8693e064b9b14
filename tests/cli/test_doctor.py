"""`autoamp doctor`: its findings for a machine, an environment and programs that are made here, each wrong in one
way."""
import os
import random
import re
import shutil
import struct
import subprocess
import unittest

from case import PLAIN, PROGRAMS, Case


class Doctor(Case):
    def doctor(self, *command, status=0, **variables):
        result = self.autoamp("doctor", "--", *command, **variables) if command else self.autoamp("doctor", **variables)
        self.assertEqual(result.returncode, status, result.stderr)
        if not status:
            self.assertEqual(result.stderr, "")
        self.assertRegex(result.stdout, r"\nnext: \S[^\n]*\n\Z")
        return result.stdout

    def copy(self, program, name="copy", **edits):
        """A copy of a program with replaced bytes: OFFSET=BYTES, or OLD=NEW of the same length."""
        path = self.here / name
        data = bytearray(program.read_bytes())
        for key, value in edits.items():
            at = int(key[1:]) if key[1:].isdigit() else data.index(key.encode())
            data[at:at + len(value)] = value
        path.write_bytes(data)
        path.chmod(0o755)
        return path

    def replaced(self, program, old, new, name="copy"):
        path = self.copy(program, name)
        self.assertIn(old, path.read_bytes())
        path.write_bytes(path.read_bytes().replace(old, new.ljust(len(old), b"\0")))
        return path


class Machine(Doctor):
    def test_no_driver(self):
        text = self.doctor(LD_LIBRARY_PATH=str(self.here))
        self.assertIn("libcuda.so.1 is not found", text)
        self.assertRegex(text, r"\n  no +a driver that loads autoamp's kernels .*emulated")
        self.assertRegex(text, r"glibc 2\.\d+\n")
        self.assertRegex(text, r"\n  yes +Linux x86-64\n")
        self.assertRegex(text, r"\n  kernels +for driver (525|580) or newer: (sm_\d+, \d+ bytes; )+PTX, compute_80, \d+ bytes\n")

    def test_drivers_and_gpus(self):
        driver = {"LD_LIBRARY_PATH": str(self.root / "driver")}
        text = self.doctor(**driver, FAKE_DEVICES="2")
        for words in (r"\n  driver +libcuda\.so\.1, CUDA 13\.0\n", r"\n  GPU +NVIDIA H100, sm_90\n  GPU +GPU of no name, sm_90\n",
                      r"\n  yes +a driver that loads", r"\n  yes +kernels for NVIDIA H100: sm_90, \d+ bytes\n", r"\n  yes +float16 on NVIDIA H100\n", r"\n  yes +bfloat16 and TF32 on NVIDIA H100\n"):
            self.assertRegex(text, words)
        for variables, words in (({"FAKE_VERSION": "11080"}, r"\n  no +a driver .*driver_too_old"),
                                 ({"FAKE_VERSION": "11080"}, r"\n  no +kernels for .*: sm_90, \d+ bytes: the driver is too old for them\n"),
                                 ({"FAKE_CAPABILITY": "87"}, r"\n  yes +kernels for .*: sm_86, "),
                                 ({"FAKE_CAPABILITY": "130"}, r"\n  yes +kernels for .*: PTX, compute_80, "),
                                 ({"FAKE_CAPABILITY": "75"}, r"\n  yes +float16 on .*\n  no +bfloat16 and TF32 on .*gpu_too_old"),
                                 ({"FAKE_CAPABILITY": "70"}, r"\n  no +float16 on .*gpu_too_old"),
                                 ({"FAKE_DEVICES": "0"}, r"\n  GPU +none\n")):
            self.assertRegex(self.doctor(**driver | {"FAKE_DEVICES": "1"} | variables), words)
        self.assertRegex(self.doctor(**driver), r"\n  GPU +none: cuInit returns 100\n")
        shutil.copy(PROGRAMS / "libfake_core.so", self.root / "driver/libcuda.so.1")
        self.assertRegex(self.doctor(**driver), r"\n  GPU +none: libcuda\.so\.1 is not a driver\n")

    def test_libraries_that_the_loader_finds(self):
        folder = self.root / "tools/emulated"
        shutil.copy(PROGRAMS / "libcublas.so.12", folder)
        text = self.doctor(LD_LIBRARY_PATH=str(folder))
        self.assertRegex(text, rf"\n  library +libcublas\.so\.12 version unknown  {folder}/libcublas\.so\.12\n")
        self.assertRegex(text, r"\n  yes +cuBLAS of CUDA 12 or 13")
        build = os.path.dirname(os.environ["AUTOAMP"])
        self.assertRegex(self.doctor(LD_LIBRARY_PATH=f"{build}/emulated"),
                         rf"\n  library +libcublas\.so\.13 13\.\d+\.\d+  {build}/emulated/libcublas\.so\.13\n")
        self.assertRegex(self.doctor(LD_LIBRARY_PATH=f"{build}/emulated"),
                         rf"\n  library +libcudnn\.so\.9 9\.\d+\.\d+  {build}/emulated/libcudnn\.so\.9\n(.*\n)+  yes +cuDNN 9 ")

    def test_installation(self):
        core = self.root / "inject/libautoamp-core.so"
        self.assertRegex(self.doctor(), rf"\n  core +{core}: it loads\n")
        whole = core.read_bytes()
        for content, words in ((whole[:3000], "signal"), (b"no library", "invalid ELF header|too short"), (None, "it is missing")):
            core.unlink()
            if content is not None:
                core.write_bytes(content)
            self.assertRegex(self.doctor(), rf"\n  core +{core}: .*({words})")
            self.assertNotIn("it loads", self.doctor())
            core.touch()
        (self.root / "inject/libautoamp.so").unlink()
        self.assertRegex(self.doctor(), r"\n  front +libautoamp.so is neither in ")

    def test_core_of_another_version(self):
        shutil.copy(PROGRAMS / "libfake_driver.so", self.root / "inject/libautoamp-core.so")
        self.assertIn("it has another version than libautoamp.so", self.doctor())

    def test_traces(self):
        self.assertRegex(self.doctor(), rf"\n  traces +{self.here}/.local/state/autoamp/%e.%t.%p.aat\n +./%e.%p.aat\n")
        self.assertFalse((self.here / ".local").exists())
        self.assertEqual(os.listdir(self.here), [])
        (self.here / "file").write_text("")
        for variables, words in (({"AUTOAMP_DIR": f"{self.here}/file"}, "Not a directory"), ({"AUTOAMP_DIR": "/proc/x"}, "/proc/x"),
                                 ({"HOME": ""}, "unknown folder")):
            self.assertRegex(self.doctor(**variables), rf"\n  traces .*{words}")
        self.assertRegex(self.doctor(status=2, AUTOAMP_TRACE_FILE="%z"), r"\n  AUTOAMP_TRACE_FILE=%z +unknown % ")

    def test_environment(self):
        self.assertRegex(self.doctor(), r"\nenvironment\n  nothing set +defaults apply\n")
        text = self.doctor(AUTOAMP_LEVEL="O0", AUTOAMP_DTYPE="bf16", CUDA_INJECTION64_PATH="/x.so", NVTX_INJECTION64_PATH="/y.so",
                           LD_PRELOAD="libm.so.6", NVIDIA_TF32_OVERRIDE="0")
        for words in (r"AUTOAMP_LEVEL=O0 +valid", r"AUTOAMP_DTYPE=bf16 +valid", r"CUDA_INJECTION64_PATH=/x.so +another tool",
                      r"NVTX_INJECTION64_PATH=/y.so +another tool", r"LD_PRELOAD=libm.so.6 +", r"NVIDIA_TF32_OVERRIDE=0 +TF32 is disabled"):
            self.assertRegex(text, r"\n  " + words)
        text = self.doctor(status=2, AUTOAMP_LEVEL="O9", AUTOAMP_MEMORY="1G", AUTOAMP_LEVLE="O1")
        self.assertRegex(text, r"\n  AUTOAMP_LEVEL=O9 +bad value; accepted: O0, O1, O2, O3, auto, OD\n")
        self.assertRegex(text, r"\n  AUTOAMP_LEVLE=O1 +no such variable; did you mean AUTOAMP_LEVEL\?\n")
        self.assertRegex(text, r"\n  AUTOAMP_MEMORY=1G +valid\n")
        self.assertIn("help env\n", text)
        text = self.doctor(status=2, AUTOAMP_CUSTOM_WHITE_LIST="mm", AUTOAMP_CUSTOM_BLACK_LIST="mm")
        self.assertRegex(text, r"\n  AUTOAMP_CUSTOM_BLACK_LIST=mm +'torch:mm' is also in AUTOAMP_CUSTOM_WHITE_LIST\n")
        for variables in ({"LISTS": "paddle", "LEVEL": "O2"}, {"LISTS": "mindspore", "CUSTOM_BLACK_LIST": "MatMul"},
                          {"LISTS": "paddle", "CUSTOM_WHITE_LIST": "conv3d_transpose"}, {"STRATEGY": "library", "SCALING": "off"}):
            self.assertNotRegex(self.doctor(**{"AUTOAMP_" + name: value for name, value in variables.items()}), "no op|not a level|scale float16")
        file = self.here / "paddle.toml"
        file.write_text('lists = "paddle"\n')
        self.assertRegex(self.doctor(AUTOAMP_CONFIG=str(file), AUTOAMP_LEVEL="O2"), r"\n  AUTOAMP_LEVEL=O2 +valid\n")
        file.write_text("levl = 1\n")
        (self.here / ".config/autoamp").mkdir(parents=True)
        file.rename(self.here / ".config/autoamp/autoamp.toml")
        text = self.doctor(status=2)
        self.assertRegex(text, r"\n  together +\S*autoamp.toml:1:1: levl")
        self.assertNotIn("nothing set", text)
        (self.here / ".config/autoamp/autoamp.toml").unlink()
        self.assertRegex(self.doctor(NVTX_INJECTION64_PATH=str(self.root / "inject/libautoamp.so")), r"libautoamp.so +autoamp's own\n")


class Programs(Doctor):
    def section(self, *command, **variables):
        text = self.doctor(*command, **variables)
        return text[text.index("\n" + str(command[0]) + "\n"):]

    def test_programs(self):
        privileged = self.copy(PLAIN, "privileged")
        privileged.chmod(0o4755)
        musl = self.replaced(PLAIN, b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1", "musl")
        loaderless = self.replaced(PLAIN, b"/lib64/ld-linux-x86-64.so.2", b"/lib65/ld-linux-x86-64.so.2", "loaderless")
        aarch64 = self.copy(PLAIN, "aarch64", _18=struct.pack("H", 183))
        small = self.copy(PLAIN, "small", _4=b"\1", _18=struct.pack("H", 3))
        lost = self.copy(PROGRAMS / "plain_cuda12", "lost")
        cuda11 = self.replaced(PROGRAMS / "plain_cuda12", b"libcublas.so.12", b"libcublas.so.11", "cuda11")
        shutil.copy(PROGRAMS / "libcublas.so.12", self.here / "libcublas.so.11")
        bare = self.copy(PROGRAMS / "plain_static_cublas", "bare", _40=bytes(8), _60=bytes(4))  # no section table
        for program, can, wanted in (
                (PLAIN, True, r"\n  needs +libc\.so\.6: /.*\n  needs +ld-linux-x86-64\.so\.2: /.*\n(.*\n)*.*loads later, .*; neither is linked\n.* a CPU BLAS that it loads later, .* \(run --device cpu\)\n"),
                (PROGRAMS / "plain_static", False, "statically linked"), (privileged, False, "set-user-id"),
                (musl, False, r"uses the loader /lib/ld-musl-x86_64\.so\.1 instead"), (loaderless, False, "loader .* is missing"),
                (aarch64, False, r"program +.*, aarch64\n.*not a 64-bit x86 program"), (small, False, r", 32-bit x86\n"),
                (PROGRAMS / "libcublas.so.12", False, "a shared library"), (lost, False, r"run it: libcublas\.so\.12 is not found\n(.*\n)*next: ldd \./lost\n"),
                (PROGRAMS / "plain_cuda12", True,
                 r"needs +libcublas\.so\.12: /.*\n(.*\n)*.*contains +device code\n.*can +intercept its cuBLAS calls\n"
                 r".*cannot +intercept products computed by its own kernels.*\n.*needs libcublas\.so\.12, but the emulated device has libcublas\.so\.13\n"
                 r"next: on a machine with an NVIDIA GPU: .*run -- .*plain_cuda12\n"),
                (PROGRAMS / "plain_cufft", True, r"emulated device: \S+ needs libcufft\.so\.12, which has no emulated version\n"
                                                 r"next: on a machine with an NVIDIA GPU: "),
                (PROGRAMS / "plain_spectrum", True, r"needs +libspectrum\.so: /(.*\n)*  needs +libcufft\.so\.12: /(.*\n)*"
                                                    r".*cannot +emulate libcufft\.so\.12, which one of its libraries needs\nnext: .*--device emulated"),
                (PROGRAMS / "plain_static_cublas", False, r'static cuBLAS \(text found: "CUBLASLT_LOG_LEVEL"\)\n.*cannot be intercepted'),
                (bare, False, r'static cuBLAS \(text found: "CUBLASLT_LOG_LEVEL"\)\n.*cannot be intercepted'),
                (PROGRAMS / "plain_static_cudart", True, r'static CUDA runtime \(.*"/cudart\.shm\."\)(.*\n)*.*cannot +run it on the emulated'),
                (PROGRAMS / "plain_opens", True, r'contains +a cuBLAS or cuDNN library name; programs that open the library with dlopen contain it '
                                                 r'\(text found: "libcublas\.so"\)\n.*a cuBLAS or cuDNN that it opens with dlopen\n'),
                (PROGRAMS / "plain_cutlass", True, r'CUTLASS kernels, .*"7cutlass"\)\n(.*\n)*.*cannot +intercept products computed by its own kernels'),
                (PROGRAMS / "plain_triton", True, r'Triton kernels, .*"triton_"\)\n(.*\n)*.*cannot +intercept products computed by its own kernels'),
                (PROGRAMS / "plain_plugin", True, r'static cuBLAS in libfake_plugin\.so \(.*"CUBLAS_LOGINFO_DBG"\)\n(.*\n)*'
                                                  r'.*cannot +intercept calls of the static cuBLAS in libfake_plugin\.so\n')):
            with self.subTest(program.name):
                text = self.section(program)
                self.assertRegex(text, wanted)
                self.assertEqual("autoamp can " in text, can, text)
        self.assertRegex(self.section(cuda11, LD_LIBRARY_PATH=str(self.here)), 
                         r"cannot +intercept its cuBLAS calls: it needs libcublas\.so\.11; supported versions are 12 and 13")
        for size in (300, PLAIN.stat().st_size // 4):
            damaged = self.copy(PLAIN, "damaged")
            os.truncate(damaged, size)
            text = self.section(damaged)
            self.assertRegex(text, r"cannot +intercept its calls: \./damaged is damaged: the file ends within ")
            self.assertNotIn("autoamp can ", text)
        library = self.root / "tools/emulated/libcudnn.so.9"
        library.rename(self.here / "moved")
        (self.root / "build.ninja").touch()
        self.assertRegex(self.section(PLAIN), rf"libcudnn\.so\.9 is missing in (.*\n)*next: ninja -C {self.root} emulated\n")
        (self.root / "build.ninja").unlink()
        (self.here / "moved").rename(library)
        self.assertRegex(self.section(PROGRAMS / "plain_opens", AUTOAMP_HOOK_DLSYM="0"), "cannot +intercept .*AUTOAMP_HOOK_DLSYM=0")
        self.assertRegex(self.section(PLAIN, AUTOAMP_ENABLED="0"), "cannot +do anything: AUTOAMP_ENABLED=0")
        self.assertRegex(self.section(PLAIN, AUTOAMP_LEVEL="O0"), "cannot +change a call: level O0")
        repaired = self.replaced(PROGRAMS / "plain_cuda12", b"libcublas.so.12", b"libcudnn-1.so.8", "repaired")
        shutil.copy(PROGRAMS / "libcublas.so.12", self.here / "libcudnn-1.so.8")
        self.assertRegex(self.section(repaired, LD_LIBRARY_PATH=str(self.here)), r"intercept its cuDNN calls \(cuDNN 8: only legacy calls\)")
        (self.root / "inject/libautoamp-core.so").unlink()
        self.assertRegex(self.section(PLAIN), "cannot +do anything: its core does not load: it is missing")

    def test_capabilities(self):
        program = self.copy(PLAIN)
        try:
            os.setxattr(program, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
        except OSError:
            self.skipTest("may not give capabilities")
        self.assertIn("has capabilities", self.section(program))

    def test_scripts(self):
        for name, line in (("a.sh", f"#!{PLAIN} -x"), ("b", "#! /usr/bin/env plain")):
            (self.here / name).write_text(line + "\n")
            (self.here / name).chmod(0o755)
            text = self.section(f"./{name}", PATH=f"{PROGRAMS}:{self.environment['PATH']}")
            self.assertRegex(text, rf"\n  script +\./{name}: .*\n  program +{PLAIN}, 64-bit x86\n")
        self.assertIn(f"run --device emulated -- ./a.sh 'two words' -q\n", self.doctor("./a.sh", "two words", "-q"))

    def test_the_next_command(self):
        gpu = {"LD_LIBRARY_PATH": str(self.root / "driver"), "FAKE_DEVICES": "1"}
        self.assertTrue(self.doctor(PLAIN, **gpu).endswith(f"run -- {PLAIN}\n"))
        self.assertTrue(self.doctor(PLAIN).endswith(f"run --device emulated -- {PLAIN}\n"))
        text = self.doctor(PLAIN)
        self.assertRegex(text, r"\n  found +no call that autoamp intercepts; if a run records no call either, ")
        command = re.search(r"\nnext: (.*)\n", text).group(1)
        result = subprocess.run(command, shell=True, cwd=self.here, env=self.environment, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, "library loaded\n"), result.stderr)
        self.assertTrue(self.doctor(PROGRAMS / "plain_static_cudart").endswith(f"GPU: autoamp run -- {PROGRAMS}/plain_static_cudart\n".replace(
            "autoamp", re.search(r"\nnext: (.*) run", text).group(1))))
        self.assertTrue(self.doctor().endswith("doctor -- APP\n"))

    def test_it_runs_nothing(self):
        script = self.here / "script"
        script.write_text("#!/bin/sh\ntouch ran\n")
        script.chmod(0o755)
        self.doctor("./script")
        plugin = PROGRAMS / "plain_plugin"
        self.doctor(plugin, LD_BIND_NOW="1", LD_WARN="1", LD_VERBOSE="1")
        self.assertEqual(os.listdir(self.here), ["script"])
        subprocess.run([plugin], cwd=self.here, capture_output=True)
        self.assertIn("ran", os.listdir(self.here))  # so it would show

    def test_what_is_no_program(self):
        (self.here / "text").write_text("words\n")
        (self.here / "orphan").write_text("#!/no/such/interpreter\n")
        (self.here / "empty").write_text("")
        os.mkfifo(self.here / "fifo")
        (self.here / "cut").write_bytes(PLAIN.read_bytes()[:20])
        for name, words in (("./missing", "not found"), ("no-such-program", "not found"), ("./", "a folder"), ("./text", "neither"),
                            ("./empty", "neither"), ("./orphan", "/no/such/interpreter"), ("./fifo", "not a regular file"),
                            ("/dev/null", "not a regular file"), ("./cut", "ends within its ELF header")):
            self.refused(self.autoamp("doctor", "--", name), 2, name, words)
        if os.geteuid():
            (self.here / "text").chmod(0)
            self.refused(self.autoamp("doctor", "--", "./text"), 2, "denied")
        self.refused(self.autoamp("doctor", "--formta"), 2, "--formta")
        self.refused(self.autoamp("doctor", "--format", "json", "--", PLAIN), 2, "--format")

    def test_damaged_files(self):
        generator = random.Random(1)
        whole = PLAIN.read_bytes()
        path = self.here / "damaged"
        for number in range(30):
            data = bytearray(whole[:generator.randrange(64, len(whole))] if number % 2 else whole)
            for _ in range(generator.choice((1, 10, 100))):
                data[generator.randrange(4, min(len(data), 4000 if number % 3 else len(data)))] = generator.randrange(256)
            path.write_bytes(data)
            self.assertIn(self.autoamp("doctor", "--", path).returncode, (0, 2))


unittest.main()
