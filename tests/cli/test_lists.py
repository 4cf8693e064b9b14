"""`autoamp lists` has every op as in the frameworks themselves (tests/oracle: recorded from their packages), and every
entry point; `autoamp explain` agrees with it."""
import json
import os
import pathlib
import re
import unittest

from case import Case

ORACLE = json.loads((pathlib.Path(__file__).parent.parent / "oracle/frameworks.json").read_text())
TABLES = [table for table in pathlib.Path(os.environ["TABLES"]).glob("*.entries") if table.stem != "blas"]
BLAS = pathlib.Path(os.environ["TABLES"]) / "blas.entries"
LEVELS = {"torch": ["O0", "O1"], "paddle": ["O0", "O1", "O2", "OD"], "mindspore": ["O0", "O1", "O2", "O3", "auto"]}


class Lists(Case):
    def told(self, command, *arguments, **variables):
        result = self.autoamp(command, "--format", "json", *arguments, **variables)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return json.loads(result.stdout)

    def explain(self, entry, *arguments, **variables):
        return self.told("explain", "--entry", entry, "--m", "4096", "--n", "4096", "--k", "4096", *arguments, **variables)


class AgainstTheFrameworks(Lists):
    def test_every_cell(self):
        count = {"run": 0, "listed": 0}
        for name, recorded in ORACLE.items():
            system, _, device = name.partition("_")
            self.assertEqual({cell.split()[0] for cell in recorded["cells"]}, set(LEVELS[system]))
            for cell, groups in recorded["cells"].items():
                level, *promote, dtype = cell.split()
                variables = {"AUTOAMP_DTYPE": dtype} | {"AUTOAMP_USE_PROMOTE": word.removeprefix("use_promote=") for word in promote}
                told = self.told("lists", "--lists", system, "--level", level, "--device", device or "cuda", **variables)
                self.assertEqual((told["lists"], told["level"], told["device"], told["dtype"]), (system, level, device or "cuda", dtype))
                self.assertIn(recorded["version"].partition("+")[0], told["source"])
                ours = {row["op"]: row for row in told["ops"]}
                theirs = {op: group.split(": ") for group, ops in groups.items() for op in ops.split()}
                self.assertEqual(set(ours), set(theirs), (name, cell))
                for op, (category, seen) in theirs.items():
                    with self.subTest(system=name, cell=cell, op=op, seen=seen):
                        if level != "O0":
                            self.assertEqual(ours[op]["category"], category)
                        count["listed" if seen == "listed" else "run"] += 1
                        if seen[0] in "hs":
                            self.assertEqual(ours[op]["lowered"], seen[0] == "h")
                        if category == "fp32" and seen[2:3] == " ":  # low-precision data is raised, in the computed or the returned type
                            self.assertTrue(set(seen[3:5]) & set("s?"), seen)
                unlisted = {ours[op]["lowered"] for op, (category, seen) in theirs.items() if category == "unlisted"}
                self.assertLessEqual(len(unlisted), 1, (name, cell))
        self.assertGreater(count["run"], 1.5 * count["listed"])
        self.assertGreater(count["listed"] + count["run"], 3500)


class Entries(Lists):
    def test_every_entry_point_once_an_op(self):
        entries = {}
        for row in (line.split("#")[0].split() for table in TABLES for line in table.read_text().splitlines()):
            if row and row[0] != "headers":
                short = row[0].removesuffix("[_64]")
                entries |= dict.fromkeys([short] + [short + "_64"] * (short != row[0]),
                                       (row[3:] + ["none"])[0] in ("none", "grouped") and row[2] in ("args", "float32"))
        for system, levels in LEVELS.items():
            for level in levels:
                rows = self.told("lists", "--lists", system, "--level", level)["entries"]
                self.assertEqual(len({(row["entry"], row["op"]) for row in rows}), len(rows))
                self.assertEqual({row["entry"] for row in rows if row["available"]}, set(entries))
                self.assertEqual({row["entry"] for row in rows if row["low_form"]}, {name for name in entries if entries[name]})
                for row in rows:
                    self.assertTrue(not row["lowered"] or (row["available"] and row["low_form"] and level != "O0"), row)

    def test_explain_says_the_same_of_the_usual_op(self):
        for system, level in (("torch", "O1"), ("paddle", "O2"), ("mindspore", "O2"), ("mindspore", "auto")):
            variables = {"AUTOAMP_LISTS": system, "AUTOAMP_LEVEL": level, "AUTOAMP_STRATEGY": "cast"}
            rows = {}
            for row in self.told("lists", **variables)["entries"]:
                if not row["entry"].endswith("_64") and not re.match(r"cublas(Xt)?I?[CS]?[chg]", row["entry"]):
                    rows.setdefault(row["entry"], {})[row["op"]] = row  # a long list: complex twins and the like once
            for entry, ops in rows.items():
                told = self.explain(entry, **variables)
                row = ops.get(told["op"], next(iter(ops.values())))
                with self.subTest(system=system, level=level, entry=entry):
                    self.assertEqual(told["category"], row["category"])
                    self.assertEqual(told.get("available", True), row["available"])
                    if told["reason"] not in ("unsupported", "no_fp32_output"):  # an RNN can run in bfloat16
                        self.assertEqual(told["decision"] == "lowered", row["lowered"])

    def test_what_is_not_there(self):
        told = self.explain("cudnnConvolutionForward")  # as the product that it is
        self.assertEqual([told[key] for key in ("op", "category", "decision", "reason")],
                         ["conv2d", "lower_precision", "lowered", "white_list"])
        self.assertEqual([self.explain("cudnnBackendExecute")[key] for key in ("op", "decision")], ["conv2d", "lowered"])
        for variables, category, reason in (({}, "fp32", "softmax"), ({"AUTOAMP_ENABLED": "0"}, "fp32", "disabled"),
                                            ({"AUTOAMP_LISTS": "mindspore", "AUTOAMP_LEVEL": "O2"}, "unlisted", "softmax"),
                                            ({"AUTOAMP_LISTS": "paddle", "AUTOAMP_LEVEL": "OD"}, "unlisted", "softmax"),
                                            ({"AUTOAMP_CUSTOM_BLACK_LIST": "cudnnSoftmax*"}, "fp32", "softmax"),
                                            ({"AUTOAMP_CUSTOM_WHITE_LIST": "softmax"}, "fp32", "softmax")):
            told = self.explain("cudnnSoftmaxForward", **variables)
            self.assertEqual((told["category"], told["decision"], told["reason"]), (category, "kept", reason), variables)
        told = self.explain("cublasSgemm_v2", AUTOAMP_CUSTOM_WHITE_LIST="mm,prelu,ms:nn.LSTMCell")
        says = " ".join(step["says"] for step in told["steps"])
        self.assertIn("torch:prelu reaches no library call with a 16-bit form", says)
        self.assertIn("ms:LSTMCell reaches no library call with a 16-bit form", says)
        self.assertNotIn("torch:mm reaches", says)
        self.assertEqual(told["reason"], "custom_white_list")
        rows = {row["op"]: row for row in self.told("lists")["ops"]}
        self.assertEqual([(rows[op]["call"], rows[op]["available"], rows[op]["low_form"]) for op in ("mm", "mv", "conv2d", "conv_transpose2d", "prelu", "ctc_loss")],
                         [(True, True, True), (True, True, False), (True, True, True), (True, True, True), (False, False, False), (True, True, False)])

    def test_text_and_what_is_wrong(self):
        text = self.autoamp("lists", "--lists", "paddle", "--level", "O2").stdout
        self.assertTrue(text.startswith("paddle O2 float16 (PaddlePaddle "), text[:100])
        for line in (r"\nmul +lower_precision +lowered +yes\n", r"\nelementwise_mul +unlisted +kept +no 16-bit form\n", r"\nlookup_table +fp32 +kept +none\n",
                     r"\nmv +unlisted +kept +no 16-bit form\n", r"\ncublasSgemm_v2 +mm +lower_precision +yes\n", r"\ncudnnPoolingForward +max_pool2d +unlisted +kept: no 16-bit form\n"):
            self.assertRegex(text, line)
        for arguments, words in ((["--lists", "tf"], ["--lists tf", "torch, paddle, mindspore"]), (["--level", "O2"], ["--level O2", "O0, O1"]),
                                 (["--lists", "paddle", "--level", "auto"], ["O0, O1, O2, OD"]), (["--format", "csv"], ["csv"]), (["word"], ["word"]),
                                 (["--lst", "x"], ["--lists"])):
            self.refused(self.autoamp("lists", *arguments), 2, *words)
        self.refused(self.autoamp("lists", AUTOAMP_CUSTOM_WHITE_LIST="MatMul"), 2, "matmul")


class OnACpu(Lists):
    def test_entry_points_in_all_spellings(self):
        routines, spellings = {}, []
        for first, *words in (line.split("#")[0].split() or [None] for line in BLAS.read_text().splitlines()):
            if first in ("cblas", "fortran"):
                spellings += words
            elif first:
                routines[first] = words[:2] == ["float32", "none"]
        wanted = {pattern.replace("^NAME", routine.upper()).replace("NAME", routine): isLowered
                  for routine, isLowered in routines.items() for pattern in spellings}
        self.assertEqual((len(routines), len(wanted)), (12, 156))
        for system, level in (("torch", "O1"), ("torch", "O0"), ("paddle", "O1"), ("mindspore", "auto")):
            told = self.told("lists", "--device", "cpu", "--lists", system, "--level", level)
            rows = {row["entry"]: row for row in told["entries"]}
            self.assertEqual(len(rows), len(told["entries"]))  # one op for each
            self.assertEqual({name: row["low_form"] for name, row in rows.items()}, wanted)
            self.assertEqual({name: row["lowered"] for name, row in rows.items()},
                             {name: isLowered and level != "O0" for name, isLowered in wanted.items()})
            for routine in routines:  # the spellings of a routine differ in nothing else
                ops = {(row["op"], row["category"]) for name, row in rows.items() if name.lower().strip("_") in (routine, "cblas_" + routine)}
                self.assertEqual(len(ops), 1, ops)
            self.assertFalse(set(rows) & {row["entry"] for row in self.told("lists", "--lists", system, "--level", level)["entries"]})
        ops = {row["op"]: row for row in self.told("lists", "--device", "cpu")["ops"]}
        counts = [sum(row["category"] == category for row in ops.values()) for category in ("fp32", "promote", "banned")]
        self.assertEqual(counts, [90 + 3, 3, 0])  # registered, and names that only call them
        for op, category, call in (("linear", "lower_precision", True), ("addmm", "lower_precision", True), ("baddbmm", "lower_precision", True),
                                   ("mv", "unlisted", True), ("_native_multi_head_attention", "lower_precision", False), ("softmax", "unlisted", False),
                                   ("cat", "promote", False), ("conv2d", "lower_precision", False), ("max_pool3d", "fp32", False)):
            self.assertEqual((ops[op]["category"], ops[op]["call"]), (category, call), op)
        self.assertEqual(len(ops["linear"]["entries"]), 2 * 13)  # sgemm and sbgemm
        self.assertEqual(self.told("lists", "--device", "cpu")["dtype"], "bfloat16")
        self.assertEqual(self.told("lists", "--device", "cpu", AUTOAMP_DTYPE="float16")["dtype"], "float16")

    def test_text(self):
        text = self.autoamp("lists", "--device", "cpu").stdout
        self.assertTrue(text.startswith("torch O1 bfloat16 (torch 2.15.0, CPU)\n"), text[:100])
        for line in (r"\ncblas_sgemm \(13 spellings\) +mm +lower_precision +yes\n", r"\ncblas_dgemm \(13 spellings\) +none +unlisted +kept: no 16-bit form\n",
                     r"\nlinear +lower_precision +lowered +yes\n", r"\nconv2d +lower_precision +lowered +none\n"):
            self.assertRegex(text, line)
        self.assertEqual(len(re.findall(r"spellings", text)), 12)
        self.assertNotIn("cublas", text)
        self.assertNotRegex(self.autoamp("lists").stdout, "blas_|spellings")
        self.refused(self.autoamp("lists", "--device", "gpu"), 2, "gpu")


class Names(Lists):
    def test_custom_lists_by_system(self):
        lowered, kept = ("lowered", "custom_white_list"), ("kept", "custom_black_list")
        for system, variable, name, entry, wanted in (
                ("torch", "BLACK", "paddle:mul", "cublasSgemm_v2", kept), ("torch", "BLACK", "mul", "cublasSgemm_v2", ("lowered", "white_list")),
                ("paddle", "BLACK", "mul", "cublasSgemm_v2", kept), ("paddle", "BLACK", "mul", "cublasSgemmBatched", ("lowered", "white_list")),
                ("paddle", "BLACK", "bmm", "cublasSgemmBatched", kept), ("mindspore", "BLACK", "nn.Dense", "cublasSgemm_v2", kept),
                ("mindspore", "WHITE", "ms:MatMul", "cublasGemmEx", lowered), ("mindspore", "BLACK", "torch:mm", "cublasGemmEx_64", kept),
                ("paddle", "WHITE", "cublasSgemm*", "cublasSgemmBatched", lowered)):
            told = self.explain(entry, AUTOAMP_LISTS=system, AUTOAMP_STRATEGY="cast", **{f"AUTOAMP_CUSTOM_{variable}_LIST": name})
            self.assertEqual((told["decision"], told["reason"]), wanted, (system, variable, name, entry))
        told = self.explain("cublasSgemm_v2", AUTOAMP_LISTS="paddle", AUTOAMP_LEVEL="O0", AUTOAMP_CUSTOM_BLACK_LIST="matmul_v2,mul")
        self.assertEqual((told["decision"], told["reason"]), ("observed", "white_list"))  # Paddle's O0 takes no names

    def test_levels(self):
        for system, level, variables, wanted in (("mindspore", "O2", {}, ("lowered", "unlisted")), ("mindspore", "O3", {}, ("lowered", "unlisted")),
                                                 ("mindspore", "auto", {}, ("lowered", "white_list")), ("paddle", "OD", {}, ("lowered", "white_list")),
                                                 ("paddle", "O2", {"AUTOAMP_USE_PROMOTE": "0"}, ("lowered", "white_list")),
                                                 ("mindspore", "O0", {}, ("observed", "white_list"))):
            told = self.explain("cublasSgemm_v2", AUTOAMP_LISTS=system, AUTOAMP_LEVEL=level, AUTOAMP_STRATEGY="cast", **variables)
            self.assertEqual((told["decision"], told["reason"]), wanted, (system, level))


unittest.main()
