"""A tensor with one fp32 element on a device. Its value is read by item() only, which counts."""
import struct


def single(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf")


class Tensor:
    reads = 0
    device = type("Device", (), {"index": 1})

    def __init__(self, value):
        self._value, self._version = single(value), 0

    def item(self):
        Tensor.reads += 1
        return self._value

    def fill_(self, value):
        self._value, self._version = single(value), self._version + 1

    def times(self, factor):
        return Tensor(self._value * single(factor))
