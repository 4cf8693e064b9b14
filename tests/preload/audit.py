"""AUTOAMP_AUDIT: the error of lowered calls is measured on the device, without any effect on their results."""
import collections

import runner
from runner import CAST_BFLOAT16, CAST_HALF, LIBRARY_BFLOAT16, LIBRARY_HALF, TF32, run

LINEAR = (None, "1", "4", "256", "512")  # cublasLtEpilogue_t; products with other epilogues are computed again


def audits(result):
    """Rows of the view by shape and entry point, those with audits."""
    return {(row["entry"], row["shape"]): row for row in result.report["audit"] if row["audited"]}


def shape_of(case):
    batch = "" if case["batch"] == "1" else " b" + case["batch"]
    return f"{case['m']}x{case['n']}x{case['k']}{batch}"


def assert_all_audited(test, result):
    """Each lowered call was audited; calls with one shape can be several rows. Returns the number of rows."""
    calls, audited = collections.Counter(), collections.Counter()
    for row in result.report["audit"]:
        test.assertIsNone(row["skipped"], row)
        audited[row["site"]] += row["audited"]
    rows = result.rows(decision="lowered")
    for row in rows:
        calls[row["site"]] += row["calls"]
    test.assertEqual(calls, audited)
    return len(rows)


class Products:
    """Every form of a product that can be lowered, each measured once."""
    way = None

    def setUp(self):
        self.plain = run("semantics", "[!s]*", "s[!i]*", **self.way.variables)
        self.run = run("semantics", "[!s]*", "s[!i]*", AUDIT="1", **self.way.variables)

    def test_results_are_those_without_audits(self):
        self.assertFine(self.run)
        self.assertEqual(self.run.bits(), self.plain.bits())
        decisions = [sorted((row["entry"], row["shape"], row["decision"], row["strategy"], row["calls"]) for row in each.report["ops"])
                     for each in (self.plain, self.run)]
        self.assertEqual(*decisions)
        self.assertEqual(self.plain.report["audit"], [])

    def test_every_lowered_call_is_audited(self):
        self.assertGreater(assert_all_audited(self, self.run), 60)

    def test_errors_are_measured_within_a_factor_of_3(self):
        found, measured, recomputed = audits(self.run), 0, 0
        for name, case in self.run.cases.items():
            audit = found.get((case.get("entry"), shape_of(case))) if "m" in case and "eta" in case else None
            if not audit or audit["max_error"] is None or audit["calls"] != 1:
                continue
            with self.subTest(name):
                measured += 1
                recomputed += audit["recomputed"]
                self.assertEqual(audit["recomputed"] == 1, case.get("epilogue") not in LINEAR)
                # eta is relative to the product alone, the audit to the result with beta C and bias.
                # A product that a permission leaves in fp32 has the bits of the second one, and no error.
                eta = float(case["eta"])
                is_fp32 = self.way.is_permission() and eta < 1e-5
                least = 0 if is_fp32 else eta / (3 if name in ("grouped.one", "arrays.plain") else 10)
                self.assertWithin(audit["max_error"], (least, max(3 * eta, 1e-6)), (audit, case))
                self.assertLessEqual(audit["median_error"], audit["max_error"])
        self.assertGreater(measured, 40)
        self.assertGreater(recomputed, 0)


class HalfProducts(Products, runner.Test):
    way = CAST_HALF


class Bfloat16Products(Products, runner.Test):
    way = CAST_BFLOAT16


class Tf32Products(Products, runner.Test):
    way = TF32


class LibraryProducts(Products, runner.Test):
    way = LIBRARY_BFLOAT16


class Convolutions(runner.Test):
    """All directions and layouts of the legacy functions."""
    TABLE = ("wide.*", "narrow.*", "fused.*")

    def check(self, way, least):
        plain, result = (run("convolutions", *self.TABLE, **way.variables, **more) for more in ({}, {"AUDIT": "1"}))
        self.assertFine(result)
        self.assertEqual(result.bits(), plain.bits())
        assert_all_audited(self, result)
        measured = 0
        for audit in result.report["audit"]:
            if audit["max_error"] is not None and not audit["partial"]:
                measured += 1
                self.assertWithin(audit["max_error"], (runner.ETA[way.precision][0] / 3, runner.ETA[way.precision][1] * 4), audit)
        self.assertGreater(measured, least)
        self.assertGreater(sum(row["recomputed"] for row in result.report["audit"]), 0)

    def test_half(self):
        self.check(CAST_HALF, 30)

    def test_bfloat16(self):
        self.check(CAST_BFLOAT16, 40)


class Captured(runner.Test):
    CASES = ("replay.*",)

    def test_replays_are_audited_by_their_number(self):
        runner.store_self_tests()
        plain, every, third = (run("capture", *self.CASES, **CAST_HALF.variables, **more)
                               for more in ({}, {"AUDIT": "1"}, {"AUDIT": "0.333333"}))
        self.assertFine(every)
        self.assertFine(third)
        self.assertEqual(every.bits(), plain.bits())
        self.assertEqual(third.bits(), plain.bits())
        rows = {row["site"]: row for row in third.report["audit"]}
        count = 0
        for row in every.report["audit"]:
            if row["skipped"]:
                self.assertIn("captured graph", row["skipped"])
                continue
            count += 1
            self.assertGreater(row["audited"], 1, row)
            self.assertGreater(row["audited"], rows[row["site"]]["audited"], row)
            self.assertWithin(row["max_error"], (1e-4, 1e-3), row)
        self.assertGreater(count, 8)


class Choice(runner.Test):
    def test_first_call_and_every_period(self):
        runner.store_self_tests()
        counts = {}
        for fraction in ("0", "1", "0.5", "0.25", "0.3", "0.01"):
            result = run("numerics", "events", **CAST_HALF.variables, AUDIT=fraction)
            rows = result.report["audit"]
            self.assertEqual(result.cases["events"]["calls"], "13")
            counts[fraction] = rows[0]["audited"] if rows else 0
        self.assertEqual(counts, {"0": 0, "1": 13, "0.5": 7, "0.25": 4, "0.3": 5, "0.01": 1})

    def test_the_same_audits_in_every_run(self):
        # A variable that changes nothing else, because equal runs are done once.
        first, second = (run("semantics", "lt.*", **CAST_HALF.variables, AUDIT="1", LOG=log)
                         for log in ("warn", "error"))
        self.assertGreater(len(first.report["audit"]), 3)
        self.assertEqual(first.report["audit"], second.report["audit"])


class Failures(runner.Test):
    @runner.emulated_only("failing functions")
    def test_without_memory_the_call_runs_as_ever(self):
        runner.store_self_tests()
        plain = run("numerics", "growth", **CAST_HALF.variables)
        for function, reason in (("cuMemPoolCreate:2", "creating the memory pool of the audits failed"),
                                 ("cuMemAllocFromPoolAsync:2", "allocating device memory for the audit failed|no device memory")):
            with self.subTest(function):
                result = run("numerics", "growth", **CAST_HALF.variables, AUDIT="1", EMU_FAIL=function)
                self.assertEqual(result.bits(), plain.bits())
                self.assertEqual(result.report["totals"]["fallbacks"], 0)
                rows = [row for row in result.report["audit"] if row["skipped"]]
                self.assertEqual(len(rows), 1)
                self.assertRegex(rows[0]["skipped"], reason)

    def test_networks_are_not_audited(self):
        result = run("rnn", **CAST_BFLOAT16.variables, AUDIT="1")
        rows = {row["op"]: (row["audited"], row["skipped"]) for row in result.report["audit"]}
        self.assertIn((0, "a recurrent network"), rows.values())


class NonFinite(runner.Test):
    def test_c_that_is_not_read_may_be_nan(self):
        result = run("semantics", "*beta_zero*", **CAST_HALF.variables, AUDIT="1")
        for row in result.report["audit"]:
            self.assertEqual((row["partial"], row["overflowed"]), (0, 0), row)

    def test_overflow_without_scales(self):
        result = run("numerics", "magnitude.*", STRATEGY="cast", SCALING="off", AUDIT="1")
        self.assertGreater(sum(row["overflowed"] for row in result.report["audit"]), 3)


if __name__ == "__main__":
    runner.main()
