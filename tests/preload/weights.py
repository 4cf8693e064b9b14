"""AUTOAMP_WEIGHTS on a GPU: converted weights that are kept change no bit while the weights stay the same, and follow each
change within the number of products that is documented. A cache that is keyed by address only does not."""
import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

PROGRAM, FILTERS = "weights", "weights_filters"
# A product in which a sparse change must be seen, counted from the change: the sample visits all elements in 64 products.
# `frozen` acts on what it finds at the next product.
LATEST = {"off": 0, "checked": 63, "frozen": 64}
LATEST_DENSE = {"off": 0, "checked": 0, "frozen": 1}
KINDS = ("made", "recast", "changed", "given_up", "refused")
ONCE = ("change.step", "change.row*", "change.column*", "change.*element", "change.element*", "change.block*",
        "change.half_of_row", "change.diagonal", "change.lora", "change.scaled*", "change.slightly_scaled", "change.zeros",
        "change.signs", "change.nan", "change.infinite*", "change.reversed", "change.square")
MANY = ("change.training*", "change.reused", "change.merged", "change.seldom", "change.freed", "change.remapped",
        "change.viewed", "reset")
GRAPHS = ("change.replayed*", "change.updated_graph")
CONCURRENT = ("change.threads", "change.streams", "change.devices")
# Cases whose first change need not find a copy: their memory was freed or unmapped before.
RELEASED = ("change.freed", "change.remapped", "reset")
UNORDERED = ("change.threads", "change.streams")


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


def events(result):
    return {kind: count for kind, count in result.scaler_totals().items() if kind in KINDS}


class Control(runner.Test):
    """The programs reveal a copy that is not checked."""

    def test_each_change_is_missed(self):
        for program, cases in ((PROGRAM, ("change.*", "fuzz.*")), (FILTERS, ("change.*",))):
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
        off, *others = (run(program, *cases, **self.way.variables, WEIGHTS=mode, **more)
                        for mode in ("off", "checked", "frozen"))
        self.assertFine(off)
        self.assertEqual(weights_of(off.rows())["served"], 0)
        self.assertEqual(events(off), {})
        for result in others:
            self.assertFine(result)
            self.assertEqual(result.bits(), off.bits())
            self.assertEqual([(row["entry"], row["shape"], row["decision"], row["strategy"], row["calls"]) for row in result.rows()],
                             [(row["entry"], row["shape"], row["decision"], row["strategy"], row["calls"]) for row in off.rows()])
            for name, case in result.cases.items():
                if "entry" in case:
                    with self.subTest(name):
                        rows = result.rows_of(case)
                        self.assertEqual({(row["decision"], row["strategy"]) for row in rows}, {("lowered", "cast")})
            sums = weights_of(result.rows())
            self.assertGreater(sums["served"], 0)
            self.assertGreater(sums["made"], 0)
            self.assertEqual((sums["recast"], sums["changed"], sums["given_up"]), (0, 0, 0))
        return off, *others

    def test_forms_of_a_product(self):
        plain = bare(PROGRAM, "same.*")
        for result in self.check(PROGRAM, "same.[!c-dst]*", "same.scaled", "same.device_scalars", "same.small_alpha"):
            for name, case in result.cases.items():
                self.assertNotEqual(case["bits"], plain.cases[name]["bits"], name)
            for name in ("same.a_transposed", "same.a", "same.b", "same.b_transposed", "same.odd_ld", "same.odd_ld_b",
                         "same.scaled", "same.device_scalars", "same.lt_bias", "same.lt_device"):
                self.assertIn(name, result.cases)

    def test_each_form_uses_its_copy(self):
        _, *others = self.check(PROGRAM, "same.[!c-dst]*", "same.scaled", "same.device_scalars", "same.small_alpha")
        for result in others:
            for name, case in result.cases.items():
                with self.subTest(name):
                    self.assertGreater(weights_of(result.rows_of(case))["served"], 0)

    def test_graphs_threads_streams_devices(self):
        for name in ("same.captured", "same.threads", "same.streams", "same.devices"):
            with self.subTest(name):
                self.check(PROGRAM, name)

    def test_filters(self):
        self.check(FILTERS, "same.*")

    def test_audits(self):
        self.check(PROGRAM, "same.a_transposed", "same.captured", AUDIT="1")

    def test_memory_for_some_copies(self):
        """Copies of 532 kB. Three quarters of the memory are for copies."""
        off, *others = self.check(PROGRAM, "same.a_transposed", MEMORY="2M")
        for result in others:
            self.assertEqual(weights_of(result.rows())["refused"], 0)
        for result in self.check(PROGRAM, "same.a_transposed", MEMORY="1600K")[1:]:
            self.assertEqual(result.bits(), off.bits())
            self.assertGreater(weights_of(result.rows())["refused"], 0)
            self.assertIn("memory_budget", {reason for row in result.rows() for reason in row["weights"]["reasons"]})


    def test_changed_weights(self):
        """The bits do not depend on the contents that a weight had before."""
        off, checked = (run(PROGRAM, "rescaled", **self.way.variables, WEIGHTS=mode) for mode in ("off", "checked"))
        self.assertFine(off)
        self.assertFine(checked)
        self.assertEqual(checked.bits(), off.bits())
        self.assertGreater(weights_of(checked.rows())["recast"], 0)


class SameHalf(Same, runner.Test):
    way = CAST_HALF


class SameBfloat16(Same, runner.Test):
    way = CAST_BFLOAT16


class Changes:
    way = None

    def check(self, mode, *cases, program=PROGRAM, **more):
        result = run(program, *cases, **self.way.variables, WEIGHTS=mode, **more)
        self.assertFine(result)
        self.assertTrue(result.cases)
        for name, case in result.cases.items():
            with self.subTest(name, mode=mode):
                copies = number(case, "copies") or 1
                if mode != "frozen":
                    self.assertEqual(number(case, "late_dense"), 0)
                elif number(case, "late") <= 1 or number(case, "late_dense"):
                    self.assertLessEqual(number(case, "stale"), number(case, "changes") * copies if not name.startswith("fuzz")
                                         else number(case, "products"))
                if name not in UNORDERED:
                    self.assertLessEqual(number(case, "late_dense"), LATEST_DENSE[mode] * copies)
                    self.assertLessEqual(number(case, "late"), LATEST[mode] if copies == 1 else LATEST[mode] + copies)
                if not name.startswith(("fuzz", "change.training", "change.viewed")):
                    self.assertEqual(number(case, "last"), 0, "the last product is stale")
                rows = result.rows_of(case) if "entry" in case else result.rows()
                self.assertEqual({(row["decision"], row["strategy"]) for row in rows}, {("lowered", "cast")})
                sums = weights_of(rows)
                if mode == "off":
                    self.assertEqual(sums["served"], 0)
                    continue
                self.assertGreater(sums["served"], 0)
                if mode == "frozen" and name not in RELEASED and not name.startswith("fuzz"):
                    self.assertGreater(number(case, "stale"), 0, "no product used the copy when the weight changed")
        if mode == "off":
            self.assertEqual(events(result), {})
        else:
            sums = weights_of(result.rows())
            self.assertEqual(events(result), {kind: sums[kind] for kind in KINDS if sums[kind]})
        return result

    def test_one_change(self):
        for mode, event in (("off", None), ("checked", "recast"), ("frozen", "changed")):
            for program, cases in ((PROGRAM, ONCE), (FILTERS, ("change.*",))):
                result = self.check(mode, *cases, program=program)
                for name, case in result.cases.items():
                    if event and "entry" in case:
                        with self.subTest(name, mode=mode):
                            sums = weights_of(result.rows_of(case))
                            # As many as changes: the copy of a NaN is not different from it.
                            self.assertEqual((sums["made"], sums[event], sums["given_up"]), (1, 1, 0))

    def test_many_changes(self):
        for mode in ("off", "checked", "frozen"):
            result = self.check(mode, *MANY)
            if mode == "off":
                continue
            for name in ("change.training", "change.training_by_two"):
                self.assertGreater(weights_of(result.rows_of(result.cases[name]))["given_up"], 0, (name, mode))
            seldom = weights_of(result.rows_of(result.cases["change.seldom"]))
            self.assertEqual((seldom["made"], seldom["given_up"]), (1, 0))

    def test_graphs(self):
        for mode in ("off", "checked", "frozen"):
            self.check(mode, *GRAPHS)

    def test_threads_streams_devices(self):
        for mode in ("off", "checked", "frozen"):
            self.check(mode, *CONCURRENT)

    def test_random_changes(self):
        for mode in ("off", "checked", "frozen"):
            self.check(mode, "fuzz.*")

    def test_audits_see_each_change_at_once(self):
        for mode in ("checked", "frozen"):
            result = self.check(mode, "change.element", "change.block", AUDIT="1")
            for name, case in result.cases.items():
                self.assertLessEqual(number(case, "late"), LATEST_DENSE[mode], name)

    def test_too_little_memory(self):
        for mode in ("checked", "frozen"):
            result = run(PROGRAM, "change.step", "change.scaled_up", **self.way.variables, WEIGHTS=mode, MEMORY="900K")
            self.assertFine(result)
            for case in result.cases.values():
                self.assertEqual(number(case, "stale"), 0)
            self.assertEqual(weights_of(result.rows())["served"], 0)
            self.assertGreater(weights_of(result.rows())["refused"], 0)


class ChangesHalf(Changes, runner.Test):
    way = CAST_HALF


class ChangesBfloat16(Changes, runner.Test):
    way = CAST_BFLOAT16


class Failures(runner.Test):
    """One call of a function fails; the products of these integers are exact in each precision."""
    FUNCTIONS = {"cuMemAllocFromPoolAsync": 6, "cuMemPoolCreate": 2, "cuLaunchKernel": 9, "cuLaunchKernelEx": 2, "cuEventCreate": 2,
                 "cuEventRecord": 2, "cuEventQuery": 2, "cuPointerGetAttribute": 3, "cuMemHostGetDevicePointer_v2": 2,
                 "cuMemHostRegister_v2": 2, "cuMemFreeAsync": 2, "cuUserObjectCreate": 1, "cuGraphRetainUserObject": 1}

    @runner.emulated_only("failing functions")
    def test_results_are_right(self):
        runner.store_self_tests()
        for way in (CAST_HALF, CAST_BFLOAT16):
            for function, count in self.FUNCTIONS.items():
                for n in range(1, count + 1):
                    with self.subTest(way=way.precision, function=function, n=n):
                        result = run(PROGRAM, "change.step", "change.replayed", **way.variables, WEIGHTS="checked",
                                     EMU_FAIL=f"{function}:{n}")
                        self.assertEqual(result.status, 0, result.errors)
                        for case in result.cases.values():
                            self.assertEqual((case["ok"], case["stale"]), ("1", "0"))


if __name__ == "__main__":
    runner.main()
