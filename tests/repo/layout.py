"""Offsets of the members of structs in src/trace/format.h, for readme.py."""
import re

SIZES = {"uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "float": 4, "double": 8, "char": 1, "Counter": 8, "RecordType": 2,
         "ChunkKind": 4, "Ended": 4, "std::atomic<uint32_t>": 4}
PAIRS = {"ClockPair", "RunIds"}  # two numbers of 8 bytes, one field in the page
SPLIT = {"order": ("sequence", "number")}  # two halves of one member


def expanded(text):
    """The text without comments, and with the members that come from a table."""
    rows = dict(re.findall(r"#define (AUTOAMP_\w+)\(X\)((?:.*\\\n)*.*)\n", text))
    text = re.sub(r"//.*", "", text)
    return re.sub(r"#define X\(field\) (\w+) field;\s*(AUTOAMP_\w+)\(X\)\s*#undef X",
                  lambda match: "".join(f"\t{match[1]} {name};\n" for name in re.findall(r"X\((\w+)\)", rows[match[2]])), text)


def members(text, struct):
    """(offset, name) of each member, and the size of the struct; `text` is expanded."""
    base, body = re.search(rf"struct (?:alignas\(64\) )?{struct}(?: : (\w+))? {{\n(.*?)\n}};", text, re.S).groups()
    found, at = members(text, base) if base else ([], 0)
    for kind, names in re.findall(r"^\t([\w:<>]+) (\w[^()]*?);", body, re.M):
        for name in names.split(","):
            name, count = re.match(r"\s*(\w+)(?:\[(\w+)\])?", name).groups()
            if count and not count.isdigit():
                count = re.search(rf"constexpr uint32_t {count} = (\d+);", text)[1]
            if kind == "Conclusion":
                inner, size = members(text, kind)
                found += [(at + offset, each) for offset, each in inner]
            else:
                size = 16 if kind in PAIRS else SIZES[kind]
                at += -at % min(size, 8)
                halves = SPLIT.get(name, [name])
                found += [(at + index * size // len(halves), half) for index, half in enumerate(halves)]
            at += size * int(count or 1)
    asserted = re.search(rf"static_assert\(sizeof\({struct}\) == (\d+)\)", text)
    assert not asserted or int(asserted[1]) == at, f"{struct}: {at}"
    return found, at
