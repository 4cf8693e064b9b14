"""The receipt on stderr: lowered calls, kept calls and the reasons, or the reason why nothing was intercepted."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from case import EMULATED, PLAIN, PROGRAMS, TRACED, Case


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.05)


def is_written(trace):
    """True while the process that writes it has not ended."""
    return struct.unpack_from("<I", trace.read_bytes().ljust(128, b"\0"), 72)[0] == 0


class Receipt(Case):
    def receipt(self, *arguments, **variables):
        return self.run_(*arguments, **variables).stderr

    def test_says_what_happened_and_what_to_type(self):
        text = self.receipt("--", TRACED, "mixed")
        self.assertTrue(text.startswith(EMULATED + "\n"))
        self.assertIn("lowered 1,000 of 3,000 fp32 products (99.3 % of their FLOP) to float16", text)
        self.assertIn("kept 2,000: too_small 1,600 (too little work: the fixed time of a conversion exceeds that of the product), "
                      "not_profitable 400 (the cost model expects no gain on this device)\n", text)
        self.assertIn("1 nonfinite_input", text)
        self.assertNotIn("1 init", text)
        # The three answers are those of the report: where the time goes, what was gained, what to do.
        command = re.search(r"\nautoamp: report: (.*)\n", text).group(1)
        result = subprocess.run(command, shell=True, cwd=self.here, env=self.environment, capture_output=True, text=True, check=True)
        time = re.search(r"\nautoamp: time \(model\) in fp32 products: (\S+ \S+) \(lowered (\S+ \S+), kept (\S+ \S+)\)\n", text)
        self.assertTrue(time, text)
        self.assertRegex(result.stdout, r"time \(model\) .*\n  lowered to float16 +{1} .*\n  kept +{2} .*\n  all +{0} ".format(*map(re.escape, time.groups())))
        for line in re.findall(r"\nautoamp: ((?:most time|advice): .*)", text):
            self.assertIn("\n" + line + "\n", result.stdout)

    def test_says_that_scaler_events_were_not_recorded(self):
        self.assertIn("autoamp: scaling: scaler events were not recorded: the device cannot map host memory\n",
                      self.receipt("--", TRACED, "unmapped"))
        self.assertNotIn("scaling: ", self.receipt("--", TRACED, "many", "3"))

    def test_gradient_scalers(self):
        text = self.receipt("--", TRACED, "gradient", "130")
        self.assertRegex(text, r"\nautoamp: scaler torch#0: scale 2\^35; 6 of 130 steps skipped: 1-2, 6 and 3 more \(")
        text = self.receipt("--", TRACED, "findings")  # without a call
        self.assertRegex(text, r"\nautoamp: scaler often#0: .*\n(.*\n)+autoamp: 1 trace in \S+\n.*no cuBLAS or cuDNN call was intercepted")

    def test_a_real_device_is_not_called_emulated(self):
        text = self.receipt("--", TRACED, "real")
        self.assertNotIn("EMULATED", text)
        self.assertTrue(text.startswith("autoamp: lowered"))
        self.assertIn("autoamp: gain (model): fp32 products: 9.00 ms unchanged, 7.50 ms as run (1.20x), 7.50 ms at best (1.20x)\n", text)

    def test_observing_says_what_would_be(self):
        self.assertIn("O1 would lower 10 of 40 fp32 products", self.receipt("--level", "O0", "--", TRACED, "observed"))

    def test_children_are_found_and_strangers_are_not(self):
        self.trace("faults", f"{TRACED.name}.1.aat")  # older than the run
        text = self.receipt("--", "sh", "-c", f"'{TRACED}' processes; true")
        self.assertIn("lowered 2,000 of 6,000", text)
        self.assertIn("2 traces", text)
        other = subprocess.Popen(["sh", "-c", f"sleep 0.3; '{TRACED}' low; sleep 3"], cwd=self.here,
                                 env={"AUTOAMP_TRACE_FILE": "%e.%p.aat", "PATH": os.environ["PATH"]})
        text = self.receipt("--", "sh", "-c", f"sleep 1; '{TRACED}' mixed")
        other.kill()
        other.wait()
        self.assertIn("lowered 1,000 of 3,000", text)
        self.assertIn("1 trace in", text)

    def test_two_runs_at_the_same_time_count_their_own_calls(self):
        go = self.here / "go"
        script = f"'{TRACED}' SCENARIO & wait; while [ ! -e '{go}' ]; do sleep 0.05; done"  # an orphan among them
        for variables in ({}, {"AUTOAMP_TRACE_FILE": "t.aat"}):
            runs = [subprocess.Popen([self.root / "tools/autoamp", "run", "--device", "cuda", "--", "sh", "-c",
                                      script.replace("SCENARIO", scenario)], cwd=self.here, env=self.environment | variables,
                                     stderr=subprocess.PIPE, text=True) for scenario in ("observed", "low", "mixed")]
            wait_for(lambda: len(list(self.here.glob("*.aat"))) == 3 and not any(map(is_written, self.here.glob("*.aat"))))
            go.touch()
            texts = [run.communicate(timeout=60)[1] for run in runs]
            for text, calls in zip(texts, ("10 of 40", "7 calls", "lowered 1,000 of 3,000")):
                self.assertIn(calls, text)
                self.assertIn("1 trace in", text)
                command = re.search(r"report: (.*)\n", text).group(1)
                reported = subprocess.run(command, shell=True, cwd=self.here, env=self.environment, capture_output=True, text=True)
                self.assertNotIn("processes", reported.stdout)
            go.unlink()
            for file in self.here.glob("*.aat"):
                file.unlink()

    def test_a_run_inside_a_run(self):
        inner = f"'{self.root}/tools/autoamp' run --device cuda -- '{TRACED}'"
        text = self.receipt("--", "sh", "-c", f"{inner} low; {inner} observed; '{TRACED}' mixed")
        self.assertIn("7 calls", text)  # each inner run counts its own calls
        self.assertIn("would lower 10 of 40", text)
        self.assertIn("lowered 1,000 of 3,040", text)  # the outer one counts all three
        self.assertIn("3 traces in", text)

    def test_a_program_that_changes_its_folder(self):
        os.mkdir(self.here / "sub")
        self.assertIn("lowered 1,000", self.receipt("--", "sh", "-c", f"cd sub; '{TRACED}'; true"))

    def test_patterns(self):
        text = self.receipt("-o", "out/%q{NAME}.%%.%p/[x] %n.aat", "--", "sh", "-c", f"mkdir -p out/n.%.$$; exec '{TRACED}'",
                            NAME="n")
        self.assertIn("lowered 1,000", text)
        text = self.receipt("-o", "y.aat", "--", TRACED, "processes")
        self.assertRegex(text, r"2 traces in \./y\.aat\n")

    def test_failures_and_death(self):
        text = self.receipt("--", TRACED, "faults")
        self.assertIn("2 calls fell back to fp32: engine_failed: cublasLtMatmul status 13", text)
        self.assertIn("overflow", text)
        head = "scaling: try AUTOAMP_DTYPE=bfloat16, or in a file of AUTOAMP_CONFIG:\n"
        self.assertIn(head, text)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:  # as a user pastes it
            file.write(text.split(head)[1].split("autoamp:")[0])
            file.flush()
            checked = subprocess.run([os.environ["AUTOAMP"], "check", file.name], capture_output=True, text=True, check=True)
        self.assertIn("1 rule", checked.stdout)
        self.assertRegex(text, r"at 1 site \(site \w+: A of cublasSgemm_v2 1024x1024x1024\)")
        result = self.run_("--", TRACED, "killed")
        self.assertEqual(result.returncode, 137)
        self.assertRegex(result.stderr, r"pid \d+ died inside cublasSgemm_v2")

    def test_stderr_without_a_reader(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([os.environ["AUTOAMP"], "run", "--device", "cuda", "--", "sh", "-c", "exit 7"], stderr=writer, cwd=self.here,
                                preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL), timeout=60)
        os.close(writer)
        self.assertEqual(result.returncode, 7)

    def test_the_next_command_keeps_the_options(self):
        text = self.receipt("--trace", "off", "--level", "O0", "--", PLAIN)
        self.assertRegex(text, r"next: .* run --device cuda --level O0 --trace summary -- ")

    def test_quiet_and_other_ranks_say_nothing(self):
        self.assertEqual(self.receipt("--quiet", "--", TRACED), "")
        self.assertEqual(self.receipt("--", TRACED, OMPI_COMM_WORLD_RANK="1"), "")
        self.assertEqual(self.receipt("--", TRACED, SLURM_PROCID="3"), "")
        self.assertIn("lowered", self.receipt("--", TRACED, PMI_RANK="0"))

    def test_why_nothing_was_intercepted(self):
        nothing = "no cuBLAS or cuDNN call was intercepted"
        privileged = self.here / "privileged"
        shutil.copy(PLAIN, privileged)
        privileged.chmod(0o4755)
        for command, cause, variables in (
                ([PROGRAMS / "plain_static"], "statically linked", {}),
                ([PROGRAMS / "plain_static_cublas"], "static cuBLAS", {}),
                ([privileged], "set-user-id", {}),
                ([PLAIN], "loaded but not called", {}),
                ([PROGRAMS / "plain_opens"], "the program contains a cuBLAS or cuDNN library name", {}),
                ([PLAIN], "loaded but not called", {"AUTOAMP_HOOK_DLSYM": "got"}),
                ([PROGRAMS / "plain_older"], "linked to libcublas.so.11", {}),
                (["--no-hook", PLAIN], "--no-hook", {}),
                ([TRACED, "nothing"], "AUTOAMP_ENABLED=0", {"AUTOAMP_ENABLED": "0"})):
            text = self.receipt(*command, **variables)
            self.assertIn(nothing, text)
            self.assertIn(cause, text)
            self.assertEqual("RTLD_DEEPBIND" in text, "library name" in cause, text)  # only with evidence
            self.assertEqual(text.count("\n"), 2, text)
            self.assertIn("next: ", text)
        begin = "kernels and gradient scalers are recorded from the first such call on\n"
        self.assertIn(begin, self.receipt("--trace", "kernels", PLAIN))
        self.assertNotIn(begin, self.receipt(PLAIN))

    def test_calls_without_a_record_are_not_no_calls(self):
        truncated = ["sh", "-c", f"'{TRACED}' mixed; : > x.aat"]
        for command, cause, variables in (
                (["--trace", "off", PLAIN], "AUTOAMP_TRACE=off", {}),
                (["--trace", "off", "sh", "-c", "kill -SEGV $$"], "AUTOAMP_TRACE=off", {}),
                (["-o", "/dev/null/x.aat", PLAIN], "no trace can be written to /dev/null/x.aat: Not a directory", {}),
                (["sh", "-c", f"ulimit -f 8; exec '{TRACED}' low"], "the trace reached the limit of file sizes (ulimit -f)", {}),
                (["-o", "y.aat", "sh", "-c", f"'{TRACED}' first; rm .y.aat.tail"], "the tail of its trace is missing", {}),
                ([TRACED, "first"], "the program ended inside its first call", {}),
                (truncated, "x.aat: empty file; it was truncated or overwritten", {"AUTOAMP_TRACE_FILE": "x.aat"})):
            text = self.receipt(*command, **variables)
            self.assertIn("calls were not recorded: ", text)
            self.assertNotIn("no cuBLAS or cuDNN call", text)
            self.assertNotIn("called _exit", text)
            self.assertNotIn("began a trace", text)
            self.assertIn(cause, text)
            self.assertRegex(text, r"\nautoamp: next: .*\n\Z")

    def test_how_the_program_ended(self):
        """One case for each row of the table of endings: the line, another text in the receipt, and a text that must be
        absent."""
        before_a_call = "the program ended before its first call"
        for command, end, more, absent in (
                ([TRACED, "signalled", "11"], r"pid \d+ died inside cublasSgemm_v2: SIGSEGV \(signal 11\)(, core dumped)?", "lowered 1,000",
                 "was ended"),
                ([TRACED, "signalled", "9"], r"pid \d+ died inside cublasSgemm_v2: SIGKILL \(signal 9\): sent by another process, or "
                 "by the kernel when memory runs out", "lowered 1,000", "was ended"),
                ([TRACED, "signalled", "2"], r"the program was ended by SIGINT \(signal 2\)", "lowered 1,000", "died inside"),
                ([TRACED, "signalled", "15"], r"the program was ended by SIGTERM \(signal 15\)", "lowered 1,000", "died inside"),
                (["sh", "-c", "kill -SEGV $$"], r"the program was ended by SIGSEGV \(signal 11\)(, core dumped)?", before_a_call,
                 "DEEPBIND"),
                (["sh", "-c", f"'{TRACED}' signalled 11; exit 139"],
                 r"the program exited with status 139, which a shell returns after SIGSEGV \(signal 11\)",
                 "ended inside cublasSgemm_v2 and did not exit normally", "died"),
                (["sh", "-c", f"'{TRACED}' signalled 2; exit 130"], r"the program exited with status 130, which a shell returns after "
                 r"SIGINT \(signal 2\)", "lowered 1,000", "inside"),
                ([TRACED, "quits", "4"], "the program ended with status 4 and ran no exit handlers: it called _exit or exec", "lowered 1,000", "inside"),
                ([TRACED, "becomes"], "the program replaced itself by exec; the last program exited with status 0", "2 traces", "inside"),
                (["sh", "-c", f"'{TRACED}' mixed; exit 3"], "the program exited with status 3", "lowered 1,000", "first call"),
                (["sh", "-c", "exit 3"], "the program exited with status 3", before_a_call, "loaded but not called")):
            with self.subTest(command=command):
                text = self.receipt("--", *command)
                self.assertRegex(text, rf"(?m)^autoamp: {end}$")
                self.assertIn(more, text)
                self.assertNotIn(absent, text)
                self.assertRegex(text, r"\nautoamp: next: .*\n\Z")
                for file in self.here.glob("*.aat"):
                    file.unlink()
        for command in ([TRACED, "mixed"], [PLAIN]):
            self.assertNotRegex(self.receipt("--", *command), "exited|ended")

    def test_the_report_knows_how_the_program_ended(self):
        """`autoamp run` adds the end to the trace of its program; a trace without the end shows only the call in
        progress."""
        for command, end, signal, status, ended in (
                ([TRACED, "signalled", "2"], r"ended by SIGINT \(signal 2\) while inside cublasSgemm_v2", 2, None, "killed"),
                ([TRACED, "signalled", "11"], r"died inside cublasSgemm_v2: SIGSEGV \(signal 11\)(, core dumped)?", 11, None, "killed"),
                ([TRACED, "signalled", "9"], r"died inside cublasSgemm_v2: SIGKILL \(signal 9\): sent by another process, or by the "
                 "kernel when memory runs out", 9, None, "killed"),
                ([TRACED, "quits", "4"], "exit 4, no exit handlers ran", None, 4, "killed"),
                ([TRACED, "mixed"], "exit 0", None, 0, "exit 0"),
                (["sh", "-c", f"'{TRACED}' signalled 2; true"], "killed, died inside cublasSgemm_v2", None, None, "killed")):
            for quiet in ([], ["--quiet"]):
                with self.subTest(command=command, quiet=quiet):
                    self.run_(*quiet, "-o", "x.aat", "--force", "--", *command)
                    self.assertRegex(self.autoamp("report", "x.aat", COLUMNS="300").stdout, rf"  \({end}, pid \d+\)\n")
                    run = self.json("x.aat")["runs"][0]
                    self.assertEqual((run["signal"], run["status"], run["ended"]), (signal, status, ended))
        self.run_("-o", "x.aat", "--force", "--", TRACED, "becomes")  # the first program's end is not known
        first, last = self.json("x.aat")["runs"]
        self.assertEqual((first["status"], last["status"]), (None, 0))
        self.run_("-o", "x.aat", "--force", "--", "sh", "-c", f"'{TRACED}' mixed; exec '{TRACED}' signalled 15")
        self.assertRegex(self.autoamp("report", "x.aat").stdout, r"\npid \d+ ended by SIGTERM \(signal 15\) while inside cublasSgemm_v2\n")

    def test_memory_ran_out(self):
        """The kernel counts its kills in the cgroup; a folder stands in for the cgroups, the program for the kernel."""
        for name in ("fake", "fake/memory"):
            (self.here / name).mkdir()
        for name, head in (("memory.events", "low 0\nhigh 0\nmax 7\noom 1"), ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0")):
            (self.here / "fake" / name).write_text(f"{head}\noom_kill 5\n")
        script = f"mount --bind '{self.here}/fake' /sys/fs/cgroup && exec '{self.root}/tools/autoamp' run --device cuda -o x.aat -- "
        program = "sed -i 's/oom_kill 5/oom_kill 6/' fake/memory.events fake/memory/memory.oom_control; "
        if subprocess.run(["unshare", "-m", "sh", "-c", f"mount --bind '{self.here}/fake' /sys/fs/cgroup"], capture_output=True).returncode:
            self.skipTest("may not mount")
        for change, text in ((program, "memory ran out, and the kernel killed a process of this cgroup during the run"),
                             ("", "sent by another process, or by the kernel when memory runs out")):
            ran = subprocess.run(["unshare", "-m", "sh", "-c", f'{script} sh -c "{change}exec \'{TRACED}\' signalled 9"'], cwd=self.here,
                                 env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertIn(f"died inside cublasSgemm_v2: SIGKILL (signal 9): {text}\n", ran.stderr)
            self.assertIn(f"SIGKILL (signal 9): {text}, pid", self.autoamp("report", "x.aat", COLUMNS="300").stdout)
            (self.here / "x.aat").unlink()

    def test_traces_that_are_gone(self):
        text = self.receipt("--", "sh", "-c", f"'{TRACED}' mixed; rm *.aat")
        self.assertIn("calls were not recorded: a process began a trace, but the trace is missing\n", text)
        self.assertNotIn("loaded but not called", text)
        text = self.receipt("-o", "%n.aat", "--", "sh", "-c", f"'{TRACED}' mixed; '{TRACED}' low; '{TRACED}' low; rm 1.aat 3.aat")
        self.assertRegex(text, r"autoamp: traces: 1 of 3 processes of run \w{16}; without process 1, 3 \(`report FOLDER` reads all traces of a folder\)\n")
        self.assertNotIn("traces: ", self.receipt("-o", "%n.aat", "--", TRACED, "processes"))

    def test_a_trace_that_was_replaced(self):
        """Its record is next to it; a trace that was only removed or emptied is written again."""
        self.trace("low", "other.aat")
        for harm, trace in (("rm x.aat", "x.aat"), (": > x.aat", "x.aat"), ("rm x.aat; mkdir x.aat", ".x.aat.tail"),
                            ("echo other > y; mv y x.aat", ".x.aat.tail"), ("cp other.aat y; mv y x.aat", ".x.aat.tail")):
            with self.subTest(harm):
                text = self.receipt("-o", "x.aat", "--", TRACED, "harmed", HARM=harm)
                self.assertIn("lowered 7 of 7 fp32 products", text)
                self.assertIn(f"1 trace in ./{trace}\n", text)
                self.assertEqual(f"/x.aat: " in text and "; the rest is in " in text, "tail" in trace, text)
                command = re.search(r"report: (.*)\n", text).group(1)
                reported = subprocess.run(command, shell=True, cwd=self.here, env=self.environment, capture_output=True, text=True)
                self.assertRegex(reported.stdout, r"\n +all +\S+ us +7 ", reported.stderr)
                runs = json.loads(self.autoamp("report", ".", "--format", "json").stdout)["runs"]
                self.assertEqual(len(runs), 3 if harm.startswith("cp") else 2)  # other.aat is one
                named = "autoamp: x.aat was replaced while its program ran; the rest of its trace is in .x.aat.tail\n"
                self.assertEqual(named in self.autoamp("report", "x.aat").stderr, "tail" in trace)
                subprocess.run("rm -r x.aat; rm -f .x.aat.tail", shell=True, cwd=self.here)

    def test_a_trace_that_was_removed_before_the_program_was_killed(self):
        text = self.receipt("-o", "x.aat", "--", TRACED, "harmed", HARM="rm x.aat; kill -9 $PPID")
        self.assertIn("SIGKILL", text)
        self.assertIn("lowered 3 of 3 fp32 products", text)
        self.assertIn("1 trace in ./.x.aat.tail\n", text)

    def test_a_small_limit_of_file_sizes(self):
        """The files of autoamp run itself must not send it a signal."""
        limited = ["sh", "-c", 'ulimit -f 50; exec "$@" 2>&1 | cat', "sh", os.environ["AUTOAMP"], "run", "--device", "emulated", "--", "true"]
        ran = subprocess.run(limited, cwd=self.here, env=self.environment, capture_output=True, text=True)
        self.assertIn("no cuBLAS or cuDNN call was intercepted", ran.stdout)

    def test_a_static_runtime_is_named_only_if_there_is_one(self):
        marker, program = b"sm90_xmma_gemm_f16f16_f16f32_f32_nt_n\0", self.here / "program"
        self.assertEqual(TRACED.read_bytes().count(marker), 1)
        for content, has_runtime in ((TRACED.read_bytes(), False),
                                     (TRACED.read_bytes().replace(marker, b"/cudart.shm.%x".ljust(len(marker), b"\0")), True)):
            program.write_bytes(content)
            program.chmod(0o755)
            text = self.receipt("-o", "x.aat", "--force", "--", program, "outside")
            self.assertIn("recorded: 0 of 7 calls (capture range cudaProfilerApi); the range never began: the program", text)
            self.assertEqual("static CUDA runtime hides cudaProfilerStart" in text, has_runtime, text)
            self.assertEqual("did not call cudaProfilerStart" in text, not has_runtime, text)
            why = self.json("x.aat")["runs"][0]["capture"]["why_nothing"]
            self.assertEqual("static CUDA runtime" in why, has_runtime, why)

    def test_a_core_is_said_if_there_is_one(self):
        command = ["sh", "-c", "ulimit -c unlimited 2>&-; kill -SEGV $$"]
        os.chdir(self.here)
        _, status = os.waitpid(os.posix_spawn("/bin/sh", command, self.environment), 0)
        self.assertEqual(os.WCOREDUMP(status), "SIGSEGV (signal 11), core dumped\n" in self.receipt("--", *command))

    def test_what_of_ours_is_broken(self):
        core = self.root / "inject/libautoamp-core.so"
        whole = core.read_bytes()
        core.unlink()
        for content, cause in ((None, "it is missing"), (whole[:3000], "signal"), (b"noise", "too short")):
            if content is not None:
                core.write_bytes(content)
            text = self.receipt("--", PLAIN)
            self.assertIn(f"autoamp stayed off because {core} cannot be loaded: ", text)
            self.assertIn(cause, text)
            self.assertRegex(text, rf"\nautoamp: next: \S+/autoamp doctor -- {PLAIN}\n\Z")

    def test_a_full_disk(self):
        disk = self.here / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("may not mount a small disk")
        self.addCleanup(subprocess.run, ["umount", disk])
        (disk / "other").write_bytes(bytes(4096))
        text = self.receipt("-o", "disk/x.aat", "--", PLAIN)
        self.assertRegex(text, r"no trace can be written to \S+/disk/x\.aat: No space left on device\n")
        self.assertEqual(os.listdir(disk), ["other"])

    def test_many_traces_are_named_by_their_folder(self):
        text = self.receipt("-o", "%p.aat", "--", "sh", "-c", f"for i in 1 2 3 4; do '{TRACED}' low; done")
        self.assertRegex(text, r"autoamp: 4 traces in \.\nautoamp: report: \S+ report \.\nautoamp: advice: see the reasons: .*\nautoamp: next: \S+ report \. --report reasons\n\Z")
        os.mkdir(self.here / "sub")
        text = self.receipt("-o", "sub/%p.aat", "--", "sh", "-c", f"for i in 1 2 3 4; do '{TRACED}' low; done")
        self.assertRegex(text, r"autoamp: 4 traces in \./sub\n")

    def test_a_second_copy(self):
        self.assertIn("a second copy of cuBLAS", self.receipt("--", TRACED, "copies"))
        self.assertNotIn("a second copy", self.receipt("--", TRACED, "mixed"))

    def test_calls_that_have_no_lower_form(self):
        self.assertIn("7 calls, all already 16-bit; nothing to lower", self.receipt("--", TRACED, "low"))
        text = self.receipt("--", TRACED, "vectors")
        self.assertIn("11 calls, but no fp32 product that can be lowered", text)
        self.assertIn("float64 6", text)


unittest.main()
