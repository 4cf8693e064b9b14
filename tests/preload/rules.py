"""Configuration files in a program: the precision that runs, the layer that decides, and the effect of a wrong file."""
import os
import tempfile

import runner
from runner import ETA, bare, run

PROGRAM = "configured"
PRODUCTS = ("door.*", "size.*", "mode.*")
ALL = ("door.sgemm", "door.gemm_ex", "door.lt", "door.strided", "size.narrow", "size.wide")
FOLDER = tempfile.TemporaryDirectory()


def written(text, path="rules.toml"):
    path = os.path.join(FOLDER.name, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def rule(matchers, precision):
    return f"[[rule]]\n{matchers}\nprecision = \"{precision}\"\n"


BLACK = {"CUSTOM_BLACK_LIST": "mm,bmm,addmm"}  # keeps the calls that no rule matches
# Rules; the products that they lower, and the precision.
RULES = {
    "everything": (rule("", "float16"), dict.fromkeys(ALL, "float16")),
    "entry": (rule('entry = "cublasSgemm*"', "bfloat16"), dict.fromkeys(("door.sgemm", "door.strided", "size.narrow",
                                                                         "size.wide"), "bfloat16")),
    "first wins": (rule('entry = "*Lt*"', "tf32") + rule('entry = "*Ex"', "float16") + rule('m = "<=62"', "bfloat16"),
                   {"door.lt": "tf32", "door.gemm_ex": "float16", "door.sgemm": "bfloat16"}),
    "float32 first": (rule("m = 60", "float32") + rule('m = "60..61"', "float16"), {"door.gemm_ex": "float16"}),
    "op": (rule('op = "bmm"', "bfloat16"), {"door.strided": "bfloat16"}),
    "shape": (rule('m = 64\nn = ">=256"\nk = "<100"', "bfloat16") + rule('flops = "<=500e3"\nm = ">63"', "float16"),
              {"size.wide": "bfloat16", "size.narrow": "float16"}),
    "batch": (rule('batch = ">1"', "tf32"), {"door.strided": "tf32"}),
    "caller": (rule('caller = "configured*"\nbatch = 3', "float16"), {"door.strided": "float16"}),
    "another caller": (rule('caller = "libtorch*"', "float16"), {}),
    "another device": (rule("device = 1", "float16"), {}),
}


class Rules(runner.Test):
    def assertRan(self, result, name, precision, **row):
        case = result.cases[name]
        rows = result.rows_of(case)
        wanted = dict({"decision": "lowered", "reason": "rule", "dtype_compute": precision} if precision else
                      {"decision": "kept", "dtype_compute": "float32"}, **row)
        self.assertEqual([{key: row[key] for key in wanted} for row in rows], [wanted], name)
        if precision:
            self.assertWithin(case["eta"], ETA[precision], "eta")
        else:
            self.assertLess(float(case["eta"]), 1e-6)

    def test_precision_by_rule(self):
        for name, (text, lowered) in RULES.items():
            with self.subTest(name):
                result = run(PROGRAM, *PRODUCTS, CONFIG=written(text, name + ".toml"), **BLACK)
                self.assertFine(result)
                for product in ALL:
                    self.assertRan(result, product, lowered.get(product))
                self.assertRan(result, "mode.pedantic", None, reason="pedantic")
        kept = run(PROGRAM, *PRODUCTS, CONFIG=os.path.join(FOLDER.name, "float32 first.toml"), **BLACK)
        self.assertRan(kept, "door.sgemm", None, reason="rule")

    def test_sums_in_half_are_raised(self):
        result = run("half", CONFIG=written(rule("", "float32"), "raised.toml"))
        listed = run("half", **BLACK)
        self.assertFine(result)
        self.assertEqual(result.bits(), listed.bits())
        told = [sorted((row["entry"], row["m"], row["decision"], row["reason"].replace("custom_black_list", "rule"))
                       for row in each.report["ops"]) for each in (result, listed)]
        self.assertEqual(*told)
        self.assertIn(("raised", "rule"), [row[2:] for row in told[0]])

    def test_float32_raises_what_the_application_allows(self):
        reference = bare(PROGRAM, "narrow.*", "stays.*")
        stays = {"stays.sum": "unsupported", "stays.odd_groups": "grouped", "stays.pedantic": "pedantic", "stays.zero": "zero_size"}
        path = written(rule("", "float32"), "float32.toml")
        for variables in ({}, {"STRATEGY": "cast"}, {"STRATEGY": "tf32", "DTYPE": "tf32"}):
            result = run(PROGRAM, "narrow.*", "stays.*", CONFIG=path, **variables)
            self.assertFine(result)
            for name, case in result.cases.items():
                with self.subTest(name, **variables):
                    kept, rows = stays.get(name), result.rows_of(case)
                    asked = next((dtype for word, dtype in (("half", "float16"), ("bfloat16", "bfloat16"), ("narrow", "tf32"))
                                  if word in name), None)
                    told = [[row[key] for key in ("decision", "reason", "strategy", "dtype_compute")] for row in rows]
                    if kept:
                        self.assertEqual([row[:3] for row in told], [["kept", kept, "fp32"]])
                        self.assertEqual(case["bits"], reference.cases[name]["bits"])
                        continue
                    self.assertEqual(told, [["raised", "rule", "fp32", "float32"]])
                    self.assertEqual(rows[0]["dtype_asked"], asked)
                    self.assertLess(float(case["eta"]), 1e-6)
                    if runner.PLACE.emulated:  # in TF32, whatever is permitted; a real device may not round
                        self.assertWithin(reference.cases[name]["eta"], ETA["tf32"], "bare")
            raised = len(result.cases) - len(stays)
            self.assertEqual((result.report["totals"]["raised"], result.report["totals"]["fallbacks"]), (raised, 0))
        # A list only prevents lowering; a rule has no effect if nothing may be changed.
        for variables in (BLACK, {"CONFIG": path, "STRATEGY": "fp32"}, {"CONFIG": path, "LEVEL": "O0"}):
            self.assertEqual(run(PROGRAM, "narrow.*", "stays.*", **variables).bits(), reference.bits())

    def test_threads_by_name(self):
        text = rule('thread = "work*"', "bfloat16") + rule('thread = "configured"', "tf32")
        result = run(PROGRAM, "threads", CONFIG=written(text, "threads.toml"), **BLACK)
        self.assertFine(result)
        case = result.cases["threads"]
        self.assertWithin(case["eta_main"], ETA["tf32"], "main")
        for turn in "01":
            self.assertWithin(case["worker-7_" + turn], ETA["bfloat16"], "worker")
            self.assertLess(float(case["loader_" + turn]), 1e-6)
        self.assertEqual(sorted((row["reason"], row["dtype_compute"], row["calls"]) for row in result.rows_of(case)),
                         [("custom_black_list", "float32", 2), ("rule", "bfloat16", 2), ("rule", "tf32", 1)])

    def test_what_changes_later_changes_nothing(self):
        path = written(rule("", "bfloat16"), "later.toml")
        result = run(PROGRAM, "rewrites", CONFIG=path, _CLIENT_FILE=path, _CLIENT_TEXT="wrong",
                     _CLIENT_VARIABLE="AUTOAMP_LEVEL", _CLIENT_VALUE="O0")
        self.assertFine(result)
        for key, eta in result.cases["rewrites"].items():
            if key.startswith("eta_"):
                self.assertWithin(eta, ETA["bfloat16"], key)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "wrong")


class Layers(runner.Test):
    def test_strongest_first(self):
        xdg = os.path.join(FOLDER.name, "layers")
        named = written('scaling = "off"\ncustom_black_list = ["bmm"]\n' + rule("m = 60", "float32"), "layers/named.toml")
        program = written('dtype = "bfloat16"\nscaling = "auto"\n' + rule("m = 60", "bfloat16") + rule("m = 61", "bfloat16"),
                          "layers/autoamp/configured.toml")
        user = written('# all programs\ndtype = "tf32"\nmemory = "64M"\ncustom_black_list = "conv2d"\n' + rule("m = 61", "tf32")
                       + rule("m = 62", "tf32"), "layers/autoamp/autoamp.toml")
        variables = {"_XDG_CONFIG_HOME": xdg, "CONFIG": named, "STRATEGY": "cast", "CUSTOM_BLACK_LIST": "mv"}
        result = run(PROGRAM, *PRODUCTS, **variables)
        self.assertFine(result)
        told = result.report["runs"][0]
        for key, (value, origin) in {"dtype": ("bfloat16", program + ":1:1"), "scaling": ("off", named + ":1:1"),
                                     "memory": ("64M", user + ":3:1"), "strategy": ("cast", "environment"),
                                     "config": (named, "environment"), "log": ("warn", "default"),
                                     "custom_black_list": ("mv,bmm,conv2d", f"environment, {named}:2:1, {user}:4:1")}.items():
            self.assertEqual((told["config"][key], told["config_origin"][key]), (value, origin))
        self.assertEqual([(each["rule"], each["origin"]) for each in told["rules"]],
                         [(f'm = "{m}", precision = "{precision}"', f"{path}:{line}:1") for m, precision, path, line in
                          ((60, "float32", named, 3), (60, "bfloat16", program, 3), (61, "bfloat16", program, 6),
                           (61, "tf32", user, 5), (62, "tf32", user, 8))])
        for product, decision, reason, precision in (("door.sgemm", "kept", "rule", "float32"),
                                                     ("door.gemm_ex", "lowered", "rule", "bfloat16"),
                                                     ("door.lt", "lowered", "rule", "tf32"),
                                                     ("door.strided", "kept", "custom_black_list", "float32"),
                                                     ("size.wide", "lowered", "white_list", "bfloat16")):
            self.assertEqual([(row["decision"], row["reason"], row["dtype_compute"])
                              for row in result.rows_of(result.cases[product])], [(decision, reason, precision)], product)
        # If XDG_CONFIG_HOME is unset, HOME is used.
        os.rename(xdg, os.path.join(FOLDER.name, ".config"))
        home = run(PROGRAM, "door.lt", _HOME=FOLDER.name, _XDG_CONFIG_HOME="").report["runs"][0]
        self.assertEqual(home["config_origin"]["dtype"], os.path.join(FOLDER.name, ".config/autoamp/configured.toml:1:1"))

    def test_the_environment_switches_off_whatever_a_file_says(self):
        path = written('enabled = true\nlevel = "O1"\n' + rule("", "float16"), "on.toml")
        reference = bare(PROGRAM, "door.*")
        for variables in ({"ENABLED": "0"}, {"LEVEL": "O0"}):
            result = run(PROGRAM, "door.*", CONFIG=path, **variables)
            self.assertFine(result)
            self.assertEqual(result.bits(), reference.bits())

    def test_a_wrong_file_is_one_line_and_nothing_else(self):
        reference = bare(PROGRAM, "door.*")
        bad = written('level = "O1"\ndtype = "fp8"\n', "bad.toml")
        deep = written("x = " + "[" * 50000, "deep.toml")
        hidden = os.path.join(FOLDER.name, "xdg")
        written("[[rule]]\nm = 1\n", "xdg/autoamp/autoamp.toml")
        named = written('trace_file = "x/%z.aat"\n', "named.toml")
        for variables, line in (({"CONFIG": named}, f"{named}:1:14: trace_file=x/%z.aat: unknown % in the file name"),
                                ({"CONFIG": bad}, f"{bad}:2:9: dtype=fp8: bad value; accepted: "),
                                ({"CONFIG": bad, "DTYPE": "float16"}, f"{bad}:2:9: dtype=fp8: bad value; accepted: "),
                                ({"CONFIG": deep}, f"{deep}:1:"),
                                ({"CONFIG": "/no/such/file"}, "AUTOAMP_CONFIG=/no/such/file: No such file or directory"),
                                ({"CONFIG": "/dev/zero"}, "AUTOAMP_CONFIG=/dev/zero: not a regular file"),
                                ({"_XDG_CONFIG_HOME": hidden}, f"{hidden}/autoamp/autoamp.toml:1:1: a rule without precision")):
            with self.subTest(line):
                result = run(PROGRAM, "door.*", **variables)
                self.assertEqual((result.status, result.errors.count("\n")), (0, 1), result.errors)
                self.assertIn("off: " + line, result.errors)
                self.assertEqual(result.bits(), reference.bits())
                self.assertIsNone(result.report)


if __name__ == "__main__":
    runner.main()
