"""AUTOAMP_WEIGHTS on a GPU: converted weights that are kept change no bit while the weights stay the same, and follow each
change within the number of products that is documented. A cache that is keyed by address only does not."""
import collections
import os
import re
import tempfile

import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, FILTERS, REGIONS = "weights", "weights_filters", "weights_regions"
SCRIPT = os.path.join(HERE, "clients/autocast.py")
PYTHON = {"SCOPE": "process", "_PYTHONPATH": os.path.join(HERE, "../../tools/python")}
# A product in which a sparse change must be seen, counted from the change: the sample visits all elements in 64 products.
# `frozen` acts on what it finds at the next product.
LATEST = {"off": 0, "checked": 63, "frozen": 64}
LATEST_DENSE = {"off": 0, "checked": 0, "frozen": 1}
KINDS = ("made", "recast", "changed", "given_up", "refused")
# Run for the second type, too: one case for each kind of a change that depends on the type.
SOME = ("edit.step", "edit.row", "edit.element", "edit.last_element", "edit.scaled*", "edit.zeros", "edit.nan", "edit.infinite",
        "change.training", "change.reused", "change.replayed", "change.updated_graph", "change.threads", "change.streams", "change.square",
        "fuzz.1")
SOME_FILTERS = ("edit.step.*", "edit.scaled.forward", "edit.scaled.data_nhwc", "edit.element.forward")
MANY = ("change.training*", "change.reused", "change.merged", "change.seldom", "change.freed", "change.remapped", "change.viewed",
        "change.square", "reset")
GRAPHS = ("change.replayed*", "change.brief", "change.updated_graph")
CONCURRENT = ("change.threads", "change.streams", "change.devices")
RANDOM = ("fuzz.1", "fuzz.2")  # the program has more of them
# Cases whose first change need not find a copy: their memory was freed or unmapped before, or one operand is not kept.
WITHOUT_STALE = ("change.freed", "change.remapped", "change.square", "reset")
UNORDERED = ("change.threads", "change.streams")
PROMISE = re.compile(r"autoamp: AUTOAMP_WEIGHTS=frozen: a weight changed, and products used its old values \(noticed (\d+) times?, "
                     r"the first: [AB] of \w+ [\dx]+\); set AUTOAMP_WEIGHTS=checked\n")


def number(case, key):
    return int(case.get(key, 0))


def weights_of(rows):
    """The sums of the counts over rows of the report."""
    sums = dict.fromkeys(("served", "converted", *KINDS), 0)
    for row in rows:
        for key, value in (row["weights"] or {}).items():
            if key in sums and value is not None:
                sums[key] += value
    return sums


def reasons_of(rows):
    """Conversions of operands that were not kept, by reason."""
    return sum((collections.Counter(row["weights"]["reasons"]) for row in rows if row["weights"]), collections.Counter())


def events(result):
    return {kind: count for kind, count in result.scaler_totals().items() if kind in KINDS}


def decisions(result):
    return sorted((row["entry"], row["shape"], row["decision"], row["strategy"], row["calls"]) for row in result.rows())


class Test(runner.Test):
    def assertPromiseBroken(self, result, times):
        """The program found no error, and the library printed one warning."""
        self.assertEqual(result.status, 0, result.errors)
        match = PROMISE.fullmatch(result.errors)
        self.assertTrue(match, result.errors)
        self.assertEqual(int(match[1]), times)

    def assertLowered(self, rows):
        self.assertEqual({(row["decision"], row["strategy"]) for row in rows}, {("lowered", "cast")})


class Control(Test):
    """The programs reveal a copy that is not checked."""

    def test_each_change_is_missed(self):
        for program, cases in ((PROGRAM, ("edit.*", "change.*", *RANDOM)), (FILTERS, ("edit.*",))):
            plain, control = bare(program, *cases), bare(program, *cases, _CONTROL="1")
            self.assertFine(plain)
            self.assertGreater(len(plain.cases), 10)
            self.assertEqual(plain.cases.keys(), control.cases.keys())
            for name, case in control.cases.items():
                with self.subTest(name):
                    self.assertEqual(number(plain.cases[name], "stale"), 0)
                    self.assertGreater(number(plain.cases[name], "products"), 0)
                    self.assertTrue(number(case, "last") > 0 or number(case, "unknown") > 0, "the control is right")


class Same:
    """Weights that stay the same."""
    way = None

    def check(self, program, *cases, **more):
        off, *others = (run(program, *cases, **self.way.variables, WEIGHTS=mode, **more) for mode in ("off", "checked", "frozen"))
        self.assertFine(off)
        self.assertEqual(weights_of(off.rows())["served"], 0)
        self.assertEqual(events(off), {})
        for result in others:
            self.assertFine(result)
            self.assertEqual(result.bits(), off.bits())
            self.assertEqual(decisions(result), decisions(off))
            self.assertLowered(result.rows())
            sums = weights_of(result.rows())
            self.assertTrue(sums["served"] > 0 and sums["made"] > 0)
            self.assertEqual((sums["recast"], sums["changed"], sums["given_up"]), (0, 0, 0))
        return off, *others

    def test_forms_of_a_product(self):
        plain = bare(PROGRAM, "same.*")
        _, *others = self.check(PROGRAM, "same.*")
        for result in others:
            self.assertGreater(len(result.cases), 15)
            for name, case in result.cases.items():
                with self.subTest(name):
                    if name != "same.devices":  # its products may be those of an unscaled type
                        self.assertNotEqual(case["bits"], plain.cases[name]["bits"])
                    self.assertGreater(weights_of(result.rows_of(case))["served"], 0)
            # Both operands of three products in seven rounds.
            self.assertEqual(reasons_of(result.rows_of(result.cases["same.both"]))["same_operand"], 42)

    def test_filters(self):
        self.check(FILTERS, "same.*")

    def test_audits(self):
        off, checked = (run(PROGRAM, "same.a_transposed", "same.captured", **self.way.variables, WEIGHTS=mode, AUDIT="1")
                        for mode in ("off", "checked"))
        self.assertFine(checked)
        self.assertEqual(checked.bits(), off.bits())
        self.assertGreater(weights_of(checked.rows())["served"], 0)

    def test_memory(self):
        """Two copies of 532736 bytes; three quarters of the memory are for copies. Other products need as much for a call."""
        off = run(PROGRAM, "same.a_transposed", **self.way.variables, WEIGHTS="off")
        for memory, made in (("2M", 2), ("1200K", 1), ("690K", 0)):
            with self.subTest(memory):
                result = run(PROGRAM, "same.a_transposed", **self.way.variables, WEIGHTS="checked", MEMORY=memory)
                self.assertFine(result)
                self.assertEqual(result.bits(), off.bits())
                self.assertLowered(result.rows())
                sums = weights_of(result.rows())
                self.assertEqual((sums["made"], sums["served"] > 0, sums["refused"] > 0), (made, made > 0, made < 2))
                self.assertEqual("memory_budget" in reasons_of(result.rows()), made < 2)

    def test_shortage(self):
        """A call runs as without copies, if it would have enough memory then."""
        off, checked = (run(PROGRAM, "shortage", **self.way.variables, WEIGHTS=mode, MEMORY="2M") for mode in ("off", "checked"))
        self.assertFine(off)
        self.assertFine(checked)
        self.assertEqual(checked.bits(), off.bits())
        self.assertEqual(decisions(checked), decisions(off))
        self.assertLowered(checked.rows())
        self.assertGreater(weights_of(checked.rows())["served"], 0)

    def test_updates_of_graphs(self):
        """Copies change no edge and no node of a graph, also if they exceed the memory."""
        for memory in ("1G", "1650K"):
            off, checked = (run(PROGRAM, "shared_in_turn", **self.way.variables, WEIGHTS=mode, MEMORY=memory) for mode in ("off", "checked"))
            for result in (off, checked):
                self.assertFine(result)
            self.assertEqual(checked.bits(), off.bits())
            self.assertGreater(weights_of(checked.rows())["served"], 1)

    def test_memory_of_graphs(self):
        """Four weights in a graph. Half of the memory holds one copy. With the smaller memory, the rest is too little for a
        conversion, which takes more then."""
        for memory in ("2M", "1200K"):
            off, checked = (run(PROGRAM, "many_captured", **self.way.variables, WEIGHTS=mode, MEMORY=memory) for mode in ("off", "checked"))
            for result in (off, checked):
                self.assertFine(result)
                self.assertLowered(result.rows())
            self.assertEqual(checked.bits(), off.bits())
            self.assertEqual(weights_of(checked.rows())["made"], 1)
            self.assertEqual(reasons_of(checked.rows())["memory_budget"], 3)

    def test_memory_of_many_graphs(self):
        """At the limit, all calls of twelve graphs have memory, or the last one has none, with copies or without."""
        runner.store_self_tests()
        for memory, fallbacks in ((self.least - 1, 1), (self.least, 0)):
            results = [run(PROGRAM, "many_graphs", **self.way.variables, WEIGHTS=mode, MEMORY=str(memory)) for mode in ("off", "checked", "frozen")]
            for result in results:
                self.assertFine(result)
                self.assertEqual((result.bits(), decisions(result)), (results[0].bits(), decisions(results[0])))
                self.assertEqual(sum(row["calls"] for row in result.rows() if row["decision"] == "fallback"), fallbacks)
            self.assertGreater(weights_of(results[1].rows())["made"], 1)

    def test_memory_of_freed_weights(self):
        """The second weight is used after the first one was freed. With 1100K, its conversion takes the memory of the copy,
        which the device releases some calls later."""
        for memory, made in (("1300K", 2), ("1100K", 1)):
            off, checked = (run(PROGRAM, "one_by_one", **self.way.variables, WEIGHTS=mode, MEMORY=memory) for mode in ("off", "checked"))
            self.assertFine(checked)
            self.assertEqual((checked.bits(), decisions(checked)), (off.bits(), decisions(off)))
            sums = weights_of(checked.rows())
            self.assertEqual((sums["made"], sums["refused"]), (made, 0))

    def test_changed_weights(self):
        """The bits do not depend on the contents that a weight had before."""
        off, checked = (run(PROGRAM, "rescaled", **self.way.variables, WEIGHTS=mode) for mode in ("off", "checked"))
        self.assertFine(off)
        self.assertFine(checked)
        self.assertEqual(checked.bits(), off.bits())
        self.assertGreater(weights_of(checked.rows())["recast"], 0)


class SameHalf(Same, Test):
    way = CAST_HALF
    least = 8712192  # for test_memory_of_many_graphs


class SameBfloat16(Same, Test):
    way = CAST_BFLOAT16
    least = 7609344

    def test_memory_of_observations(self):
        """The memory is just enough for a call that is not observed, and for a captured one."""
        runner.store_self_tests()
        for case, least, reasons in (("one_by_one", 604928, {"unproven": 16}),
                                     ("many_captured", 597760, {"unproven": 16, "memory_budget": 4})):
            with self.subTest(case):
                short, off, checked = (run(PROGRAM, case, **self.way.variables, WEIGHTS=mode, MEMORY=str(memory))
                                       for memory, mode in ((least - 1, "off"), (least, "off"), (least, "checked")))
                self.assertIn("fallback", {row["decision"] for row in short.rows()})
                self.assertLowered(off.rows())
                self.assertEqual((checked.bits(), decisions(checked)), (off.bits(), decisions(off)))
                self.assertEqual(reasons_of(checked.rows()), reasons)

    def test_full_table(self):
        checked = run(REGIONS, "crowded", **self.way.variables, WEIGHTS="checked")
        self.assertFine(checked)
        self.assertLowered(checked.rows())
        self.assertEqual(weights_of(checked.rows())["made"], 4)
        self.assertEqual(reasons_of(checked.rows())["too_many"], 16)  # the calls of two parts


class Changes:
    way = None

    def check(self, mode, *cases, program=PROGRAM, **more):
        result = run(program, *cases, **self.way.variables, WEIGHTS=mode, **more)
        self.assertTrue(result.cases, (result.status, result.errors))
        sums = weights_of(result.rows())
        if sums["changed"]:
            self.assertEqual(mode, "frozen")
            self.assertPromiseBroken(result, sums["changed"])
        else:
            self.assertFine(result)
        self.assertEqual(events(result), {kind: sums[kind] for kind in KINDS if sums[kind]})
        if mode == "off":
            self.assertEqual((events(result), sums["served"]), ({}, 0))
        self.assertLowered(result.rows())
        for name, case in result.cases.items():
            with self.subTest(name, mode=mode):
                self.judge(mode, name, case)
                if mode != "off" and name != "change.square":
                    self.assertGreater(weights_of(result.rows_of(case) if "entry" in case else result.rows())["served"], 0)
        return result

    def judge(self, mode, name, case):
        copies = number(case, "copies") or 1
        if mode != "frozen":
            self.assertEqual(number(case, "late_dense"), 0)
        elif not name.startswith("fuzz") and number(case, "late") <= 1:
            self.assertLessEqual(number(case, "stale"), number(case, "changes") * copies)
        if mode == "frozen" and copies > 1:  # a copy that was not used for a time is stale in its next product only
            self.assertLessEqual(number(case, "stale"), number(case, "changes") * copies)
        elif name not in UNORDERED:
            self.assertLessEqual(number(case, "late_dense"), LATEST_DENSE[mode])
            self.assertLessEqual(number(case, "late"), LATEST[mode])
        if not name.startswith(("fuzz", "change.training", "change.viewed")):
            self.assertEqual(number(case, "last"), 0, "the last product is stale")
        if mode == "frozen" and name not in WITHOUT_STALE and not name.startswith("fuzz"):
            self.assertGreater(number(case, "stale"), 0, "no product used the copy when the weight changed")

    def check_edits(self, result, event):
        for name, case in result.cases.items():
            if name.startswith("edit") and "entry" in case:
                with self.subTest(name, event=event):
                    sums = weights_of(result.rows_of(case))
                    self.assertEqual((sums["made"], sums[event], sums["given_up"]), (1, 1, 0))

    def test_audits_see_each_change_at_once(self):
        for mode in ("checked", "frozen"):
            result = self.check(mode, "edit.element", "edit.block", "change.replayed_element", AUDIT="1", _AUDITED="1")
            for name, case in result.cases.items():
                self.assertLessEqual(number(case, "late"), LATEST_DENSE[mode], name)

    def test_too_little_memory(self):
        """Copies of more than 574000 bytes, and 537600 bytes for copies."""
        for mode in ("checked", "frozen"):
            result = run(PROGRAM, "edit.step", "edit.scaled_up", **self.way.variables, WEIGHTS=mode, MEMORY="700K")
            self.assertFine(result)
            self.assertLowered(result.rows())
            for case in result.cases.values():
                self.assertEqual(number(case, "stale"), 0)
            self.assertEqual(weights_of(result.rows())["served"], 0)
            self.assertGreater(weights_of(result.rows())["refused"], 0)


class ChangesHalf(Changes, Test):
    way = CAST_HALF

    def test_off(self):
        self.check("off", "edit.step", "edit.element", "change.replayed")

    def test_one_change(self):
        for mode, event in (("checked", "recast"), ("frozen", "changed")):
            self.check_edits(self.check(mode, "edit.*"), event)
            self.check(mode, *SOME_FILTERS, program=FILTERS)

    def test_many_changes(self):
        for mode in ("checked", "frozen"):
            result = self.check(mode, *MANY)
            of = {name: weights_of(result.rows_of(case)) for name, case in result.cases.items()}
            for name in ("change.training", "change.training_by_two"):
                self.assertGreater(of[name]["given_up"], 0, (name, mode))
            self.assertEqual((of["change.seldom"]["made"], of["change.seldom"]["given_up"]), (1, 0))
            self.assertEqual(of["change.square"]["served"], 0)

    def test_graphs(self):
        for mode, event in (("checked", "recast"), ("frozen", "changed")):
            result = self.check(mode, *GRAPHS)
            element = weights_of(result.rows_of(result.cases["change.replayed_element"]))
            # The copy of the calls before the graph, and that of the graph.
            self.assertEqual((element["made"], element[event], element["given_up"]), (2, 1, 0))
            # One copy for each branch: the emulated device runs them one after the other, so that no result would be wrong.
            branches = weights_of(result.rows_of(result.cases["change.replayed_branches"]))
            self.assertEqual(branches["made"], 3)

    def test_threads_streams_devices(self):
        for mode in ("checked", "frozen"):
            self.check(mode, *CONCURRENT)

    def test_random_changes(self):
        for mode in ("checked", "frozen"):
            self.check(mode, *RANDOM)


class ChangesBfloat16(Changes, Test):
    way = CAST_BFLOAT16

    def test_changes(self):
        for mode, event in (("checked", "recast"), ("frozen", "changed")):
            self.check_edits(self.check(mode, *SOME), event)
            self.check(mode, *SOME_FILTERS, program=FILTERS)


class Settings(Test):
    """Each way to set the mode, and reports without copies."""

    def regions(self, name, program=REGIONS, **more):
        """Calls that used a copy, and copies made, by region."""
        result = run(program, name, STRATEGY="cast", **more)
        self.assertFine(result)
        self.assertLowered(result.rows())
        sums = {row["region"]: weights_of([row]) for row in result.rows()}
        return {region: (row["served"], row["made"]) for region, row in sums.items()}, result.cases[name]

    def test_regions_release_their_copies(self):
        """The fifth of eight calls makes a copy, which the others use."""
        found, _ = self.regions("region.in_a_row")
        self.assertEqual({region: made for region, (_, made) in found.items()}, {"first": 1, "second": 1})
        self.assertGreater(found["first"][0], 0)
        self.assertGreater(found["second"][0], 0)
        result = run(REGIONS, "region.grows", STRATEGY="cast")  # 20 copies of 512 KiB, of which one lives at a time
        self.assertLessEqual(int(result.cases["region.grows"]["grown"]), 1 << 20)
        sums = weights_of(result.rows())
        self.assertGreater(sums["made"], 10)
        self.assertLessEqual(sum(row["weights"]["bytes"] for row in result.rows()), 1 << 20)

    def test_region_after_calls_without_copies(self):
        found, _ = self.regions("region.after_calls")
        self.assertEqual({region: made for region, (_, made) in found.items()}, {None: 0, "late": 1, "later": 1})
        for region in ("late", "later"):
            self.assertGreater(found[region][0], 0)

    def test_copies_end_with_the_outermost_region(self):
        found, _ = self.regions("region.nested")
        self.assertEqual({region: made for region, (_, made) in found.items()}, {"outer": 1, "inner": 0, "plain": 0, "without": 0})
        self.assertEqual([found[region][0] for region in ("inner", "plain", "without")], [8, 8, 0])

    def test_regions_of_python(self):
        found, _ = self.regions("copies", SCRIPT, **PYTHON)
        self.assertEqual({region: made for region, (_, made) in found.items()}, {"outer": 1, "inner": 0, "plain": 0, "later": 1, "around": 0})
        self.assertEqual([found[region][0] for region in ("inner", "plain", "around")], [8, 8, 0])
        self.assertGreater(found["later"][0], 0)

    def test_rule(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[rule]]\nk = 520\nweights = "frozen"\n')
            file.flush()
            result = run(PROGRAM, "same.a_transposed", "same.a", STRATEGY="cast", CONFIG=file.name)
        self.assertFine(result)
        ruled, other = (result.rows_of(result.cases[name]) for name in ("same.a_transposed", "same.a"))
        self.assertGreater(weights_of(ruled)["served"], 0)
        self.assertEqual({row["weights"]["how"] for row in ruled}, {"frozen"})
        self.assertEqual(weights_of(other)["served"], 0)

    def test_broken_promise_without_a_trace(self):
        for variables in ({"TRACE": "off"}, {"TRACE": "summary"}, {"DELAY": "1000"}):
            result = run(PROGRAM, "edit.element", STRATEGY="cast", WEIGHTS="frozen", **variables)
            self.assertPromiseBroken(result, 1)

    def test_estimate(self):
        """Two conversions in a row of 64 are compared."""
        result, kept = run(REGIONS, "steady", STRATEGY="cast"), run(REGIONS, "steady", STRATEGY="cast", WEIGHTS="checked")
        self.assertIsNone(kept.report["totals"]["weights_estimate"])
        estimate = result.report["totals"]["weights_estimate"]
        self.assertGreater(estimate["compared"], 4)
        self.assertEqual(estimate["repeated"], estimate["compared"])
        (row,), (keptRow,) = result.rows(), kept.rows()
        self.assertWithin(estimate["from_ns"] / row["as_run_ns"], (0.99, 1.01), "the time as run")
        self.assertWithin(estimate["to_ns"] / keptRow["as_run_ns"], (0.95, 1.05), "the time with copies")
        self.assertLess(estimate["to_ns"], estimate["from_ns"])

    def test_times_with_and_without_copies(self):
        """A call without a copy counts with the time of a conversion, whatever the settings promise."""
        def row(**variables):
            return run(REGIONS, "steady", STRATEGY="cast", **variables).rows()[0]
        off, some = row(), row(WEIGHTS="checked")
        none = row(WEIGHTS="checked", MEMORY=str(some["weights"]["bytes"] * 5 // 4))  # copies take at most three quarters
        self.assertEqual((none["weights"]["served"], none["weights"]["refused"] > 0), (0, True))
        self.assertWithin(none["as_run_ns"] / off["as_run_ns"], (0.999, 1.001), "the time without copies")
        self.assertLess(some["as_run_ns"], none["as_run_ns"])
        self.assertGreater(some["weights"]["served"], 0)

    def test_calls_that_keep_no_copy(self):
        for program, case, reason, variables in (
                ("semantics", "door.sgemm", "too_small", {}),
                ("semantics", "door.sgemm", "strict_scaling", {"SCALING": "strict"}),
                ("semantics", "door.sgemm_strided", "batched", {}),
                ("semantics", "door.sgemm_batched", "batched", {}),
                ("convolutions", "wide.nchw.filter", "no_filter", {}),
                ("dnn_graph", "matmul.rrr", "graph", {}),
                ("rnn", "net.lstm", "recurrent", {"DTYPE": "bfloat16"})):
            with self.subTest(reason, case=case):
                rows = run(program, case, STRATEGY="cast", WEIGHTS="checked", **variables).rows(decision="lowered")
                self.assertTrue(rows)
                self.assertEqual(reasons_of(rows), {reason: sum(row["calls"] for row in rows)})


class Failures(Test):
    """One call of a function fails; the products of these integers are exact in each precision."""
    FUNCTIONS = {"cuMemAllocFromPoolAsync": 6, "cuMemPoolCreate": 1, "cuLaunchKernel": 9, "cuLaunchKernelEx": 2, "cuEventCreate": 1,
                 "cuEventRecord": 2, "cuEventQuery": 1, "cuPointerGetAttribute": 3, "cuMemHostGetDevicePointer_v2": 1,
                 "cuMemHostRegister_v2": 1, "cuMemFreeAsync": 2, "cuMemsetD8Async": 2, "cuUserObjectCreate": 1,
                 "cuGraphRetainUserObject": 1}

    @runner.emulated_only("failing functions")
    def test_the_observation_goes_on(self):
        """The device does not count an observation whose cast or settle was not launched."""
        runner.store_self_tests()
        for function in ("cuLaunchKernel", "cuLaunchKernelEx"):
            with self.subTest(function):
                result = run(REGIONS, "steady", **CAST_BFLOAT16.variables, WEIGHTS="checked", EMU_FAIL=f"{function}:1")
                self.assertEqual(result.status, 0, result.errors)
                self.assertEqual({row["decision"]: row["calls"] for row in result.rows()}["fallback"], 1)
                self.assertEqual(weights_of(result.rows())["made"], 1)

    @runner.emulated_only("failing functions")
    def test_results_are_right(self):
        runner.store_self_tests()
        for way, functions in ((CAST_BFLOAT16, self.FUNCTIONS), (CAST_HALF, ("cuLaunchKernel", "cuMemAllocFromPoolAsync"))):
            for function in functions:
                for n in range(1, self.FUNCTIONS[function] + 1):
                    with self.subTest(way=way.precision, function=function, n=n):
                        result = run(PROGRAM, "change.brief", **way.variables, WEIGHTS="checked", EMU_FAIL=f"{function}:{n}")
                        self.assertEqual(result.status, 0, result.errors)
                        (case,) = result.cases.values()
                        self.assertEqual((case["ok"], case["stale"]), ("1", "0"))


if __name__ == "__main__":
    runner.main()
