#!/usr/bin/env python3
"""gen_vendor.py GENERATOR_FOLDER INCLUDE OUTPUT TABLE...: generates the stand-in libraries, OUTPUT/TABLE.cpp, and a
client that calls every entry point, OUTPUT/every_entry.cpp. The parts of cuDNN are in one file: PART_cudnn_… selects
the part. Without it, the file is the library that looks its functions up in the parts."""
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
from gen_entries import header_at, parameter_name, prototypes, read_table  # noqa: E402

BY_HAND = {"cublasSgemm_v2"}


def status(name):
    return "cudnnStatus_t" if name.startswith("cudnn") else "cublasStatus_t"


def definition(name, parameters, header):
    arguments = ", ".join(parameter_name(p) for p in parameters)
    head = f"{status(name)} {name}({', '.join(parameters)})\n"
    remember = head + f'{{ standInRemember("{name}", checksum({arguments})); return {status(name)}{{}}; }}'
    if status(name) == "cublasStatus_t":
        return remember
    part = header.removesuffix(".h")
    return (f"#ifdef PART_{part}\n{remember}\n#elif !defined(PART)\n{head}"
            f'{{ return forward("lib{part}.so.9", "{name}", &{name}, {arguments}); }}\n#endif')


def main(include, output, *tables):
    output, checks, includes = pathlib.Path(output), [], []
    for table in map(pathlib.Path, tables):
        headers, rows = read_table(table)
        declared, homes = {}, {}
        for header in headers:
            found = prototypes(header_at(include, header))
            declared |= found
            homes |= dict.fromkeys(found, header)
        includes += [f"#include <{header}>" for header in headers]
        names = [row[0] for row in rows if row[0] in declared]  # gen_entries.py refuses the others
        (output / f"{table.stem}_entries.cpp").write_text("\n".join(
            ['#include "stand_in.h"', *(f"#include <{header}>" for header in headers), 'extern "C" {',
             *(definition(name, declared[name], homes[name]) for name in names if name not in BY_HAND), "}", ""]))
        # Three names are overloaded in C++: the prototype selects the right one.
        checks += [f'\tagrees("{name}", static_cast<{status(name)} (*)({", ".join(declared[name])})>({name}));'
                   for name in names]
    (output / "every_entry.cpp").write_text("\n".join(
        includes + ['#include "every_entry.h"', "int main()", "{", *checks, "\treturn finish();", "}", ""]))


main(*sys.argv[2:])
