"""Products in CUDA graphs: lowered once one has run eagerly, right at every replay, and released with their graph."""
import runner
from runner import CAST_BFLOAT16, CAST_HALF, LIBRARY_BFLOAT16, TF32, bare, run

PROGRAM = "capture"
REST = ("replay.*", "growth.*", "later.*")


class First(runner.Test):
    """The first product of a process."""

    def setUp(self):
        runner.store_self_tests()

    def test_captured_before_anything_is_ready(self):
        for name in ("first.captured", "first.after_reset"):
            with self.subTest(name):
                reference = bare(PROGRAM, name)
                self.assertFine(reference)
                for decision, strategy, variables in (("lowered", "tf32", {}),
                                                      ("fallback", "fp32", {"_NVIDIA_TF32_OVERRIDE": "0"})):
                    result = run(PROGRAM, name, STRATEGY="cast", **variables)
                    self.assertFine(result)
                    self.assertEqual(result.bits() == reference.bits(), decision == "fallback")
                    rows = result.rows_of(result.cases[name])
                    self.assertEqual([(row["decision"], row["reason"], row["strategy"], row["calls"], row["captured"])
                                      for row in rows], [(decision, "capture_unready", strategy, 1, 1)])

    @runner.emulated_only("other workspaces")
    def test_what_needs_nothing_of_ours_is_always_ready(self):
        for way in (TF32, LIBRARY_BFLOAT16):
            for name in ("first.captured", "first.after_reset", "first.long"):  # the last: without a workspace
                with self.subTest(name, way=way.strategy):
                    result = run(PROGRAM, name, **way.variables)
                    self.assertFine(result)
                    rows = result.rows_of(result.cases[name])
                    self.assertEqual([(row["decision"], row["strategy"], row["captured"]) for row in rows],
                                     [("lowered", way.strategy, 1)])
                    self.assertNotEqual(result.bits(), bare(PROGRAM, name).bits())

    @runner.emulated_only("an attribute that is not there")
    def test_without_memory_pools(self):
        """No call before the capture could be cast either, so running one step first does not help."""
        result = run(PROGRAM, "replay.global", STRATEGY="cast", EMU_FAIL="CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:1")
        rows = [(row["decision"], row["reason"], row["strategy"]) for row in result.rows() if row["captured"]]
        self.assertTrue(rows)
        self.assertEqual(set(rows), {("lowered", "no_memory_pools", "tf32")})

    def test_beside_a_capture_of_another_thread(self):
        for dtype in ("float16", "bfloat16"):
            with self.subTest(dtype):
                result = run(PROGRAM, "first.beside", STRATEGY="cast", DTYPE=dtype, CUSTOM_BLACK_LIST="cublasSgemmEx")
                self.assertFine(bare(PROGRAM, "first.beside"))
                self.assertFine(result)
                self.assertEqual([(row["m"], row["decision"], row["captured"]) for row in result.rows(dtype_compute=dtype)],
                                 [(42, "lowered", 0), (41, "lowered", 1)])


class Captured:
    way = None

    def setUp(self):
        self.bare = bare(PROGRAM, *REST)
        self.run = run(PROGRAM, *REST, **self.way.variables)
        if self.way.strategy != "cast":  # only `cast` supports arrays of pointers and sums of an operand
            for name in ("replay.batched", "replay.grouped", "replay.lt_arrays", "replay.lt_sum"):
                self.run.cases.pop(name, None)

    def test_programs_are_content(self):
        self.assertFine(self.bare)
        self.assertFine(self.run)

    def test_captured_calls_are_lowered_and_counted(self):
        for name, case in self.run.cases.items():
            if "captured" in case:
                with self.subTest(name):
                    rows = self.run.rows_of(case)
                    self.assertEqual([(row["decision"], row["reason"]) for row in rows], [("lowered", "white_list")])
                    self.assertEqual(rows[0]["captured"], int(case["captured"]))
                    if not self.way.is_permission():
                        self.assertNotEqual(case["bits"], self.bare.cases[name]["bits"])

    def test_as_exact_as_the_type(self):
        for name, case in self.run.cases.items():
            for key in ("eta", "least_eta"):
                if key in case:
                    self.assertWithin(case[key], self.way.eta(), f"{name} {key}")

    def test_broken_capture_answers_as_the_vendor(self):
        self.assertEqual(self.run.cases["later.broken"]["status"], self.bare.cases["later.broken"]["status"])

    def test_only_the_broken_capture_falls_back(self):
        self.assertEqual({row["m"] for row in self.run.rows(decision="fallback")} - {69}, set())


class CapturedHalf(Captured, runner.Test):
    way = CAST_HALF

    def test_growth_is_rescaled_on_the_device(self):
        rows = self.run.rows_of(self.run.cases["growth.host"])
        self.assertGreater(self.run.scaler_totals(rows[0]["site"])["rescale"], 3)


    def test_events_of_replays_are_counted_exactly(self):
        case = self.run.cases["later.events"]
        totals = self.run.scaler_totals(self.run.rows_of(case)[0]["site"])
        self.assertEqual(totals["nonfinite_input"], int(case["replays"]))

    def test_a_loss_is_met_by_the_sample_of_the_replays(self):
        case = self.run.cases["later.loss"]
        totals = self.run.scaler_totals(self.run.rows_of(case)[0]["site"])
        self.assertEqual(totals["underflow"], int(case["losses"]))


class CapturedBfloat16(Captured, runner.Test):
    way = CAST_BFLOAT16


class CapturedTf32(Captured, runner.Test):
    way = TF32


class CapturedLibrary(Captured, runner.Test):
    way = LIBRARY_BFLOAT16


class WithinTheBudget(runner.Test):
    """Memory for two products of a graph and an eager one at the same time."""

    def setUp(self):
        # A device's algorithms may ask for 32 MiB of workspace each.
        self.memory = "1200K" if runner.PLACE.emulated else "110M"

    def test_graphs_of_many_products_are_lowered(self):
        plain = bare(PROGRAM, "shared.*")
        self.assertFine(plain)
        for dtype in ("float16", "bfloat16"):
            result = run(PROGRAM, "shared.*", STRATEGY="cast", DTYPE=dtype, MEMORY=self.memory)
            self.assertFine(result)
            self.assertEqual(result.cases.keys(), plain.cases.keys())
            for name, case in result.cases.items():
                with self.subTest(f"{dtype} {name}"):
                    rows = result.rows_of(case)
                    self.assertEqual([(row["decision"], row["captured"]) for row in rows], [("lowered", int(case["captured"]))])
                    self.assertWithin(case["eta"], runner.ETA[dtype], name)

    def test_what_needs_more_has_a_substitute(self):
        for decision, strategy, variables in (("lowered", "tf32", {}), ("fallback", "fp32", {"_NVIDIA_TF32_OVERRIDE": "0"})):
            result = run(PROGRAM, "shared.branches", STRATEGY="cast", MEMORY="300K", **variables)
            self.assertEqual({(row["decision"], row["reason"], row["strategy"])
                              for row in result.rows_of(result.cases["shared.branches"])},
                             {("lowered", "white_list", "cast"), (decision, "memory_budget", strategy)})

    def test_pool_and_graphs_together(self):
        """An eager product leaves 44 MB in the pool, 8 of them for the loss check; a captured one keeps as much."""
        if not runner.PLACE.emulated:
            self.skipTest("a device takes memory for other things, too")
        for memory, held in (("60M", (30, 60)), ("1G", (86, 90))):
            result = run(PROGRAM, "held", STRATEGY="cast", MEMORY=memory)
            self.assertFine(result)
            self.assertEqual([row["decision"] for row in result.rows_of(result.cases["held"])], ["lowered"])
            self.assertWithin(result.cases["held"]["held"], held, memory)


class Untouched(runner.Test):
    def test_observed_and_control_run(self):
        for variables in ({"LEVEL": "O0", "STRATEGY": "cast"}, {"STRATEGY": "fp32"}):
            with self.subTest(**variables):
                result = run(PROGRAM, *REST, **variables)
                self.assertFine(result)
                self.assertEqual(result.bits(), bare(PROGRAM, *REST).bits())


if __name__ == "__main__":
    runner.main()
