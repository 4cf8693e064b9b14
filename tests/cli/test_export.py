"""`autoamp export`: an independent reader reads each format again."""
import csv
import json
import os
import pathlib
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

from case import TRACED, Case

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto
except ImportError:
    perfetto = None
try:
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet
except ImportError:
    dataset = None
SOURCE = pathlib.Path(os.environ["SOURCE"])


class Exports(Case):
    def export(self, kind, out, *arguments, **variables):
        result = self.autoamp("export", "--type", kind, "-o", out, *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr, result.stdout), (0, "", ""))
        return self.here / out

    def test_rows_of_text(self):
        name = self.trace("kernels", "k.aat", "1000")
        rows = list(csv.DictReader(self.export("csv", "a.csv", name).open(newline="")))
        objects = [json.loads(line) for line in self.export("jsonl", "a.jsonl", name).open()]
        self.assertEqual([{key: value for key, value in row.items() if value != ""} for row in rows],
                         [{key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in each.items()}
                          for each in objects])
        of = lambda kind: [row for row in objects if row["type"] == kind]
        self.assertEqual([len(of(kind)) for kind in ("call", "kernel", "scale")], [100, 177, 1])
        calls = {row["call"]: row for row in of("call")}
        self.assertEqual(len(calls), 100)
        for row in of("kernel"):
            if "call" in row:
                self.assertEqual(calls[row["call"]]["site"], row["site"])
        gemm = [row for row in of("kernel") if row["name"].startswith("sm90")]
        self.assertEqual({(row["duration_ns"], row["precision"], row["decision"]) for row in gemm}, {(1000, "float16", "lowered")})
        self.assertEqual(sum(row["name"] == "autoamp cast" for row in of("kernel")), 75)

    def test_the_size_of_a_loss(self):
        """As in the report's JSON; null for events of other kinds."""
        name = self.trace("faults")
        fields = ("kind", "excess", "lost_rows", "lost_columns")
        expected = sorted((tuple(event[field] for field in fields) for event in self.json(name)["scaler"]["events"]), key=str)
        self.assertIn((256, 252), [event[2:] for event in expected])
        database = sqlite3.connect(self.export("sqlite", "a.db", name))
        self.assertEqual(sorted(database.execute("SELECT kind, excess, lost_rows, lost_columns FROM scaler").fetchall(), key=str), expected)
        self.assertEqual(database.execute("SELECT DISTINCT typeof(lost_rows) FROM scaler WHERE kind = 'underflow'").fetchall(), [("integer",)])
        events = [row for row in map(json.loads, self.export("jsonl", "a.jsonl", name).open()) if row["type"] == "scale"]
        self.assertEqual(sorted(((event["name"], *map(event.get, fields[1:])) for event in events), key=str), expected)
        rows = [row for row in csv.DictReader(self.export("csv", "a.csv", name).open(newline="")) if row["type"] == "scale"]
        self.assertEqual(sorted(((row["name"], *(float(row[field]) if row[field] else None for field in fields[1:])) for row in rows), key=str),
                         sorted(((kind, *(None if size is None else float(size) for size in sizes)) for kind, *sizes in expected), key=str))

    def test_sqlite_by_the_examples_of_its_page(self):
        name = self.trace("kernels", "k.aat", "1000")
        database = sqlite3.connect(self.export("sqlite", "a.db", name))
        page = (SOURCE / "docs/export.md").read_text()
        queries = re.findall(r"```sql\n(.*?)```", page, re.S)
        self.assertGreaterEqual(len(queries), 4)
        answers = [database.execute(query).fetchall() for query in queries]
        self.assertEqual(answers[0], [("cublasSgemm_v2", "1024x1024x1024", "float16", 75), ("cublasSgemm_v2", "512x512x512", "float32", 25)])
        self.assertEqual(answers.pop(1), [])
        self.assertEqual(answers[1], [("sm90_xmma_gemm_f16f16_f16f32_f32_nt_n", 75, 75000), ("autoamp_cast_half", 75, 30000),
                                      ("sgemm <a|b>", 25, 25000)])
        self.assertEqual([row[0] for row in answers[2]], ["white_list", "black_list"])
        self.assertEqual(answers[3][0][1], 100)
        for table in ("runs", "signatures", "calls", "kernels", "kernel_names", "scaler", "gradient_scalers", "gradient_events"):  # each column is on the page
            for column in [row[1] for row in database.execute(f"PRAGMA table_info({table})")]:
                self.assertIn(f"`{column}`", page, table)

    def test_gradient_scalers(self):
        """In the tables, and as a curve with the skipped steps in both time lines."""
        names = self.trace("mixed"), self.trace("gradient", None, "130")
        scaler, = self.json(*names)["scaler"]["gradient"]
        database = sqlite3.connect(self.export("sqlite", "a.db", *names))
        self.assertEqual(database.execute("SELECT run, scaler, how, steps, skipped, scale_last, tracker FROM gradient_scalers").fetchall(),
                         [(1, "torch#0", "update_kernel", 130, 6, 2**35, 0)])
        events = database.execute("SELECT step, kind, scale_after, tracker_before, time_ns FROM gradient_events").fetchall()
        self.assertEqual([event[:4] for event in events],
                         [tuple(event[name] for name in ("step", "kind", "scale_after", "tracker_before")) for event in scaler["events"]])
        begin, = database.execute("SELECT start_ns FROM runs WHERE id = 1").fetchone()
        self.assertEqual({event[4] - own["time_ns"] for event, own in zip(events, scaler["events"])}, {begin})
        causes = database.execute("SELECT causes FROM gradient_events WHERE causes != '[]'").fetchall()
        self.assertEqual([json.loads(cause)[0]["operand"] for cause, in causes], ["B"])
        expected = [(1, begin + event["time_ns"], event["kind"], event["scale_before"], event["scale_after"], "torch#0", event["step"])
                    for event in scaler["events"]]
        of = lambda row: tuple(row[name] for name in ("run", "start_ns", "name", "scale_before", "scale_after", "scaler", "step"))
        objects = [row for row in map(json.loads, self.export("jsonl", "a.jsonl", *names).open()) if row["type"] == "gradient"]
        self.assertEqual([of(row) for row in objects], expected)
        rows = list(csv.DictReader(self.export("csv", "a.csv", *names).open(newline="")))
        self.assertEqual([of(row) for row in rows if row["type"] == "gradient"], [tuple(map(str, event)) for event in expected])
        self.assertFalse([row for row in rows if None in row or None in row.values()])  # lines of another length
        skipped = [f"step {event['step']} skipped, " for event in scaler["events"] if event["kind"] == "backoff"]
        timeline = json.loads(self.export("chrome", "a.json", *names).read_text())["traceEvents"]
        self.assertEqual([event["name"].partition(" 2^")[0] for event in timeline if event["ph"] == "i"],
                         ["torch#0: " + text.strip() for text in skipped])
        curve = [event["args"]["scale"] for event in timeline if event["ph"] == "C" and event["name"] == "torch#0 scale"]
        self.assertEqual(curve, [2**16, *(event["scale_after"] for event in scaler["events"]), 2**35])
        infinite = self.export("chrome", "b.json", self.trace("findings")).read_text()
        self.assertEqual(len([event for event in json.loads(infinite)["traceEvents"] if event.get("name") == "infinite#0 scale"]), 1)
        if not perfetto:
            return
        tracks, counters, instants = {}, [], []
        for packet in perfetto.Trace.FromString(self.export("perfetto", "a.pftrace", *names).read_bytes()).packet:
            if packet.HasField("track_descriptor"):
                tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
            event = packet.track_event
            if event.type == event.TYPE_COUNTER and tracks[event.track_uuid] == "torch#0 scale":
                counters.append(event.double_counter_value)
            elif event.type == event.TYPE_INSTANT:
                instants.append((tracks[event.track_uuid], event.name.partition("2^")[0]))
        self.assertEqual(counters, curve)
        self.assertEqual(instants, [("torch#0 skipped steps", text) for text in skipped])

    def test_emulated_times_are_null(self):
        name = self.trace("emulated_kernels", "k.aat", "1000")
        database = sqlite3.connect(self.export("sqlite", "a.db", name))
        self.assertEqual(database.execute("SELECT DISTINCT start_ns, duration_ns FROM kernels").fetchall(), [(None, None)])
        self.assertEqual(database.execute("SELECT emulated FROM runs").fetchall(), [(1,)])
        for line in self.export("jsonl", "a.jsonl", name).open():
            row = json.loads(line)
            self.assertEqual("start_ns" in row, row["type"] != "kernel")
        self.assertIn("times have no meaning", self.export("chrome", "a.json", name).read_text())

    def test_chrome(self):
        events = json.loads(self.export("chrome", "a.json", self.trace("kernels", "k.aat", "1000")).read_text())["traceEvents"]
        of = lambda phase: [event for event in events if event["ph"] == phase]
        self.assertEqual([len(of(phase)) for phase in "XsfC"], [100 + 177, 100, 175, 1])
        self.assertEqual({event["id"] for event in of("f")}, {event["id"] for event in of("s")})
        names = {event["tid"]: event["args"]["name"] for event in of("M") if event["name"] == "thread_name"}
        self.assertLessEqual({event["tid"] for event in of("X")}, set(names))
        self.assertIn("GPU 0 stream 7", names.values())
        self.assertEqual(len([event for event in json.loads(self.export("chrome", "b.json", self.trace("mixed")).read_text())["traceEvents"]
                              if event["ph"] == "C"]), 3)

    @unittest.skipUnless(perfetto, "no Python package perfetto")
    def test_perfetto_by_its_own_definitions(self):
        names = [self.trace("kernels", "k.aat", "1000"), self.trace("mixed")]
        trace = perfetto.Trace.FromString(self.export("perfetto", "a.pftrace", *names).read_bytes())
        tracks, words, slices, counters, flows = {}, {}, [], [], {}
        opened = {}
        for packet in trace.packet:
            if packet.HasField("track_descriptor"):
                tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            for name in packet.interned_data.event_names:
                words[packet.trusted_packet_sequence_id, name.iid] = name.name
            event = packet.track_event
            if event.type == event.TYPE_SLICE_BEGIN:
                name = words[packet.trusted_packet_sequence_id, event.name_iid]
                opened.setdefault(event.track_uuid, []).append((name, packet.timestamp))
                for flow in event.flow_ids:
                    flows.setdefault(flow, []).append(name)
            elif event.type == event.TYPE_SLICE_END:
                name, start = opened[event.track_uuid].pop()
                slices.append((tracks[event.track_uuid], name, packet.timestamp - start))
            elif event.type == event.TYPE_COUNTER:
                self.assertTrue(tracks[event.track_uuid].HasField("counter"))
                counters.append((tracks[event.track_uuid].name, event.double_counter_value))
        self.assertEqual([rest for rest in opened.values() if rest], [])
        products = [length for track, name, length in slices if name.startswith("sm90") and track.name == "GPU 0 stream 7"]
        self.assertEqual(products, [1000] * 75)
        calls = [name for track, name, length in slices if track.HasField("thread")]
        self.assertEqual(len(calls), 100 + 3005)
        self.assertEqual(calls.count("mm 1024x1024x1024 float16"), 75 + 900)
        joined = [tuple(flow) for flow in flows.values()]
        self.assertEqual(joined.count(("mm 1024x1024x1024 float16", "autoamp_cast_half", "sm90_xmma_gemm_f16f16_f16f32_f32_nt_n")), 75)
        self.assertEqual(joined.count(("mm 512x512x512 float32", "sgemm <a|b>")), 25)
        self.assertEqual([value for name, value in counters], [3.0] * 4)
        self.assertEqual({track.process.pid > 0 for track in tracks.values() if track.HasField("process")}, {True})

    @unittest.skipUnless(dataset, "no pyarrow")
    def test_parquet(self):
        os.symlink(SOURCE / "tools/python", self.root / "tools/python")
        for rank in "01":
            subprocess.run([TRACED, "kernels", "1000"], cwd=self.here, timeout=60,
                           env={"AUTOAMP_TRACE_FILE": f"d/r{rank}.aat", "OMPI_COMM_WORLD_RANK": rank})
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        out = self.export("parquet", "set", "d")
        calls = dataset.dataset(out / "calls", partitioning="hive").to_table()
        self.assertEqual((calls.num_rows, sorted(set(calls["rank"].to_pylist()))), (200, [0, 1]))
        lowered = calls.filter(compute.equal(calls["decision"], "lowered"))
        self.assertEqual((lowered.num_rows, set(lowered["precision"].to_pylist()), set(lowered["op"].to_pylist())), (150, {"float16"}, {"mm"}))
        kernels = dataset.dataset(out / "kernels", partitioning="hive").to_table()
        self.assertEqual(kernels.num_rows, 2 * 177)
        self.assertEqual(sum(kernels["name"].to_pylist()[i] == "autoamp_cast_half" for i in range(kernels.num_rows)), 150)
        self.assertEqual(parquet.read_table(out / "runs.parquet")["rank"].to_pylist(), ["0", "1"])
        signatures = parquet.read_table(out / "signatures")  # its folders contain run and rank
        self.assertEqual(sorted({*zip(signatures["run"].to_pylist(), signatures["rank"].to_pylist())}), [(0, 0), (1, 1)])
        self.assertEqual(sum(signatures["calls"].to_pylist()), 200)
        self.refused(self.autoamp("export", "--type", "parquet", "-o", "set", "d"), 2, "--force")
        self.export("parquet", "set", "--force", "d")
        (self.here / "other").mkdir()
        self.refused(self.autoamp("export", "--type", "parquet", "-o", "other", "--force", "d"), 2, "not overwritten")

    def test_a_file_that_exists_stays(self):
        name = self.trace("mixed")
        (self.here / "out").write_text("mine")
        for kind in ("sqlite", "perfetto", "chrome", "csv", "jsonl"):
            self.refused(self.autoamp("export", "--type", kind, "-o", "out", name), 2, "--force")
            self.assertEqual((self.here / "out").read_text(), "mine")
        self.export("csv", "out", "--force", name)
        self.assertTrue((self.here / "out").read_text().startswith("type,run,"))
        (self.here / "out").write_text("mine")
        (self.here / "link").symlink_to("out")
        self.export("csv", "link", "--force", name)
        self.assertTrue((self.here / "link").is_symlink() and (self.here / "out").read_text().startswith("type,run,"))
        for other in (name, "twin.aat"):
            self.refused(self.autoamp("export", "--type", "csv", "-o", other, "--force", name), 2, "one of the traces")
            if other == name:
                (self.here / "twin.aat").hardlink_to(self.here / name)
        self.refused(self.autoamp("export", "--type", "csv", "-o", "-", name), 2, "not a file name")
        self.assertEqual(sorted(path.name for path in self.here.iterdir()), ["link", "mixed.aat", "out", "twin.aat"])

    def test_interrupted_leaves_nothing(self):
        name = self.trace("many", "many.aat", "3000000")
        for number in (signal.SIGINT, signal.SIGTERM):
            child = subprocess.Popen([self.root / "tools/autoamp", "export", "--type", "jsonl", "-o", "out", name], cwd=self.here,
                                     env=self.environment, stderr=subprocess.PIPE, text=True)
            while not list(self.here.glob("out.part-*")) and child.poll() is None:
                time.sleep(0.005)
            child.send_signal(number)
            self.assertIn("interrupted", child.communicate(timeout=60)[1])
            self.assertEqual((child.returncode, sorted(path.name for path in self.here.iterdir())), (128 + number, ["many.aat"]))

    @unittest.skipUnless(dataset, "no pyarrow")
    def test_interrupted_from_the_keyboard(self):
        """Ctrl-C reaches the whole process group; the Python helper must not end first."""
        os.symlink(SOURCE / "tools/python", self.root / "tools/python")
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        name = self.trace("many", "many.aat", "5000000")
        child = subprocess.Popen([self.root / "tools/autoamp", "export", "--type", "parquet", "-o", "out", name], cwd=self.here,
                                 env=self.environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not list(self.here.glob("out.part-*/calls")) and child.poll() is None:
            time.sleep(0.005)
        os.killpg(child.pid, signal.SIGINT)
        self.assertEqual(child.communicate(timeout=60)[1], "autoamp: interrupted: nothing was written\n")
        self.assertEqual((child.returncode, sorted(path.name for path in self.here.iterdir())), (130, ["many.aat"]))

    @unittest.skipUnless(dataset, "no pyarrow")
    def test_a_full_disk(self):
        """A failed export of each format prints one line of error and leaves no file. A file size limit simulates the
        full disk."""
        os.symlink(SOURCE / "tools/python", self.root / "tools/python")
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        name = self.trace("many", "many.aat", "400000")
        limited = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2))
        for kind in ("sqlite", "perfetto", "chrome", "csv", "jsonl", "parquet"):
            result = subprocess.run([self.root / "tools/autoamp", "export", "--type", kind, "-o", "out", name], cwd=self.here, env=self.environment,
                                    capture_output=True, text=True, timeout=60, preexec_fn=limited)
            self.refused(result, 1, "out.part-", "disk" if kind == "sqlite" else "File too large")
            self.assertEqual([path.name for path in self.here.iterdir()], ["many.aat"], kind)

    def test_a_bar_on_a_terminal_alone(self):
        name = self.trace("many", "many.aat", "400000")
        status, shown = self.on_a_terminal("stderr", "export", "--type", "csv", "-o", "a.csv", name)
        self.assertEqual(status, 0)
        self.assertRegex(shown, r"\rexport \[#+ *\] \d+ %")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown)
        self.export("csv", "b.csv", name)  # no progress bar, because stderr is not a terminal

    def test_a_killed_program_and_cut_files(self):
        """Recorded data is exported. A file that is not a trace is reported and makes the status 2, but the others are
        exported."""
        rows = [json.loads(line) for line in self.export("jsonl", "k.jsonl", self.trace("killed")).read_text().splitlines()]
        self.assertEqual(sum(row["type"] == "call" for row in rows), 3005)
        whole = (self.here / self.trace("mixed")).read_bytes()
        (self.here / "cut.aat").write_bytes(whole[:len(whole) // 2])
        (self.here / "empty.aat").write_bytes(b"")
        (self.here / "text.aat").write_text("no trace\n" * 100)
        self.export("jsonl", "cut.jsonl", "cut.aat")
        for name in ("empty.aat", "text.aat"):
            self.refused(self.autoamp("export", "--type", "csv", "-o", "x", name), 2, name)
            self.assertFalse((self.here / "x").exists())
            self.refused(self.autoamp("diff", "mixed.aat", name), 2, name)
        result = self.autoamp("export", "--type", "jsonl", "-o", "both.jsonl", "mixed.aat", "text.aat")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1))
        self.assertTrue((self.here / "both.jsonl").exists())

    def test_memory_does_not_grow(self):
        name = self.trace("many", "many.aat", "1500000")
        for kind in ("perfetto", "sqlite"):
            result = subprocess.run(["sh", "-c", 'ulimit -v 120000; exec "$@"', "sh", self.root / "tools/autoamp", "export", "--type", kind,
                                     "-o", kind, name], cwd=self.here, env=self.environment, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), kind)
            self.assertGreater((self.here / kind).stat().st_size, 20 << 20)

    def test_what_is_wrong(self):
        name = self.trace("mixed")
        os.symlink(SOURCE / "tools/python", self.root / "tools/python")
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        self.refused(self.autoamp("export", "--type", "xml", "-o", "x", name), 2, "xml", "parquet")
        self.refused(self.autoamp("export", "--type", "csv", name), 2, "--out")
        self.refused(self.autoamp("export", "--type", "csv", "-o", "x"), 2, "export: FILE|DIR is missing")
        self.refused(self.autoamp("export", "--type", "csv", "-o", "x", "missing.aat"), 2, "missing.aat")
        for kind in ("csv", "sqlite", "parquet") if dataset else ("csv", "sqlite"):
            self.refused(self.autoamp("export", "--type", kind, "-o", "no/x", name), 1, "no/x")
        self.assertFalse((self.here / "x").exists())

    def test_totals_only_is_said(self):
        self.trace("mixed")
        subprocess.run([TRACED, "mixed"], cwd=self.here, env={"AUTOAMP_TRACE_FILE": "s.aat", "AUTOAMP_TRACE": "summary"}, timeout=60)
        result = self.autoamp("export", "--type", "csv", "-o", "s.csv", "s.aat")
        self.assertEqual((result.returncode, result.stderr.count("contains only totals")), (0, 1))


unittest.main()
