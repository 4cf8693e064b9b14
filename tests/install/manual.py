#!/usr/bin/env python3
"""Manual pages, completions and the page of options, which the program writes from its own tables.

usage: manual.py AUTOAMP FOLDER SOURCE   (FOLDER: the built pages and completions)
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

AUTOAMP, FOLDER, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
COMPLETE = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_autoamp
[ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
"""


def output(*command, **keywords):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **keywords)
    assert (done.returncode, done.stderr) == (0, ""), (command, done)
    return done.stdout


OPTIONS = output(AUTOAMP, "help", "--format", "md")
COMMANDS = re.findall(r"^## `autoamp (\w+)`$", OPTIONS, re.M)
TOPICS = {"env", "rules", "weights", "reports", "reasons"}


class Pages(unittest.TestCase):
    def test_page_of_options(self):
        self.assertEqual((SOURCE / "docs/options.md").read_text(encoding="utf-8"), OPTIONS,
                         "write it again: build/tools/autoamp help --format md >docs/options.md")

    def test_help_names_every_topic(self):
        listed = output(AUTOAMP, "help").partition("autoamp help TOPIC")[2]
        for topic in TOPICS:
            self.assertRegex(listed, rf" {topic}: ")
            self.assertRegex(OPTIONS, rf"\| Topic: [^|]*\b{topic}\b[^|]*, or a command")

    def test_every_command_and_topic_has_a_page(self):
        wanted = {"autoamp.1", *(f"autoamp-{name}.1" for name in COMMANDS), *(f"autoamp-{name}.7" for name in TOPICS)}
        self.assertEqual({path.name for path in FOLDER.glob("*.[17]")}, wanted)

    def test_pages_have_the_text_of_help(self):
        text = {path.stem: path.read_text(encoding="utf-8").replace("\\-", "-") for path in FOLDER.glob("*.[17]")}
        for name in COMMANDS:
            for option in re.findall(r"(?<![\w-])--[a-z-]+", output(AUTOAMP, name, "--help")):
                self.assertIn(option, text[f"autoamp-{name}"])
        for variable in re.findall(r"^AUTOAMP_\w+", output(AUTOAMP, "help", "env"), re.M):
            self.assertIn(f"\n.B {variable}\n", text["autoamp-env"])
        for reason in re.findall(r"^(\w+)  ", output(AUTOAMP, "help", "reasons"), re.M):
            self.assertIn(f"\n.B {reason}\n", text["autoamp-reasons"])
        self.assertIn("custom_black_list", text["autoamp-rules"])

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_renders_them_without_warnings(self):
        for path in sorted(FOLDER.glob("*.[17]")):
            done = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, check=False, timeout=60,
                                  env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": "0"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
            text = re.sub(".\x08", "", done.stdout)  # letters that are printed twice are bold
            self.assertIn("\nSEE ALSO\n", text)
            self.assertLessEqual(max(map(len, text.splitlines())), 80, path)

    def test_unknown_names(self):
        for arguments in (["help", "nothing"], ["help", "--format", "md", "run"], ["completion", "csh"], ["completion"]):
            done = subprocess.run([AUTOAMP, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
        self.assertEqual(output(AUTOAMP, "help", "check"), output(AUTOAMP, "check", "--help"))


class Bash(unittest.TestCase):
    def complete(self, *words):
        return output("bash", "--norc", "-c", COMPLETE, "bash", str(FOLDER / "autoamp"), "autoamp", *words,
                      cwd=SOURCE).split("\n")[:-1]

    def test_commands(self):
        self.assertEqual(self.complete(""), [*COMMANDS, "--help", "--preload-path", "--version"])
        self.assertEqual(self.complete("--preload-path", ""), ["cuda", "cpu"])
        self.assertEqual(self.complete("re"), ["report"])
        self.assertEqual(self.complete("help", "rea"), ["reasons"])
        self.assertLessEqual({*COMMANDS, *TOPICS}, set(self.complete("help", "")))
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])

    def test_options(self):
        self.assertEqual(self.complete("run", "--de"), ["--device", "--delay"][::-1])
        for name in COMMANDS:
            section = OPTIONS.partition(f"## `autoamp {name}`\n")[2].partition("\n## ")[0]
            wanted = {option for usage in re.findall(r"^\| `(-[^`]*)`", section, re.M) for option in re.findall(r"(?<!\w)--?[a-zA-Z-]+", usage)}
            self.assertEqual(set(self.complete(name, "-")), wanted)

    def test_values(self):
        self.assertEqual(self.complete("run", "--dtype", ""), ["float16", "bfloat16", "tf32"])
        self.assertEqual(self.complete("run", "--dtype", "=", "b"), ["bfloat16"])
        self.assertEqual(self.complete("run", "--dtype", "="), ["float16", "bfloat16", "tf32"])
        self.assertEqual(self.complete("report", "--format", "j"), ["json", "jsonl"])
        self.assertEqual(self.complete("report", "--sort", ""), [])
        for command in ("run", "bisect", "explain"):
            self.assertEqual(self.complete(command, "--weights", ""), ["auto", "off", "checked", "watched", "frozen"])
        self.assertEqual(self.complete("lists", "--lists", "p"), ["paddle"])

    def test_files(self):
        self.assertEqual(self.complete("report", "READ"), ["README.md"])
        self.assertEqual(self.complete("run", "-o", "READ"), ["README.md"])
        self.assertEqual(self.complete("run", "--level", "O0", "--", "cat", "READ"), ["README.md"])
        self.assertIn("bash", self.complete("run", "--", "bas"))


class OtherShells(unittest.TestCase):
    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        # _arguments is replaced: it must get every option of the command.
        script = "_arguments() { print -rl -- $@ }; compdef() { :; }; CURRENT=3; words=(autoamp report -); . $1; _autoamp"
        said = output("zsh", "-f", "-c", script, "zsh", str(FOLDER / "_autoamp"))
        self.assertIn("--format=[Output format; default table]:VALUE:(table json csv jsonl md html)\n", said)
        self.assertIn("-S\n", said)  # no options after `--`

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        def complete(line):
            script = f"source {FOLDER}/autoamp.fish; complete -C {line!r}"
            return {each.split("\t")[0] for each in output("fish", "--no-config", "-c", script).splitlines()}
        self.assertLessEqual({*COMMANDS}, complete("autoamp "))
        self.assertEqual(complete("autoamp run --dtype b"), {"bfloat16"})
        self.assertEqual(complete("autoamp run --weights fro"), {"frozen"})
        self.assertEqual(complete("autoamp report --form"), {"--format"})
        self.assertEqual(complete("autoamp --preload-path c"), {"cuda", "cpu"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
