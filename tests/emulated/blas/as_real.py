#!/usr/bin/env python3
"""Calls the real and the emulated libraries in the same way and compares the results and the exported names.

usage: as_real.py OBSERVE REAL_FOLDER EMULATED_FOLDER EXPORTS    (exit 77: there are no real libraries)
"""
import difflib
import os
import re
import subprocess
import sys

observe, real, emulated, exports_list = sys.argv[1:]
libraries = ['libcublasLt.so.13', 'libcublas.so.13']
if not all(os.path.exists(os.path.join(real, name)) for name in libraries):
    sys.exit(77)


def answers(folder):
    environment = dict(os.environ, LD_LIBRARY_PATH=folder)
    output = subprocess.run([observe, folder], env=environment, check=True, capture_output=True, text=True).stdout
    return [line for line in output.splitlines() if not line.startswith('[')]  # "[": the real library's own log


# Every emulated routine, called with zeros only: most have no handle to begin with, some have nothing to do.
NOTHING = """import ctypes, sys
library = ctypes.CDLL(sys.argv[1] + '/libcublas.so.13')
for name in sys.argv[2:]:
    print(name, getattr(library, name)(*[ctypes.c_void_p(0)] * 24))"""


def nothing(folder):
    rows = [line.split() for line in open(exports_list, encoding='utf-8') if not line.startswith('#')]
    names = [row[0] for row in rows if len(row) > 1 and not re.match('cublasXt.her2k', row[0])]  # they check more first
    environment = dict(os.environ, LD_LIBRARY_PATH=folder)
    return subprocess.run([sys.executable, '-c', NOTHING, folder, *names], env=environment, check=True,
                          capture_output=True, text=True).stdout.splitlines()


def exports(path):
    table = subprocess.run(['readelf', '--dyn-syms', '-W', path], check=True, capture_output=True, text=True).stdout
    names = re.findall(r'(?:GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\S+\s+(\S+@@?\S+)', table)
    return sorted(name for name in names if 'cublas' in name)


def version(folder):
    found = subprocess.run([observe, folder, 'version'], env=dict(os.environ, LD_LIBRARY_PATH=folder), check=True,
                           capture_output=True, text=True).stdout
    return found.strip()


if version(real) != version(emulated):
    print(f'the real libraries are {version(real)}, the emulated ones {version(emulated)}: not comparable')
    sys.exit(77)
failed = False
pairs = [('answers', answers(real), answers(emulated)), ('nothing', nothing(real), nothing(emulated))]
pairs += [(name, exports(os.path.join(real, name)), exports(os.path.join(emulated, name))) for name in libraries]
for what, expected, got in pairs:
    print(f'{what}: {len(expected)} lines')
    for line in list(difflib.unified_diff(expected, got, 'real', 'emulated', lineterm='', n=0))[:60]:
        failed = True
        print(line)
    if not expected:
        failed = True
sys.exit(failed)
