"""`autoamp diff`: differences between two runs of the same calls, and the conditions for a failure status."""
import csv
import io
import json
import unittest

from case import EMULATED, Case


class Diff(Case):
    def diff(self, *arguments):
        result = self.autoamp("diff", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def rows(self, *arguments):
        return {row["shape"]: row for row in json.loads(self.diff("--format", "json", *arguments))["signatures"]}

    def test_calls_time_and_ratio(self):
        before, after = self.trace("kernels", "a.aat", "1000"), self.trace("kernels", "b.aat", "1500")
        whole = json.loads(self.diff("--format", "json", before, after))
        self.assertEqual((whole["schema"], whole["time"], whole["emulated"], whole["changed"], whole["max_error"]),
                         ("autoamp.diff/1", "kernel_ns", False, 0, None))
        rows = {row["shape"]: row for row in whole["signatures"]}
        lowered, kept = rows["1024x1024x1024"], rows["512x512x512"]
        self.assertEqual((lowered["calls_before"], lowered["kernel_ns_before"], lowered["kernel_ns_after"]),
                         (75, 75 * 1400, 75 * 1900))
        self.assertAlmostEqual(lowered["ratio"], 1900 / 1400)
        self.assertAlmostEqual(kept["ratio"], 1.5)
        self.assertAlmostEqual(whole["slower_percent"], 100 * ((75 * 1900 + 25 * 1500) / (75 * 1400 + 25 * 1000) - 1))
        text = self.diff(before, after)
        self.assertRegex(text, r"\ncublasSgemm_v2 +TN 1024x1024x1024 +105 us +142 us +1.36 +75 +75 ")
        self.assertRegex(text, r"\nentry point +m x n x k +before \(kernels\) +after +ratio +calls before +after +precision before +precision after *\n")
        self.assertIn("calls in both runs took 1.38 times as long (+38.5 %, device time)", text)

    def test_an_early_end(self):
        """Fewer calls have another cause then."""
        self.assertIn("after: killed.aat (traced, killed, died inside cublasSgemm_v2)\n", self.diff(self.trace("mixed"), self.trace("killed")))

    def test_gates(self):
        slow = self.trace("kernels", "a.aat", "1000"), self.trace("kernels", "b.aat", "1500")
        self.assertEqual(self.autoamp("diff", "--fail-if-slower", "40", *slow).returncode, 0)
        result = self.autoamp("diff", "--fail-if-slower", "30", *slow)
        self.assertEqual(result.returncode, 1)
        self.assertIn("38.5 % slower, more than 30 %", result.stderr)
        self.assertEqual(self.autoamp("diff", "--fail-if-slower", "0", *reversed(slow)).returncode, 0)
        for names in (slow, (self.trace("vectors"), self.trace("vectors", "w.aat"))):  # neither run measured errors
            result = self.autoamp("diff", "--fail-if-error", "1e-3", *names)
            self.assertEqual((result.returncode, result.stderr), (2, "autoamp: diff: --fail-if-error: traces contain no measured errors\n"))
        audited = self.trace("mixed"), self.trace("audited", "d.aat", "900")
        whole = json.loads(self.diff("--format", "json", *audited))
        self.assertAlmostEqual(whole["max_error"], 9e-4)
        row = next(row for row in whole["signatures"] if row["shape"] == "1024x1024x1024")
        self.assertEqual(row["max_error_before"], None)
        self.assertAlmostEqual(row["max_error_after"], 9e-4)
        self.assertEqual(self.autoamp("diff", "--fail-if-error", "1e-3", *audited).returncode, 0)
        result = self.autoamp("diff", "--fail-if-error", "8e-4", *audited)
        self.assertEqual((result.returncode, result.stderr), (1, "autoamp: diff: error 9.00e-04, more than 0.0008\n"))
        self.assertEqual(self.autoamp("diff", "--fail-if-error", "1", *reversed(audited)).returncode, 2)
        result = self.autoamp("diff", "--fail-if-error", "1", audited[0], self.trace("audited", "i.aat", "0"))
        self.assertEqual((result.returncode, result.stderr),
                         (1, "autoamp: diff: 1 result with an Inf or NaN that fp32 does not have\n"))
        unlike = self.autoamp("diff", "--fail-if-slower", "3", self.trace("real"), self.trace("kernels", "c.aat"))
        self.assertIn(unlike.returncode, (0, 1))

    def test_runs_without_a_common_signature_are_an_error(self):
        names = self.trace("mixed"), self.trace("low")
        for arguments in ([], ["--format", "json"], ["--fail-if-error", "1"]):
            result = self.autoamp("diff", *arguments, *names)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "autoamp: diff: mixed.aat and low.aat have no signature in common\n"))
            self.assertIn("cublasGemmEx", result.stdout)

    def test_both_names_and_every_setting_that_differs(self):
        names = self.trace("observed"), self.trace("real")
        text = self.diff(*names)
        self.assertIn("before: observed.aat (traced)\nafter: real.aat (traced)\n", text)
        self.assertIn("\ndevice 0: autoamp emulated (h100 constants) > NVIDIA H100\nlevel: O0 > O1\n", text)
        self.assertNotIn("dtype:", text)
        whole = json.loads(self.diff("--format", "json", *names))
        self.assertEqual((whole["files_before"], whole["files_after"], whole["common"]), (["observed.aat"], ["real.aat"], 2))
        self.assertEqual(whole["settings"], [
            {"name": "device 0", "before": "autoamp emulated (h100 constants)", "after": "NVIDIA H100"},
            {"name": "level", "before": "O0", "after": "O1"}])
        self.assertIn("settings, versions and devices are identical\n", self.diff(names[0], self.trace("observed", "o.aat")))

    def test_precision_and_decision(self):
        before, after = self.trace("observed"), self.trace("mixed")
        rows = self.rows(before, after)
        row = rows["1024x1024x1024"]
        self.assertEqual((row["way_before"], row["way_after"], row["changed"]),
                         ("observed float32 (white_list)", "lowered float16 (white_list)", True))
        self.assertEqual((rows["512x512x512"]["calls_before"], rows["512x512x512"]["way_before"]), (None, None))
        self.assertRegex(self.diff(before, after), 
                         r"signatures, 2 with another precision or reason; ratio: time per call, after / before; calls in both runs took 0.82 times as long \(-18.0 %, model, nothing was timed\)\n\Z")

    def test_no_speed_of_an_emulated_run(self):
        names = self.trace("mixed"), self.trace("emulated_kernels")
        text = self.diff(*names)
        self.assertTrue(text.startswith(EMULATED + "\n"))
        self.assertRegex(text, r"\nentry point +m x n x k +before \(model\) +after +ratio +calls before ")
        self.assertRegex(text, r"calls in both runs took [\d.]+ times as long \([-+][\d.]+ %, model, nothing was timed\)\n\Z")
        self.assertNotRegex(text, r"\(kernels\)|\(host\)|device time")
        self.assertEqual({row["ratio"] for row in self.rows(*names).values()}, {None})
        self.assertEqual(list(self.rows(*names))[:3], ["1024x1024x1024", "512x512x512", "256x256x256"])  # by work
        result = self.autoamp("diff", "--fail-if-slower", "5", *names)
        self.assertEqual(result.returncode, 2)
        self.assertIn("emulated", result.stderr)

    def test_formats_agree(self):
        names = self.trace("observed"), self.trace("mixed")
        whole = json.loads(self.diff("--format", "json", *names))["signatures"]
        lines = [json.loads(line) for line in self.diff("--format", "jsonl", *names).splitlines()]
        self.assertEqual(lines, whole)
        table = list(csv.DictReader(io.StringIO(self.diff("--format", "csv", *names))))
        self.assertEqual([row["entry"] for row in table], [row["entry"] for row in whole])
        ordered = json.loads(self.diff("--format", "json", "--sort", "calls_after", *names))["signatures"]
        self.assertEqual(ordered[0]["calls_after"], 1600)

    def test_markdown_for_pull_requests(self):
        names = self.trace("observed"), self.trace("mixed")
        text = self.diff("--format", "md", *names)
        self.assertTrue(text.startswith(EMULATED + "\n\n**observed.aat → mixed.aat: 1.22× faster per call** (model, nothing was timed). 5 of 5 signatures changed"))
        self.assertIn("\n| signature | time before | time after | change | calls | before | after |\n", text)
        self.assertIn(r"| mm TN 1024×1024×1024 | 30.0 µs | 1.35 ms | 2.00× faster | 10 → 900 | observed float32 \(white_list\) "
                      r"| lowered float16 \(white_list\) |", text)
        self.assertRegex(text, r"\n\| \*\*total\*\* \| [\d.]+ µs \| [\d.]+ ms \| \*\*1\.22× faster\*\* \| 40 → 3,005 \|  \|  \|")
        self.assertIn("- level: O0 → O1\n", text)
        self.assertIn("and 4 more rows", self.diff("--format", "md", "--top", "1", *names))

    def test_only_changes_are_listed(self):
        before, after = self.trace("kernels", "a.aat", "1000"), self.trace("kernels", "b.aat", "1040")
        for form, rest in (("md", "|  | 100 |  |  |"), ("html", "2 signatures did not change")):
            text = self.diff("--format", form, before, after)
            self.assertIn(rest, text)
            self.assertNotIn("512×512×512", text)
            text = self.diff("--format", form, "--all", before, after)
            self.assertIn("512×512×512", text)
            self.assertNotIn(rest, text)
        slower = self.diff("--format", "md", before, self.trace("kernels", "c.aat", "1500"))
        self.assertRegex(slower, r"\*\*a.aat → c.aat: 1.38× slower\*\* \(measured, kernels\). 2 of 2 signatures changed")
        self.assertIn("| 1.50× slower |", slower)

    def test_gates_in_documents(self):
        names = self.trace("kernels", "a.aat", "1000"), self.trace("kernels", "b.aat", "1500")
        for form in ("md", "html"):
            for limit, status, words in (("40", 0, "passed"), ("30", 1, "failed: 38.5 % slower, more than 30 %")):
                result = self.autoamp("diff", "--format", form, "--fail-if-slower", limit, *names)
                self.assertEqual(result.returncode, status)
                self.assertIn(f"--fail-if-slower {limit}", result.stdout)
                self.assertIn(words, result.stdout)

    def test_texts_of_traces_are_no_markdown(self):
        text = self.diff("--format", "md", self.trace("hostile_kernels"), self.trace("mixed"))
        self.assertNotRegex(text, r"<[a-z/]|(?<!\\)\[a\]\(")

    def test_model_times_in_json(self):
        rows = self.rows(self.trace("observed"), self.trace("mixed"))
        row = rows["1024x1024x1024"]
        self.assertEqual((row["ratio"], row["model_ns_before"], row["model_ns_after"], row["model_ratio"]), (None, 30000, 900 * 1500, 0.5))

    def test_what_is_wrong(self):
        name = self.trace("mixed")
        self.refused(self.autoamp("diff", name), 2, "diff: B is missing")
        self.refused(self.autoamp("diff", name, name, "--fail-if-slower", "much"), 2, "much")
        for gate in ("--fail-if-slower", "--fail-if-error"):
            for value in ("-1", "nan", "inf", "-inf", "1x"):
                self.refused(self.autoamp("diff", name, name, gate, value), 2, value)
        self.refused(self.autoamp("diff", name, name, "--format", "pdf"), 2, "pdf")
        for form in ("table", "json", "csv", "jsonl"):
            self.refused(self.autoamp("diff", name, name, "--format", form, "--all"), 2, "--all")
        self.refused(self.autoamp("diff", name, "missing.aat"), 2, "missing.aat")
        self.refused(self.autoamp("diff", name, name, "--sort", "speed"), 2, "ratio")
        self.refused(self.autoamp("diff", name, name, name), 2, "unexpected")


unittest.main()
