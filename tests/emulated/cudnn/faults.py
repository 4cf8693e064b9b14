#!/usr/bin/env python3
"""AUTOAMP_EMU_FAIL reaches every function of the emulated cuDNN that is more than a stub, before it reads its
arguments.

usage: faults.py FOLDER exports.txt"""
import ctypes
import os
import sys

from names import STUBS, exported


def fails(folder, name):
    """Whether the first call fails as requested, with any arguments."""
    child = os.fork()
    if child == 0:
        os.environ['AUTOAMP_EMU_FAIL'] = name + ':1'
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a stub's line
        library = ctypes.CDLL(folder + '/libcudnn.so.9')
        status = getattr(library, name)(*[ctypes.c_void_p(0)] * 40)
        text = ctypes.create_string_buffer(99)
        library.cudnnGetLastErrorString(text, ctypes.c_size_t(99))
        os._exit(0 if status and text.value == b'AUTOAMP_EMU_FAIL' else 1)
    return os.waitpid(child, 0)[1] == 0


folder, listed = sys.argv[1:]
names = exported(listed)
bad = [name for name in names if fails(folder, name) == name.startswith(STUBS)]
print('\n'.join(bad) or f'{len(names)} functions')
sys.exit(1 if bad else 0)
