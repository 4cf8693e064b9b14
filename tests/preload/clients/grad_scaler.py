"""autoamp.GradScaler on gradients in device memory: random sequences of calls, and each kind of array."""
import array
import ctypes
import json
import math
import struct
import sys

import autoamp
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

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self):
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
    for wrong in (Memory([1.0, 2.0], strides=(8,)), Memory([1.0], typestr="<i4"), Memory([1.0], data=(4096, True))):
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


def main():
    check(RUNTIME.cudaFree(None))
    seeds = range(int(sys.argv[1]))
    print(json.dumps({"digests": [scaler_random.digest(play(seed)) for seed in seeds], "kinds": kinds()}))


if __name__ == "__main__":
    main()
