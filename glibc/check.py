#!/usr/bin/env python3
"""check.py FILE…: fails if a file of a release needs more than glibc 2.28, or a C++ runtime.

One call of a newer function raises the version that the loader asks for, for the whole file. The fronts define what the
core and the other fronts use without a version. Prints one line per problem; status 1: there is one."""
import re
import subprocess
import sys

NEWEST = (2, 28)
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def read(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(file):
    """Name, version (empty: none), binding and section of each symbol that the loader sees."""
    for line in read("readelf", "--dyn-syms", "-W", file).splitlines():
        match = re.match(r"\s*\d+: \w+\s+\S+ \w+\s+(GLOBAL|WEAK|UNIQUE)\s+\w+\s+(\w+) ([^\s@]+)(?:@@?(\S+))?", line)
        if match:
            yield match[3], match[4] or "", match[1], match[2]


def is_old(version):
    family, _, number = version.partition("_")
    return family == "GLIBC" and bool(re.fullmatch(r"[\d.]+", number)) and tuple(map(int, number.split("."))) <= NEWEST


def problems(file, provided):
    """Yields each reason why a file does not run with old libraries. provided: names without a version that other files define."""
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", read("readelf", "-dW", file)):
        if library not in LIBRARIES:
            yield f"needs {library}"
    for name, version, binding, section in symbols(file):
        is_missing = not is_old(version) if version else binding != "WEAK" and name not in provided
        if section == "UND" and is_missing:
            yield f"references {name}{'@' + version if version else ', which no file defines'}"
    # A version that no symbol has, for example of DT_RELR.
    for version in re.findall(r"Name: (\S+)\s+Flags", read("readelf", "-VW", file)):
        if not is_old(version):
            yield f"requires {version}"


def main(files):
    provided = {name for file in files for name, _, _, section in symbols(file) if section != "UND"}
    found = [f"{file} {problem}" for file in files for problem in problems(file, provided)]
    print("\n".join(found) or f"{len(files)} files need glibc {'.'.join(map(str, NEWEST))} at most")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
