#!/usr/bin/env python3
"""Generates sources of the emulated cuBLAS, cuDNN and CUPTI libraries from data files.

usage: generate.py exports LIBRARY exports.txt stubs.cpp exports.map functions.cpp HEADER...
       generate.py rows|texts table.tsv rows.inc
exports: writes a version script that exports exactly the names of exports.txt. If a line has a second word, the function
calls this routine: it has the prototype of the HEADERs and passes its arguments by their parameter names (cublas/call.h).
Every other name gets a weak stub, which a definition elsewhere replaces. rows: writes one ROW(...) per line; "-" becomes
`none`. texts: the same, with every cell as a string.
"""
import re
import sys

TYPES = {'float': 'CUDA_R_32F', 'double': 'CUDA_R_64F', 'cuComplex': 'CUDA_C_32F', 'cuDoubleComplex': 'CUDA_C_64F',
         '__half': 'CUDA_R_16F', '__nv_bfloat16': 'CUDA_R_16BF', 'int': 'CUDA_R_32I', 'int64_t': 'CUDA_R_64I',
         'void': 'emulated::blas::noType'}
NOT_SUPPORTED = {'cublas': 15, 'cudnn': 3000, 'cupti': 27}  # by prefix of the library's name
TOGETHER = {'ab': ['a', 'b'], 'cs': ['c', 's']}  # matrices whose types are one argument


def lines(path):
    with open(path, encoding='utf-8') as file:
        return [line.rstrip('\n') for line in file if line.strip() and not line.startswith('#')]


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def prototypes(headers):
    """{name: parameters}, with the text of the headers."""
    found = {}
    for header in headers:
        with open(header, encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/|//[^\n]*', '', file.read(), flags=re.S)
        found.update(re.findall(r'cublasStatus_t\s+(?:CUBLASWINAPI\s+)?(\w+)\s*\(([^;{}()]*)\)\s*;', text))
    return found


def assignments(parameter):
    """Assignments to the Call for one parameter."""
    element, name = re.match(r'(?:const )?(\w+).*?(\w+)(?:\[\])?$', parameter).groups()
    if name == 'handle':
        return []
    if found := re.fullmatch(r'ld([abc])|inc([xy])', name):
        return [f'{found[1].upper() if found[1] else found[2]}.ld = {name}']
    if found := re.fullmatch(r'stride([ABCxy])', name):
        return [f'{found[1]}.stride = {name}']
    if name.lower() == 'executiontype':
        return [f'executionType = {name}']
    if (found := re.fullmatch(r'(\w+?)[tT]ype', name)) and name != 'computeType':
        return [f'{member}.type = {name}' for member in TOGETHER.get(found[1], [found[1]])]
    pointers = parameter.count('*') + parameter.count('[]')
    if pointers == 0 or element not in TYPES:
        return [f'{name} = {name}']
    member = re.sub(r'(?<!_)array$', '', name)
    return [f'{member}.data = {name}', f'{member}.type = {TYPES[element]}', f'{member}.isArray = {int(pointers > 1)}']


def function(name, routine, parameters):
    parameters = [' '.join(one.split()) for one in parameters.split(',')]
    stores = ''.join(f'\tcall.{one};\n' for parameter in parameters for one in assignments(parameter))
    return f'extern "C" cublasStatus_t {name}({", ".join(parameters)})\n{{\n' \
           f'\temulated::cublas::Call call;\n\tcall.name = __func__;\n{stores}' \
           f'\treturn enter(handle, call, emulated::cublas::{routine});\n}}\n'


if sys.argv[1] == 'exports':
    library, source, stubs, script, functions, *headers = sys.argv[2:]
    names = {words[0]: words[1] if len(words) > 1 else None for words in map(str.split, lines(source))}
    known = prototypes(headers)
    refusal = next(status for name, status in NOT_SUPPORTED.items() if library.startswith('lib' + name))
    write(stubs, '#include "tools/emulated/blas/stub.h"\n' +
          ''.join(f'STUB({name}, {refusal})\n' for name, routine in names.items() if not routine))
    write(script, f'{library} {{\nglobal:\n' + ''.join(f'\t{name};\n' for name in names) + 'local:\n\t*;\n};\n')
    write(functions, ''.join(f'#include <{header.rsplit("/")[-1]}>\n' for header in headers) +
          ('#include "tools/emulated/cublas/call.h"\n' if headers else '') +
          ''.join(function(name, routine, known[name]) for name, routine in names.items() if routine))
else:
    kind, source, target = sys.argv[1:]
    shown = (lambda cell: f'"{cell}"') if kind == 'texts' else (lambda cell: 'none' if cell == '-' else cell)
    write(target, ''.join('ROW(' + ', '.join(map(shown, line.split('\t'))) + ')\n' for line in lines(source)))
