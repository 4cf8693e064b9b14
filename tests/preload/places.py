"""Products of operands in every kind of memory: every entry point lowers them, whatever the kind of memory."""
import collections

import runner
from runner import CAST_BFLOAT16, CAST_HALF, bare, run

PROGRAM = "places"


class Table(runner.Test):
    """Entry points x kinds of memory x pointer modes x transposes, each eager and captured, in both types. Combinations
    that CUDA does not have are left out: capture on the legacy stream. The peer's column needs two devices."""

    def setUp(self):
        self.bare = bare(PROGRAM, "table.*")

    def test_bare_is_exact(self):
        self.assertFine(self.bare)
        for name, case in self.bare.cases.items():
            if "eta" in case:
                self.assertLess(float(case["eta"]), 1e-6, name)

    def test_every_cell_is_lowered(self):
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "table.*", **way.variables)
            self.assertFine(result)
            self.assertEqual(result.cases.keys(), self.bare.cases.keys())
            found = collections.defaultdict(list)
            for row in result.report["ops"]:
                found[row["entry"], str(row["m"]), str(row["n"]), row["transa"], row["transb"]].append(row)
            for name, case in result.cases.items():
                if "skipped" in case:
                    self.assertFalse(runner.PLACE.emulated, name)
                    continue
                with self.subTest(f"{way.precision} {name}"):
                    self.assertWithin(case["eta"], way.eta(), "eta")
                    self.assertEqual(case["bits"], case["captured_bits"])
                    for key in ("status", "captured_status"):
                        self.assertEqual(case[key], self.bare.cases[name][key])
                    rows = found[case["entry"], case["m"], case["n"], case["transa"], case["transb"]]
                    self.assertEqual([(row["decision"], row["reason"], row["strategy"], row["dtype_compute"], row["calls"],
                                       row["captured"]) for row in rows],
                                     [("lowered", "white_list", "cast", way.precision, 2, 1)])


class Overlapping(runner.Test):
    """Operands that share memory. If BLAS does not define the result, only the status must equal the vendor's."""

    def test_statuses_are_the_vendors(self):
        reference = bare(PROGRAM, "overlap.*", "undefined.*")
        self.assertFine(reference)
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "overlap.*", "undefined.*", **way.variables)
            self.assertFine(result)
            for name, case in result.cases.items():
                with self.subTest(f"{way.precision} {name}"):
                    self.assertEqual(case["status"], reference.cases[name]["status"])
                    if name == "undefined.strided_into_one":
                        self.assertEqual([(row["decision"], row["reason"]) for row in result.rows_of(case)],
                                         [("kept", "unsupported")])
                        continue
                    self.assertLowered(result, case, way)
                    if "eta" in case:
                        self.assertLess(float(reference.cases[name]["eta"]), 1e-6)
                        self.assertWithin(case["eta"], way.eta(), "eta")


class Devices(runner.Test):
    """Two devices, each with operands on the other: for each case, the m of its products, their number and how many are
    captured."""

    CALLS = {"devices.exchanged": (81, 9, 0), "devices.one_graph": (82, 4, 3)}

    def test_a_stream_of_the_other_device(self):
        reference, result = bare(PROGRAM, "devices.mismatched"), run(PROGRAM, "devices.mismatched", **CAST_HALF.variables)
        self.assertFine(reference)
        self.assertFine(result)
        case = result.cases["devices.mismatched"]
        if "skipped" in case:
            return
        self.assertEqual(case["statuses"], reference.cases["devices.mismatched"]["statuses"])
        self.assertEqual([(row["device"], row["decision"], row["reason"], row["calls"]) for row in
                          sorted(result.rows_of(case), key=lambda row: row["device"])],
                         [(0, "fallback", "bad_argument", 1), (1, "lowered", "white_list", 2)])

    def test_a_captured_stream_of_the_other_device(self):
        name = "devices.mismatched_capture"
        reference, result = bare(PROGRAM, name), run(PROGRAM, name, **CAST_HALF.variables)
        self.assertFine(reference)
        self.assertFine(result)
        case = result.cases[name]
        if "skipped" in case:
            return
        self.assertEqual(case["statuses"], reference.cases[name]["statuses"])
        self.assertEqual([(row["device"], row["decision"], row["reason"], row["calls"]) for row in
                          sorted(result.rows_of(case), key=lambda row: row["device"])],
                         [(0, "fallback", "engine_failed", 1), (1, "lowered", "white_list", 1)])

    def test_operands_of_the_other_device(self):
        self.assertFine(bare(PROGRAM, "devices.*"))
        for way in (CAST_HALF, CAST_BFLOAT16):
            result = run(PROGRAM, "devices.*", **way.variables)
            self.assertFine(result)
            for name, (m, *calls) in self.CALLS.items():
                case = result.cases[name]
                if "skipped" in case:
                    self.assertFalse(runner.PLACE.emulated)
                    continue
                self.assertWithin(case["eta"], way.eta(), "eta")
                self.assertEqual(sorted([row["device"], row["decision"], row["calls"], row["captured"]] for row in result.rows(m=m)),
                                 [[device, "lowered", *calls] for device in (0, 1)])


if __name__ == "__main__":
    runner.main()
