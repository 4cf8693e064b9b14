#!/usr/bin/env python3
"""Compares the engines that a libcudnn offers, and its statuses for descriptors used correctly and incorrectly.

usage: answers.py ASK STATUSES EMULATED_FOLDER support.tsv                        the emulated one with the table, all of it
       answers.py ASK STATUSES EMULATED_FOLDER support.tsv REAL_FOLDER [--all]    the real one with the table and with the
                                                                                  emulated one (exit 77: there is none)"""
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

ask, statuses, emulated, table, *rest = sys.argv[1:]
ARCHITECTURES = [750, 800, 860, 890, 900, 1000, 1200]
# Digests of the first rows, so that none of them changes by accident if the real library is not available; after a
# change: --all. The first rows are those of a survey of 400 graphs, recorded from the real library before the emulated
# one existed.
DIGESTS = {2800: 'f82ccee824fdae7140ab3a339914f9accf717ac565b9ddbfeb5996fcf87095d7',
           5460: 'adc4453bf22dc3bf3a24da5ad030c97dc0604c2716f036d6fd622826da0ba234',
           6258: 'bdcadecef1b09ff861f48785d5514f4a47aa58d3d324be5b9a18813ae9509b75',
           6608: '10aef06ebe762b2f53230ba563df2dd74195264643a7a87ddf8bd756e9ce356f',
           7329: '75affb05e4e8e02d1763e9cd1256f88c68f391db636a1a4a3092ef40b5cf74b0'}
SAMPLE = 90  # a runtime engine takes the real library a tenth of a second
PLANS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'plans')


def output(folder, program, *arguments, text=''):
    """Runs with a CUDA driver that is only loaded, because the real library's runtime engines need one."""
    with tempfile.TemporaryDirectory() as stub:
        if os.path.exists(folder + '/stubs/libcuda.so'):
            shutil.copy(folder + '/stubs/libcuda.so', stub + '/libcuda.so.1')
        ran = subprocess.run([program, *arguments], input=text, capture_output=True, text=True,
                             env=dict(os.environ, LD_LIBRARY_PATH=f'{stub}:{folder}'), check=True)
    return ran.stdout.splitlines()


def version(folder):
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())"
    return subprocess.run([sys.executable, '-c', code, folder + '/libcudnn.so.9'], capture_output=True, check=True,
                          env=dict(os.environ, LD_LIBRARY_PATH=folder)).stdout


def rows():
    with open(table, encoding='utf-8') as file:
        for line in file:
            if not line.startswith('#'):
                words, *engines = line.rstrip('\n').split('\t')
                yield from ((f'{version} {words}', one) for version, one in zip(ARCHITECTURES, engines))


def compare_support(folder, asked):
    # The first device for which the real library's runtime engines are queried decides whether a process may use TF32.
    first = '900 dir=fwd in=f32 out=f32 cast=1\n'
    _, *answers = output(folder, ask, text=first + ''.join(question + '\n' for question, _ in asked))
    return [f'{question}: the table has {want!r}, the library {have!r}'
            for (question, want), have in zip(asked, answers, strict=True) if want != have]


def plans_of(question):
    """{engine: the graph's description in its plan}"""
    found = {}
    for line in output(emulated, ask, 'plan', text=question + '\n'):
        engine, status, _, _, *text = line.split(' ', 4)
        found[int(engine[1:])] = json.loads(text[0]) if status == '0' and text else None
    return found


def compare_plans():
    """Descriptions of the samples' graphs in the emulated library's plans."""
    bad = []
    with open(PLANS + '/graphs.json', encoding='utf-8') as file:
        graphs = json.load(file)
    for name, question in graphs.items():
        with open(f'{PLANS}/{name}.json', encoding='utf-8') as file:
            real = json.load(file)
        mine = plans_of(question).get(real['engine']['engineId'])
        told = [plan and [list(plan), list(plan['engine']), plan['operationGraph']['finalizeMode'],
                          list(map(json.dumps, plan['operationGraph']['tensors'])),
                          sorted(map(json.dumps, plan['operationGraph']['nodes']))] for plan in (real, mine)]
        if told[0] != told[1]:
            bad.append(f'{name}:\n  {told[0]}\n  {told[1]}')
    return bad or ([] if graphs else ['no samples'])


bad = []
asked = list(rows())
if not rest:
    for count, wanted in DIGESTS.items():
        digest = hashlib.sha256('\n'.join(map(' '.join, asked[:count])).encode()).hexdigest()
        if digest != wanted:
            bad.append(f'the first {count} answers of the table have been changed: {digest}')
    bad += compare_support(emulated, asked) + compare_plans()
else:
    real = rest[0]
    if not os.path.exists(real + '/libcudnn.so.9') or version(real) != version(emulated):
        sys.exit(77)
    if '--all' not in rest:
        asked = random.Random(6).sample(asked, SAMPLE)
    one, other = (output(folder, statuses, folder + '/libcudnn.so.9') for folder in (real, emulated))
    bad += [f'real: {a}\nemulated: {b}' for a, b in zip(one, other) if a != b]
    if len(one) != len(other) or len(one) < 400:
        bad.append(f'{len(one)} statuses of the real library, {len(other)} of the emulated one')
    bad += compare_support(real, asked)
print('\n'.join(bad[:40]) or f'{len(asked)} answers')
sys.exit(1 if bad else 0)
