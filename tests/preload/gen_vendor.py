#!/usr/bin/env python3
"""gen_vendor.py GENERATOR_FOLDER INCLUDE OUTPUT TABLE...: the generated part of the stand-in libraries, OUTPUT/TABLE.cpp,
and a client that calls every entry point, OUTPUT/every_entry.cpp."""
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
from gen_entries import parameter_name, prototypes, read_table  # noqa: E402

BY_HAND = {"cublasSgemm_v2"}


def definition(name, parameters):
    arguments = ", ".join(parameter_name(p) for p in parameters)
    return (f"cublasStatus_t {name}({', '.join(parameters)})\n"
            f'{{ standInRemember("{name}", checksum({arguments})); return CUBLAS_STATUS_SUCCESS; }}')


def main(include, output, *tables):
    include, output, checks, includes = pathlib.Path(include), pathlib.Path(output), [], []
    for table in map(pathlib.Path, tables):
        headers, rows = read_table(table)
        declared = {}
        for header in headers:
            declared |= prototypes(include / header)
        includes += [f"#include <{header}>" for header in headers]
        names = [row[0] for row in rows]
        (output / f"{table.stem}_entries.cpp").write_text("\n".join(
            ['#include "stand_in.h"', *(f"#include <{header}>" for header in headers), 'extern "C" {',
             *(definition(name, declared[name]) for name in names if name not in BY_HAND), "}", ""]))
        # Three names are overloaded in C++: the prototype says which is meant.
        checks += [f'\tagrees("{name}", static_cast<cublasStatus_t (*)({", ".join(declared[name])})>({name}));'
                   for name in names]
    (output / "every_entry.cpp").write_text("\n".join(
        includes + ['#include "every_entry.h"', "int main()", "{", *checks, "\treturn finish();", "}", ""]))


main(*sys.argv[2:])
