"""Mutated traces through every report and export: outputs.py AUTOAMP GOLDEN_FOLDER.

For any trace, each output is valid in its format and no text of the trace is active in it: no control character on
a terminal, no tag in HTML, no link in Markdown, no formula in CSV. Seeds and counts are fixed."""
import csv
import html.parser
import io
import json
import os
import pathlib
import random
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

AUTOAMP, GOLDEN = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
PAGE, CHUNK, RECORDS, STRING = 4096, 0x6B434141, 1, 1
HOSTILE = [b"\x1b]0;pwn\x07\x1b[31m", b"<img src=x onerror=alert(1)>", b"![i](http://evil.example/x)[a](http://evil.example)",
           b"=cmd|'/C calc'!A0", b"+1+1", b"@SUM(A1)", b"-2+3", b"\tx\rx\nx", b"\xff\xfe\x80\xc0\xaf\xed\xa0\x80", "\u202eabc\u2066\u200b\x9b".encode(),
           b"a\"b'c,d;e|f`g``h", b"</pre></script><script>alert(1)</script>", b"\x00\x01\x02\x7f", b"https://evil.example www.evil.example",
           b"{}{0}%s%n", "größe 矩陣".encode(), b'","x":{"', b"| a | b |\n|---|---|"]
# A byte flip that leaves a trace readable changes little in the outputs; an attacker would write strings.
MUTANTS, FLIPS = 16, 16
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def strings_of(data):
    """Positions of the strings of a trace: offset and length."""
    places, at = [], PAGE
    while at + 32 <= len(data):
        magic, kind, size, _, committed = struct.unpack_from("<IIIIQ", data, at)
        if magic != CHUNK or size == 0:
            at += PAGE
            continue
        record, end = at + 32, min(at + committed, len(data))
        while kind == RECORDS and record + 8 <= end:
            of, _, length = struct.unpack_from("<HHI", data, record)
            if length == 0:
                break
            if of == STRING:
                places.append((record + 16, struct.unpack_from("<I", data, record + 12)[0]))
            record += length
        at += size
    return places


def with_strings(data, chance, share):
    data = bytearray(data)
    for at, length in strings_of(data):
        # Short words have a meaning for the reader: without them the reports are empty.
        if length >= 4 and chance.random() < share:
            text = chance.choice(HOSTILE)
            data[at:at + length] = (text * (length // len(text) + 1))[:length]
    return bytes(data)


def with_flips(data, chance):
    data = bytearray(data)
    for _ in range(chance.randrange(1, 30)):
        page = chance.choice((0, PAGE, PAGE, PAGE * chance.randrange(len(data) // PAGE)))
        data[min(page + chance.randrange(400), len(data) - 1)] = chance.randrange(256)
    return bytes(data)


class Tags(html.parser.HTMLParser):
    KNOWN = set("html head meta style title body header main nav section footer h1 h2 h3 p pre svg rect text path line circle div figure "
                "figcaption table caption thead tbody tr th td button span small b strong br code script ul ol li a details summary label "
                "input fieldset legend".split())

    def __init__(self):
        super().__init__()
        self.scripts, self.odd = 0, []

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        if tag not in self.KNOWN or any(name.startswith("on") or name == "src" or (name == "href" and not value.startswith("#")) for name, value in attributes):
            self.odd.append((tag, attributes))


class Outputs(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.here = pathlib.Path(place.name)

    def run_(self, *arguments):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.here), "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
        done = subprocess.run([AUTOAMP, *arguments], cwd=self.here, env=environment, capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        self.safe_text(done.stderr)
        return done.returncode, done.stdout

    def safe_text(self, data):
        text = data.decode()  # UTF-8, or this raises
        found = ACTIVE.search(text)
        self.assertIsNone(found, found and repr(text[max(0, found.start() - 60):found.end() + 20]))
        return text

    def safe_csv(self, data):
        text = data.decode()
        self.safe_text(data.replace(b"\r\n", b"\n"))
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        for row in rows:
            self.assertEqual(len(row), len(rows[0]))
            for cell in row:
                if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n"):
                    float(cell)  # a number

    def safe_html(self, data):
        text = self.safe_text(data)
        tags = Tags()
        tags.feed(text)
        tags.close()
        self.assertEqual((tags.scripts, tags.odd), (1, []))
        self.assertNotIn("<img", text)

    def safe_markdown(self, data):
        text = self.safe_text(data)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        bars = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows}
        self.assertLessEqual(len(bars), 1, rows)
        for row in rows:
            self.assertNotRegex(row, r"(?<!\\)(?:\\\\)*(!?\[[^\]]*[^\\]\]\(|<[a-z/!]|`)")
            self.assertNotRegex(row, r"http://|https://|www\.evil")

    def check(self, name):
        for view in ("summary", "ops", "reasons", "kernels", "scaler", "audit", "loss", "config"):
            self.safe_text(self.run_("report", name, "--report", view)[1])
        status, out = self.run_("report", name, "--format", "json")
        if status == 0:
            json.loads(out)
        for view in ("ops", "kernels", "audit", "loss"):
            self.safe_csv(self.run_("report", name, "--report", view, "--format", "csv")[1])
            for line in self.run_("report", name, "--report", view, "--format", "jsonl")[1].decode().splitlines():
                json.loads(line)
            self.safe_markdown(self.run_("report", name, "--report", view, "--format", "md")[1])
        status, out = self.run_("report", name, "--format", "html")
        if status == 0:
            self.safe_html(out)
        for kind in ("sqlite", "perfetto", "chrome", "csv", "jsonl"):
            out = self.here / f"out.{kind}"
            status, _ = self.run_("export", "--type", kind, "--force", "-o", out, name)
            if status != 0:
                continue
            data = out.read_bytes()
            if kind == "chrome":
                json.loads(data, parse_constant=lambda word: self.fail(f"{word} is not JSON"))
            elif kind == "csv":
                self.safe_csv(data)
            elif kind == "jsonl":
                for line in data.decode().splitlines():
                    json.loads(line, parse_constant=lambda word: self.fail(f"{word} is not JSON"))
            elif kind == "sqlite":
                database = sqlite3.connect(out)
                self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
                for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    database.execute(f"SELECT * FROM {table}").fetchall()  # text that is not UTF-8 raises
                database.close()
            else:
                self.strings_of_protobuf(data)

    def strings_of_protobuf(self, data):
        """Every length-delimited field is read as far as lengths are right."""
        def number(at):
            value = shift = 0
            while True:
                byte = data[at]
                value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
                if byte < 128:
                    return value, at
        at = 0
        while at < len(data):
            tag, at = number(at)
            self.assertEqual(tag, 1 << 3 | 2)  # Trace.packet
            length, at = number(at)
            at += length
            self.assertLessEqual(at, len(data))

    def test_hostile_strings(self):
        goldens = sorted(GOLDEN.glob("*.aat"))
        for seed in range(MUTANTS):
            with self.subTest(seed=seed):
                chance = random.Random(seed)
                data = goldens[seed % len(goldens)].read_bytes()
                (self.here / "t.aat").write_bytes(with_strings(data, chance, 0.2 + seed / MUTANTS * 0.8))
                self.check("t.aat")

    def test_flipped_bytes(self):
        goldens = sorted(GOLDEN.glob("*.aat"))
        for seed in range(FLIPS):
            with self.subTest(seed=seed):
                chance = random.Random(1000 + seed)
                data = with_flips(goldens[seed % len(goldens)].read_bytes(), chance)
                if seed % 2:
                    data = with_strings(data, chance, 0.5)
                (self.here / "t.aat").write_bytes(data)
                self.check("t.aat")

    def test_hostile_file_names_and_arguments(self):
        data = (GOLDEN / "v1-kernels.aat").read_bytes()
        for text in ("\x1b]0;pwn\a", "a\nautoamp: all is well", "\u202egpj", "\x9b31m", "<b>", "größe"):
            name = self.here / f"{text.replace('/', '')}.aat"
            name.write_bytes(data)
            with self.subTest(repr(text)):
                self.check(name)
                self.run_("diff", name, name)
                for arguments in (("report", f"{text}.missing"), (text,), ("report", text), ("report", "--format", text),
                                  ("report", "--report", text), ("report", "--sort", text, name), ("explain", "--entry", text),
                                  ("check", text), ("lists", "--lists", text), ("run", "--level", text, "--", "true"),
                                  ("run", "--", text), ("export", "--type", text, "-o", "x", name), ("doctor", "--", text)):
                    self.safe_text(self.run_with_any_status(*arguments))
                if "größe" in text:
                    self.assertIn("größe", self.run_with_any_status("report", f"{text}.missing").decode())
            name.unlink()

    def run_with_any_status(self, *arguments):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.here), "LC_ALL": "C.UTF-8"}
        done = subprocess.run([AUTOAMP, *arguments], cwd=self.here, env=environment, capture_output=True, timeout=60, check=False)
        self.assertGreaterEqual(done.returncode, 0)
        return done.stdout + done.stderr

    def test_raw_cells(self):
        """--raw leaves texts unchanged; numbers are numbers in any case."""
        data = bytearray((GOLDEN / "v1-kernels.aat").read_bytes())
        for at, length in strings_of(data):
            if data[at:at + length] == b"libapp.so":
                data[at:at + length] = b"=1+1+2+34"
        (self.here / "t.aat").write_bytes(data)
        safe = self.run_("report", "t.aat", "--report", "ops", "--format", "csv")[1].decode()
        raw = self.run_("report", "t.aat", "--report", "ops", "--format", "csv", "--raw")[1].decode()
        self.assertIn(",'=1+1+2+34,", safe)
        self.assertEqual(safe.replace("'=", "="), raw)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
