#!/usr/bin/env python3
"""Generate the entry points of front and core from the tables and the installed vendor headers.

usage: gen_entries.py INCLUDE ARGUMENTS OUTPUT BLAS TABLE...

INCLUDE: the folders of the vendor headers, separated by colons. ARGUMENTS: the header with the family structs.
OUTPUT: the folder for entries.inc (front), entry_index.h (both), entry_table.h and entries_core.cpp (core), and for
blas.inc (front for CPU BLAS, core). BLAS: the table of routines of a CPU BLAS.
A function that the headers do not declare is an error, so signatures are never written by hand.
"""
import pathlib
import re
import sys


def prototypes(header):
    """{name: [parameter, ...]} of a vendor header. C++ overloads and bodies end in a brace and are not matched."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
    found = re.findall(r"(?:cublas|cudnn)Status_t\s+(?:CUBLASWINAPI\s+|CUDNNWINAPI\s+)?(\w+)\s*\(([^;{}()]*)\)\s*;", text)
    return {name: [" ".join(p.split()) for p in parameters.split(",")] for name, parameters in found}


def header_at(include, header):
    return next(path for path in (pathlib.Path(folder) / header for folder in str(include).split(":")) if path.exists())


def parameter_name(parameter):
    return re.search(r"(\w+)\s*(?:\[\w*\])?$", parameter).group(1)  # also matches `float *const Carray[]`


def read_table(table):
    """(headers, [(name, family, dtype, obstacle, kind)]) of a table; NAME[_64] gives two rows."""
    headers, rows = [], []
    for line in table.read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == "headers":
            headers = words[1:]
        elif words:
            name, family, dtype, obstacle, kind = words + ["none"] * (5 - len(words))
            short = name.removesuffix("[_64]")
            rows += [(n, family, dtype, obstacle, kind) for n in ([short, short + "_64"] if short != name else [name])]
    return headers, rows


def read_blas(table):
    """[(name, style, routine, dtype, obstacle, kind)] of the routines of a CPU BLAS in all spellings."""
    spellings, rows = {}, []
    for line in table.read_text().splitlines():
        first, *words = line.split("#")[0].split() or [None]
        if first in ("cblas", "fortran"):
            spellings[first] = words
        elif first:
            dtype, obstacle, kind = words + ["none"] * (3 - len(words))
            for style, patterns in spellings.items():
                names = [p.replace("^NAME", first.upper()).replace("NAME", first) for p in patterns]
                rows += [(name, style, first, dtype, obstacle, kind) for name in names]
    return rows


def read_families(arguments):
    """{family: {member: type}} of the structs NAMECall."""
    families = {}
    for family, body in re.findall(r"struct (\w+)Call \{(.*?)\};", arguments.read_text(), flags=re.S):
        members = families[family] = {}
        for declaration in re.sub(r"//[^\n]*", "", body).split(";")[:-1]:
            base = re.match(r"\s*((?:const )?\w+)", declaration).group(1)
            for star, member in re.findall(r"(\*?)(\w+) =", declaration):
                members[member] = base + " *" * bool(star)
    return families


# Types that the name of an entry point determines, not its parameters.
FIXED = {("Gemm", "float16"): [f".{member} = op::typeFloat16" for member in ("Atype", "Btype", "Ctype")]
         + [".computeType = op::computeFloat16"]}


# Families whose calls the core handles as calls of another family.
MADE = {"Grouped": "op::batchOf"}

# Families whose calls are described by the struct of another family.
DESCRIBED_AS = {"Counted": "Plain"}

# Other parameter names for a member: an array of pointers A; a gradient, whose role follows from the direction of the
# call.
SPELT = {"transa": ["trans"], "alpha": ["alpha1"], "beta": ["alpha2"], **{m: [m + "array"] for m in "ABC"},
         **{m: ["d" + m] for m in ("x", "w", "y", "xDesc", "wDesc", "yDesc")}}
DIRECTIONS = {"dx": "backwardData", "dw": "backwardFilter", "dweightSpace": "backwardFilter"}

# Kinds of descriptor types: the parameter that describes the data of a Dnn call has one of these types.
DESCRIBED = {"cudnnTensorDescriptor_t": "tensor", "cudnnFilterDescriptor_t": "filter", "cudnnSeqDataDescriptor_t": "sequence"}

# Library of each table: its name, the name in its SONAME, and the versions with known signatures.
VERSIONS = {"cublas": ("cublas", 13, 12), "cublaslt": ("cublasLt", 13, 12), "cudnn": ("cudnn", 9, 8)}


def older_part(name, part, library):
    """Library of the function in the older version: cuDNN 8 has libraries for training, and none for the graph API."""
    if library != "cudnn":
        return part
    place = "cnn" if name.startswith("cudnnBackend") else part.removeprefix("cudnn_").replace("graph", "ops")
    is_training = re.search("Backward|Training|CTC|FusedOps", name) and name != "cudnnConvolutionBackwardData"
    return f"cudnn_{place}_{'train' if is_training else 'infer'}"


def wrapper(name, parameters, members, family, dtype, kind):
    arguments = [parameter_name(p) for p in parameters]
    values = {m: next((a for a in (m, *SPELT.get(m, [])) if a in arguments), None) for m in members}
    if family == "Dnn":
        types = {parameter_name(p): DESCRIBED.get(p.removeprefix("const ").split()[0]) for p in parameters}
        values |= {types[dtype]: dtype} if dtype != "-" else {}
    # The casts remove the constness of pointers to constant pointers.
    copied = [f".{m} = ({t})({values[m]})" for m, t in members.items() if values[m]] + FIXED.get((family, dtype), [])
    if family == "Counted":  # a cublasXt handle has another type
        no_handle = parameters[0] != "cublasHandle_t handle"
        copied = [] if kind == "none" else copied[no_handle:]
    if family in ("Convolution", "Rnn"):
        copied += [f".direction = op::Direction::{direction}" for a, direction in DIRECTIONS.items() if a in arguments]
    if family == "Convolution" and "activationDesc" in arguments:
        copied += [".isFused = true"]
    status = "cudnnStatus_t" if name.startswith("cudnn") else "cublasStatus_t"
    if family == "Watched":
        return f"""
{status} {name}({", ".join(parameters)})
{{
	return watch<index_{name}, decltype({name})>(op::{name.replace("cudnnBackend", "watch")}, {", ".join(arguments)});
}}"""
    struct, way = DESCRIBED_AS.get(family, family), "count" if family == "Counted" else "intercept"
    return f"""
{status} {name}({", ".join(parameters)})
{{
	const auto copy = []({", ".join(f"[[maybe_unused]] {p}" for p in parameters)}) {{ return {MADE.get(family, "")}(op::{struct}Call{{{", ".join(copied)}}}); }};
	return {way}<index_{name}, decltype({name})>(copy, __builtin_return_address(0), {", ".join(arguments)});
}}"""


def main(include, arguments, output, blas, *tables):
    output = pathlib.Path(output)
    families = read_families(pathlib.Path(arguments))
    rows, slots, headers, wrappers = [], [], [], []
    for table in map(pathlib.Path, tables):
        declared, parts = {}, {}
        names, table_rows = read_table(table)
        library, *versions = VERSIONS[table.stem]
        for header in names:
            found = prototypes(header_at(include, header))
            declared |= found
            # A cuDNN function is in the library of its header, which programs may also link.
            parts |= dict.fromkeys(found, header.removesuffix(".h") if library == "cudnn" else library)
        headers += names
        for name, family, dtype, obstacle, kind in table_rows:
            if name not in declared:
                sys.exit(f"{table}: {', '.join(names)} of {include} declare no {name}")
            arrays = any(parameter_name(p) == "Aarray" for p in declared[name])
            is_said = dtype == "args" or family in ("Dnn", "Watched")
            rows.append((name, table.stem, "none" if is_said else dtype, obstacle, str(arrays).lower(), kind))
            places = ", ".join((parts[name], older_part(name, parts[name], library)))
            slots.append(f"ENTRY({name}, {table.stem}, {library}, {places}, {versions[0]}, {versions[1]})")
            members = families.get(DESCRIBED_AS.get(family, family), {})
            wrappers.append(wrapper(name, declared[name], members, family, dtype, kind))

    blas_rows = read_blas(pathlib.Path(blas))
    last_vendor = len(rows)
    rows += [(name, "blas", dtype, obstacle, "false", kind) for name, _, _, dtype, obstacle, kind in blas_rows]

    def write(file, *lines):
        (output / file).write_text("\n".join(("/* Written by inject/gen_entries.py. */", *lines, "")))

    write("entries.inc", *slots)
    write("entry_index.h", "#pragma once", "namespace autoamp::entry {", "enum Index : unsigned {",
          *(f"\tindex_{row[0]}," for row in rows), "\tentryCount", "};",
          "// The entry points of vendor libraries come first, then those of a CPU BLAS.",
          f"constexpr unsigned vendorEntryCount = {last_vendor}, blasEntryCount = {len(blas_rows)};",
          "} // namespace autoamp::entry")
    write("blas.inc", *(f"BLAS({name}, {style}, {routine})" for name, style, routine, *_ in blas_rows))
    write("entry_table.h", "#pragma once", '#include "inject/entry_index.h"', '#include "src/op/entry.h"',
          "namespace autoamp::entry {", "inline constexpr op::Entry entryTable[entryCount] = {",
          *(f'\t{{"{name}", op::Library::{library}, op::Dtype::{dtype}, op::Obstacle::{obstacle}, {arrays}, op::Kind::{kind}}},'
            for name, library, dtype, obstacle, arrays, kind in rows),
          "};", "} // namespace autoamp::entry")
    write("entries_core.cpp", *(f"#include <{header}>" for header in headers), '#include "src/call/wrapper.h"',
          "namespace autoamp::entry::wrappers {", "namespace {", "using op::Integers;", *wrappers, "", "void *const all[] = {",
          *(f"\treinterpret_cast<void *>({row[0]})," for row in rows[:last_vendor]), "};", "} // namespace",
          "} // namespace autoamp::entry::wrappers",
          'extern "C" const autoamp::front::Core autoamp_core = {autoamp::front::abi, autoamp::entry::vendorEntryCount,',
          "\tautoamp::entry::wrappers::all, autoamp::entry::regions, autoamp::entry::scalers};")


if __name__ == "__main__":
    main(*sys.argv[1:])
