#!/usr/bin/env python3
"""Prints the results of the libcudnn.so.9 of a folder for calls that need no device, mainly on descriptors. Each setter
is called with valid arguments, and then with others in the place of each; after each call the getter returns the stored
values.

usage: observe.py exports.txt FOLDER
       observe.py exports.txt REAL_FOLDER EMULATED_FOLDER    compares both (exit 77: there is no real library)"""
import ctypes
import os
import re
import subprocess
import sys

from names import STUBS, exported


def compare():
    if not os.path.exists(sys.argv[2] + '/libcudnn.so.9'):
        return 77
    real, emulated = (subprocess.run([sys.executable, __file__, sys.argv[1], folder], check=True, capture_output=True, text=True,
                                     env=dict(os.environ, LD_LIBRARY_PATH=folder)).stdout.splitlines()
                      for folder in sys.argv[2:])
    version = [line for line in real if line.startswith('GetVersion')]
    if version != [line for line in emulated if line.startswith('GetVersion')]:
        print('the real library is another one:', *version)
        return 77
    names = [set(re.findall(r'\s(cudnn\S+@@\S+)', subprocess.run(['readelf', '--dyn-syms', '-W', f'{folder}/libcudnn.so.9'],
                                                                   check=True, capture_output=True, text=True).stdout))
             for folder in sys.argv[2:]]
    real.append(f'other names {names[0] ^ names[1]}')
    emulated.append('other names set()')
    bad = [f'real: {a}\nemulated: {b}' for a, b in zip(real, emulated) if a != b and not a.endswith('crashed')]
    print('\n'.join(bad[:40]) or f'{len(real)} answers')
    return 1 if bad or len(real) != len(emulated) or len(real) < 1000 else 0


if len(sys.argv) > 3:
    sys.exit(compare())
library = ctypes.CDLL(sys.argv[2] + '/libcudnn.so.9')
BIG = 1 << 20
TYPES = range(-1, 23)


def call(name, *arguments):
    function = getattr(library, 'cudnn' + name)
    function.restype = ctypes.c_int
    return function(*map(native, arguments))


def native(value):
    if isinstance(value, float):
        return ctypes.c_double(value)
    if isinstance(value, (list, tuple)):
        return (ctypes.c_int * max(1, len(value)))(*value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    return value


def made(kind):
    descriptor = ctypes.c_void_p()
    status = call(f'Create{kind}Descriptor', ctypes.byref(descriptor))
    assert status == 0, (kind, status)
    return descriptor


def got(name, descriptor, outputs):
    """Outputs of a getter: one letter each (i: int, z: size, d: double, n: int array); inputs are passed unchanged."""
    kinds = {'i': lambda: ctypes.c_int(-77), 'z': lambda: ctypes.c_size_t(77), 'd': lambda: ctypes.c_double(-77),
             'n': lambda: (ctypes.c_int * 10)(*[-77] * 10)}
    places = [kinds[one]() if isinstance(one, str) else one for one in outputs]
    status = call(name, descriptor, *[p if isinstance(p, int) else ctypes.byref(p) for p in places])
    values = [list(p) if isinstance(p, ctypes.Array) else p.value for p in places if not isinstance(p, int)]
    return (status, *(values if status == 0 else []))


def say(*words):
    print(*words, flush=True)


def guarded(*words):
    """The real library crashes at some arguments that it does not check: the crash is its result."""
    child = os.fork()
    if child == 0:
        say(*words[:-1], words[-1]())
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        say(*words[:-1], 'crashed')


def sweep(kind, name, valid, others, getters):
    for place, values in [(None, [None])] + list(others.items()):
        for value in values:
            descriptor = made(kind)
            arguments = list(valid)
            if place is not None:
                arguments[place] = value
            if None in arguments and kind == 'TensorTransform':
                guarded(name, place, value, lambda: call(name, descriptor, *arguments))
                continue
            status = call(name, descriptor, *arguments)
            answers = [got(getter, descriptor, outputs) for getter, outputs in getters] if status == 0 else ''
            say(name, place, value, status, *answers)
            assert call(f'Destroy{kind}Descriptor', descriptor) == 0
    guarded(name, 'null', lambda: call(name, None, *valid))
    for getter, outputs in getters:
        guarded(getter, 'null', lambda: got(getter, None, outputs))


def tensors():
    tensor4 = [('GetTensor4dDescriptor', 'i' * 9), ('GetTensorSizeInBytes', 'z')]
    tensorN = [('GetTensorNdDescriptor', [8, *'iinn']), ('GetTensorSizeInBytes', 'z')]
    extents = (-1, 0, 1, 3, BIG)
    say('fresh', got(*tensorN[0][:1], made('Tensor'), tensorN[0][1]), got('GetTensorSizeInBytes', made('Tensor'), 'z'))
    sweep('Tensor', 'SetTensor4dDescriptor', [0, 0, 2, 3, 4, 5],
          {0: range(-1, 4), 1: TYPES, **{n: extents for n in (2, 3, 4, 5)}}, tensor4)
    for kind in (3, 5, 6, 7, 8):
        sweep('Tensor', 'SetTensor4dDescriptor', [2, kind, 2, 64, 4, 5], {3: (1, 4, 12, 32)}, tensor4)
    sweep('Tensor', 'SetTensor4dDescriptor', [0, 0, BIG, 32, 8, 7], {2: (1 << 15, 1 << 17, 1 << 19)}, tensor4)
    sweep('Tensor', 'SetTensor4dDescriptorEx', [0, 2, 3, 4, 5, 60, 20, 5, 1],
          {0: TYPES, **{n: extents for n in (1, 2, 3, 4)}, **{n: (-7, 0, 1, 1000) for n in (5, 6, 7, 8)}}, tensor4)
    for rank in range(0, 10):
        dims = [2, 3, 4, 5, 2, 2, 2, 2, 2, 2][:rank]
        sweep('Tensor', 'SetTensorNdDescriptor', [0, rank, dims, dims[::-1]], {0: (2, 9)} if rank == 4 else {}, tensorN)
        formats = (-1, 0, 2, 3) if rank == 2 else range(-1, 4)  # NHWC of two dimensions returns undefined values
        sweep('Tensor', 'SetTensorNdDescriptorEx', [0, 0, rank, dims], {0: formats, 1: (2, 3, 9)}, tensorN)
    sweep('Tensor', 'SetTensorNdDescriptor', [0, 4, [2, 3, 4, 5], [60, 20, 5, 1]],
          {2: ([0, 3, 4, 5], [2, -3, 4, 5], [BIG, 3, 4, 5]), 3: ([60, 20, 0, 1], [60, -20, 5, 1], [1, 1, 1, 1])}, tensorN)
    nd = made('Tensor')
    call('SetTensorNdDescriptor', nd, 0, 5, [2, 3, 4, 5, 6], [360, 120, 30, 6, 1])
    for asked in (-1, 0, 1, 3, 5, 6, 9):
        say('GetTensorNd', asked, got('GetTensorNdDescriptor', nd, [asked, *'iinn']))
    say('GetTensor4d of 5', got('GetTensor4dDescriptor', nd, 'i' * 9))
    sweep('Filter', 'SetFilter4dDescriptor', [0, 0, 2, 3, 4, 5],
          {0: TYPES, 1: range(-1, 4), **{n: extents for n in (2, 3, 4, 5)}},
          [('GetFilter4dDescriptor', 'i' * 6), ('GetFilterSizeInBytes', 'z')])
    for rank in range(0, 10):
        sweep('Filter', 'SetFilterNdDescriptor', [0, 0, rank, [2, 3, 4, 5, 2, 2, 2, 2, 2, 2][:rank]],
              {1: range(-1, 4), 0: (2, 3, 9)}, [('GetFilterNdDescriptor', [8, *'iiin']), ('GetFilterSizeInBytes', 'z')])
    filterN = made('Filter')
    call('SetFilterNdDescriptor', filterN, 0, 0, 5, [2, 3, 4, 5, 6])
    for asked in (-1, 0, 3, 5, 9):
        say('GetFilterNd', asked, got('GetFilterNdDescriptor', filterN, [asked, *'iiin']))


def convolutions():
    more = [('GetConvolutionMathType', 'i'), ('GetConvolutionGroupCount', 'i'), ('GetConvolutionReorderType', 'i')]
    two = [('GetConvolution2dDescriptor', 'i' * 8), *more]
    many = [('GetConvolutionNdDescriptor', [6, *'innnii']), *more]
    small = (-1, 0, 1, 7)
    say('fresh', *[got(name, made('Convolution'), outputs) for name, outputs in two[1:]])
    sweep('Convolution', 'SetConvolution2dDescriptor', [1, 2, 1, 2, 1, 3, 1, 0],
          {**{n: small for n in range(6)}, 6: range(-1, 3), 7: TYPES}, two)
    for rank in range(0, 9):
        sweep('Convolution', 'SetConvolutionNdDescriptor', [rank, [1] * rank, [1] * rank, [1] * rank, 0, 0], {}, many)
    sweep('Convolution', 'SetConvolutionNdDescriptor', [3, [1, 0, 2], [1, 2, 3], [1, 1, 2], 1, 0],
          {1: ([1, -1, 0],), 2: ([1, 0, 1],), 3: ([0, 1, 1],), 4: (-1, 2), 5: TYPES}, many)
    three = made('Convolution')
    call('SetConvolutionNdDescriptor', three, 3, [1, 0, 2], [1, 2, 3], [1, 1, 2], 1, 0)
    for asked in (-1, 0, 1, 2, 3, 4, 7):
        say('GetConvolutionNd', asked, got('GetConvolutionNdDescriptor', three, [asked, *'innnii']))
    say('GetConvolution2d of 3', got('GetConvolution2dDescriptor', three, 'i' * 8))
    for name, values in (('MathType', range(-1, 5)), ('GroupCount', (-1, 0, 1, 5, BIG)), ('ReorderType', range(-1, 3))):
        for value in values:
            one = made('Convolution')
            say(name, value, call(f'SetConvolution{name}', one, value), got(f'GetConvolution{name}', one, 'i'))
            again = call('SetConvolution2dDescriptor', one, 1, 1, 1, 1, 1, 1, 1, 0)
            say('  kept', again, got(f'GetConvolution{name}', one, 'i'))
        say(name, 'null', call(f'SetConvolution{name}', None, 1), got(f'GetConvolution{name}', None, 'i'))


def outputs_of():
    for dims, filter_dims, groups, convolution, kinds in (
            ([2, 8, 9, 10], [6, 8, 3, 3], 1, [1, 2, 1, 2, 1, 3, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [6, 8, 3, 3], 1, [1, 2, 1, 2, 1, 3, 0, 0], (2, 0)),
            ([2, 8, 9, 10], [6, 4, 3, 3], 1, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [6, 4, 3, 3], 2, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [7, 4, 3, 3], 2, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [6, 8, 11, 3], 1, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [6, 8, 10, 3], 1, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10, 11], [6, 8, 3, 3, 3], 1, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0)),
            ([2, 8, 9, 10], [6, 8, 3, 3, 3], 1, [0, 0, 1, 1, 1, 1, 1, 0], (0, 0))):
        x, w, c = made('Tensor'), made('Filter'), made('Convolution')
        call('SetTensorNdDescriptorEx', x, 0, kinds[0], len(dims), dims)
        call('SetFilterNdDescriptor', w, kinds[1], 0, len(filter_dims), filter_dims)
        call('SetConvolution2dDescriptor', c, *convolution)
        call('SetConvolutionGroupCount', c, groups)
        say('output', dims, filter_dims, groups, got('GetConvolution2dForwardOutputDim', c, [x.value, w.value, *'iiii']))
        for asked in (3, 4, 5, 6):
            say('  Nd', asked, got('GetConvolutionNdForwardOutputDim', c, [x.value, w.value, asked, 'n']))
        pooling = made('Pooling')
        call('SetPooling2dDescriptor', pooling, 0, 1, 3, 2, 1, 0, 2, 2)
        say('  pooling', got('GetPooling2dForwardOutputDim', pooling, [x.value, *'iiii']))
        for asked in (3, 4, 5):
            say('  pooling', asked, got('GetPoolingNdForwardOutputDim', pooling, [x.value, asked, 'n']))
        for mode in range(4):
            derived = made('Tensor')
            say('  derive', mode, call('DeriveBNTensorDescriptor', derived, x, mode),
                got('GetTensorNdDescriptor', derived, [8, *'iinn']))


def layers():
    small = (-1, 0, 1, 3)
    sweep('Pooling', 'SetPooling2dDescriptor', [0, 1, 3, 2, 1, 0, 2, 2],
          {0: range(-1, 5), 1: range(-1, 3), **{n: small for n in range(2, 8)}}, [('GetPooling2dDescriptor', 'i' * 8)])
    for rank in range(0, 9):
        sweep('Pooling', 'SetPoolingNdDescriptor', [0, 0, rank, [3] * rank, [1] * rank, [2] * rank], {},
              [('GetPoolingNdDescriptor', [8, *'iiinnn'])])
    sweep('Activation', 'SetActivationDescriptor', [1, 0, 1.5], {0: range(-1, 8), 1: range(-1, 3), 2: (-1., 0.)},
          [('GetActivationDescriptor', 'iid'), ('GetActivationDescriptorSwishBeta', 'd')])
    sweep('Activation', 'SetActivationDescriptorSwishBeta', [2.5], {}, [('GetActivationDescriptorSwishBeta', 'd')])
    sweep('LRN', 'SetLRNDescriptor', [5, 1e-4, .75, 2.],
          {0: (0, 1, 2, 16, 17), 1: (-1., 0.), 2: (0., .005, .01), 3: (0., 1e-6, 1e-5)}, [('GetLRNDescriptor', 'iddd')])
    sweep('OpTensor', 'SetOpTensorDescriptor', [0, 0, 0], {0: range(-1, 7), 1: TYPES, 2: range(-1, 3)},
          [('GetOpTensorDescriptor', 'iii')])
    sweep('ReduceTensor', 'SetReduceTensorDescriptor', [0, 0, 0, 0, 0],
          {0: range(-1, 10), 1: TYPES, 2: range(-1, 3), 3: range(-1, 3), 4: range(-1, 5)},
          [('GetReduceTensorDescriptor', 'iiiii')])
    for op in range(9):
        sweep('ReduceTensor', 'SetReduceTensorDescriptor', [op, 0, 0, 1, 0], {4: range(4)}, [])
    transform = [('GetTensorTransformDescriptor', [4, *'innni'])]
    sweep('TensorTransform', 'SetTensorTransformDescriptor', [4, 1, [0, 0, 1, 1], [0, 1, 0, 2], [1, 2], 0],
          {0: (0, 2, 3, 5, 8, 9), 1: range(-1, 4), 2: ([0, -1, 0, 0], None), 3: ([0, 0, 0, -1], None),
           4: ([0, 1], None), 5: range(-1, 3)}, transform)
    sweep('CTCLoss', 'SetCTCLossDescriptor', [0], {0: TYPES}, [('GetCTCLossDescriptor', 'i')])
    sweep('CTCLoss', 'SetCTCLossDescriptorEx', [0, 1, 0], {0: TYPES, 1: range(-1, 3), 2: range(-1, 3)},
          [('GetCTCLossDescriptorEx', 'iii')])
    for version in (8, 9):
        sweep('CTCLoss', f'SetCTCLossDescriptor_v{version}', [0, 1, 0, 20],
              {0: TYPES, 1: range(-1, 3), 2: range(-1, 3), 3: (-1, 0, 255, 256, 300)},
              [(f'GetCTCLossDescriptor_v{version}', 'iiii')])
    sweep('SpatialTransformer', 'SetSpatialTransformerNdDescriptor', [0, 0, 4, [1, 1, 8, 8]],
          {0: (-1, 1), 1: TYPES, 2: (2, 3, 5, 9), 3: ([1, 1, 0, 8],)}, [])


def recurrent():
    dropout = made('Dropout').value
    getter = [('GetRNNDescriptor_v8', 'i' * 13 + 'zi'), ('RNNGetClip_v9', 'idd')]
    base = [0, 2, 2, 0, 0, 0, 0, 0, 8, 16, 16, 2, None, 0]
    for pair in [(d, m) for d in (-1, 0, 1, 2, 3, 9, 12) for m in (-1, 0, 1, 2, 9)]:
        for algo in range(5):
            sweep('RNN', 'SetRNNDescriptor_v8', [algo, 2, 2, 0, 0, *pair, *base[7:]], {}, getter)
    sweep('RNN', 'SetRNNDescriptor_v8', base,
          {0: range(-1, 6), 1: range(-1, 5), 2: range(-1, 5), 3: range(-1, 3), 4: range(-1, 3), 7: range(-1, 5),
           8: (-1, 0, 1), 9: (-1, 0, 8, 15, 2048), 10: (-1, 0, 4, 15, 17), 11: (-1, 0, 1), 13: (0, 1, 2, 3)}, getter)
    for cell in range(4):
        sweep('RNN', 'SetRNNDescriptor_v8', [0, cell, *base[2:]], {10: (4, 8), 4: (1,)}, getter)
    for clip in ([0, -1., 1.], [1, -1., 1.], [1, 1., -1.], [2, 0., 1.], [1, 1., 1.]):
        for cell in (2, 3):
            rnn = made('RNN')
            before = call('RNNSetClip_v9', rnn, *clip)
            call('SetRNNDescriptor_v8', rnn, 0, cell, *base[2:])
            say('clip', clip, cell, before, call('RNNSetClip_v9', rnn, *clip), got('RNNGetClip_v9', rnn, 'idd'))
    data = [('GetRNNDataDescriptor', [*'iiiii', 3, 'n', 'd'])]
    lengths = [5, 4, 2]
    sweep('RNNData', 'SetRNNDataDescriptor', [0, 0, 5, 3, 8, lengths, None],
          {0: TYPES, 1: range(-1, 4), 2: (-1, 0, 4, 9), 3: (-1, 0, 2), 4: (-1, 0),
           5: ([5, 2, 4], [5, 4, 0], [6, 4, 2], [5, 4, -1], [4, 4, 2])}, data)
    sweep('RNNData', 'SetRNNDataDescriptor', [0, 1, 5, 3, 8, lengths, None],
          {5: ([5, 2, 4], [5, 4, 0], [6, 4, 2], [4, 4, 2], [5, 5, 5])}, data)


def versions():
    library.cudnnGetErrorString.restype = ctypes.c_char_p
    for status in [-1, *range(10), *range(1000, 6000)]:
        text = library.cudnnGetErrorString(status)
        if text != b'CUDNN_UNKNOWN_STATUS':
            say(status, text)
    for name in ('GetVersion', 'GetCudartVersion', 'GetMaxDeviceVersion', 'GraphVersionCheck', 'OpsVersionCheck',
                 'CnnVersionCheck', 'AdvVersionCheck'):
        say(name, call(name))
    for part, name in (('graph', 'BackendFinalize'), ('ops', 'AddTensor'), ('cnn', 'ConvolutionForward'), ('adv', 'RNNForward')):
        say(part, hasattr(ctypes.CDLL(f'{sys.argv[2]}/libcudnn_{part}.so.9'), 'cudnn' + name))
    for what in range(-1, 5):
        value = ctypes.c_int(-7)
        say('property', what, call('GetProperty', what, ctypes.byref(value)), value.value)
    say('null', call('Create', None), call('Destroy', None), call('SetStream', None, None), call('GetProperty', 0, None))
    for kind in ('Tensor', 'Filter', 'Convolution', 'Pooling', 'Activation', 'LRN', 'OpTensor', 'ReduceTensor', 'Dropout',
                 'RNN', 'RNNData', 'CTCLoss', 'SpatialTransformer', 'TensorTransform'):
        guarded('null', kind, lambda: (call(f'Create{kind}Descriptor', None), call(f'Destroy{kind}Descriptor', None)))


def nothing():
    for name in exported(sys.argv[1]):
        if not name.startswith(STUBS):
            guarded(name, 'of nothing', lambda: getattr(library, name)(*[ctypes.c_void_p(0)] * 40))


for part in (versions, tensors, convolutions, outputs_of, layers, recurrent, nothing):
    part()
