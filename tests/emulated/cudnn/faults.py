#!/usr/bin/env python3
"""AUTOAMP_EMU_FAIL reaches every function of the emulated cuDNN that is more than a stub, before it looks at anything;
what is still a stub is listed here.

usage: faults.py FOLDER exports.txt"""
import ctypes
import os
import sys

STUBS = ('cudnnFusedOps', 'cudnnCreateFusedOps', 'cudnnDestroyFusedOps', 'cudnnMakeFusedOps', 'cudnnSetFusedOps',
         'cudnnGetFusedOps', 'cudnnMultiHeadAttn', 'cudnnGetMultiHeadAttn', 'cudnnCreateAttn', 'cudnnDestroyAttn',
         'cudnnSetAttn', 'cudnnGetAttn', 'cudnnCreateSeqData', 'cudnnDestroySeqData', 'cudnnSetSeqData', 'cudnnGetSeqData',
         'cudnnSpatialTf', 'cudnnCTCLoss', 'cudnnGetCTCLossWorkspaceSize', 'cudnnDivisiveNormalization', 'cudnnIm2Col',
         'cudnnReorderFilterAndBias', 'cudnnGetFoldedConvBackwardDataDescriptors', 'cudnnGetBackdoor', 'cudnnSetBackdoor',
         'cudnnGetRNNDropoutLocationsInternal')
ANSWERS = ('cudnnGetVersion', 'cudnnGetMaxDeviceVersion', 'cudnnGetCudartVersion', 'cudnnGetErrorString',
           'cudnnGetLastErrorString')  # no statuses


def fails(folder, name):
    """Whether the first call fails as asked, whatever its arguments are."""
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
with open(listed, encoding='utf-8') as file:
    names = [line.split()[0] for line in file if line.strip() and not line.startswith('#')]
names = [name for name in names if name not in ANSWERS]
bad = [name for name in names if fails(folder, name) == name.startswith(STUBS)]
print('\n'.join(bad) or f'{len(names)} functions')
sys.exit(1 if bad else 0)
