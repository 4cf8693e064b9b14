#!/usr/bin/env python3
"""Writes what the emulated cuBLAS libraries keep as data.

usage: generate.py exports LIBRARY exports.txt stubs.cpp exports.map
       generate.py rows table.tsv rows.inc
exports: a weak stub for every name (a real definition replaces it at link time) and the version script that exports
exactly these names. rows: one ROW(...) for each line; "-" becomes `none`.
"""
import sys


def lines(path):
    with open(path, encoding='utf-8') as file:
        return [line.rstrip('\n') for line in file if line.strip() and not line.startswith('#')]


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


if sys.argv[1] == 'exports':
    library, source, stubs, script = sys.argv[2:]
    names = lines(source)
    write(stubs, '#include "tools/emulated/blas/stub.h"\n' + ''.join(f'STUB({name})\n' for name in names))
    write(script, f'{library} {{\nglobal:\n' + ''.join(f'\t{name};\n' for name in names) + 'local:\n\t*;\n};\n')
else:
    source, target = sys.argv[2:]
    write(target, ''.join('ROW(' + ', '.join('none' if cell == '-' else cell for cell in line.split('\t')) + ')\n'
                          for line in lines(source)))
