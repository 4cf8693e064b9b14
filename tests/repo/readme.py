#!/usr/bin/env python3
"""The pages agree with the source: variables, rules, commands, options, views, JSON keys, reasons, tables, offsets of the
trace. Links, and files named in pages and comments, exist. Lines of pages are not too long.

usage: readme.py ROOT PROGRAM   (PROGRAM prints the table of variables)
"""
import pathlib
import re
import subprocess
import sys

import layout

README_LINES = 75
WIDTH = 130
FOREIGN = re.compile(r"cu(da|blas|dnn)|crt/|(.*/)?(ATen|csrc|phi)/|(.*/)?amp(_lists|_utils)?\.(py|h)")
SUFFIXES = (".h", ".cpp", ".c", ".cu", ".cuh", ".inc", ".py", ".sh", ".build", ".in", ".S")
JSON, COMMANDS, CONFIGURATION, REPORTS = (f"docs/{name}.md" for name in ("report-json", "command-line", "configuration", "reports"))

EMULATED, FRAMEWORKS, TRACE = "docs/emulated-device.md", "docs/frameworks.md", "docs/trace-format.md"

# Tables that repeat source: page, begin and end of the table, the names, source, pattern of the place, pattern of a name.
TABLES = (
    (REPORTS, "## Scaler events", "\n## ", "event", "src/life/scaler.cpp", r"words\[\] = \{(.*?)\}", r'"(\w+)"'),
    (EMULATED, "| `AUTOAMP_EMU_CUPTI` | effect |", "\n\n", "fault", "src/config/emulator_settings.h", r'"AUTOAMP_EMU_CUPTI", "(.*?)"', r"\w+"),
    (CONFIGURATION, "| `AUTOAMP_TRACE` | content |", "\n\n", "value", "src/config/option_table.h", r'"AUTOAMP_TRACE", choice, "(.*?)"', r"\w+"),
    (CONFIGURATION, "`AUTOAMP_TRACE_FILE` is a pattern:", "\nAn unknown", "directive", "src/base/name_pattern.h", r"file name: (.*?) are known", r"\S+"),
    (CONFIGURATION, "| function | effect |", "\n\n", "function", "inject/autoamp.h", r"takes the semicolon(.*)",
     r"AUTOAMP_FUNCTION\([\w *]+, (autoamp_(?!scaler|record)\w+),"),
    ("docs/gradient-scaler.md", "| function | effect |", "\n\n", "function", "inject/autoamp.h", r"takes the semicolon(.*)",
     r"AUTOAMP_FUNCTION\([\w *]+, (autoamp_(?:scaler|record)\w+),"),
)
# Structs of src/trace/format.h: name: section of the page, or number of the record there.
STRUCTS = {"Header": "## Header: offset 0, 160 bytes, padded to `header_size`", "Chunk": "## Chunk head: 32 bytes",
           "Kernel": "## Kernels: 40 bytes each", "StringRecord": 1, "PropertyRecord": 2, "CauseRowRecord": 3, "LaneRecord": 4,
           "CellsRecord": 5, "LossRecord": 6, "ScalerTotalRecord": 7, "NoteRecord": 8, "KernelTotalRecord": 9, "KernelLossRecord": 10,
           "ClockRecord": 11, "CuptiOverheadRecord": 12, "CaptureRecord": 13, "LaunchRecord": 14, "OwnedGradientScalerRecord": 15,
           "GradientEventRecord": 16, "GradientCauseRecord": 17, "TimedAuditRecord": 18, "ComparedWeightsRecord": 19}


class Checker:
    def __init__(self, root, table):
        self.root, self.table, self.wrong = pathlib.Path(root), table, []

    def read(self, name):
        return (self.root / name).read_text()

    def words(self, name, pattern, words=r'"(\w+)"'):
        """The words inside the first match of a pattern in a source file."""
        found = re.search(pattern, self.read(name), re.S)
        if not found:
            self.wrong.append(f"{name}: {pattern} is not found; tests/repo/readme.py reads it")
        return set(re.findall(words, found[1])) if found else set()

    def rows(self, name, macro):
        return self.words(name, rf"#define {macro}\(X\)(.*?[^\\])\n", r"\bX\((\w+),")

    def section(self, page, begin, end="\n## "):
        before, _, rest = ("\n" + self.read(page)).partition(f"\n{begin}\n")
        if not rest:
            self.wrong.append(f"{page}: no section '{begin}'")
        return rest.partition(end)[0]

    def cells(self, page, begin, end="\n## "):
        """The code spans in the first cells of the tables of a section."""
        firsts = re.findall(r"^\|((?:\\\||[^|\n])+)\|", self.section(page, begin, end), re.M)
        return {name for cell in firsts for name in re.findall(r"`([^`]+)`", cell)}

    def compare(self, page, what, documented, existing):
        self.wrong += [f"{page}: {what} {name} is missing" for name in sorted(existing - documented)]
        self.wrong += [f"{page}: {what} {name} does not exist" for name in sorted(documented - existing)]

    def keys(self, *names):
        """The keys of JSON objects in files of the command line, except {heading, field, alignment} of a column."""
        code = "".join(self.read(f"tools/autoamp/{name}.cpp") for name in names)
        sheets = set(re.findall(r'Sheet::of\(\s*"(\w+)"', code))
        return sheets | set(re.findall(r'\{"(\w+)", (?!"\w*", \')', code)) | set(re.findall(r'\\"(\w+)\\": ', code))

    def check_configuration(self):
        if self.table not in self.read(CONFIGURATION):
            self.wrong.append(f"{CONFIGURATION} must have this table, word for word:\n{self.table}")
        variables = set(re.findall(r"AUTOAMP_\w+", "".join(line.split("|")[1] for line in self.table.splitlines())))
        listed = {name for name in self.cells(CONFIGURATION, "## Variables", "\n### ") if name.startswith("AUTOAMP_")}
        self.compare(CONFIGURATION, "variable", listed, variables)
        emulated = {name for name in variables if name.startswith("AUTOAMP_EMU_")}
        page = "docs/emulated-device.md"
        self.compare(page, "variable", {name for name in self.cells(page, "## Variables") if name.isupper()}, emulated)
        matchers = self.rows("src/config/rules.h", "AUTOAMP_MATCHERS")
        self.compare(CONFIGURATION, "condition", self.cells(CONFIGURATION, "## Rules", "\nNames are patterns"), matchers)

    def check_tables(self):
        for page, begin, end, what, file, place, name in TABLES:
            documented = {re.split(r"\(", each)[0] for each in self.cells(page, begin, end)}
            self.compare(page, what, documented, self.words(file, place, name))
        defaults = {tuple(row.split(" | ")[0:3:2]) for row in re.findall(r"^\| `(AUTOAMP_EMU.*)", self.table, re.M)}
        rows = re.findall(r"^\| `(AUTOAMP_\w+`) \| (.*?) ?\|", self.section(EMULATED, "## Variables"), re.M)
        self.compare(EMULATED, "default", {(name, value) for name, value in rows if value != "effect"},
                     {(name, value.strip("`")) for name, value in defaults})
        listed = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", self.section(FRAMEWORKS, "| system | levels | an op on no list, on fp32 data |", "\n\n"), re.M)
        for system, levels in listed:
            words = re.search(r'Lists = \{"\w+", "[^"]+", ([^,]*),', self.read(f"src/lists/lists_{system}.cpp"))[1]
            existing = {level.strip().removeprefix("bit(Level::").rstrip(")").replace("automatic", "auto") for level in words.split("|")}
            self.compare(FRAMEWORKS, f"level of {system}", set(levels.split(", ")), existing)

    def check_offsets(self):
        """The offsets in the page of the trace format are those of the structs."""
        text = layout.expanded(self.read("src/trace/format.h"))
        for struct, place in STRUCTS.items():
            existing = {(at, re.sub("(Ns)?$", "", name).lower()) for at, name in layout.members(text, struct)[0]}
            existing -= {(at, name) for at, name in existing if name.startswith("reserved") or isinstance(place, int) and at < 8}
            listed = []
            if isinstance(place, int):
                row = re.search(rf"^\| {place} \| [\w ]+ \| (.*) \|$", self.section(TRACE, "## Records"), re.M)[1]
                listed = re.findall(r"(?<![\w-])(\d+) (?!bytes(?!:)|as a)([a-z]\w*(?: [a-z]\w*)?)", row)
            else:
                for at, types, names in re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]*) \|", self.section(TRACE, place), re.M):
                    for name in filter(None, names.split(", ")):
                        listed.append((at, name))
                        at = int(at) + int(re.search(r"\d+", types)[0]) // 8 if types[0] in "ui" else at
            documented = {(int(at), re.sub("[_ ]", "", name)) for at, name in listed if int(at) >= min(existing)[0]}
            # In the page, a type can follow the name.
            documented = {next((each for each in existing if each[0] == at and name.startswith(each[1])), (at, name)) for at, name in documented}
            self.compare(TRACE, f"member of {struct}", {f"{name} at {at}" for at, name in documented}, {f"{name} at {at}" for at, name in existing})

    def check_commands(self):
        main = self.read("tools/autoamp/main.cpp")
        listed = {usage.split()[1] for usage in self.cells(COMMANDS, "# Commands", "\nUseful first runs")}
        self.compare(COMMANDS, "command", listed, set(re.findall(r'add_subcommand\("(\w+)"', main)))
        run = main.partition('add_subcommand("run"')[2].partition("add_subcommand(")[0]
        options = self.words("tools/autoamp/main.cpp", r"\} mirrored\[\] = \{(.*?)\};", r'\{"([-\w,]+)", policy')
        options |= set(re.findall(r'add_(?:option|flag)\("([-\w,]+)"', run)) | {"--color"}
        self.compare(COMMANDS, "option", self.cells(COMMANDS, "## `autoamp run`"), {each for name in options for each in name.split(",")})

    def check_reports(self):
        file = "tools/autoamp/report.cpp"
        views, formats = self.words(file, r"views = \{(.*?)\}"), self.words(file, r"formats = \{(.*?)\}")
        self.compare(REPORTS, "view or format", self.cells(REPORTS, "# Reports"), views | formats)
        verdicts = self.words("src/policy/decision.h", r"enum class Verdict : uint8_t \{([^}]*)\}", r"\w+")
        self.compare(REPORTS, "decision", self.cells(REPORTS, "## Decisions"), verdicts)
        lists = re.findall(r"is one of.*?:\n\n((?:    .*\n)+)", self.section(JSON, "## `reasons`"))
        decisions, reasons = [set(each.split()) for each in lists] if len(lists) == 2 else (set(), set())
        self.compare(JSON, "decision", decisions, verdicts)
        self.compare(JSON, "reason", reasons, self.rows("src/policy/decision.h", "AUTOAMP_REASONS"))

    def check_json(self):
        sections = {"# Report as JSON": ("json", "views", "gain", "gradient_views", "audit", "weights"), "## `autoamp diff --format json`": ("comparison", "diff"),
                    "## `autoamp explain --format json`": ("explain",), "## `autoamp lists --format json`": ("lists",)}
        ends = [*sections][1:] + ["the end of the page"]
        for (begin, sources), end in zip(sections.items(), ends):
            # A step of explain, a type, a scaler event, a table of the HTML page.
            existing = self.keys(*sources) - {"enabled", "float32", "init", "gradient_events"}
            listed = self.cells(JSON, begin, f"\n{end}")
            spans = set(re.findall(r"`(\w+)`", self.section(JSON, begin, f"\n{end}")))
            if "diff" in sources:  # these come in pairs
                pairs = self.words("tools/autoamp/comparison.cpp", r"const auto add = (.*?)return object", r'add\("(\w+)"')
                existing |= {name + side for name in pairs for side in ("_before", "_after")} | {"ratio", "model_ratio", "changed"}
                existing -= {"_before"}
            # Objects inside a row are described in its last cell.
            self.compare(JSON, "key", listed | (spans & existing), existing)
        schemas = {name: set(re.findall(r"autoamp\.\w+/\d+", self.read(name))) for name in (JSON, "tools/autoamp/json.cpp", "tools/autoamp/diff.cpp")}
        self.compare(JSON, "schema", schemas.pop(JSON), set.union(*schemas.values()))
        groups = set(re.findall(r"`(\w+)`", self.section(JSON, "## `groups`")))
        groupings = self.words("tools/autoamp/account.cpp", r"groupings = \{(.*?)\}")
        self.compare(JSON, "grouping", groups & groupings, groupings)

    def check_links(self):
        pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tools/emulated/README.md"]
        pages += [path.relative_to(self.root).as_posix() for path in sorted(self.root.glob("docs/**/*.md"))]
        for page in pages:
            body = re.sub(r"^```.*?^```|`[^`\n]*`", "", self.read(page), flags=re.M | re.S)
            for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", body):
                path = (self.root / page).parent / target if target else self.root / page
                if not path.exists():
                    self.wrong.append(f"{page} links to {target}, which does not exist")
                elif anchor and anchor not in self.slugs(path):
                    self.wrong.append(f"{page} links to {target}#{anchor}; there is no such heading")

    @staticmethod
    def slugs(path):
        headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S), re.M)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    def check_names_in_source(self):
        """Pages that the source names, in comments and in messages."""
        pattern = re.compile(r"(?<![\w/.-])((?:docs/(?:adr/|bench/)?|tools/[\w/]+/|tests/[\w/]+/|)[\w-]+\.md)\b")
        for top in ("src", "inject", "kernels", "tools", "tests", "meson.build"):
            place = self.root / top
            for file in [place] if place.is_file() else sorted(place.rglob("*")):
                if file.suffix not in SUFFIXES or file.name == "readme.py":
                    continue
                for target in pattern.findall(file.read_text(errors="replace")):
                    if not any((base / target).is_file() for base in (self.root, file.parent)):
                        self.wrong.append(f"{file.relative_to(self.root)} names {target}, which does not exist")

    def check_files_in_comments(self):
        """Source files that comments name. Those of other projects are in FOREIGN."""
        tops = ("src", "inject", "kernels", "tools", "tests")
        files = [path.relative_to(self.root) for top in tops for path in (self.root / top).rglob("*")]
        existing = {"/".join(file.parts[start:]) for file in files for start in range(len(file.parts))}
        for file in files:
            if file.parts[0] != "tests" and file.suffix in (".h", ".cpp", ".c", ".cu", ".cuh", ".S"):
                for comment in re.findall(r"//[^\n]*|/\*.*?\*/", (self.root / file).read_text(), re.S):
                    for name in re.findall(r"(?<![\w./<{}-])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|cuh?|inc|S|py))\b", comment):
                        if name not in existing and not FOREIGN.match(name):
                            self.wrong.append(f"{file}: a comment names {name}, which does not exist")

    def check_width(self):
        """Lines of pages, except those of tables and blocks of code."""
        for path in [*self.root.glob("*.md"), *self.root.glob("docs/*.md")]:
            for line in re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S).split("\n"):
                if len(line) > WIDTH and not line.startswith(("|", "#", "    ")):
                    self.wrong.append(f"{path.relative_to(self.root)}: a line is longer than {WIDTH} characters: {line[:60]}")

    def check_paths(self):
        """Files that a page names as code."""
        pages = ["README.md", "CONTRIBUTING.md", *(path.relative_to(self.root).as_posix() for path in sorted(self.root.glob("docs/*.md")))]
        for page in pages:
            body = re.sub(r"^```.*?^```", "", self.read(page), flags=re.M | re.S)
            for path in re.findall(r"`((?:src|inject|kernels|tools|tests|docs)/[\w./*-]*)`", body):
                if not list(self.root.glob(path.rstrip("/"))):
                    self.wrong.append(f"{page} names {path}, which does not exist")

    def check_decisions(self):
        """The numbers of docs/adr have no gap, and headings have the number of their file."""
        files = sorted((self.root / "docs/adr").glob("*.md"))
        for number, file in enumerate(files):
            if not file.name.startswith(f"{number:04d}-"):
                self.wrong.append(f"docs/adr: number {number:04d} is missing before {file.name}")
                break
        for file in files:
            if not file.read_text().startswith(f"# {file.name[:4]}: "):
                self.wrong.append(f"docs/adr/{file.name} does not begin with '# {file.name[:4]}: '")

    def check_length(self):
        if (length := self.read("README.md").count("\n")) > README_LINES:
            self.wrong.append(f"README.md has {length} lines; {README_LINES} are allowed")

    def check(self):
        for name in sorted(dir(self)):
            if name.startswith("check_"):
                getattr(self, name)()
        return self.wrong


if __name__ == "__main__":
    printed = subprocess.run([sys.argv[2]], capture_output=True, text=True, check=True).stdout
    found = Checker(sys.argv[1], printed).check()
    print("\n".join(found) or "the pages agree with the source")
    sys.exit(bool(found))
