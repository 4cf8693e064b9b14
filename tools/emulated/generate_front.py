#!/usr/bin/env python3
"""Generates the exported functions of an emulated CUDA library.

usage: generate_front.py COLUMN FORWARDS EXPORTS IMPLEMENTATION SOURCE API ERRORS OUTPUT [TYPEDEFS]

EXPORTS lists every name of the real library. IMPLEMENTATION is a header with one struct of static functions. FORWARDS
names further functions in COLUMN (1: runtime, 2: driver), with the prototypes of API, a header of the toolkit. Both kinds
are exported through a wrapper that counts calls, fails on request and keeps the error state. Their _ptsz and _ptds
variants are exported too, with the per-thread default stream. SOURCE exports its own functions; every other name becomes
a stub. The names of error codes come from the header ERRORS. With TYPEDEFS (cudaTypedefs.h) the output ends with a table
of driver functions by name and version, for cuGetProcAddress.
"""
import re
import sys
from pathlib import Path

FUNCTION = re.compile(r"^\tstatic (cudaError_t|CUresult) (\w+)\(([^)]*)\)", re.M)
OWN = re.compile(r'^extern "C" EMULATED_EXPORT [^(;]*?(\w+)\(', re.M)
PROTOTYPE = re.compile(r"(cudaError_t|CUresult)\s+(?:CUDARTAPI|CUDAAPI)\s+(\w+)\(([^;]*?)\)\s*;")
ERROR = re.compile(r"^\s+(cuda\w+|CUDA_\w+)\s*=\s*(\d+)", re.M)


def name_parameters(parameters):
    """The parameter list with a name for every parameter, and the names."""
    named, names = [], []
    parameters = "" if parameters.strip() == "void" else re.sub(r"__dv\([^)]*\)|=[^,]*", "", parameters)
    for n, parameter in enumerate(" ".join(p.split()) for p in parameters.split(",") if p.strip()):
        known = re.search(r"[\s*](\w+)$", parameter)
        if known and known.group(1) not in ("int", "size_t", "long", "char"):
            names.append(known.group(1))
        else:
            names.append(f"unnamed{n}")
            parameter += f" unnamed{n}"
        named.append(parameter)
    return ", ".join(named), names


def prototypes(api):
    """Parameter lists by exported name. A macro in cuda.h may map the name of a prototype to another version."""
    found = {}
    for _, name, parameters in PROTOTYPE.findall(api):
        found.setdefault(name, []).append(parameters)
    known = {name: lists[0] for name, lists in found.items()}
    for name, symbol in re.findall(r"#define (cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)", api):
        if name in found and symbol != name:
            known.setdefault(symbol, found[name][0])
            known[name] = found[name][-1]  # the prototype of the plain name comes last, among the older ones
    return known


def forwards(file, column):
    """Expressions by exported name."""
    rows = [line.split() for line in Path(file).read_text().split("\n") if line.strip() and not line.startswith("#")]
    return {row[column]: row[0] for row in rows if row[column] != "-"}


def call(expression, names):
    if "(" not in expression and expression != "cudaSuccess":
        expression += "(" + ",".join(f"${n}" for n in range(1, len(names) + 1)) + ")"
    return re.sub(r"\$(\d)", lambda n: f"core({names[int(n.group(1)) - 1]})", expression).replace(",", ", ")


def errors(header):
    """(number, name) of each error code."""
    body = header[re.search(r"^\s*(cudaSuccess|CUDA_SUCCESS)\s*=", header, re.M).start():]
    return [(int(number), name) for name, number in ERROR.findall(body[:body.index("}")])]


def versions(typedefs, exports):
    """(name, version, symbol) of each driver function. The n-th type in cudaTypedefs.h belongs to the symbol with _vn."""
    found = {}
    for name, version in re.findall(r"PFN_(cu\w+?)_v(\d+)\)", typedefs):
        found.setdefault(name, set()).add(int(version))
    # The third version of this function has a different name instead of a number.
    renamed = {("cuGraphInstantiate", 3): "cuGraphInstantiateWithFlags"}
    for name, numbers in sorted(found.items()):
        for n, version in enumerate(sorted(numbers), 1):
            symbol = renamed.get((name, n), name if n == 1 else f"{name}_v{n}")
            if symbol in exports:
                yield name, version, symbol


def main(column, forwards_file, exports_file, implementation, own, api, error_header, output, typedefs=None):
    exports = [line for line in Path(exports_file).read_text().split("\n") if line and not line.startswith("#")]
    source = re.sub(r",\n\s*", ", ", re.sub(r"\(\n\s*", "(", Path(implementation).read_text()))
    struct = re.findall(r"^struct (\w+) \{", source, re.M)[-1]
    functions = {name: (kind, parameters) for kind, name, parameters in FUNCTION.findall(source)
                 if name.startswith(("cu", "__cuda"))}
    kind = next(iter(functions.values()))[0]
    known = prototypes(Path(api).read_text())
    forward = forwards(forwards_file, int(column))
    elsewhere = set(OWN.findall(Path(own).read_text()))
    if unknown := (set(functions) | set(forward) | elsewhere) - set(exports):
        sys.exit(f"{implementation}: the real library does not export {sorted(unknown)}")

    out = [f'#include "{Path(implementation).name}"', '#pragma GCC diagnostic ignored "-Wunused-parameter"', "",
           "const emulated::ErrorName errorNames[] = {"]
    out += [f'\t{{{number}, "{name}"}},' for number, name in errors(Path(error_header).read_text())]
    out += ["\t{0, nullptr},", "};", ""]
    stubs = []
    for name in exports:
        base = re.sub(r"_pt[ds][sz]$", "", name)
        if name in elsewhere:
            continue
        if base in functions or base in forward:
            parameters, names = name_parameters(functions[base][1] if base in functions else known[base])
            work = f"return {struct}::{base}({', '.join(names)});"
            if base in forward:
                work = f"using namespace emulated; return {call(forward[base], names)};"
            out.append(f'extern "C" EMULATED_EXPORT {kind} {name}({parameters})\n{{\n'
                       f'\tstatic constinit emulated::Entry entry("{name}");\n'
                       f"\treturn {struct}::enter(entry, {'true' if base != name else 'false'}, [&] {{ {work} }});\n}}\n")
        else:
            stubs.append(name)
    # Stubs accept any arguments. Their C++ names differ, because the headers declare the real names.
    for name in stubs:
        out.append(f'extern "C" EMULATED_EXPORT int stub_{name}() asm("{name}");\n'
                   f"int stub_{name}()\n{{\n"
                   f'\tstatic constinit emulated::Entry entry("{name}");\n'
                   f"\treturn {struct}::refuse(entry);\n}}\n")
    if typedefs:
        rows = versions(Path(typedefs).read_text(), set(exports))
        out.append("const VersionedName versionedNames[] = {")
        out += [f'\t{{"{name}", {version}, "{symbol}"}},' for name, version, symbol in rows]
        out.append("\t{nullptr, 0, nullptr},\n};\nconst ExportedName exportedNames[] = {")
        out += [f'\t{{"{name}", reinterpret_cast<void *>(&{"stub_" if name in stubs else ""}{name})}},' for name in exports]
        out.append("\t{nullptr, nullptr},\n};")
    Path(output).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
