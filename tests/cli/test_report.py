"""`autoamp report`: the right files, the right numbers, one clear line for each unreadable file."""
import csv
import io
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import time
import unittest

from case import EMULATED, TRACED, Case

FIELDS = {
    "": "schema runs totals ops reasons scaler audit loss",
    "runs": "id file run_id host pid rank command emulated device started ended died_inside capture versions config",
    "totals": "calls eligible lowered kept raised fallbacks observed flops lowered_flops",
    "ops": "run device thread library entry op m n k batch shape transa transb dtype_in dtype_asked dtype_compute "
           "dtype_accumulate dtype_out decision reason strategy calls captured flops host_ns kernel_ns cast_ns est_ns "
           "est_lowered_ns est_source max_error region caller site",
    "reasons": "reason decision calls flops kernel_ns advice",
    "scaler": "events gradient observed",
    "loss": "events_dropped kernels_unattributed invalid_timestamps truncated",
}
EVENT = "time_ns kind site operand scale_before scale_after amax"


class Json(Case):
    def test_every_field_of_the_contract(self):
        report = self.json(self.trace("mixed"))
        for place, names in FIELDS.items():
            for element in [report] if not place else report[place] if isinstance(report[place], list) else [report[place]]:
                self.assertLessEqual(set(names.split()), set(element), place)
        for event in report["scaler"]["events"]:
            self.assertLessEqual(set(EVENT.split()), set(event))
        self.assertLessEqual({"autoamp", "cublas", "cudnn", "cuda_driver"}, set(report["runs"][0]["versions"]))
        self.assertEqual(report["schema"], "autoamp.report/1")

    def test_numbers(self):
        report = self.json(self.trace("mixed"))
        flops = lambda size, calls: 2.0 * size**3 * calls
        totals = report["totals"]
        self.assertEqual([totals[name] for name in ("calls", "eligible", "lowered", "kept", "raised", "fallbacks", "observed")],
                         [3005, 3000, 1000, 2005, 0, 0, 0])
        self.assertEqual(totals["lowered_flops"], flops(1024, 900) + flops(512, 100))
        rows = {(row["m"], row["reason"]): row for row in report["ops"]}
        row = rows[512, "white_list"]
        self.assertEqual([row[n] for n in ("calls", "captured", "flops", "transa", "decision", "dtype_compute", "strategy")],
                         [100, 100, flops(512, 100), "T", "lowered", "float16", "cast"])
        self.assertGreater(row["host_ns"], 0)
        self.assertEqual(sum(row["calls"] for row in report["ops"]), 3005)
        self.assertEqual([(r["reason"], r["calls"]) for r in report["reasons"]],
                         [("too_small", 1600), ("white_list", 1000), ("not_profitable", 400), ("vector_op", 5)])
        self.assertEqual([event["kind"] for event in report["scaler"]["events"]], ["init", "rescale", "nonfinite_input"])
        self.assertEqual(report["runs"][0]["config"], {"level": "O1", "dtype": "float16"})
        self.assertEqual(report["runs"][0]["ended"], "exit 0")

    def test_the_unknown_is_null(self):
        report = self.json(self.trace("mixed"))
        row = next(row for row in report["ops"] if row["reason"] == "vector_op")
        for name in ("thread", "op", "kernel_ns", "cast_ns", "est_ns", "est_lowered_ns", "max_error", "region"):
            self.assertIsNone(row[name], name)
        self.assertIsNone(report["scaler"]["events"][0]["scale_before"])
        self.assertIsNone(report["runs"][0]["versions"]["cudnn"])
        self.assertIsNone(report["runs"][0]["rank"])
        self.assertIsNone(report["runs"][0]["died_inside"])

    def test_a_loss_names_the_rule_to_add(self):
        rules = {event["kind"]: event["rule"] for event in self.json(self.trace("faults"))["scaler"]["events"]}
        rule = rules.pop("underflow")
        self.assertEqual(rule.split("\n"), ["[[rule]]", 'entry = "cublasSgemm_v2"', "m = 1024", "n = 1024", "k = 1024",
                                            'precision = "float32"'])
        self.assertEqual(set(rules.values()), {None})

    def test_a_loss_has_its_size(self):
        name = self.trace("faults")
        for event in self.json(name)["scaler"]["events"]:
            loss = (event["excess"], event["lost_rows"], event["lost_columns"])
            if event["kind"] == "underflow":
                self.assertEqual((round(loss[0], 6), *loss[1:]), (0.26, 256, 252))
            else:
                self.assertEqual(loss, (None, None, None))
        text = self.autoamp("report", name).stdout
        self.assertIn("scaling: float16 error 0.26, 256 rows and 252 columns lost (worst sample)\n", text)
        self.assertRegex(self.autoamp("report", "--report", "scaler", name).stdout, r"underflow .* 0\.26 +256 +252 ")

    def test_a_gradient_scaler(self):
        scaler, = self.json(self.trace("gradient", None, "130"))["scaler"]["gradient"]
        events, times = scaler.pop("events"), (scaler.pop("first_ns"), scaler.pop("last_ns"))
        self.assertAlmostEqual(scaler.pop("skipped_percent"), 600 / 130)
        self.assertEqual(scaler, {
            "run": 0, "scaler": "torch#0", "how": "update_kernel", "device": 0, "steps": 130, "skipped": 6, "longest_skipped": 2,
            "growths": 29, "backoffs": 6, "sets": 1, "refusals": 0, "holds": 0, "unseen": 0, "scale_first": 2**16, "scale_least": 2**10,
            "scale_most": 2**36, "scale_last": 2**35, "growth": 2, "backoff": 0.5, "interval": 4, "tracker": 0, "device_times": False,
            "findings": [{"finding": "many_skipped", "text": "10.0 % of the steps after the first 100 were skipped"}]})
        self.assertEqual([(event["kind"], event["step"]) for event in events[:7]],
                         [("first", 1), ("backoff", 1), ("backoff", 2), ("backoff", 6), ("growth", 10), ("set", 11), ("growth", 14)])
        self.assertEqual([events[3][name] for name in ("scale_before", "scale_after", "tracker_before", "tracker_after", "found_inf", "hysteresis")],
                         [2**14, 2**13, 3, 0, 1, None])
        self.assertEqual([event["tracker_before"] for event in events if event["kind"] == "set"], [None])
        self.assertTrue(times[0] == events[0]["time_ns"] < events[-1]["time_ns"] == times[1])

    def test_an_infinite_operand_names_the_update_it_led_to(self):
        scaler = self.json(self.trace("gradient", None, "130"))["scaler"]
        event, = scaler["events"]
        self.assertEqual(event["led_to"], {"scaler": "torch#0", "step": 6})
        causes = {step["step"]: step["causes"] for step in scaler["gradient"][0]["events"] if step["causes"]}
        self.assertEqual(causes, {6: [{name: event[name] for name in ("kind", "time_ns", "site", "operand", "entry", "shape")}]})
        self.assertEqual({event["led_to"] for event in self.json(self.trace("faults"))["scaler"]["events"]}, {None})

    def test_findings_about_gradient_scalers(self):
        found = {scaler["scaler"]: [finding["finding"] for finding in scaler["findings"]]
                 for scaler in self.json(self.trace("findings"))["scaler"]["gradient"]}
        self.assertEqual(found, {"zero#0": ["scale_zero"], "infinite#0": ["scale_infinite"], "small#0": ["scale_below_one"],
                                 "stopped#0": ["growth_stopped"], "refused#0": ["growth_refused"], "often#0": ["many_skipped"],
                                 "seldom#0": [], "lost#0": ["values_lost"], "deepspeed#0": [], "low#0": []})
        scales = {scaler["scaler"]: scaler["scale_last"] for scaler in self.json("findings.aat")["scaler"]["gradient"]}
        self.assertEqual((scales["infinite#0"], scales["zero#0"]), ("inf", 0))

    def test_died_inside(self):
        run = self.json(self.trace("killed"))["runs"][0]
        self.assertEqual((run["ended"], run["died_inside"]), ("killed", "cublasSgemm_v2"))

    def test_several_runs(self):
        report = self.json(self.trace("mixed"), self.trace("low"))
        self.assertEqual([run["file"] for run in report["runs"]], ["mixed.aat", "low.aat"])
        self.assertEqual({row["run"] for row in report["ops"]}, {0, 1})
        self.assertEqual(report["totals"]["calls"], 3012)


class Table(Case):
    def summary(self, *arguments, **variables):
        result = self.autoamp("report", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_summary_fits_80x24(self):
        """More remarks than usual are longer, because a text is never cut: `faults` has each kind."""
        for scenario in ("mixed", "faults", "observed", "low", "vectors", "killed", "real"):
            text = self.summary(self.trace(scenario), COLUMNS="80")
            lines = text.splitlines()
            self.assertLessEqual(sum(-(-max(1, len(line)) // 80) for line in lines), 33 if scenario == "faults" else 26, text)
            self.assertLessEqual(max(len(line) for line in lines if not line.startswith(("next: ", "more: "))), 80, text)
        self.trace("faults", "x" * 100 + ".aat")
        for columns, most in ((80, 33), (60, 42), (40, 58)):
            text = self.summary("x" * 100 + ".aat", COLUMNS=str(columns))
            tail = text.index("next: ")
            lines = text[:tail].splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
            rows = len(lines) + sum(-(-len(line) // columns) for line in text[tail:].splitlines())
            self.assertLessEqual(rows, most)
            for answer in ("gain ", "most time: ", "kept because", "advice: scale float16 operands: float16 overflowed because scaling is off (1 event)"):
                self.assertIn(answer, " ".join(text.split()))

    def test_a_taller_terminal_shows_more(self):
        name = self.trace("faults")
        short = self.summary(name, COLUMNS="80")
        self.rows = 60
        tall = self.summary(name, COLUMNS="80")
        self.assertNotIn("driver_too_old", short)
        for line in self.summary(name).splitlines():
            for word in line.split():
                self.assertIn(word, tall)

    def test_the_next_command_is_whole(self):
        os.mkdir(self.here / "a folder")
        for number in range(3):
            self.trace("audited", f"a folder/{'y' * 40}{number}.aat", "900")
        for places in (["a folder"], [f"a folder/{'y' * 40}{number}.aat" for number in range(3)]):
            command = re.search(r"\nnext: (.*)\n", self.summary(*places, COLUMNS="60")).group(1)
            result = subprocess.run(command, shell=True, cwd=self.here, env=self.environment, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertRegex(result.stdout, r"cublasSgemm_v2 +TN 1024x1024x1024 +9\.0e-04 ")

    def test_summary_answers(self):
        text = self.summary(self.trace("mixed"))
        self.assertTrue(text.startswith(EMULATED + "\n"))
        self.assertRegex(text, r"lowered to float16 +1.50 ms +20.0 % +1,000 +33.3 % +1.96 T +99.3 %")
        self.assertRegex(text, r"kept +6.00 ms +80.0 % +2,000 +66.7 %")
        self.assertRegex(text, r"too_small +64.0 % +1,600 +too little work")
        self.assertIn("next: ", text)
        self.assertRegex(self.summary(self.trace("observed")), r"\nadvice: lower 10 fp32 products \(saves 15.0 us, model\): .*\nnext: .* --level O1 -- ")
        self.assertRegex(self.summary(self.trace("faults")), r"\nadvice: scale float16 operands: .*\nnext: .* --scaling auto -- ")
        self.assertIn("died inside cublasSgemm_v2", self.summary(self.trace("killed")))

    def test_speed_of_an_emulated_run_is_that_of_the_model(self):
        for view in ("summary", "ops", "reasons"):
            text = self.summary("--report", view, self.trace("mixed", f"{view}.aat"))
            self.assertTrue(text.startswith(EMULATED + "\n"))
            self.assertEqual("gain (model, nothing was timed) " in text, view == "summary")
            self.assertNotIn("measured", text)

    def test_ops_merges_processes(self):
        text = self.summary("--report", "ops", self.trace("mixed", "a.aat"), self.trace("mixed", "b.aat"))
        self.assertEqual(len(text.splitlines()), 2 + 5)
        self.assertRegex(text, r"\ncublasSgemm_v2 +TN 1024x1024x1024 +2.70 ms +18.0 % +1,800 +lowered: white_list +float32 > float16 +5.40 ms +2.70 ms +\S+ T +mm\n")
        self.assertRegex(text, r"\nentry point .*\ncublasSgemm_v2 +TN 8x8x8 +9.60 ms +64.0 %")  # the longest time first

    def test_summary_answers_five_questions(self):
        text = self.summary(self.trace("real"))
        self.assertRegex(text, r"fp32 products +time \(model\) +share +calls +share +FLOP +share\n")  # the share of fp32 time
        self.assertRegex(text, r"all +7.50 ms +3,000 +1.97 T\n")
        self.assertIn("most time: mm 8x8x8 64.0 %, mm 1024x1024x1024 18.0 %, mm 256x256x256 16.0 %\n", text)
        self.assertRegex(text, r"lowered to float16 +1.50 ms +20.0 % +1,000 +33.3 % +1.96 T +99.3 %")  # the calls that ran in lower precision
        self.assertRegex(text, r"gain \(model\) +time +speed\n  program unchanged +9.00 ms +1.00x\n  this run +7.50 ms +1.20x\n  best strategy +7.50 ms +1.20x\nfp32")
        self.assertRegex(text, r"kept because.*\n +too_small")  # why not
        self.assertIn("scaling: 1 nonfinite_input, 1 rescale\n", text)  # the events of the scaler
        self.assertRegex(self.summary(self.trace("observed")), r"  this run +120 us +1.00x\n  best strategy +105 us +1.14x\n")
        self.assertRegex(self.summary("observed.aat"), r"  would be lowered +30.0 us +25.0 % .*\n  would be kept +90.0 us +75.0 % .*\n  all +120 us ")
        self.assertIn("gain: none, no fp32 product", self.summary(self.trace("low")))
        text = self.summary(self.trace("kernels", "k.aat", "1000"))
        self.assertRegex(text, r"fp32 products +time \(kernels\)")
        self.assertRegex(text, r"lowered to float16 +105 us +80.8 % +75 +75.0 % +161 G +96.0 %")
        # The measured time has no ratio: that of the unchanged program is an estimate.
        self.assertRegex(text, r"gain \(model\) .*\n  program unchanged +300 us +1.00x\n  this run +188 us +1.60x\n  best strategy +188 us +1.60x\n  this run, measured +130 us\n")
        self.assertIn("scaling: no scale was changed\n", text)

    def test_rows_are_identifiable_in_narrow_terminals(self):
        names = [self.trace("faults"), self.trace("kernels", "k.aat", "1000")]
        wide = self.summary("--report", "ops", *names).splitlines()[2:-1]
        self.assertNotIn("…", "".join(wide))  # no terminal
        self.assertGreater(max(map(len, wide)), 80)
        for columns in (80, 60):
            lines = self.summary("--report", "ops", *names, COLUMNS=str(columns)).splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
            for line, whole in zip(lines[2:], wide):
                self.assertEqual(line[:-1], whole[:len(line) - 1])
                self.assertRegex(line, r"\Acublas\w+ +[NT]{2} \d+x\d+x\d+ +(\S+ [num]?s|-) ")
            text = self.summary(*names, COLUMNS=str(columns))
            self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith(("next: ", "more: "))), columns)

    def test_long_names_have_a_line_of_their_own(self):
        """If not even the time fits next to them."""
        name = self.trace("convolutions")
        for columns in (50, 60, 70):
            text = self.summary("--report", "ops", name, COLUMNS=str(columns))
            self.assertLessEqual(max(map(len, text.splitlines())), columns)
            self.assertRegex(" ".join(text.split()), r"cudnnConvolutionForward NN n32 c256 28x28 k256 3x3 s1 p1 d1 g1 n(chw|hwc) 3.00 us 33.3 % 1 ")

    def test_numbers_are_whole_or_left_out(self):
        name = self.trace("faults")
        for columns in range(60, 81):
            for view in ("summary", "ops"):
                rows = re.findall(r"^(?:  (?:lowered|kept|all)|cublas).*$", self.summary("--report", view, name, COLUMNS=str(columns)), re.M)
                self.assertGreater(len(rows), 2)
                self.assertNotRegex("\n".join(rows), r" [\d.,]+…")

    def test_a_terminal_cuts_and_a_file_does_not(self):
        name = self.trace("faults")
        status, shown = self.on_a_terminal("stdout", "report", name, COLUMNS="80")
        self.assertEqual(status, 0)
        text = self.summary(name)
        self.assertNotIn("\n  driver_too_old ", shown)
        self.assertTrue(all(len(line) < 90 for line in re.sub("\x1b\\[\\d+m", "", shown).splitlines() if not line.startswith("next: ")), shown)
        for reason in ("too_small", "driver_too_old", "unlisted", "engine_failed"):
            self.assertRegex(text, rf"\n  {reason} ")

    def test_the_reason_for_tf32(self):
        cause = "; some calls ran in TF32: the cost model predicts it to be faster"
        self.assertIn(cause, self.summary(self.trace("costs", "tf32.aat", "5")))
        self.assertNotIn("TF32", self.summary(self.trace("mixed")))
        self.assertIn(cause, " ".join(self.summary("tf32.aat", COLUMNS="60").split()))

    def test_what_takes_most_time_is_named_whole(self):
        line = next(line for line in self.summary(self.trace("convolutions"), COLUMNS="80").splitlines() if line.startswith("most time"))
        self.assertRegex(line, r"\Amost time: conv2d n32 c256 28x28 k256 3x3 s1 p1 d1 g1 n(hwc|chw) [0-9.]+ %\Z")

    def test_the_switch_of_disabled_calls(self):
        name = self.trace("mixed")
        for settings, switch in (("STRATEGY=fp32", "AUTOAMP_STRATEGY=fp32"), ("ENABLED=0", "AUTOAMP_ENABLED=0")):
            text = self.summary("--what-if", settings, name)
            self.assertRegex(text, rf"\n  disabled +100.0 % +3,000 +switched off by {switch}\n")

    def test_several_runs_show_the_settings_of_each(self):
        names = self.trace("mixed"), self.trace("observed"), self.trace("low")
        text = self.summary(*names)
        self.assertIn("mixed.aat, low.aat: level O1, dtype float16; on ", text)
        self.assertIn("\nobserved.aat: level O0 (changes no call), dtype float16; on ", text)
        self.assertRegex(self.summary(names[0], names[2]), r"\nlevel O1, dtype float16; on autoamp emulated")
        text = self.summary("--report", "config", *names)
        self.assertRegex(text, r"\nmixed\.aat, low\.aat\nsetting .*\nlevel +environment +O1\n")
        self.assertRegex(text, r"\nobserved\.aat\nsetting .*\nlevel +environment +O0\n")

    def test_nothing_is_said_only_where_something_was_looked_at(self):
        name = self.trace("many", "many.aat", "0")  # a signature without calls
        self.assertIn("gain: unknown, no call was recorded\n", self.summary(name))
        self.assertIsNone(self.json(name)["totals"]["gain"])
        untraced = "The program's own gradient scaler: not recorded; AUTOAMP_TRACE=kernels records it\n"
        self.assertIn(untraced, self.summary("--report", "scaler", self.trace("mixed")))
        traced = self.summary("--report", "scaler", self.trace("kernels", "k.aat", "1000"))
        self.assertRegex(traced, r"own gradient scaler\n.*\n.*torch")
        self.assertIn("own gradient scaler: nothing\n",
                      self.summary("--report", "scaler", self.trace("quiet_kernels", "q.aat", "1000")))
        supposed = self.summary("--report", "scaler", "--what-if", "LEVEL=O1", "mixed.aat")
        self.assertNotIn(": nothing", supposed)
        self.assertNotIn("no scale had to change", self.summary("--what-if", "LEVEL=O1,STRATEGY=cast", "k.aat"))

    def test_the_gradient_scaler_of_the_program(self):
        name = self.trace("gradient", None, "130")
        text = self.summary(name, COLUMNS="80")
        self.assertRegex(text, r"\nscaler torch#0: scale 2\^35; 6 of 130 steps skipped: 1-2, 6 and 3 more \(\d+(\.\d+)? .?s\n? +to")
        self.assertIn("\nscaler torch#0: 10.0 % of the steps after the first 100 were skipped\n", text)
        self.assertLessEqual(len(text.splitlines()), 23)
        text = self.summary("--report", "scaler", name)
        self.assertRegex(text, r"Gradient scalers of the program\n.*\ntorch#0 +2\^35 +130 +6 +4.6 % +2 +29 +6 +1 .* update_kernel +10.0 %")
        self.assertRegex(text, r"\ntorch#0 +6 +\S+ \S+ +backoff +2\^14 +2\^13 +0 +1 +nonfinite_input in B of cublasSgemm_v2 1024x1024x1024\n")
        self.assertRegex(text, r" nonfinite_input .* torch#0 step 6\n")
        self.assertNotIn("own gradient scaler", text)
        self.assertIn("own gradient scaler\n", self.summary("--report", "scaler", self.trace("gradient_kernels", "k.aat", "9")))
        text = self.summary(self.trace("findings"))
        self.assertRegex(text, r"\nscaler often#0: .*\nscaler often#0: 6.0 % .*\n(scaler .*\n){4}and 7 more gradient scalers \(--report scaler\)\n")
        supposed = self.summary("--report", "scaler", "--what-if", "LEVEL=O0", name)
        self.assertNotIn("torch#0", supposed)

    def test_why_the_values_of_a_gradient_scaler_are_missing(self):
        for scenario, reason in (("paddle_kernels", "Paddle computes the scale on the host; autoamp run --watch-python records it"),
                                 ("kernels", "no update kernel ran: the program updates the scale on the host, or not at all; autoamp run --watch-python")):
            with self.subTest(scenario):
                name = self.trace(scenario, None, "1000")
                self.assertIn(reason, self.json(name)["scaler"]["observed"][0]["why_no_values"])
                self.assertIn(reason, self.summary("--report", "scaler", name))
                self.assertIn("\ngradient scaler of ", self.summary(name))
        self.assertEqual([row["why_no_values"] for row in self.json(self.trace("gradient_kernels", "g.aat", "9"))["scaler"]["observed"]], [None])

    def test_launches_of_some_updates_are_not_intercepted(self):
        """A second scaler, in a library with the static runtime."""
        name = self.trace("gradient_statically", None, "9")
        reason = "the launches of 4 update kernels were not intercepted"
        self.assertIn(reason, self.json(name)["scaler"]["observed"][0]["why_no_values"])
        self.assertIn(reason, " ".join(self.summary(name).split()))

    def test_more_events_than_the_trace_has(self):
        """The totals are complete, and so is the time of the last skipped step."""
        name = self.trace("gradient", None, "12000")
        scaler, = self.json(name)["scaler"]["gradient"]
        self.assertEqual(len(scaler["events"]), 1024)
        self.assertIn("events_left_out", [finding["finding"] for finding in scaler["findings"]])
        self.assertRegex(" ".join(self.summary(name).split()), "scaler torch#0: only the first 1,024 of [0-9,]+ events are listed")
        # The last step is a skipped one.
        unit = {"us": 1e3, "ms": 1e6, "s": 1e9}
        number, word = re.search(r"and [0-9,]+ more \(\S+ \S+ to (\S+) (\w+)\)", " ".join(self.summary(name).split())).groups()
        self.assertAlmostEqual(float(number) * unit[word] / scaler["last_ns"], 1, 2)

    def test_a_reason_of_the_process(self):
        """It is not replaced by a guess of the report."""
        name = self.trace("gradient_refused", None, "9")
        self.assertEqual(self.json(name)["scaler"]["observed"][0]["why_no_values"], "an update was captured into a graph")
        self.assertEqual(" ".join(self.summary(name).split()).count("an update was captured"), 1)

    def test_the_last_steps_can_be_missing(self):
        scaler, = self.json(self.trace("gradient_killed", None, "9"))["scaler"]["gradient"]
        self.assertEqual([finding["finding"] for finding in scaler["findings"]], ["last_lost"])
        observed, = self.json(self.trace("kernels_killed", None, "1000"))["scaler"]["observed"]
        self.assertIn("no update kernel was recorded before the process ended", observed["why_no_values"])
        without = self.trace("quiet_kernels_killed", None, "1000")
        self.assertIn("own gradient scaler: nothing; the last updates can be missing: no normal exit\n", self.summary("--report", "scaler", without))

    def test_gradient_events_as_rows(self):
        name = self.trace("gradient", None, "130")
        lines = [json.loads(line) for line in self.autoamp("report", "--report", "gradient", "--format", "jsonl", name).stdout.splitlines()]
        events = self.json(name)["scaler"]["gradient"][0]["events"]
        self.assertEqual(lines, [{"run": 0, "scaler": "torch#0", **event} for event in events])
        rows = list(csv.DictReader(io.StringIO(self.autoamp("report", "--report", "gradient", "--format", "csv", name).stdout)))
        others = self.autoamp("report", "--report", "scaler", "--format", "csv", name)  # those of operands
        self.assertEqual((others.returncode, "--report gradient" in others.stderr), (0, True), others)
        self.assertEqual([(row["step"], row["kind"]) for row in rows], [(str(event["step"]), event["kind"]) for event in events])
        self.assertRegex(self.summary("--report", "gradient", "--sort", "step", "--top", "1", name), "backoff +2.36 +2.35 .*\nand 36 more rows\n")

    def test_missing_scaler_events_are_not_no_events(self):
        for name, gap in ((self.trace("unmapped"), "scaler events were not recorded: the device cannot map host memory"),
                          (self.trace("many", "many.aat", "0"), "no call was recorded"),
                          (self.trace("quietly_killed"), "events of the last calls may be missing: no normal exit")):
            with self.subTest(name):
                text = self.summary(name)
                self.assertIn(f"scaling: {gap}\n", text)
                self.assertNotIn("no scale had to change", text)
                self.assertNotIn("failures", text)
                text = self.summary("--report", "scaler", name)
                self.assertIn(f"Scaler events by operand: unknown, {gap}\n", text)
                self.assertIn(f"History of the scales: unknown, {gap}\n", text)
                self.assertEqual(self.json(name)["runs"][0]["scaler_gap"], gap)
                self.assertNotIn("No scale was set", self.summary("--format", "html", name))
        text = self.summary("--report", "scaler", self.trace("killed"))
        self.assertIn("Scaler events by operand (events of the last calls may be missing: no normal exit)\n", text)
        name = self.trace("quiet_kernels", "q.aat", "1000")
        self.assertIn("scaling: no scale was changed\n", self.summary(name))
        self.assertIsNone(self.json(name)["runs"][0]["scaler_gap"])

    def test_reasons_say_what_to_do(self):
        text = self.summary("--report", "reasons", self.trace("faults"))
        self.assertRegex(text, r"kept: not_profitable +1.20 ms by the cost model, 400 calls, 13.4 GFLOP, 0.7 % of the fp32 FLOP\n +the cost model.*\n +try: ")

    def test_kernels_that_were_not_emulated(self):
        self.assertEqual(self.json(self.trace("refused"))["not_emulated"],
                         [{"kernel": "_Z5scalePffi", "demangled": "scale(float*, float, int)", "launches": 7}])

    def test_reasons_name_the_cause(self):
        name = self.trace("math_mode")
        for form in ("table", "md", "html", "csv", "json"):
            text = self.summary("--format", form, *([] if form == "json" else ["--report", "reasons"]), name)
            self.assertIn("CUBLAS_TF32_TENSOR_OP_MATH", text, form)


class Lists(Case):
    GROUPINGS = {"op": {"mm", None}, "entry": {"cublasSgemm_v2", "cublasSaxpy_v2"},
                 "shape": {"1024x1024x1024", "512x512x512", "256x256x256", "8x8x8", "64x64x64"},
                 "reason": {"white_list", "not_profitable", "too_small", "vector_op"},
                 "caller": {'/opt/my "app", two\nlines/program'}, "device": {"0 autoamp emulated (h100 constants)"}}

    def csv(self, *arguments):
        result = self.autoamp("report", "--format", "csv", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return list(csv.reader(io.StringIO(result.stdout), strict=True))

    def agree(self, table, objects):
        """The rows of a csv are these JSON objects, column by column."""
        self.assertEqual([len(row) for row in table], [len(table[0])] * (len(objects) + 1))
        for row, wanted in zip(table[1:], objects):
            self.assertEqual(table[0], list(wanted))
            for cell, value in zip(row, wanted.values()):
                if isinstance(value, (bool, str)) or value is None:
                    self.assertEqual(cell, "" if value is None else str(value).lower() if value in (True, False) else value)
                else:
                    self.assertEqual(float(cell), value)

    def test_csv_is_the_json(self):
        self.trace("faults")
        names = [self.trace("mixed"), "faults.aat"]
        report = self.json(*names)
        self.agree(self.csv(*names), report["ops"])
        self.agree(self.csv("--report", "ops", *names), report["ops"])
        self.agree(self.csv("--report", "reasons", *names), report["reasons"])
        self.agree(self.csv("--by", "op", *names), self.json("--by", "op", *names)["groups"])
        self.agree(self.csv("--top", "2", "--sort", "captured", *names),
                   sorted(report["ops"], key=lambda row: -row["captured"])[:2])
        for odd in ('say "x".aat', "two\nlines.aat", "a,b.aat"):
            self.assertEqual(self.csv("--report", "loss", self.trace("low", odd))[1][1], odd)
        raw = subprocess.run([self.root / "tools/autoamp", "report", "--format", "csv", *names], cwd=self.here,
                             env=self.environment, capture_output=True).stdout
        self.assertEqual(raw.count(b"\r\n"), len(report["ops"]) + 1)
        self.assertTrue(raw.endswith(b"\r\n"))
        self.assertIn(b',"/opt/my ""app"", two\nlines/program",', raw)

    def test_csv_has_no_control_characters(self):
        name = self.trace("low", "a\x1b]0;b\x9bc\td.aat")
        self.assertEqual(self.csv("--report", "loss", name)[1][1], "a\\x1b]0;b\\x9bc\td.aat")
        self.assertEqual(self.csv("--report", "loss", "--raw", name)[1][1], name)

    def test_a_shell_takes_any_file_name(self):
        for odd in ("a\x1b]0;x\a.aat", "it's.aat", "it's \n\\ \u202e.aat", "größe.aat", "\udcff.aat"):
            self.trace("low", odd)
            shown = self.autoamp("report", odd).stdout
            command = re.search(r"next: (.*)\n", shown).group(1)
            done = subprocess.run(["bash", "-c", command], cwd=self.here, env=self.environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_groups_add_up(self):
        name = self.trace("mixed")
        whole = self.json(name)
        for by, keys in self.GROUPINGS.items():
            report = self.json("--by", by, name)
            self.assertEqual(report["ops"], whole["ops"])
            groups = report["groups"]
            self.assertEqual({group[by] for group in groups}, keys)
            for column in ("calls", "eligible", "lowered", "flops", "lowered_flops"):
                self.assertEqual(sum(group[column] for group in groups), whole["totals"][column], (by, column))
            for column in ("est_ns", "est_lowered_ns", "host_ns"):
                known = [row[column] for row in whole["ops"] if row[column] is not None]
                self.assertAlmostEqual(sum(group[column] or 0 for group in groups), sum(known), delta=len(known))
            self.assertEqual([group["flops"] for group in groups], sorted((g["flops"] for g in groups), reverse=True))
            lines = self.autoamp("report", "--by", by, name).stdout.splitlines()
            self.assertEqual((lines[0], len(lines)), (EMULATED, 2 + len(groups)))
        vectors = next(group for group in self.json("--by", "reason", name)["groups"] if group["reason"] == "vector_op")
        self.assertEqual((vectors["est_ns"], vectors["est_lowered_ns"]), (None, None))
        self.assertRegex(self.autoamp("report", "--by", "op", name).stdout, r"\nmm +7.50 ms +100.0 % +3,000 +1.97 T +99.3 % +9.00 ms +")

    def test_threads(self):
        for mode in ("summary", "ops"):
            name = f"{mode}.aat"
            subprocess.run([TRACED, "threads"], cwd=self.here, timeout=60,
                           env={"AUTOAMP_TRACE_FILE": name, "AUTOAMP_TRACE": mode})
            report = self.json("--by", "thread", name)
            self.assertEqual([(group["calls"], group["lowered"]) for group in report["groups"]], [(10, 10), (7, 4)])
            pid = report["runs"][0]["pid"]
            first, second = (group["thread"] for group in report["groups"])
            self.assertEqual(first, f"pid {pid} thread {pid}")
            self.assertRegex(second, rf"^pid {pid} thread \d+$")
            self.assertNotEqual(first, second)

    def test_sort_and_top(self):
        name = self.trace("mixed")
        column = lambda *arguments: [row[name_] for row in self.json(*arguments, name)["ops"]]
        for name_, reverse in (("calls", True), ("m", True), ("entry", False), ("reason", False), ("host_ns", True)):
            everything = column()
            self.assertEqual(column("--sort", name_), sorted(everything, reverse=reverse))
            self.assertEqual(column("--sort", name_, "--top", "2"), sorted(everything, reverse=reverse)[:2])
        self.assertIsNone(self.json("--sort", "est_ns", name)["ops"][-1]["est_ns"])
        self.assertEqual([g["reason"] for g in self.json("--by", "reason", "--sort", "reason", "--top", "3", name)["groups"]],
                         ["not_profitable", "too_small", "vector_op"])
        report = self.json("--report", "reasons", "--sort", "calls", "--top", "1", name)
        self.assertEqual([reason["reason"] for reason in report["reasons"]], ["too_small"])
        self.assertEqual((len(report["ops"]), report["totals"]["calls"]), (5, 3005))
        text = self.autoamp("report", "--top", "2", "--sort", "calls", name).stdout
        self.assertRegex(text, r" 1,600 +kept: too_small.*\n.* 900 +lowered: white_list.*\nand 3 more rows\n\Z")
        self.assertIn("and 3 more rows\n", self.autoamp("report", "--report", "reasons", "--top", "1", name).stdout)

    def test_what_is_wrong(self):
        name = self.trace("mixed")
        for arguments, words in ((["--by", "colour"], "device"), (["--sort", "speed"], "flops"), (["--top", "0"], "--top"),
                                 (["--top", "many"], "many"), (["--report", "summary", "--top", "3"], "--report ops"),
                                 (["--report", "summary", "--format", "csv"], "--report ops"),
                                 (["--report", "reasons", "--by", "op"], "--by"),
                                 (["--by", "op", "--sort", "m"], "lowered_flops"), (["--sort", "m", "--report", "reasons"], "calls")):
            for form in ([], ["--format", "json"]):
                if "--format" not in arguments or not form:
                    self.refused(self.autoamp("report", *arguments, *form, name), 2, words)


class Views(Case):
    def lines(self, *arguments):
        result = self.autoamp("report", "--format", "jsonl", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def text(self, *arguments, **variables):
        result = self.autoamp("report", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_json_lines_are_the_rows(self):
        names = [self.trace("mixed"), self.trace("kernels", "k.aat", "1000")]
        report = self.json("--by", "op", *names)
        self.assertEqual(self.lines(*names), report["ops"])
        self.assertEqual(self.lines("--by", "op", *names), report["groups"])
        self.assertEqual(self.lines("--report", "reasons", *names), report["reasons"])
        self.assertEqual(self.lines("--report", "kernels", *names), report["kernels"])
        self.assertEqual(self.lines("--report", "scaler", *names), report["scaler"]["events"])
        self.assertEqual(self.lines("--report", "loss", *names), report["losses"])

    def test_sort_and_top_of_every_list(self):
        names = [self.trace("faults"), self.trace("kernels", "k.aat", "1000")]
        for view, column in (("kernels", "count"), ("scaler", "kind"), ("loss", "file")):
            selection = ("--report", view, "--sort", column, "--top", "2", *names)
            report = self.json(*selection)
            shown = report["scaler"]["events"] if view == "scaler" else report["losses" if view == "loss" else view]
            self.assertEqual(shown, self.lines(*selection))
            everything = self.lines("--report", view, *names)
            self.assertEqual([row[column] for row in shown], sorted((row[column] for row in everything), reverse=view == "kernels")[:2])
            self.assertEqual(len(report["ops"]), len(self.json(*names)["ops"]))
            html = self.text("--format", "html", *selection)
            self.assertEqual("more row" in html, len(everything) > 2, view)

    def test_kernels(self):
        name = self.trace("kernels", "k.aat", "1000")
        rows = {row["kernel"]: row for row in self.lines("--report", "kernels", name)}
        gemm = rows["sm90_xmma_gemm_f16f16_f16f32_f32_nt_n"]
        self.assertEqual([gemm[field] for field in ("count", "kernel_ns", "cast", "tc", "entry", "shape", "decision")],
                         [75, 75000, False, True, "cublasSgemm_v2", "1024x1024x1024", "lowered"])
        self.assertEqual([rows["autoamp_cast_half"][field] for field in ("count", "kernel_ns", "cast")], [75, 30000, True])
        stranger = rows["_Z8strangerPfi"]
        self.assertEqual((stranger["entry"], stranger["demangled"]), (None, "stranger(float*, int)"))
        self.assertRegex(self.text("--report", "kernels", name), r"\bstranger\(float\*, int\)\n")
        report = self.json(name)
        row = next(row for row in report["ops"] if row["decision"] == "lowered")
        self.assertEqual((row["kernel_ns"], row["cast_ns"], row["tc"]), (75000, 30000, True))
        self.assertEqual(report["loss"]["kernels_unattributed"], 1)
        self.assertRegex(self.text("--report", "kernels", name), r"cublasSgemm_v2 1024x1024x1024 +75.0 us +75 +lowered +true .* sm90_xmma")
        merged = self.text("--report", "kernels", name, self.trace("kernels", "l.aat", "1000"))
        self.assertRegex(merged, r" 150 us +150 +lowered +true ")
        self.assertIn("lost: 1 kernel of unknown origin\n", self.text("--report", "kernels", name))
        self.assertIn("AUTOAMP_TRACE=kernels", self.text("--report", "kernels", self.trace("mixed")))

    def test_what_cupti_took_for_itself(self):
        names = [self.trace("kernels", "k.aat", "1000"), self.trace("kernels", "l.aat", "1000")]
        self.assertEqual(self.json(*names)["loss"]["cupti_overhead"],
                         [{"kind": "buffer_flush", "count": 4, "ns": 3000}, {"kind": "resource", "count": 2, "ns": 100}])
        self.assertEqual([row["cupti_ns"] for row in self.lines("--report", "loss", *names)], [1550, 1550])
        self.assertRegex(self.text("--report", "loss", *names), r"CUPTI's own")
        emulated = self.trace("emulated_kernels", "e.aat", "1000")
        self.assertEqual({row["ns"] for row in self.json(emulated)["loss"]["cupti_overhead"]}, {None})
        self.assertIsNone(self.lines("--report", "loss", emulated)[0]["cupti_ns"])
        self.assertIsNone(self.json(self.trace("mixed"))["loss"]["cupti_overhead"])

    def test_no_device_time_of_an_emulated_run(self):
        name = self.trace("emulated_kernels", "e.aat", "1000")
        report = self.json(name)
        self.assertEqual({row["kernel_ns"] for row in report["ops"] + report["kernels"] + report["reasons"]}, {None})
        self.assertEqual(sum(row["count"] for row in report["kernels"]), 177)
        self.assertNotIn(" us", self.text("--report", "kernels", name))
        for view in ("summary", "ops"):
            self.assertNotRegex(self.text("--report", view, name), r"105 us|conversions|time \(kernels\)")

    def test_scaler(self):
        name = self.trace("faults")
        text = self.text("--report", "scaler", name)
        self.assertRegex(text, r"cublasSgemm_v2 1024x1024x1024 +A +\S+ \S+ +init +- +2\^3 +1.5 +- +- +- +[0-9a-f]{8}\n")
        self.assertNotRegex(text[text.index("Scaler events by operand"):].splitlines()[2], " (init|rescale) ")
        self.assertTrue(text.endswith("The program's own gradient scaler: not recorded; AUTOAMP_TRACE=kernels records it\n"), text)
        observed = self.json(self.trace("kernels", "k.aat", "1000"))["scaler"]["observed"]
        self.assertEqual([(row["framework"], row["step"], row["count"]) for row in observed], [("torch", "unscale", 1)])

    def test_loss(self):
        rows = self.lines("--report", "loss", self.trace("capped", "capped.aat", "200000"), self.trace("mixed"))
        self.assertEqual([(row["run"], row["events_dropped"] > 0, row["truncated"], row["kernels_unattributed"]) for row in rows],
                         [(0, True, True, None), (1, False, False, None)])
        name = self.trace("lossy_kernels", "l.aat", "1000")
        lost = {"kernels_unattributed": 1, "invalid_timestamps": 2, "kernels_dropped": 3, "kernels_capped": 177}
        for loss in self.json(name)["loss"], *self.lines("--report", "loss", name):
            self.assertEqual({field: loss[field] for field in lost}, lost)
        self.assertIn("3 kernels lost by CUPTI, 177 kernels only in totals (totals are exact), 1 kernel of unknown origin, "
                      "2 kernels without a valid time\n",
                      self.text("--report", "kernels", name))

    def test_reasons_are_wrapped(self):
        name = self.trace("mixed")
        wide = self.text("--report", "reasons", name).split()
        for columns in (60, 80):
            text = self.text("--report", "reasons", name, COLUMNS=str(columns))
            self.assertEqual(text.split(), wide) # nothing is cut
            self.assertLessEqual(max(map(len, text.splitlines())), columns)

    def test_markdown(self):
        name = self.trace("kernels", "k.aat", "1000")
        for view in ("ops", "reasons", "kernels", "scaler", "loss"):
            lines = self.text("--report", view, "--format", "md", name).splitlines()
            table = [line for line in lines if line.startswith("|")]
            self.assertGreaterEqual(len(table), 3, view)
            heads = [line for line in table if "---" in line]
            self.assertTrue(all(re.fullmatch(r"\|( -+:? \|)+", line) for line in heads), view)
        text = self.text("--report", "kernels", "--format", "md", name)
        self.assertIn("sgemm &lt;a\\|b&gt;", text)
        for view in ("summary", "config"):
            self.assertRegex(self.text("--report", view, "--format", "md", name), r"\A```\n[^`]+```\n\Z", view)

    def test_width_of_the_terminal(self):
        name = self.trace("kernels", "k.aat", "1000")
        for view in ("summary", "ops", "kernels", "scaler", "loss"):
            text = self.text("--report", view, name, COLUMNS="60")
            self.assertLessEqual(max(map(len, text[:text.find("next:")].splitlines())), 60 if view != "scaler" else 70, view)

    def test_by_rank(self):
        for rank in "01":
            subprocess.run([TRACED, "mixed" if rank == "0" else "low"], cwd=self.here, timeout=60,
                           env={"AUTOAMP_TRACE_FILE": f"d/r%rank%.aat", "OMPI_COMM_WORLD_RANK": rank})
        groups = self.json("--by", "rank", "d")["groups"]
        self.assertEqual([(group["rank"], group["calls"]) for group in groups], [("0", 3005), ("1", 7)])

    def test_what_if(self):
        name = self.trace("observed")
        before, after = self.json(name), self.json("--what-if", "level=O1,STRATEGY=cast", name)
        self.assertEqual((before["what_if"], after["what_if"]), (None, "level=O1,STRATEGY=cast"))
        self.assertEqual((before["totals"]["lowered"], after["totals"]["lowered"]), (0, 40))
        bfloat = self.json("--what-if", "LEVEL=O1,STRATEGY=cast,DTYPE=bfloat16", name)
        self.assertEqual({row["dtype_compute"] for row in bfloat["ops"]}, {"bfloat16"})
        self.assertEqual({row["host_ns"] for row in bfloat["ops"]}, {None})
        kept = self.json("--what-if", "CUSTOM_BLACK_LIST=mm,LEVEL=O1", name)
        self.assertEqual({(row["decision"], row["reason"]) for row in kept["ops"]}, {("kept", "custom_black_list")})
        mixed = self.json("--what-if", "CUSTOM_BLACK_LIST=mm,STRATEGY=cast", self.trace("signatures", None, "12"))["ops"]
        self.assertEqual({(row["op"], row["decision"]) for row in mixed}, {("mm", "kept"), ("addmm", "lowered")})
        text = self.text("--what-if", "LEVEL=O1", name)
        self.assertIn("WHAT IF LEVEL=O1: decisions for these settings; nothing was run\n", text)
        for several in ("CUSTOM_BLACK_LIST=mm,bmm,LEVEL=O1", "LEVEL=O1,CUSTOM_BLACK_LIST=bmm,cublasSgemm*"):
            kept = self.json("--what-if", several, name)
            self.assertEqual({(row["decision"], row["reason"]) for row in kept["ops"]}, {("kept", "custom_black_list")}, several)
        # Reasons that depend on the call remain: these are not fp32 products.
        self.assertEqual(self.json("--what-if", "LEVEL=O1", self.trace("vectors"))["totals"]["kept"], 11)
        # The same settings give the same decisions as explain.
        explained = json.loads(self.autoamp("explain", "--entry", "cublasSgemm_v2", "--m", "1024", "--n", "1024", "--k", "1024",
                                            "--gpu", "h100", "--format", "json").stdout)
        row = next(row for row in self.json("--what-if", "LEVEL=O1", name)["ops"] if row["m"] == 1024)
        self.assertEqual([row[field] for field in ("decision", "reason", "strategy")],
                         [explained[field] for field in ("decision", "reason", "strategy")])
        for settings, word in (("LEVEL=O9", "O9"), ("TRACE=ops", "TRACE does not affect decisions"), ("LEVEL=O1,CONFIG=x", "CONFIG does not affect decisions"), ("DELAY=1", "DELAY does not affect decisions"), ("EMU_DEVICES=3", "EMU_DEVICES does not affect decisions"),
                               ("LEVEL=O1,LEVEL=O0", "LEVEL is given twice"), ("LEVEL=O1,", "LEVEL=O1,"),
                               ("LEVEL=O1,STRATEGY", "O1,STRATEGY"), ("COLOUR=red", "--what-if: COLOUR=red: no such variable"),
                               ("LEVL=O1", "did you mean LEVEL?"), ("LEVEL", "NAME=VALUE"), ("", "NAME=VALUE")):
            if settings:
                self.refused(self.autoamp("report", "--what-if", settings, name), 2, word)


    def test_what_if_shows_the_settings_that_it_assumed(self):
        names = self.trace("observed"), self.trace("mixed")
        line = (r"assumed: enabled 1, level {}, dtype bfloat16, lists torch, (custom_\w+ \S+, )*use_promote 1, scaling auto, round_output 0, strategy \w+, scope auto, weights auto, "
                "gpu_model auto")
        for view in ("summary", "ops", "reasons"):
            text = " ".join(self.text("--report", view, "--what-if", "DTYPE=bfloat16", *names).split())
            for level in ("O0", "O1"):
                self.assertRegex(text, line.format(level), view)
        run = self.json("--what-if", "DTYPE=bfloat16", names[1])["runs"][0]
        self.assertEqual((run["config"]["dtype"], run["config_origin"]["dtype"]), ("bfloat16", "--what-if"))
        self.assertEqual((run["config"]["strategy"], run["config_origin"]["strategy"]), ("auto", "default"))
        self.assertEqual((run["config"]["level"], run["config_origin"]["level"]), ("O1", "environment"))

    def test_what_if_of_each_setting(self):
        """Each setting changes its own part of the decision about observed calls."""
        name = self.trace("observed")

        def told(settings):
            rows = self.json("--what-if", settings, name)["ops"]
            row = next(row for row in rows if row["m"] == 1024)
            return row["decision"], row["reason"], row["strategy"], row["dtype_compute"]

        for settings, wanted in (("LEVEL=O0", ("observed", "white_list", "cast", "float32")),
                                 ("LEVEL=O1,STRATEGY=cast", ("lowered", "white_list", "cast", "float16")),
                                 ("LEVEL=O1,STRATEGY=fp32", ("kept", "disabled", "fp32", "float32")),
                                 ("LEVEL=O1,STRATEGY=tf32,DTYPE=tf32", ("lowered", "white_list", "tf32", "tf32")),
                                 ("LEVEL=O1,STRATEGY=library,SCALING=off", ("lowered", "white_list", "library", "float16")),
                                 ("LEVEL=O2,LISTS=paddle,STRATEGY=cast,USE_PROMOTE=0", ("lowered", "white_list", "cast", "float16")),
                                 ("LEVEL=O3,LISTS=mindspore,STRATEGY=cast", ("lowered", "unlisted", "cast", "float16")),
                                 ("LEVEL=O1,SCOPE=regions", ("kept", "region_disabled", "fp32", "float32")),
                                 ("ENABLED=0", ("kept", "disabled", "fp32", "float32")),
                                 ("LEVEL=O1,STRATEGY=cast,CUSTOM_WHITE_LIST=mm", ("lowered", "custom_white_list", "cast", "float16"))):
            self.assertEqual(told(settings), wanted, settings)

    def test_what_if_changes_what_the_settings_change(self):
        """A trace may not contain enough for the model to repeat a decision. Such a decision remains unless the setting
        affects it."""
        for scenario in ("mixed", "real"):
            name = self.trace(scenario)
            self.assertEqual(self.json("--what-if", "LEVEL=O1,DTYPE=float16", name)["ops"], self.json(name)["ops"])
            rows = self.json("--what-if", "CUSTOM_BLACK_LIST=mm", name)["ops"]
            self.assertEqual({row["decision"] for row in rows}, {"kept"})
        # With measured kernel times, estimated times would count as nothing.
        name = self.trace("kernels", "k.aat", "1000")
        self.assertEqual({row["kernel_ns"] for row in self.json("--what-if", "LEVEL=O1", name)["ops"]}, {None})
        # With another device, all times are those of that device, also for unchanged rows.
        for scenario in ("observed", "mixed"):
            name = self.trace(scenario)
            rows, others = (self.json("--what-if", setting, name)["ops"] for setting in ("LEVEL=O1", "LEVEL=O1,GPU_MODEL=a100"))
            for row, other in zip(rows, others):
                if row["est_ns"] is not None and row["m"] > 100:
                    self.assertGreater(other["est_ns"], row["est_ns"])

    def test_what_if_on_the_device_of_the_trace(self):
        name = self.trace("turing")
        self.assertEqual(self.json(name)["runs"][0]["compute_capability"], [75])
        told = lambda settings: {(row["decision"], row["reason"]) for row in self.json("--what-if", settings, name)["ops"]}
        self.assertEqual(told("LEVEL=O1,STRATEGY=cast"), {("lowered", "white_list")})
        self.assertEqual(told("LEVEL=O1,STRATEGY=cast,DTYPE=bfloat16"), {("kept", "gpu_too_old")})
        self.assertEqual(told("LEVEL=O1,STRATEGY=cast,DTYPE=bfloat16,GPU_MODEL=a100"), {("lowered", "white_list")})

    def test_what_if_knows_a_convolution_by_its_words(self):
        rows = self.json("--what-if", "LEVEL=O1,STRATEGY=cast,GPU_MODEL=a100", self.trace("convolutions"))["ops"]
        times = {row["shape"]: row["est_lowered_ns"] for row in rows}
        self.assertEqual({(row["op"], row["decision"]) for row in rows}, {("conv2d", "lowered")})
        # The product is the same. A channels-last result is written in place. If the layout is unknown, the call is
        # estimated as a product.
        nchw, nhwc, unknown = (next(ns for shape, ns in times.items() if word in shape) for word in ("nchw", "nhwc", "somehow"))
        self.assertLess(nhwc, nchw)
        self.assertEqual(len({nchw, nhwc, unknown}), 3)


class Audits(Case):
    """The errors that AUTOAMP_AUDIT measured."""

    def summary(self, *arguments):
        result = self.autoamp("report", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_rows(self):
        report = self.json(self.trace("audited", "a.aat", "900"))
        rows = report["audit"]
        self.assertEqual([(row["shape"], row["calls"], row["audited"], row["recomputed"], row["skipped"]) for row in rows],
                         [("1024x1024x1024", 300, 3, 0, None), ("512x512x512", 100, 1, 1, None),
                          ("256x256x256", 7, 0, 0, "a graph with other nodes")])
        self.assertAlmostEqual(rows[0]["max_error"], 9e-4)
        self.assertAlmostEqual(rows[0]["mean_error"], 13e-4 / 3)
        self.assertAlmostEqual(rows[0]["median_error"] / 2e-4, 1, delta=0.2)
        self.assertAlmostEqual(rows[0]["p95_error"] / 9e-4, 1, delta=0.2)
        self.assertEqual((rows[0]["worst_row"], rows[0]["worst_column"]), (18e-4, 4e-4))
        self.assertEqual([rows[2][name] for name in ("mean_error", "median_error", "p95_error", "max_error", "worst_row")], [None] * 5)
        errors = {row["shape"]: row["max_error"] for row in report["ops"]}
        self.assertEqual((errors["512x512x512"], errors["256x256x256"]), (1e-4, None))
        self.assertEqual(self.json(self.trace("mixed"))["audit"], [])

    def test_table_and_summary(self):
        name = self.trace("audited", "a.aat", "900")
        table = self.summary("--report", "audit", name)
        self.assertRegex(table, r"cublasSgemm_v2 +TN 1024x1024x1024 +9\.0e-04 +\S+ +\S+ +1\.8e-03 +4\.0e-04 +3 +300 +float16 +cast")
        self.assertIn("a graph with other nodes", table)
        self.assertNotIn("overflowed", table)
        self.assertIn("audited: 4 calls, largest error 9.0e-04 (cublasSgemm_v2 1024x1024x1024)", self.summary(name))
        name = self.trace("audited", "i.aat", "0")
        self.assertIn("audited: 4 calls, 1 overflowed, largest error 2.0e-04", self.summary(name))
        rows = self.summary("--report", "audit", name).splitlines()[1:]
        self.assertRegex(rows[0], r"max error .* audited +overflowed +calls ")
        self.assertRegex(rows[1], r"^cublasSgemm_v2 +TN 512x512x512 +1\.0e-04 .* 2 +1 +100 ")  # first, although its measured errors are smaller
        self.assertEqual([row["overflowed"] for row in self.json(name)["audit"]], [1, 0, 0])
        self.assertIn("no call was audited", self.summary("--report", "audit", self.trace("mixed")))
        self.assertNotIn("audited", self.summary(self.trace("mixed")))


class Files(Case):
    def calls(self, *arguments):
        return self.json(*arguments)["totals"]["calls"]

    def test_a_file_stands_for_its_family(self):
        for _ in range(3):
            self.trace("low", "x.aat")
        self.assertEqual(self.calls("x.aat"), 21)
        self.assertEqual(self.calls("x.aat", "x.1.aat", "./x.aat"), 21)
        self.assertEqual(self.calls("x.2.aat"), 7)

    def test_no_argument_is_the_newest_here_then_the_state_folder(self):
        self.refused(self.autoamp("report"), 2, "no trace", str(self.here / ".local/state/autoamp"))
        self.trace("vectors", ".local/state/autoamp/a.aat")
        self.assertEqual(self.calls(), 11)
        self.trace("mixed", "old.aat")
        os.utime(self.here / "old.aat", (1, 1))
        self.trace("low", "new.aat")
        self.assertEqual(self.calls(), 7)
        os.utime(self.here / "new.aat", (0, 0))
        self.assertEqual(self.calls(), 3005)

    def test_no_argument_never_means_the_traces_of_others(self):
        self.trace("mixed", "own.aat")
        self.trace("low", "other.aat")
        os.utime(self.here / "own.aat", (1, 1))
        try:
            os.chown(self.here / "other.aat", os.geteuid() + 1, -1)
        except PermissionError:
            self.skipTest("may not give a file away")
        self.assertEqual(self.calls(), 3005)
        result = self.autoamp("report")
        self.assertRegex(result.stderr, r"\Aautoamp: using this user's newest trace here, \./own\.aat: traced, pid \d+\n\Z")
        self.assertTrue(result.stdout.startswith(EMULATED))
        os.unlink(self.here / "own.aat")
        self.refused(self.autoamp("report"), 2, "./other.aat belongs to another user")

    def test_a_folder_is_all_of_it(self):
        self.trace("low", "d/a.aat")
        self.trace("vectors", "d/b.aat")
        (self.here / "d/notes.txt").write_text("no trace")
        self.assertEqual(self.calls("d"), 18)
        os.mkdir(self.here / "empty")
        self.refused(self.autoamp("report", "empty"), 2, "empty")

    def test_what_cannot_be_read(self):
        (self.here / "empty.aat").write_bytes(b"")
        (self.here / "foreign.aat").write_bytes(b"\x7fELF" + bytes(5000))
        for name in ("missing.aat", "empty.aat", "foreign.aat"):
            self.refused(self.autoamp("report", name), 2, name)
        self.trace("low")
        result = self.autoamp("report", "low.aat", "foreign.aat")
        self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1))
        self.assertIn("other calls", result.stdout)

    def test_damaged_files_are_read_as_far_as_they_go(self):
        traces = [(self.here / self.trace(*scenario)).read_bytes() for scenario in (("mixed",), ("gradient", None, "130"))]
        path = self.here / "damaged.aat"
        generator = random.Random(1)
        losses = 0
        for attempt in range(80):
            whole = traces[attempt % 2]
            data = bytearray(whole[:generator.randrange(len(whole))] if generator.random() < 0.5 else whole)
            for _ in range(generator.choice((0, 0, 20))):
                if data:
                    data[generator.randrange(len(data))] = generator.randrange(256)
            path.write_bytes(data)
            result = self.autoamp("report", "damaged.aat")
            self.assertIn(result.returncode, (0, 2), result.stderr)
            self.assertLessEqual(result.stderr.count("\n"), 1)
            losses += "lost: " in result.stdout
            report = self.autoamp("report", "--format", "json", "damaged.aat")
            if report.returncode == 0:
                json.loads(report.stdout)
        self.assertGreater(losses, 0)

    def test_loss_is_told(self):
        name = self.trace("capped", "capped.aat", "200000")
        self.assertIn("lost: ", self.autoamp("report", name).stdout)
        report = self.json(name)
        self.assertEqual(report["totals"]["calls"], 200000)
        self.assertGreater(report["loss"]["events_dropped"], 0)
        self.assertTrue(report["loss"]["truncated"])

    def test_names_of_files_and_arguments_may_be_anything(self):
        subprocess.run([TRACED, "low", "\udcff 'x'"], cwd=self.here, env={"AUTOAMP_TRACE_FILE": "a b\udcfe.aat"})
        report = self.autoamp("report", "--format", "json", "a b\udcfe.aat")
        self.assertEqual(report.returncode, 0)
        json.loads(report.stdout)

    def test_many_events_take_little_memory(self):
        name = self.trace("many", "many.aat", "1000000")
        child = subprocess.Popen([self.root / "tools/autoamp", "report", name], cwd=self.here, env=self.environment,
                                 stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        self.assertLess(usage.ru_maxrss, 100 << 10)


unittest.main()
