"""Kept copies of converted operands of GPU calls: totals, events, warnings, and the estimate of a run without them."""
import json
import subprocess
import unittest

from case import TRACED, Case

KINDS = ["changed", "given_up", "made", "recast", "refused"]
# The decision that the cost model estimates for the calls of the scenarios `repeats` and `unchanged`.
CALL = ("--entry", "cublasSgemm_v2", "--n", "4096", "--k", "4096", "--gpu", "h100", "--format", "json")


class Weights(Case):
    def words(self, *arguments):
        return " ".join(self.autoamp("report", *arguments).stdout.split())

    def test_totals_of_each_row(self):
        report = self.json(self.trace("kept", None, "0"))
        kept = {"how": "checked", "served": 290, "converted": 10, "made": 2, "recast": 3, "changed": 0, "given_up": 0, "refused": 0,
                "compared": 8, "repeated": 6, "bytes": 6 << 20, "refused_bytes": 0, "reasons": {"unproven": 8}}
        refused = {"how": None, "served": 0, "converted": 100, "made": 0, "recast": 0, "changed": 0, "given_up": 0, "refused": 2,
                   "compared": 0, "repeated": 0, "bytes": 0, "refused_bytes": 2 << 20, "reasons": {"memory_budget": 100}}
        self.assertEqual([row["weights"] for row in report["ops"]], [kept, refused])
        self.assertEqual(report["totals"]["weights"], kept | {"converted": 110, "refused": 2, "refused_bytes": 2 << 20,
                                                              "reasons": {"memory_budget": 100, "unproven": 8}})
        self.assertIsNone(report["totals"]["weights_estimate"])
        self.assertRegex(self.autoamp("report", "--report", "ops", "kept.aat").stdout, r" checked 96\.7 %, unproven ")

    def test_summary_and_receipt(self):
        self.trace("kept", None, "0")
        line = "weights: kept copies replaced 290 of 400 conversions (checked, 6.29 MB), 3 recast; not kept: memory_budget 100, unproven 8 "
        # 8 MiB are three quarters of the budget, rounded up.
        memory = "weights: no memory for 2 copies (2.10 MB); AUTOAMP_MEMORY=11M would hold all copies "
        receipt = " ".join(self.run_("--", TRACED, "kept", "0").stderr.replace("autoamp:", "").split())
        for text in (self.words("kept.aat"), receipt):
            self.assertIn(line, text)
            self.assertIn(memory, text)
            self.assertNotIn("WARNING", text)
            self.assertNotIn("scaling: 1 ", text)

    def test_a_broken_promise(self):
        report = self.json(self.trace("kept", None, "2"))
        self.assertEqual([row["weights"]["changed"] for row in report["ops"]], [0, 2])
        warning = ("WARNING: results may be wrong: AUTOAMP_WEIGHTS=frozen, but a weight changed, and products used its old values "
                   "(noticed 2 times, the first at site ")
        receipt = " ".join(self.run_("--", TRACED, "kept", "2").stderr.split())
        for text in (self.words("kept.aat"), receipt):
            self.assertIn(warning, text)
            self.assertIn(": A of cublasSgemm_v2 512x512x512); set AUTOAMP_WEIGHTS=checked ", text)
            self.assertRegex(text, r" next: \S+ run .*--weights checked ")

    def test_events(self):
        report = self.json(self.trace("kept", None, "2"))
        self.assertEqual(sorted(event["kind"] for event in report["scaler"]["events"]), KINDS)
        self.assertEqual({total["kind"]: total["count"] for total in report["scaler"]["totals"]},
                         {kind: 2 if kind == "changed" else 1 for kind in KINDS})
        self.assertEqual({(event["scale_after"], event["amax"]) for event in report["scaler"]["events"]}, {(None, None)})
        self.assertEqual(report["scaler"]["totals"][0]["kind"], "changed")  # the only one that is a problem comes first
        page = self.autoamp("report", "--format", "html", "kept.aat").stdout
        self.assertEqual(page.count('<b class="bad">'), 1)
        self.assertIn('<b class="bad">changed</b>', page)
        self.assertIn("No scale was set", page)
        help_ = " ".join(self.autoamp("help", "reports").stdout.split())
        for word in KINDS + ["weights_off", "too_small", "batched", "unproven", "changes", "memory_budget", "stream_not_ready", "capture_unready"]:
            self.assertIn(word, help_)

    def explain(self, *options, m=64, **variables):
        return json.loads(self.autoamp("explain", *CALL, "--m", str(m), *options, **variables).stdout)

    def estimated(self, told, scenario, *arguments):
        """The report of a scenario whose calls are those of `told`."""
        subprocess.run([TRACED, scenario, *arguments], cwd=self.here, timeout=60, check=True,
                       env={"AUTOAMP_TRACE_FILE": f"{scenario}.aat", "EST": f"{told['est_ns']} {told['est_lowered_ns']}"})
        return self.json(f"{scenario}.aat")

    def repeats(self, percent):
        told = self.explain(AUTOAMP_STRATEGY="cast")
        return told, self.estimated(told, "repeats", str(percent))

    def test_estimate_without_copies(self):
        told, report = self.repeats(100)
        estimate = report["totals"]["weights_estimate"]
        self.assertEqual((estimate["compared"], estimate["repeated"], estimate["repeated_share"], estimate["source"]), (2000, 1000, 0.5, "model"))
        kept = self.explain("--weights", "checked", AUTOAMP_STRATEGY="cast")
        self.assertAlmostEqual(estimate["from_ns"] / (1000 * told["est_lowered_ns"]), 1, 3)
        # The activation is different in each call, the weight never: all products have a kept copy.
        self.assertAlmostEqual(estimate["to_ns"] / (1000 * kept["est_lowered_ns"]), 1, 3)
        sentence = (r"weights: 50\.0 % of the conversions of operands of at least 1 MiB repeat; AUTOAMP_WEIGHTS=checked would reduce "
                    r"the modelled time of these products from \S+ ms to \S+ ms ")
        self.assertRegex(self.words("repeats.aat"), sentence)
        self.assertNotIn("kept copies replaced", self.words("repeats.aat"))
        self.assertEqual(report["next"]["title"], "keep converted weights")
        self.assertIn(" --weights checked ", report["next"]["command"])
        self.assertAlmostEqual(report["next"]["saves_ns"], estimate["from_ns"] - estimate["to_ns"], delta=2)
        self.assertNotIn("kept copies", self.autoamp("report", "--report", "ops", "repeats.aat").stdout)

    def test_a_small_benefit_is_not_mentioned(self):
        _, report = self.repeats(2)
        self.assertEqual(report["totals"]["weights_estimate"]["repeated"], 20)
        self.assertNotIn("repeat;", self.words("repeats.aat"))
        self.assertNotEqual(report["next"]["title"], "keep converted weights")

    def test_estimate_of_unchanged_calls(self):
        told, kept = (self.explain("--weights", weights, m=1, AUTOAMP_DTYPE="bfloat16") for weights in ("off", "checked"))
        self.assertEqual((told["decision"], told["reason"], kept["decision"]), ("kept", "not_profitable", "lowered"))
        estimate = self.estimated(told, "unchanged")["totals"]["weights_estimate"]
        self.assertEqual((estimate["compared"], estimate["repeated_share"], estimate["unchanged_calls"]), (0, None, 20))
        self.assertAlmostEqual(estimate["unchanged_from_ns"] / (20 * told["est_ns"]), 1, 3)
        self.assertAlmostEqual(estimate["unchanged_to_ns"] / (20 * kept["est_lowered_ns"]), 1, 3)
        self.assertRegex(self.words("unchanged.aat"),
                         r"weights: 20 products ran unchanged, because a conversion at each call would not pay; if their weights do not "
                         r"change, AUTOAMP_WEIGHTS=checked would reduce their modelled time from \S+ us to \S+ us ")


if __name__ == "__main__":
    unittest.main()
