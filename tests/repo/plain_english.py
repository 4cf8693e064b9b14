#!/usr/bin/env python3
"""Flag sentences that a native engineer stumbles over, in Markdown, comments and strings.

usage: plain_english.py [options] [FILE|DIR ...]      the given files; without any, all tracked files
       plain_english.py --diff [REV]                  only lines added since REV (default HEAD), in the work tree
       plain_english.py --diff - < some.patch         only lines that a patch adds
       plain_english.py --subjects [N|RANGE]          commit subjects (default: the last 20)
options:
  --stats          sentences, flagged sentences and patterns per folder instead of findings
  --no-house       only the patterns of general English, not this project's private vocabulary
  --soft           also report long sentences and chains of clauses; they never fail a run
CONTRIBUTING.md has the ten rules.
Exit status: 0 clean, 1 findings, 2 wrong usage. A sentence is left alone if its line, or the line before its
comment, has `plain-english: ok`; a file with `plain-english: skip file` is left out.
"""
import argparse
import bisect
import collections
import pathlib
import re
import subprocess
import sys

CPP = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc", ".map", ".S"}
HASH = {".py", ".build", ".entries", ".sh", ".toml", ".txt", ".yml", ".yaml"}
DOCS = {".md", ".rst"}

# A clause begins at a sentence's start or behind ; : ( and dashes.
START = r"(?:^|(?<=[;:(] )|(?<=\()|(?<= - )|(?<=— ))"
DET = r"(?:an?|the|it|its|what|those|these|each|several|two|three|every|whichever|whatever|one|all|any|both|them|such|us|our|their|his|other|others|another|many|most|some|this|that|a few|no|which|whom)"

# name, pattern, hint. House patterns are this project's own words; the others hold for any English.
GENERAL = [
    ("fronted-of", START + r"(?:Of (?!course\b|note\b|interest\b)\w|of " + DET + r"\b(?! N\b))",
     "put the genitive after its noun: 'Of X the Y' -> 'the Y of X', 'for X, the Y'"),
    ("headless-what", START + r"[Ww]hat(?: (?!if\b|about\b|happens\b|follows is\b)\w|'s (?!New))(?=[^?]*$)",
     "name the thing: 'What a call needs' -> 'State needed by a call'"),
    ("headless-wh", START + r"(?:How|Why|Whether|Which) (?!to\b|\w+ to\b|many\b|much\b)[a-z](?=[^?,]*$)",
     "name the thing: 'How a call is lowered' -> 'Lowering of a call', or a full sentence"),
    ("headless-who", START + r"(?:Who|Whose|Whom|Whoever|whoever)\b(?=[^?]*$)",
     "name the component: 'Whoever owns it locks' -> 'The owner takes the lock'"),
    ("is-none", r"\b(?<!there )(?<!There )(?:is|are|was|were|be) none\b(?! of (?:these|those|which|whose|whom|them)\b)|\bthat is none\b|\bnone (?:of (?:its|theirs|ours|his)\b|but\b)",
     "say 'is not a ...', 'there is no ...', 'has none'"),
    ("is-no-noun", r"(?<!here )(?<!Here )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|fewer\b|later\b|other\b|such\b|need\b|way\b|different\b|better\b|worse\b|larger\b|smaller\b|bigger\b|greater\b|exception\b|problem\b|doubt\b|good\b|use\b|match\b|guarantee\b|op\b|slower\b|faster\b|easier\b|[A-Z])[a-z]",
     "'X is no Y' -> 'X is not a Y'"),
    ("of-ours", r"\b(?:of|are|is|by|than|from|to|in|with|be|and|on) (?:ours|mine)\b|\bof (?:hers|theirs|its own)\b(?= ?[.,;:)]|$)|\bkept as ours\b",
     "'a kernel of ours' -> 'an autoamp kernel', 'our kernel'"),
    ("double-genitive", r"\bof (?:the |an? |each |every )?(?:[a-z]+ )?[A-Za-z]+'s(?= ?[.,;:)]| (?:that|in|by|or|and|with|which|as|is|are|to|on|at|from|itself|there|whose)\b|$)",
     "'a plan of the application's' -> 'an application plan'"),
    ("nobody", r"\b(?:nobody|somebody|anybody|everybody|whoever|whichever)(?:'s)?\b|\bsomeone(?:'s)?\b(?! else\b)",
     "name the thread, process or component that acts, or use the passive"),
    ("beside", r"\bbeside\b", "'beside' -> 'next to', 'in addition to', 'along with', 'alongside'"),
    ("but-except", r"\b(?:all|anything|nothing|none|everything|everywhere|everyone|nowhere|anywhere|no [a-z]+|any [a-z]+) but\b(?! (?:also|not|only|we|they|is|if|when|in)\b)|\bbut for (?:the|a|an|those|what|one|its|that|their)\b|\b(?:all|anything|nothing|none|everything) (?:\w+ ){1,3}but (?:the|its|what|for|that|those|an?|one)\b(?=[^,]*$)|\bnone but\b",
     "'all but X' -> 'everything except X'"),
    ("indirect-shall", r"\b(?:how|whether|what|which|where|when|who|said that|so that|wants? \w+|that) [^.,;]{0,40}?\bshall\b(?! not be| be (?:called|set|equal))|\bshall (?:never )?(?:run|end|see|go|say|know|learn|hear|have it)\b|\bshall be zeros\b",
     "'shall' only in a specification; else 'should', 'must', 'will'"),
    ("stranded-there", r"\b(?:that|as) there (?:is|are|was|were)\b(?= ?[.,;:)]|$)|\b(?:the|no) [a-z]+ there (?:was|is)\b(?= ?[.,;:)]|$)",
     "'the fastest that there is' -> 'the fastest available'"),
    ("stranded-relative", r"\b(?:[Aa]n?|[Tt]he|[Ee]ach|[Ee]very|[Nn]o|[Aa]ny|[Oo]ne|[Tt]wo|[Tt]hose|[Aa]ll) (?:[\w-]+ ){1,3}?(?:is|are|was|were|gets?|comes?|goes|holds?|stands?|counts?|decides|follows|has|have) (?:[a-z]+(?:ed|en|wn|ept|ade|uilt|ound|old|eft|un) )?(?:that|whose|who) (?:is|are|was|were|has|have|had|does|do|cannot|can|may|no|the|an?|it|they|\w+s|\w+ed)\b",
     "keep the relative clause at its noun: 'A plan is lowered that is X' -> 'A plan that is X is lowered'"),
    ("fronted-verb", r"^(?:So (?:do|does|did|are|is|has|have|was|were|can|may|will) (?!you|we|that|it|they|this|there)[a-z`]|Nor (?:do|does|is|are|has|was)\b|Not (?:lowered|raised|kept|told|seen|counted|covered)[a-z ]* (?:is|are)\b|(?:Lowered|Kept|Told|Asked|Counted|Seen) (?:is|are|by)\b)",
     "subject first: 'So do plans that ...' -> 'Plans that ... also do'"),
    ("elliptic-as", r"\bas (?:it|they|he) (?:was|were|is|are|has|had) (?:asked|been asked|told|given|there|ever|typed|wanted|meant|found)\b|\bas (?:asked|ever|those do|that does|before that|it was there|its way there)\b|\bfor ever\b|\bever after\b|\banew\b|\bat that\b(?= ?[.;])|\bthe same ever\b",
     "complete the comparison: 'as it was asked' -> 'in the requested precision', 'unchanged'"),
    ("personified", r"\b(?:is|are|was|were|be|been|being|gets?|got|not|CUPTI|whom they) told\b(?! apart\b)|\b(?:tells?|told) (?:of|nothing|no|anything)\b|\b(?:is|are|was|were|be) (?:said|asked about|heard)\b(?! to\b)|\b(?:[a-z]+ )(?:says|said) (?:so|which|why|whose|nothing|no|it again|who)\b|\bsays? (?:so|nothing) \b|\b(?:does|do|did) not say\b|\bask(?:s|ed)? of\b|\basks? the (?:handle|driver|vendor|device)\b|\b(?:is|are|was|were|be) asked\b(?! (?:for|to|about|if)\b)|\bin words\b(?= ?[.;:,)]| that)|\basks? (?:it|the) (?:again|whether)\b",
     "code does not tell or say: 'reports', 'records', 'passes', 'logs', 'returns'"),
    ("goes-comes", r"\b(?:goes|go|went|going) (?:by|its way|home|on in|through us|unseen|its own way|straight|the (?:short|long|same) way|the way of)\b|\b(?:takes?|taken|took|goes?|gone|brings?|brought|come|comes|carried) home\b|\b(?:makes?|made) good\b|\b(?:give|gives|gave|given|giving) back\b|\b(?:come|comes|came) back to (?:it|us)\b|\b(?:goes|go) (?:past|for ever|away)\b|\btakes? (?:it|them|these|the [a-z]+|[a-z]+) over\b(?! (?:the|a|all|to)\b)|\btaken over\b|\bway (?:back|there)\b|\bways back\b|\bst(?:ands?|ood) in (?!for\b|the way\b)|\bstands? (?:in the way|behind|there|beside|alone|before|ready)\b|\bstanding (?:there|behind)\b",
     "use the technical verb: bypass, copy to, restore, release, return, forward/backward pass"),
    ("archaic", r"\b(?:thereof|therein|hitherto|henceforth|whereof|wherein|thrice|afresh|ere|lest|whence|thence|thither|hence forth|as yet|at once whatever|no sooner|not a few|somewhat of|some (?:\d|two|three|ten|twenty|sixty)\d*)\b(?! (?:sort|kind))",
     "'some 30 ns' -> 'about 30 ns'; drop archaic connectives"),
]
HOUSE = [
    ("truth", r"\b(?:truths?|[Tt]rue (?:function|cublas|cudnn|one|name)s?\w*)\b", "'original function', 'vendor function'"),
    ("door", r"\b[Dd]oors?\b", "'wrapper', 'entry-point wrapper'"),
    ("vendor-genitive", r"\b(?!(?:cop(?:y|ies)|versions?|parts?|releases?|builds?|subsets?|because|instead|outside|independent|out|use|all)\b)[a-z]+ of (?:cuDNN|cuBLAS|cuBLASLt|cublasLt|CUPTI|NVTX|CUDA|torch|PyTorch|NVIDIA)(?:'s)?\b(?! (?:\d|[a-z]+ \d|call|descriptor|handle))",
     "'calls of cuDNN' -> 'cuDNN calls'"),
    ("met", r"\b(?:that|which|it|one|geometry|signature|graph|call|name|plan|key|none|has|have)s? (?:is|are|was|were|been)? ?met\b|\b(?:already|first|never) met\b|\bmeets? (?:it|us|them|a slot|a call|its|one)\b",
     "'encountered', 'first seen'"),
    ("known-call", r"\bknown (?:calls?|ones?)\b|\bcalls? that (?:is|are) known\b", "'cached call', 'cache hit'"),
    ("way", r"\b(?:long|short|other) way\b|\bthe (?:rule|strategy|region|call)'s way\b|\bone way or\b", "'slow path', 'fast path', 'method'"),
    ("out-of-sight", r"\b(?:out of sight|past us|by us|unseen by|goes? unseen|in front(?= ?[.,;:)]|$)|arm's length|takes? for granted|nobody's|wrong clients?)\b|\b(?:does?|are|is|decide) alike\b",
     "'not intercepted', 'preloaded', 'misbehaving clients', 'identical'"),
    ("verdict", r"\b(?:loss verdict|a verdict|own verdicts?)\b", "'loss check', 'decision', 'own test results'"),
    ("lowered-form", r"\b(?:has|have|no|a|the) lower (?:form|engine)s?\b", "'lower-precision form'"),
    ("house", r"\b(?:the|this) house\b|\brooms?\b(?! (?:for|in|left|to|is|at))", "'project', 'layer', 'component'"),
]
SOFT = [
    ("long", None, "over 40 words: split it"),
    ("chain", None, "three or more ; or : in one sentence: split it"),
]


def lines_of(text):
    starts = [0]
    starts += [m.end() for m in re.finditer("\n", text)]
    return starts


class Block:
    """A run of prose with the line of each character."""

    def __init__(self):
        self.text, self.at, self.lines = "", [], []

    def add(self, line, text):
        text = text.strip()
        if not text:
            return
        self.at.append(len(self.text))
        self.lines.append(line)
        self.text += text + " "

    def line(self, offset):
        return self.lines[max(0, bisect.bisect_right(self.at, offset) - 1)]


def split_paragraphs(rows):
    """Blocks from (line, text) rows: a new one at blank lines, bullets, doxygen tags, tables and headings."""
    block, code = Block(), False
    for line, text in rows:
        bare = text.strip()
        if re.match(r"[\\@](?:code|verbatim|dot|startuml)\b|\.\. code|```|~~~", bare):
            code = True
        if code:
            if re.match(r"[\\@]end", bare) or (bare in ("```", "~~~")):
                code = False
            continue
        bare = re.sub(r"^[\\@](?:param(?:\[\w+\])?|retval|tparam|throws?)\s+\S+", "", bare) if re.match(r"[\\@](?:param|retval|tparam|throw)", bare) else bare
        tag = re.match(r"[\\@](?:brief|return|returns|note|file|class|fn|struct|enum|var|sa|ref|todo|internal|def|typedef|namespace|context|copydoc|warning|deprecated|image|section|details|par)\b\s*", bare)
        if not bare or tag or re.match(r"(?:[-*+•]|\d+[.)]|:\w+:)\s+", bare) or bare != text.strip():
            if block.text:
                yield block
            block = Block()
        if tag:
            if re.match(r"[\\@](?:file|class|fn|struct|enum|var|sa|ref|def|typedef|namespace|copydoc|image|internal)", bare):
                continue
            bare = bare[tag.end():]
        block.add(line, re.sub(r"^(?:[-*+•]|\d+[.)])\s+", "", bare))
    if block.text:
        yield block


def markdown(text, is_rst):
    rows, code, directive = [], False, None
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
            rows.append((number, ""))
            continue
        if code:
            continue
        indent = len(line) - len(line.lstrip())
        if is_rst:
            if directive is not None:
                if line.strip() and indent <= directive:
                    directive = None
                else:
                    continue
            if re.match(r"\s*\.\. |.*::\s*$", line):
                directive = indent
                rows.append((number, ""))
                continue
            if re.match(r"\s*([=\-~^\"#*+])\1{2,}\s*$", line):
                if rows:
                    rows[-1] = (rows[-1][0], "")  # a heading
                continue
        if line.startswith("#") or line.startswith("<") or line.startswith("[!["):
            rows.append((number, ""))
            if line.startswith("#"):  # a heading may begin with What or How: the mark keeps it from the clause start
                rows += [(number, "§ " + line.lstrip("#").strip()), (number, "")]
            continue
        if line.lstrip().startswith("|"):
            if not re.match(r"\s*\|[\s|:-]+$", line):
                for cell in re.sub(r"`[^`]*`", "`x`", line).strip().strip("|").split("|"):
                    rows += [(number, ""), (number, cell), (number, "")]
            continue
        if indent >= 4 and not re.match(r"\s*([-*+]|\d+\.)\s", line) and (not rows or not rows[-1][1].strip()):
            continue  # an indented code block
        rows.append((number, line))
    return split_paragraphs(rows)


CPP_TOKEN = re.compile(r'R"([^(\s]*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\[^\n\']{1,8}|[^\'\\\n])\'', re.S)
HASH_TOKEN = re.compile(r'("""|\'\'\').*?\1|#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def is_prose(text):
    words = re.findall(r"[A-Za-z][a-z']+", text)
    return len(words) >= 4 and " " in text.strip() and sum(map(len, words)) > 0.6 * len(re.sub(r"\s", "", text))


def source(text, pattern, marker):
    starts = lines_of(text)
    lineno = lambda offset: bisect.bisect_right(starts, offset)
    rows, literal, last = [], None, (0, 0)  # last: line and column of the previous line comment

    def flush():
        nonlocal rows, literal
        if rows:
            yield from split_paragraphs(rows)
            rows = []
        if literal:
            if is_prose(literal.text):
                yield literal
            literal = None

    previous_end = 0
    for match in pattern.finditer(text):
        token, begin = match.group(0), match.start()
        line, column = lineno(begin), begin - starts[lineno(begin) - 1]
        if token.startswith(marker):
            alone = not text[starts[line - 1]:begin].strip()
            joins = rows and last[0] == line - 1 and alone and (last[1] == column or last[2])
            if not joins:
                yield from flush()
            elif literal:
                yield from flush()
            rows.append((line, token[len(marker):].lstrip("/!<").rstrip("-= ")))
            last = (line, column, alone)
        elif token.startswith("/*"):
            yield from flush()
            yield from split_paragraphs([(line + i, re.sub(r"^\s*\*+/?|^/\*+|\*/\s*$", "", part))
                                         for i, part in enumerate(token.split("\n"))])
        elif token[0] in "\"'R" or token.startswith(('"""', "'''")):
            if text[starts[line - 1]:begin].lstrip().startswith("#include"):
                continue
            long = token.startswith(('"""', "'''", "R"))
            body = token[3:-3] if token.startswith(('"""', "'''")) else token[2 + len(match.group(1) or "") + 1:-2 - len(match.group(1) or "")] if token.startswith('R"') else token[1:-1]
            if long and "\n" in body:
                yield from flush()
                for block in split_paragraphs([(line + i, part) for i, part in enumerate(body.split("\n"))]):
                    if is_prose(block.text):
                        yield block
                continue
            joined = literal and not text[previous_end:begin].replace("\\", "").strip()
            if not joined:
                yield from flush()
                literal = Block()
            body = re.sub(r"\\[nt]", " ", body).replace('\\"', '"')
            literal.at.append(len(literal.text))
            literal.lines.append(line)
            literal.text += body
            previous_end = match.end()
    yield from flush()


def blocks_of(path, text):
    suffix = path.suffix
    if not suffix and text.startswith("#!"):
        suffix = ".sh" if "python" not in text.split("\n", 1)[0] else ".py"
    if suffix in DOCS:
        return markdown(text, suffix == ".rst")
    if suffix in CPP:
        return source(text, CPP_TOKEN, "//")
    if suffix in HASH or path.name == "meson.build":
        return source(text, HASH_TOKEN, "#")
    return ()


ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|Inc|No|Fig|St)|^\d+)\.$")


def sentences(block):
    """(offset, sentence) of at least four words; code spans and links become plain words."""
    text = re.sub(r"`[^`]*`", lambda m: "x".ljust(len(m.group(0)), "x"), block.text)
    text = re.sub(r"\]\([^)]*\)", lambda m: " " * len(m.group(0)), text).replace("[", " ").replace("**", "  ")
    text = re.sub(r"\{[^{}\s]*\}|%[-+#0-9.*]*[lzhjt]{0,2}[a-zA-Z]\b", lambda m: "X".ljust(len(m.group(0)), "x"), text)
    begin = 0
    for match in re.finditer(r"[.!?][)\"'’*]*(?:\s+|$)", text):
        piece = text[begin:match.end()]
        if ABBREVIATION.search(piece.rstrip()) and match.end() < len(text.rstrip()):
            continue
        yield begin, piece
        begin = match.end()
    if text[begin:].strip():
        yield begin, text[begin:]


def check(path, text, patterns, wanted=None, soft=False):
    """(findings, number of sentences); a finding is (line, names, hints, sentence)."""
    found, count = [], 0
    rows = text.split("\n")
    for block in blocks_of(path, text):
        for offset, sentence in sentences(block):
            lead = len(sentence) - len(sentence.lstrip())
            plain = re.sub(r"\s+", " ", sentence).strip()
            words = re.findall(r"[A-Za-z][\w'-]*", plain)
            if len(words) < 4:
                continue
            line, end = block.line(offset + lead), block.line(offset + len(sentence.rstrip()) - 1)
            if wanted is not None and not any(n in wanted for n in range(line, end + 1)):
                continue
            count += 1
            if any("plain-english: ok" in rows[n - 1] for n in range(max(1, line - 1), min(end, len(rows)) + 1)):
                continue
            hits = [(name, hint) for name, pattern, hint in patterns if pattern.search(plain)]
            if soft:
                if len(words) > 40:
                    hits.append(SOFT[0][::2])
                if len(re.findall(r"[;:](?= )", plain)) >= 3:
                    hits.append(SOFT[1][::2])
            if hits:
                found.append((line, [h[0] for h in hits], [h[1] for h in hits], plain))
    return found, count


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=True).stdout


def added_lines(diff):
    added, name, number = collections.defaultdict(set), None, 0
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            name = line[4:].split("\t")[0]
            name = name[2:] if name.startswith("b/") else name
        elif hunk := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(hunk.group(1))
        elif name and line.startswith("+"):
            added[name].add(number)
            number += 1
        elif name and line.startswith(" "):
            number += 1
    added.pop("/dev/null", None)
    return added


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    parser.add_argument("--diff", nargs="?", const="HEAD")
    parser.add_argument("--subjects", nargs="?", const="20", metavar="N|RANGE")
    parser.add_argument("--stats", action="store_true")
    parser.add_argument("--soft", action="store_true")
    parser.add_argument("--no-house", action="store_true")
    options = parser.parse_args()
    patterns = [(name, re.compile(pattern), hint)
                for name, pattern, hint in GENERAL + ([] if options.no_house else HOUSE)]
    results = {}  # path -> (findings, count)
    if options.subjects:
        found, subjects = [], git("log", "--no-merges", "--format=%h %s", *(
            ["-n", options.subjects] if options.subjects.isdigit() else [options.subjects])).splitlines()
        for number, line in enumerate(subjects, 1):
            plain = re.sub(r"^\w+ (?:[\w, ]+: )?", "", line)
            if hits := [(n, h) for n, p, h in patterns if p.search(plain)]:
                found.append((line.split()[0], [h[0] for h in hits], [h[1] for h in hits], plain))
        results["commit"] = (found, len(subjects))
    else:
        wanted = None
        if options.diff:
            wanted = added_lines(sys.stdin.read() if options.diff == "-" else git("diff", "-U0", options.diff))
            paths = [pathlib.Path(name) for name in wanted]
        else:
            paths = []
            for path in options.paths or [pathlib.Path(name) for name in git("ls-files").splitlines()]:
                paths += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for path in paths:
            if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 20:
                continue
            text = path.read_text(errors="replace")
            if "plain-english: skip " + "file" in text:
                continue
            found, count = check(path, text, patterns, wanted and wanted[str(path)], options.soft)
            if count:
                results[str(path)] = (found, count)
    total = sum(count for _, count in results.values())
    hard = {name: [f for f in found if set(f[1]) - {"long", "chain"}] for name, (found, _) in results.items()}
    flagged = sum(map(len, hard.values()))
    if options.stats:
        areas = collections.defaultdict(lambda: [0, 0, collections.Counter()])
        for name, (found, count) in results.items():
            area = areas["/".join(name.split("/")[:2]) if name.startswith("tools/") else name.split("/")[0]]
            area[0] += count
            area[1] += len(hard[name])
            area[2].update(n for f in found for n in f[1])
        everything = sum((a[2] for a in areas.values()), collections.Counter())
        for name, (count, bad, names) in sorted(areas.items()):
            print(f"{name:<18} {count:6} sentences {bad:5} flagged {100 * bad / count:5.1f} %  "
                  + ", ".join(f"{n} {c}" for n, c in names.most_common(5)))
        print("patterns: " + ", ".join(f"{n} {c}" for n, c in everything.most_common()))
    else:
        for name, (found, _) in results.items():
            for line, names, hints, sentence in found:
                print(f"{name}:{line}: [{', '.join(names)}] {sentence[:150]}\n    {'; '.join(hints)}")
    print(f"{total} sentences, {flagged} flagged ({100 * flagged / max(total, 1):.2f} %)")
    return 1 if flagged else 0


if __name__ == "__main__":
    sys.exit(main())
