"""autoamp.GradScaler on gradients in device memory: random sequences of calls, and each kind of array."""
import array
import ctypes
import gc
import json
import math
import os
import pickle
import struct
import sys
import threading
import time
import warnings

import autoamp
import autoamp.mindspore
import autoamp.paddle
import scaler_random

RUNTIME = ctypes.CDLL("libcudart.so.13")


def check(status):
    assert status == 0, status


class Memory:
    """A float32 array in device memory, with `__cuda_array_interface__`."""

    def __init__(self, values, **interface):
        self.count, pointer = len(values), ctypes.c_void_p()
        check(RUNTIME.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(4 * self.count + 4)))
        self.pointer = pointer.value
        data = struct.pack(f"<{self.count}f", *values)
        check(RUNTIME.cudaMemcpy(pointer, data, ctypes.c_size_t(len(data)), 1))
        self.__cuda_array_interface__ = {"shape": (self.count,), "typestr": "<f4", "data": (self.pointer, False), "version": 3, "strides": None,
                                         **interface}

    def __del__(self):
        RUNTIME.cudaFree(ctypes.c_void_p(self.pointer))

    def __iter__(self):
        check(RUNTIME.cudaDeviceSynchronize())
        data = ctypes.create_string_buffer(4 * self.count)
        check(RUNTIME.cudaMemcpy(data, ctypes.c_void_p(self.pointer), ctypes.c_size_t(4 * self.count), 2))
        return iter(struct.unpack(f"<{self.count}f", data.raw))

    def __getitem__(self, index):
        return list(self)[index]


class DLPack(Memory):
    """The same by DLPack only."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]

    def __init__(self, values):
        super().__init__(values)
        del self.__cuda_array_interface__
        self.shape = (ctypes.c_int64 * 1)(self.count)
        self.tensor = self.Tensor(self.pointer, 2, 0, 1, 2, 32, 1, self.shape, None, 0)

    kind, streams = 2, []

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Optimizer:
    class Slot:
        grad = None

    def __init__(self):
        self.parameter = self.Slot()
        self.param_groups = [{"params": [self.parameter]}]

    def step(self):
        return "stepped"


def play(seed):
    return scaler_random.outcome(lambda parameters: (autoamp.GradScaler(**parameters), [Optimizer(), Optimizer()]), Memory, seed)


def kinds():
    """Gradients of several kinds in one step, on a stream of the array and on that of the scaler."""
    stream = ctypes.c_void_p()
    check(RUNTIME.cudaStreamCreate(ctypes.byref(stream)))
    scaler = autoamp.GradScaler(init_scale=4.0, growth_interval=1)
    parts = [Memory([4.0, 8.0], stream=stream.value), DLPack([4.0]), Memory([2.0])]
    scaler.scale(parts[2])
    scaler.unscale_(sum, grads=[parts[0], parts[1], (parts[2].pointer, 1, "float32")])
    told = [list(part) for part in parts]
    told.append(scaler.step(sum, [1, 2]))
    scaler.set_growth_factor(8.0)
    scaler.update()
    scaler.stream = stream.value
    told += [scaler.get_scale(), scaler.state_dict()]
    for wrong in (Memory([1.0, 2.0], strides=(8,)), Memory([1.0], typestr="<i4"), Memory([1.0], data=(4096, True)), Memory([1.0], mask=1)):
        try:
            scaler.unscale_(sum, grads=[wrong])
        except (TypeError, ValueError) as error:
            told.append(type(error).__name__)
    try:
        scaler.unscale_(sum, grads=[Memory([1.0], stream=stream.value), Memory([1.0], stream=1)])
    except ValueError as error:
        told.append(str(error))
    scaler.unscale_(sum, grads=[(parts[2].pointer + 2, 1, "float16"), Memory([math.nan])])
    told.append(scaler.step(sum, [1]))
    try:
        scaler.step(min, [1], grads=[array.array("f", [1.0])])
    except ValueError as error:
        told.append(str(error)[:20])
    scaler.update()
    told.append(scaler.get_scale())
    return told


def fresh(**parameters):
    """A scaler whose gradients are in device memory from the first step on."""
    scaler = autoamp.GradScaler(**{"init_scale": 4.0, **parameters})
    scaler.scale(1.0)
    return scaler


def turn(scaler, *values):
    for value in values:
        scaler.step(sum, [1], grads=[Memory([value])])
        scaler.update()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def slow(_):
    time.sleep(0.2)


def streams():
    """Two optimizers with a stream each. The first one is busy, as after a long backward pass."""
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    for stream in (first, second):
        check(RUNTIME.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
    scaler, a, b = fresh(), Optimizer(), Optimizer()
    bad, good = Memory([math.inf], stream=first.value), Memory([4.0], stream=second.value)
    check(RUNTIME.cudaLaunchHostFunc(first, slow, None))
    scaler.unscale_(a, grads=[bad])
    scaler.unscale_(b, grads=[good])
    told = [scaler.step(a), scaler.step(b)]
    scaler.update()
    told.append(scaler.get_scale())
    told.append(scaler.step(a, grads=[Memory([1.0], stream=first.value)]))
    scaler.update()
    # A scale() on another stream between unscale_() and step().
    check(RUNTIME.cudaLaunchHostFunc(first, slow, None))
    scaler.unscale_(a, grads=[bad])
    scaler.scale(good)
    told.append(scaler.step(a))
    scaler.update()
    return told + [scaler.get_scale()]


def devices():
    """The device of the gradients is busy. The step is on another one."""
    told = []
    for device in (0, 1):
        scaler = fresh()
        check(RUNTIME.cudaSetDevice(device))
        bad = Memory([math.inf])
        check(RUNTIME.cudaLaunchHostFunc(None, slow, None))
        scaler.unscale_(sum, grads=[bad])
        check(RUNTIME.cudaSetDevice(1 - device))
        told.append([scaler.step(sum, [1])])
        scaler.update()
        told[-1].append(scaler.get_scale())
        check(RUNTIME.cudaSetDevice(0))
    return told


def threads():
    """Two threads, whose stream has the same handle."""
    scaler, bad = fresh(), Memory([math.inf], stream=2)
    scaler.stream = 2

    def unscale():
        check(RUNTIME.cudaLaunchHostFunc(ctypes.c_void_p(2), slow, None))
        scaler.unscale_(sum, grads=[bad])

    thread = threading.Thread(target=unscale)
    thread.start()
    thread.join()
    told = [scaler.step(sum, [1])]
    scaler.update()
    return told + [scaler.get_scale()]


def captured():
    """A step in a graph, then steps outside of it, then replays without the scaler."""
    stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(RUNTIME.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
    scaler, memory = fresh(growth_interval=1), Memory([4.0], stream=stream.value)
    scaler.scale(Memory([1.0]))
    scaler.stream = stream.value
    check(RUNTIME.cudaStreamBeginCapture(stream, 2))
    scaler.unscale_(sum, grads=[memory])
    scaler.update()
    check(RUNTIME.cudaStreamEndCapture(stream, ctypes.byref(graph)))
    check(RUNTIME.cudaGraphInstantiate(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)))
    told = []
    for _ in range(3):
        check(RUNTIME.cudaGraphLaunch(executable, stream))
        told.append([scaler.scale(1.0), scaler.get_scale()])
    turn(scaler, 1.0)
    told.append(scaler.scale(1.0))
    del scaler
    gc.collect()
    for _ in range(3):
        check(RUNTIME.cudaGraphLaunch(executable, stream))
    return told + [RUNTIME.cudaStreamSynchronize(stream)]


def lifetime():
    """More scalers than there can be at once, without the garbage collector. The stream is busy when each is deleted."""
    gc.disable()
    memory = Memory([1.0])
    for i in range(200):
        scaler = fresh()
        if i % 50 == 0:
            check(RUNTIME.cudaLaunchHostFunc(None, slow, None))
        scaler.unscale_(sum, grads=[memory])
        scaler.update()
        del scaler
    return RUNTIME.cudaDeviceSynchronize()


def identities():
    """One scaler after another, which can get the same address."""
    for _ in range(3):
        scaler = fresh()
        scaler.step(sum, [1], grads=[array.array("f", [1.0])])
        scaler.update()
        del scaler
    for make, end in ((autoamp.paddle.AmpScaler, lambda scaler: scaler._update()),
                      (lambda: autoamp.mindspore.DynamicLossScaler(4, 2, 1000), lambda scaler: scaler.adjust(True))):
        for _ in range(2):
            scaler = make()
            end(scaler)
            del scaler
    for _ in range(2):
        turn(fresh(), 1.0)


def waits():
    """A number is scaled while the device is still busy with the update before."""
    told = []
    for rule, optimizers in (("torch", (sum, min)), ("paddle", (sum, min)), ("deepspeed", (sum,))):
        scaler, may_end, has_ended = fresh(growth_interval=1, rule=rule), threading.Event(), []
        turn(scaler, 1.0)

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def block(_):
            has_ended.append(may_end.wait(3))

        for optimizer, value in zip(optimizers, (math.inf, 1.0)):
            scaler.step(optimizer, [1], grads=[Memory([value])])
        check(RUNTIME.cudaLaunchHostFunc(None, block, None))
        scaler.update()
        scaled, waited = scaler.scale(2.0), bool(has_ended)
        may_end.set()
        told.append([scaled == 2 * scaler.get_scale(), waited])
    return told


def intervals():
    told = []
    for interval in (0, -1, 2 ** 31, math.inf, 1.5):
        scaler = fresh(init_scale=65536.0, growth_interval=interval)
        for value in (math.inf, 1.0):
            turn(scaler, value)
            told.append([scaler.get_scale(), scaler._get_growth_tracker()])
    return told


def off():
    """The whole scaler, so that the loss and the gradients agree."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scaler, memory = fresh(), Memory([4.0])
    loss = scaler.scale(2.0)
    scaler.unscale_(sum, grads=[memory])
    stepped = scaler.step(Optimizer(), grads=[memory])
    scaler.update()
    return [list(memory), loss, stepped, scaler.get_scale(), scaler.is_enabled(), list(scaler.scale(memory)), [str(each.message)[:14] for each in told]]


def off_with_torch():
    """autoamp only looks for the imported module. torch tensors need no library."""
    sys.modules["torch"] = None
    return fresh().is_enabled()


def error_of(call):
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return None


def messages():
    told, fused = [], Optimizer()
    fused._step_supports_amp_scaling = True
    told.append(error_of(lambda: fresh().step(fused, grads=[Memory([1.0])])))
    scaler = fresh()
    scaler.unscale_(fused, grads=[Memory([1.0])])
    told.append(error_of(lambda: scaler.step(fused)))
    scaler.update()
    optimizers = [Optimizer() for _ in range(33)]
    told.append(error_of(lambda: [scaler.unscale_(each, grads=[Memory([1.0])]) for each in optimizers]))
    told.append(error_of(lambda: turn(fresh(init_scale=math.nan), 1.0)))
    end, begin = os.pipe()
    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of a fork while other threads run
    child = os.fork()
    if child == 0:
        os.write(begin, str(error_of(scaler.get_scale)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    told.append(os.read(end, 1000).decode())
    other = DLPack([1.0])
    other.kind = 10
    told.append(error_of(lambda: turn(fresh(), 1.0) or fresh().unscale_(sum, grads=[other])))
    DLPack.streams.clear()
    scaler = fresh()
    scaler.stream = 7
    scaler._grads(None, [DLPack([1.0])])
    return told + [DLPack.streams]


def rules():
    told = []
    for name in autoamp._rules._SYSTEMS:
        both = []
        for make in (Memory, lambda values: array.array("f", values)):
            scaler, states = autoamp.GradScaler(init_scale=64.0, growth_interval=2, rule=name, hysteresis=2, backoff_every=2), []
            scaler.scale(1.0)
            for value in (1.0, 1.0, math.inf, math.nan, 1.0, 1.0, 1.0, math.inf):
                scaler.step(sum, [1], grads=[make([value])])
                scaler.update()
                scaler = pickle.loads(pickle.dumps(scaler))
                scaler.scale(1.0)
                states.append(scaler.state_dict())
            both.append(states)
        told.append(both)
    return told


def main():
    check(RUNTIME.cudaFree(None))
    if not sys.argv[1].isdigit():
        print(json.dumps(globals()[sys.argv[1]]()))
        return
    seeds = range(int(sys.argv[1]))
    print(json.dumps({"digests": [scaler_random.digest(play(seed)) for seed in seeds], "kinds": kinds()}))


if __name__ == "__main__":
    main()
