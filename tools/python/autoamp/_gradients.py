"""Gradients for the scalers: torch tensors, host memory (NumPy arrays, buffers, DLPack), and device memory
(`__cuda_array_interface__`, DLPack, or a tuple of pointer, count and type)."""
import ctypes
import math
import struct
import sys

FLOAT32, FLOAT16, BFLOAT16, FLOAT64 = range(4)  # AUTOAMP_FLOAT32 and so on
NAMES = {"float32": FLOAT32, "float16": FLOAT16, "bfloat16": BFLOAT16, "float64": FLOAT64}
_FORMATS = {"f": FLOAT32, "e": FLOAT16, "d": FLOAT64}
_TYPESTRINGS = {"<f4": FLOAT32, "<f2": FLOAT16, "<f8": FLOAT64}
_SIZES = (4, 2, 2, 8)


class _DlTensor(ctypes.Structure):
    """DLTensor of dlpack.h."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Device:
    """Contiguous device memory. `owner` keeps it alive."""

    def __init__(self, pointer, count, dtype, stream=None, owner=None):
        self.pointer, self.count, self.dtype, self.stream, self.owner = pointer, count, dtype, stream, owner


class Host:
    """Contiguous host memory, as a writable memoryview of bytes, or a NumPy array of any strides."""

    def __init__(self, memory, dtype):
        self.memory, self.dtype = memory, dtype


def narrow(value):
    """Rounds to float32. Values beyond its range become infinite."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def inverse_of(scale):
    return narrow(1 / scale) if scale else math.copysign(math.inf, scale)


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_half(value):
    return value.dtype == FLOAT16 if isinstance(value, (Host, Device)) else str(value.dtype) == "torch.float16"


def wrap(value, stream=0, is_read_only=False):
    """Returns a Host or Device, or the torch tensor. `stream`: that of device memory whose producer asks for one."""
    if is_torch(value):
        return value
    if isinstance(value, tuple):
        pointer, count, dtype = value
        name = str(getattr(dtype, "name", dtype)).rsplit(".", 1)[-1]
        if name not in NAMES:
            raise TypeError(f"gradients of type {name} are not supported")
        if not 0 <= int(count) < 2 ** 63:
            raise ValueError(f"a gradient cannot have {count} elements")
        return Device(int(pointer), int(count), NAMES[name])
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return Host(value, _type_of(_TYPESTRINGS, value.dtype.str))
    if hasattr(value, "__cuda_array_interface__"):
        return _from_interface(value)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, stream)
    view = memoryview(value)
    return Host(_bytes(view, is_read_only), _type_of(_FORMATS, view.format))


def _type_of(known, name):
    if name not in known:
        raise TypeError(f"gradients of type {name!r} are not supported")
    return known[name]


def _bytes(view, is_read_only):
    if (view.readonly and not is_read_only) or not view.c_contiguous:
        raise ValueError("gradients must be contiguous and writable")
    return view.cast("B") if view.nbytes else view


def _from_interface(value):
    interface = value.__cuda_array_interface__
    pointer, is_read_only = interface.get("data") or (None, False)
    dtype = _type_of(_TYPESTRINGS, interface["typestr"])
    if pointer is None or interface.get("mask") is not None:
        raise ValueError("gradients must have device memory and no mask")
    if is_read_only or not _is_contiguous(interface["shape"], interface.get("strides"), _SIZES[dtype]):
        raise ValueError("gradients must be contiguous and writable")
    return Device(pointer, math.prod(interface["shape"]), dtype, interface.get("stream"), value)


def _is_contiguous(shape, strides, unit):
    """Whether the elements fill their memory, in any order of the dimensions."""
    for stride, extent in sorted(zip(strides or (), shape)):
        if extent != 1 and stride != unit:
            return math.prod(shape) == 0
        unit *= extent
    return True


def _from_dlpack(value, stream):
    kind = value.__dlpack_device__()[0]
    if kind not in (1, 2, 3, 13):  # kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
        raise TypeError(f"gradients of the DLPack device type {int(kind)} are not supported")
    is_device = kind in (2, 13)
    capsule = value.__dlpack__(stream=stream or 1) if is_device else value.__dlpack__()
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DlTensor.from_address(address(capsule, b"dltensor"))
    dtype = {(2, 32): FLOAT32, (2, 16): FLOAT16, (2, 64): FLOAT64, (4, 16): BFLOAT16}.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise TypeError("gradients of this DLPack type are not supported")
    shape = tensor.shape[:tensor.ndim]
    if tensor.strides and not _is_contiguous(shape, tensor.strides[:tensor.ndim], 1):
        raise ValueError("gradients must be contiguous and writable")
    count, pointer = math.prod(shape), (tensor.data or 0) + tensor.byte_offset
    if is_device:
        return Device(pointer, count, dtype, owner=(value, capsule))
    memory = (ctypes.c_char * (count * _SIZES[dtype])).from_address(pointer) if count else bytearray()
    memory.owner = (value, capsule) if count else None
    return Host(memoryview(memory).cast("B"), dtype)


def divide(host, scale, arithmetic):
    """Divides host memory by the scale, with the roundings of a framework. Returns True if it contains an Inf or NaN. With None as
    arithmetic, only looks for them."""
    if arithmetic is None:
        return multiply(host, 1.0)
    inverse = 1 / scale if scale else math.copysign(math.inf, scale)
    if arithmetic != "paddle" or host.dtype != FLOAT64:
        inverse = narrow(inverse)
    return multiply(host, rounded(inverse, host.dtype) if arithmetic == "mindspore" else inverse, arithmetic == "paddle")


def multiply(host, inverse, is_tested_after=False):
    """Multiplies host memory by `inverse`, as torch's kernel does. Returns True if it contains an Inf or NaN."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and host.dtype != BFLOAT16:
        return _unscale_array(numpy, host, inverse, is_tested_after)
    if host.dtype == BFLOAT16:
        bits = struct.unpack(f"<{len(host.memory) // 2}H", host.memory)
        values = [struct.unpack("<f", struct.pack("<I", each << 16))[0] for each in bits]
    else:
        letter = "fe?d"[host.dtype]
        values = struct.unpack(f"<{host.memory.nbytes // _SIZES[host.dtype]}{letter}", host.memory)
    is_wide = host.dtype == FLOAT64
    results = values if inverse == 1 else [each * inverse if is_wide else narrow(each * inverse) for each in values]
    packed = b"".join(pack(each, host.dtype) for each in results)
    if is_tested_after:
        values = results if host.dtype in (FLOAT32, FLOAT64) else struct.unpack(f"<{len(results)}e", packed)
    if inverse != 1 and packed:
        host.memory[:] = packed
    return any(not math.isfinite(narrow(each)) for each in values)


def _unscale_array(numpy, host, inverse, is_tested_after):
    array = host.memory
    if not isinstance(array, numpy.ndarray):
        array = numpy.frombuffer(array, ("<f4", "<f2", "", "<f8")[host.dtype])
    with numpy.errstate(all="ignore"):
        wide = numpy.float64 if host.dtype == FLOAT64 else numpy.float32
        values = array.astype(wide)
        if inverse != 1:
            array[...] = values * wide(inverse)
        tested = array if is_tested_after else values
        return not bool(numpy.isfinite(tested.astype(numpy.float32)).all())


def pack(value, dtype):
    """The bytes of a value in its type."""
    if dtype == BFLOAT16:
        if math.isnan(value):
            return b"\xff\x7f"
        bits = struct.unpack("<I", struct.pack("<f", narrow(value)))[0]
        return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    letter = "<" + "fe?d"[dtype]
    try:
        return struct.pack(letter, value)
    except OverflowError:
        return struct.pack(letter, math.copysign(math.inf, value))


def rounded(value, dtype):
    """The value after rounding to the type."""
    data = pack(value, dtype)
    return struct.unpack("<f", b"\0\0" + data)[0] if dtype == BFLOAT16 else struct.unpack("<" + "fe?d"[dtype], data)[0]
