"""Products of every BLAS of this machine: the arguments in all interfaces, the rounding of bfloat16, and calls that must
remain those of the library. Arguments: see machine.py."""
import functools
import os
import unittest

import machine
from machine import CAST, LIBRARIES, lowers, main

# Relative Frobenius errors that rounding to bfloat16 causes, and those of fp32 sums.
ROUNDED, EXACT = (1.9e-3, 3.0e-3), 2e-6
COUNTED = {"sgemv": "matrix_vector", "ssymm": "symmetric", "ssyrk": "rank_update", "strmm": "triangular", "strsm": "triangular",
           "sbgemm": "already_low", "dgemm": "float64", "cgemm": "complex", "zgemm": "complex"}


def each(*hows):
    """Repeats a test for each library, linked and looked up."""
    def decorate(test):
        @functools.wraps(test)
        def repeated(self):
            for library in LIBRARIES:
                for how in hows:
                    if library.file and (how == "looked" or library.path) and not (how == "linked_now" and library.is_wide):
                        with self.subTest(library.name, how=how):
                            test(self, library, how)
        return repeated
    return decorate


class Products(unittest.TestCase):
    maxDiff = None

    def pair(self, library, how, part, **variables):
        """A part of the program without and with autoamp, which may not print anything."""
        plain = library.run(how, part, front=None)
        lowered = library.run(how, part, **CAST, **variables)
        self.assertEqual((plain.status, lowered.status), (0, 0), lowered.errors)
        self.assertEqual(plain.errors, lowered.errors)
        self.assertTrue(plain.cases)
        return plain, lowered

    def rows(self, made):
        """Rows of the report by sizes."""
        rows = {}
        for row in made.report["ops"]:
            rows.setdefault((row["m"], row["n"], row["k"]), []).append(row)
        return rows

    def row_of(self, rows, case):
        found = rows.get(tuple(int(case[size]) for size in "mnk"), [])
        self.assertEqual(len(found), 1, case)
        self.assertEqual((found[0]["library"], found[0]["dtype_in"]), ("blas", "float32"))
        return found[0]

    def assertRounded(self, name, case):
        low, high = ROUNDED
        is_small = int(case["m"]) * int(case["n"]) < 500  # the error of few elements varies
        self.assertLess(float(case["low"]), EXACT * (10 if is_small else 1), name)
        if not is_small:
            self.assertTrue(low < float(case["eta"]) < high, (name, case["eta"]))

    @lowers
    @each("linked", "linked_now", "looked")
    def test_products(self, library, how):
        plain, lowered = self.pair(library, how, "products")
        rows = self.rows(lowered)
        for name, case in lowered.cases.items():
            with self.subTest(name):
                self.assertLess(float(plain.cases[name]["eta"]), 10 * EXACT)
                self.assertRounded(name, case)
                self.assertEqual((case["gaps"], case["nonfinite"]), ("0", "0"))
                row = self.row_of(rows, case)
                self.assertEqual((row["decision"], row["strategy"], row["dtype_compute"], row["calls"]), ("lowered", "cast", "bfloat16", 1))
                self.assertEqual(row["entry"], library.patterns["fortran" in name].replace("NAME", "sgemm"))
        self.assertEqual(lowered.report["totals"]["calls"], len(lowered.cases))

    @each("linked", "looked")
    def test_nothing_to_multiply(self, library, how):
        plain, lowered = self.pair(library, how, "zeros")
        self.assertEqual(plain.results(), lowered.results())
        self.assertEqual({(row["decision"], row["reason"]) for row in lowered.report["ops"]}, {("kept", "zero_size")})

    @lowers
    @each("linked", "looked")
    def test_values(self, library, how):
        plain, lowered = self.pair(library, how, "values")
        for name, case in lowered.cases.items():
            with self.subTest(name):
                self.assertEqual(case["gaps"], "0")
                if name == "value.nan_alpha" or (name, library.name[:4]) == ("value.nan_beta", "blis"):
                    # MKL takes an alpha of NaN for 0, and BLIS loses such a beta on an Intel CPU.
                    self.assertEqual(int(case["nonfinite"]), int(case["m"]) * int(case["n"]))
                else:
                    self.assertEqual(case["classes"], plain.cases[name]["classes"])
        self.assertRounded("tiny", lowered.cases["value.tiny"])
        self.assertEqual({row["decision"] for row in lowered.report["ops"]}, {"lowered"})

    @each("linked", "looked")
    def test_repeated_calls(self, library, how):
        """Later calls of a kind take the fast path."""
        if library.name not in ("stub", "stub64", "stub-wheel", "openblas-serial"):
            return
        plain = library.run(how, "repeats", front=None)
        for trace in ("off", "summary", "ops"):
            for level in ("O0", "O1"):
                made = library.run(how, "repeats", **CAST, AUTOAMP_TRACE=trace, AUTOAMP_LEVEL=level)
                self.assertEqual((made.status, made.errors), (0, ""))
                if level == "O0":
                    self.assertEqual(made.out, plain.out)
                elif not machine.OBSTACLE:
                    for name in ("repeat.1", "repeat.3"):  # half of the result is that of the call before
                        self.assertLess(float(made.cases[name]["low"]), EXACT)
                        self.assertGreater(float(made.cases[name]["eta"]), ROUNDED[0] / 4)
                    for name in ("repeat.0", "repeat.2", "repeat.counted"):
                        self.assertEqual(made.cases[name], plain.cases[name])
                if trace != "off":
                    self.assertEqual(sorted((row["entry"], row["calls"]) for row in made.report["ops"]),
                                     sorted((library.patterns[is_fortran].replace("NAME", routine), 50)
                                            for routine, is_fortran in (("sgemm", 0), ("sgemm", 0), ("sgemm", 1), ("sgemm", 1), ("dgemm", 0), ("sgemv", 0), ("sgemv", 1), ("sgemv", 1))))

    @each("linked", "linked_now", "looked")
    def test_similar_calls(self, library, how):
        """Without a trace, only the sizes decide about a call that runs unchanged."""
        plain = library.run(how, "similar", front=None)
        made = library.run(how, "similar", AUTOAMP_TRACE="off")
        self.assertEqual((made.status, made.errors, len(made.cases)), (0, "", 26))
        for name, case in made.cases.items():
            if (case["m"], case["n"], case["k"]) == ("200", "200", "200") and not machine.OBSTACLE:
                self.assertRounded(name, case)
            else:
                self.assertEqual(case, plain.cases[name], name)

    @lowers
    def test_kernels_of_the_library(self):
        """A CPU that multiplies bfloat16 only as fast as fp32 gains if OpenBLAS has no kernels for it."""
        library = next(each for each in LIBRARIES if each.name == "openblas-serial")
        if not library.file:
            self.skipTest("no openblas-serial")
        for kernels, check in (("SkylakeX", self.assertLess), ("Haswell", self.assertGreater), ("Prescott", self.assertGreater)):
            made = library.run("linked", "similar", AUTOAMP_CPU_MODEL="xeon", OPENBLAS_CORETYPE=kernels)
            self.assertEqual((made.status, made.errors), (0, ""))
            for name, case in made.cases.items():
                if (case["m"], case["n"], case["k"]) == ("200", "200", "200"):
                    check(float(case["eta"]), ROUNDED[0] / 4, (name, kernels))

    @lowers
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
    def test_products_in_turn(self):
        """Next to large products on threads of autoamp, small ones do not wake the threads of the library."""
        for library in LIBRARIES:
            if library.name not in ("openblas-pthread", "numpy") or not library.file:
                continue
            with self.subTest(library.name):
                turns = ("linked" if library.path else "looked", "turns")
                made = library.run(*turns, OPENBLAS_NUM_THREADS="2")
                self.assertEqual((made.status, made.errors), (0, ""))
                for name, case in made.cases.items():
                    if name.endswith("_after"):
                        self.assertRounded(name, case)
                    else:
                        self.assertLess(float(case["eta"]), EXACT, name)
                calls = {(row["n"], row["k"], row["decision"]): row["calls"] for row in made.report["ops"]}
                paid = calls[512, 10, "lowered"]
                self.assertTrue(4 < paid < 20, paid)  # the large product pays for so many
                self.assertEqual((calls[512, 10, "kept"], calls[512, 512, "lowered"], calls[10, 512, "lowered"]), (34 - paid, 1, 1))
                self.assertEqual(library.run(*turns, OPENBLAS_NUM_THREADS="2").out, made.out)
                if not library.path:
                    continue
                made = library.run("linked", "turns_of_kept", OPENBLAS_NUM_THREADS="2")
                calls = {(row["k"], row["decision"]): row["calls"] for row in made.report["ops"]}
                self.assertLess(calls.get((192, "lowered"), 0), 100)

    @lowers
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
    def test_threads_that_begin_at_once(self):
        """Each decides as the only thread of a process does."""
        for library in LIBRARIES:
            if library.name != "openblas-pthread" or not library.file:
                continue
            counts = set()
            for _ in range(12):
                made = library.run("linked", "turns_of_threads", OPENBLAS_NUM_THREADS="2")
                self.assertEqual((made.status, made.errors), (0, ""))
                counts.add(tuple(sorted((row["k"], row["decision"], row["calls"]) for row in made.report["ops"])))
            self.assertEqual([[row[:2] for row in rows] for rows in counts], [[(10, "kept"), (10, "lowered"), (512, "lowered")]])

    @lowers
    def test_weights(self):
        """A product that gains with conversions at each call makes the copy of its weight in the twelfth one."""
        made = LIBRARIES[0].run("linked", "weights", **CAST)
        self.assertRounded("weight", made.cases["weight"])
        use = made.report["ops"][0]["weights"]
        if not use["reasons"].keys() & {"no_watch", "pinned"}:
            self.assertEqual((use["made"], use["served"], use["converted"]), (1, 4, 12))

    @each("linked", "looked")
    def test_results_in_operands(self, library, how):
        plain, lowered = self.pair(library, how, "overlaps")
        self.assertEqual(plain.results(), lowered.results())
        if not machine.OBSTACLE:
            self.assertEqual({row["reason"] for row in lowered.report["ops"]}, {"unsupported"})
        self.assertEqual(lowered.report["totals"].get("lowered"), 0)

    @lowers
    @each("linked", "looked")
    def test_widths_of_integers(self, library, how):
        _, lowered = self.pair(library, how, "integers")
        rows = self.rows(lowered)
        for name, case in lowered.cases.items():
            self.assertRounded(name, case)
            self.assertEqual(self.row_of(rows, case)["decision"], "lowered")

    @each("linked", "looked")
    def test_counted(self, library, how):
        plain, lowered = self.pair(library, how, "counted")
        self.assertEqual(plain.results(), lowered.results())
        expected = {}
        for name in lowered.cases:
            _, style, routine = name.split(".")
            expected[library.patterns[style == "f"].replace("NAME", routine)] = ("kept", COUNTED[routine], 1)
        self.assertEqual({row["entry"]: (row["decision"], row["reason"], row["calls"]) for row in lowered.report["ops"]}, expected)
        self.assertGreaterEqual(len(expected), 16)

    def test_spellings(self):
        """All names in both interfaces, looked up; a width of integers follows from the name."""
        for patterns in (("cblas_NAME", "NAME"), ("cblas_NAME", "^NAME"), ("scipy_cblas_NAME", "scipy_NAME_"), ("cblas_NAME64_", "NAME_64_"),
                         ("cblas_NAME_64", "NAME_64"), ("cblas_NAME_64", "^NAME_64"), ("scipy_cblas_NAME64_", "scipy_NAME_64_")):
            is_wide = "64" in patterns[0]
            stub = next(library for library in LIBRARIES if library.name == "stub" + "64" * is_wide)
            with self.subTest(patterns):
                library = machine.Library("", stub.file, patterns=patterns, is_wide=is_wide)
                for part, calls in (("counted", 18), ("batches", 12), ("zeros", 24)):
                    plain, lowered = (library.run("looked", part, front=front, **CAST) for front in (None, machine.FRONT))
                    self.assertEqual((plain.status, lowered.status), (0, 0))
                    self.assertEqual(set(plain.cases), set(lowered.cases))
                    rows = lowered.report["ops"]
                    self.assertEqual(sum(row["calls"] for row in rows), calls)
                    for row in rows:
                        routine = row["entry"].lower().removeprefix("scipy_").removeprefix("cblas_").removesuffix("_").removesuffix("64").removesuffix("_")
                        names = [pattern.replace("NAME", routine) if pattern[0] != "^" else pattern[1:].replace("NAME", routine.upper()) for pattern in patterns]
                        self.assertIn(row["entry"], names)
                    if part != "batches":
                        self.assertEqual(plain.results(), lowered.results())

    @each("linked", "looked")
    def test_invalid_arguments(self, library, how):
        """The library's own messages. Each call is in a child."""
        if library.name.startswith("mkl"):
            return  # its messages vary from run to run
        plain, lowered = self.pair(library, how, "invalid")
        self.assertEqual(plain.results(), lowered.results())
        self.assertEqual(len(plain.cases), 27)
        self.assertTrue(plain.errors)

    @lowers
    @each("linked", "looked")
    def test_batches(self, library, how):
        if library.name in ("numpy", "scipy"):
            return  # OpenBLAS 0.3.30 and 0.3.31 crash in batches of small products
        plain, lowered = (library.run(how, "batches", front=front, **CAST) for front in (None, machine.FRONT))
        self.assertEqual((plain.status, lowered.status), (0, 0))
        self.assertEqual(set(plain.cases), set(lowered.cases))
        rows = lowered.report["ops"] if lowered.report else []
        for name, case in lowered.cases.items():
            with self.subTest(name):
                self.assertLess(float(plain.cases[name]["eta"]), EXACT)
                self.assertEqual(case["gaps"], "0")
                if ".equal." in name:
                    self.assertRounded(name, case)
                else:
                    self.assertEqual(case["bits"], plain.cases[name]["bits"])
        if library.name.startswith("stub"):
            self.assertEqual(len(lowered.cases), 36)
            self.assertEqual({(row["decision"], row["reason"], row["batch"]) for row in rows},
                             {("lowered", "white_list", 3), ("kept", "unsupported", 3), ("kept", "grouped", 3)})

    @lowers
    @each("linked", "looked")
    def test_audited_batches(self, library, how):
        """The error of a batch is that of all its products. The results are those without an audit."""
        if library.name in ("numpy", "scipy"):
            return  # as in test_batches
        plain, audited = (library.run(how, "batches", AUTOAMP_AUDIT=audit, **CAST) for audit in ("0", "1"))
        self.assertEqual((audited.status, audited.errors, audited.results()), (0, "", plain.results()))
        errors = {}  # by k, which differs from batch to batch: the products of a batch have the same sizes
        for name, case in audited.cases.items():
            if ".equal." in name or ".strided." in name:
                errors.setdefault(int(case["k"]), []).append(float(case["eta"]))
        rows = audited.report["audit"] if audited.report else []
        for row in rows:
            with self.subTest(row["entry"], shape=row["shape"]):
                own = errors[int(row["shape"].split("x")[2].split()[0])]
                self.assertEqual((row["audited"], row["recomputed"], row["overflowed"], row["skipped"]), (1, 1, 0, None))
                self.assertTrue(min(own) * 0.99 <= row["mean_error"] <= max(own) * 1.01, (row, own))
                self.assertLessEqual(max(own) * 0.99, min(row["worst_row"], row["worst_column"]), (row, own))
        if library.name.startswith("stub"):
            self.assertEqual(len(rows), 4)

    @each("linked", "looked")
    def test_switched_off(self, library, how):
        """Bit-identical, and without a message."""
        if library.name not in ("stub64", "openblas-serial", "openblas-pthread"):
            return
        plain = library.run(how, "products", front=None)
        for variables in ({"AUTOAMP_ENABLED": "0"}, {"AUTOAMP_LEVEL": "O0"}):
            off = library.run(how, "products", **(CAST | variables))
            self.assertEqual((off.status, off.errors, off.out), (0, "", plain.out))
            self.assertEqual(off.report and off.report["totals"]["lowered"], None if "AUTOAMP_ENABLED" in variables else 0)


if __name__ == "__main__":
    main()
