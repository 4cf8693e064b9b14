#!/usr/bin/env python3
"""Writes combinations.tsv from a machine-readable extract of the type tables in the cuBLAS manual.

usage: combinations.py cublas_types.json > combinations.tsv
Keeps the rows with fp32, fp64 (real or complex), fp16 and bf16. The emulated device has no integer, fp8 or fp4 products.
"""
import json
import sys

EMULATED = {'CUDA_R_32F', 'CUDA_R_64F', 'CUDA_R_16F', 'CUDA_R_16BF', 'CUDA_C_32F', 'CUDA_C_64F'}


def row(table, entry, default_compute='CUBLAS_COMPUTE_32F'):
    c = entry['Ctype']
    compute = entry.get('computeType', default_compute)
    scale = entry.get('scaleType', 'CUDA_R_32F')
    bias = entry.get('biasType') or '-'
    types = [scale, entry['Atype'], entry['Btype'], c, entry.get('Dtype', c)]
    if not EMULATED.issuperset(types):
        return None
    if 'epilogue' in entry and entry['epilogue'] != 'yes':
        bias = '-'
    return '\t'.join([table, compute, *types, bias])


tables = json.load(open(sys.argv[1], encoding='utf-8'))
print('# Which products are emulated: exactly what the tables of the cuBLAS Library manual, release 13.2, document')
print('# (GemmEx: 2.8.12-2.8.14; SgemmEx: 2.8.11; grouped: 2.8.15; cublasLtMatmul: 3.4.17), no integers, fp8 or fp4.')
print('# Written by combinations.py. Everything else is refused with CUBLAS_STATUS_NOT_SUPPORTED.')
print('# bias: type of the bias vector of an epilogue; "-": no epilogue except DEFAULT.')
print('#table\tcompute\tscale\ta\tb\tc\td\tbias')
for name, rows in (('gemmex', tables['gemmex']['documented']),
                   ('sgemmex', [r for r in tables['gemmex_typed'] if r['function'] == 'cublasSgemmEx']),
                   ('grouped', tables['gemmex']['grouped']['rows']),
                   ('lt', tables['lt']['matmul_regular'])):
    for line in filter(None, (row(name, entry) for entry in rows)):
        print(line)
