#!/usr/bin/env python3
"""stubs.py OUT COMPILER: writes libraries against which the linker binds only symbols of glibc 2.28.

The libraries have the names, symbols and versions of this machine's glibc up to 2.28, and no code. They have
the newest of these versions of each symbol. Functions that glibc 2.34 moved to libc are in the library of glibc 2.28."""
import pathlib
import re
import subprocess
import sys

OUT, COMPILER = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
NEWEST = (2, 28)
# By -l name: the file of this machine that has the symbols, and the name that the loader looks for.
LIBRARIES = {"m": ("libm.so.6", "libm.so.6"), "dl": ("libc.so.6", "libdl.so.2"), "pthread": ("libc.so.6", "libpthread.so.0"),
             "ld": ("ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2"), "c6": ("libc.so.6", "libc.so.6")}
SYMBOL = re.compile(r"\s*\d+: (?P<value>\w+)\s+(?P<size>\d+) (?P<type>\w+)\s+(?P<bind>\w+)\s+DEFAULT\s+(?P<section>\d+) "
                    r"(?P<name>[\w.]+)@@?GLIBC_(?P<version>[\d.]+)$")


def number(version):
    return tuple(map(int, version.split(".")))


def path_of(name):
    return subprocess.run([*COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


def symbols(file):
    """The symbols by name: the newest version up to NEWEST, and whether there are newer ones."""
    listing = subprocess.run(["readelf", "--dyn-syms", "-W", path_of(file)], capture_output=True, text=True, check=True).stdout
    found = {}
    for match in filter(None, map(SYMBOL.fullmatch, listing.splitlines())):
        found.setdefault(match["name"], []).append(match)
    for name, versions in found.items():
        old = [match for match in versions if number(match["version"]) <= NEWEST]
        if old:
            yield name, max(old, key=lambda match: number(match["version"])), len(old) < len(versions)


def library_of(name, is_moved):
    """The library in which glibc 2.28 has a symbol of today's libc; None: one that nothing here links."""
    if not is_moved or name == "__libc_start_main":
        return "c6"
    if re.match(r"dl(?!_)", name):
        return "dl"
    return "pthread" if re.match(r"(__)?(pthread|sem)_", name) else None


def write(library, chosen):
    """Objects of one address stay at one address: the linker copies them into programs under all their names."""
    file, soname = LIBRARIES[library]
    code, versions, objects = [".text"], {}, {}
    for name, match in chosen:
        versions.setdefault(match["version"], []).append(name)
        code.append(f'.{"weak" if match["bind"] == "WEAK" else "globl"} {name}')
        if match["type"] == "OBJECT":
            objects.setdefault(match["value"], []).append((name, match["size"]))
        else:
            code.append(f".type {name}, @function\n{name}:")
    code += ["nop", ".bss"]
    for names in objects.values():
        code.append(".balign 64")
        code += [f".type {name}, @object\n.size {name}, {size}\n{name}:" for name, size in names]
        code.append(f".zero {max(int(size) for _, size in names)}")
    code.append('.section .note.GNU-stack, "", @progbits')
    source, script = OUT / f"{library}.s", OUT / f"{library}.map"
    source.write_text("\n".join(code) + "\n")
    script.write_text("".join(f"GLIBC_{version} {{ {'; '.join(versions[version])}; }};\n" for version in sorted(versions, key=number)))
    target = OUT / f"lib{library}.so"
    subprocess.run([*COMPILER, "-shared", "-nostdlib", "-o", target, source, f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}"],
                   check=True)
    return target


OUT.mkdir(parents=True, exist_ok=True)
TARGETS = {}
for each, (origin, _) in LIBRARIES.items():
    TARGETS[each] = write(each, [(name, match) for name, match, is_moved in symbols(origin)
                                 if origin != "libc.so.6" or library_of(name, is_moved) == each])
later = " ".join(str(TARGETS[each]) for each in ("pthread", "dl", "ld"))
(OUT / "libc.so").write_text(f"GROUP ( {TARGETS['c6']} {path_of('libc_nonshared.a')} AS_NEEDED ( {later} ) )\n")
