"""autoamp regions for Python, with the torch.autocast interface and the functions around it.

Does not need torch. Without autoamp in the process, regions have no effect; the first one warns. After the first region, nothing is
lowered outside of regions, unless AUTOAMP_SCOPE=process. As in torch, a region belongs to its thread. If a generator or coroutine is
suspended inside `with`, the region stays open for the other code on that thread. If it is decorated, only the call that creates it
runs inside the region. Regions may end in any order; the end of one does not end another. Unlike in torch, one instance may be
entered again while it is open.
"""
import collections.abc
import ctypes
import functools
import re
import sys
import threading
import warnings

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled", "is_loaded"]

_SAME = -1
# torch device types with autocast, and the type that it uses by default. Only the first two can have an effect here.
_DEVICES = {"cuda": "float16", "cpu": "bfloat16", "xpu": "float16", "mps": "float16", "hpu": "bfloat16", "xla": "bfloat16",
            "ipu": "float16", "mtia": "float16", "maia": "bfloat16", "privateuseone": "float16"}
_NO_AUTOCAST = ("mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "lazy", "vulkan", "meta")
_DATA_TYPE = re.compile(r"(float|bfloat|q?u?int|complex|bits)\d\w*|bool")
_LOW_TYPES = ("float16", "bfloat16", "tf32")
_PYTHON_TYPES = {float: "float64", int: "int64", complex: "complex128"}
_ALIASES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32", "double": "float64"}


class _Region(ctypes.Structure):
    """The struct autoamp_region in autoamp.h."""
    _fields_ = ([("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("enabled", ctypes.c_int), ("use_promote", ctypes.c_int)] +
                [(name, ctypes.c_char_p) for name in
                 ("dtype", "level", "lists", "custom_white_list", "custom_black_list", "threads", "device", "weights")])


def _find():
    try:
        library = ctypes.CDLL(None)
        library.autoamp_error.restype = ctypes.c_char_p
        library.autoamp_enter.argtypes = [ctypes.POINTER(_Region), ctypes.POINTER(ctypes.c_size_t)]
        library.autoamp_leave.argtypes = [ctypes.c_size_t]
        library.autoamp_current.argtypes = [ctypes.POINTER(_Region)]
        library.autoamp_require_regions_of.argtypes = [ctypes.c_char_p]
        return library
    except AttributeError:
        return None


_library = _find()  # autoamp can only be preloaded, so one search is enough
_FRONTS = {"cuda": "autoamp_front_original", "cpu": "autoamp_cpu_original"}  # a symbol of libautoamp.so and of libautoamp-cpu.so
_intercepted = {device for device, symbol in _FRONTS.items() if hasattr(_library, symbol)}
_ABSENT = {"cuda": "autocast has no effect: autoamp is not in this process. Start the program with `autoamp run`.",
           "cpu": "autocast(\"cpu\") has no effect: autoamp for the CPU is not in this process. "
                  "Start the program with `autoamp run --device cpu`."}
if "cpu" in _intercepted:
    _ABSENT["cuda"] = ("autocast has no effect on the CPU without \"cpu\" as its device, and autoamp for CUDA is not in this process. "
                       "Use autocast(\"cpu\") for products of a CPU BLAS.")
_warnings_left = {device: iter([text]) for device, text in _ABSENT.items()}


class _Thread(threading.local):
    """The open regions of a thread, except those of the C interface."""

    def __init__(self):
        self.open = []

    def setting(self, device, name, otherwise):
        """The value of the innermost region of the device that has one."""
        values = (getattr(region, name) for region in reversed(self.open) if region.device == device)
        return next((value for value in values if value is not None), otherwise)


_thread = _Thread()


def _enter(region):
    """Opens the region on this thread and returns its number."""
    number = ctypes.c_size_t()
    status = _library.autoamp_enter(ctypes.byref(region), ctypes.byref(number))
    if status:
        raise (ValueError if status == -1 else RuntimeError)((_library.autoamp_error() or b"not now").decode())
    return number.value


@functools.lru_cache(maxsize=None)
def _read_configuration():
    """The first region of a process reads it."""
    _library.autoamp_leave(_enter(_Region(size=ctypes.sizeof(_Region), enabled=_SAME, use_promote=_SAME)))


def _current(device):
    """The settings of this thread's calls on the device; None if no call on it can be lowered in this process."""
    if device not in _intercepted:
        return None
    _read_configuration()
    region = _Region(size=ctypes.sizeof(_Region), device=device.encode())
    return region if _library.autoamp_current(ctypes.byref(region)) == 0 else None


def is_loaded():
    """Returns True if autoamp is in this process."""
    return _library is not None


def _is_off():
    """Returns True if autoamp is in this process, but does nothing (AUTOAMP_ENABLED=0)."""
    if not is_loaded():
        return False
    try:
        _read_configuration()
    except (RuntimeError, ValueError):
        pass
    return _library.autoamp_current(None) == 1


def is_autocast_available(device_type):
    """Returns True if `autocast(device_type)` has an effect in this process."""
    return _current(_known_type(device_type)) is not None


def is_autocast_enabled(device_type="cuda"):
    """Returns True if calls of this thread may be lowered now; for a device without effect other than CUDA, if an enabled region is
    open."""
    device = _device(device_type)
    if device != "cuda" and device not in _intercepted:
        return _thread.setting(device, "is_enabled", False)
    current = _current(device)
    return current is not None and current.enabled == 1 and current.level != b"O0"


def get_autocast_dtype(device_type):
    """Returns the data type of the innermost region of this thread, or else of the configuration: a torch.dtype if the program has
    imported torch, otherwise its name. tf32 is not a torch type, so its name is returned."""
    device = _device(device_type)
    name = _thread.setting(device, "dtype", _DEVICES[device])
    if name in _LOW_TYPES and (current := _current(device)):
        name = current.dtype.decode()
    return getattr(sys.modules.get("torch"), name, name)


def _known_type(device_type):
    """Returns the type of a torch device string: "cuda" of "cuda:0". Errors are torch's."""
    if not isinstance(device_type, str):
        raise TypeError(f"argument 'device_type' must be str, not {type(device_type).__name__}")
    if not device_type:
        raise RuntimeError("Device string must not be empty")
    known = (*_DEVICES, *_NO_AUTOCAST)
    device, colon, index = device_type.partition(":")
    if device not in known:
        raise RuntimeError(f"Expected one of {', '.join(known)} device type at start of device string: {device_type}")
    if colon and not re.fullmatch("0|[1-9][0-9]*", index):
        raise RuntimeError(f"Invalid device string: '{device_type}'")
    return device


def _device(device_type):
    device = _known_type(device_type)
    if device not in _DEVICES:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device


def _word(value):
    """Returns the name without its package: torch.float16, numpy.float16, numpy.dtype("float16"), "fp16"."""
    if value is None or isinstance(value, str):
        return _ALIASES.get(value, value)
    if isinstance(value, type):
        name = _PYTHON_TYPES.get(value, value.__name__)
    else:
        name = str(value).rsplit(".", 1)[-1].lower()
    if not _DATA_TYPE.fullmatch(name):
        raise TypeError(f"argument 'dtype' must be a data type or its name, not {type(value).__name__}")
    return name


def _flag(name, value):
    if value is not None and type(value).__name__ not in ("bool", "bool_"):  # bool_: numpy's
        raise TypeError(f"{name} must be a bool (got {type(value).__name__})")
    return value if value is None else bool(value)


def _text(name, value):
    """Returns the text as bytes, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str (got {type(value).__name__})")
    if "\0" in value:
        raise ValueError(f"{name} contains a null character")
    return value.encode(errors="surrogateescape")


def _list(name, names):
    if names is None or isinstance(names, str):
        return names
    if not isinstance(names, collections.abc.Iterable) or isinstance(names, bytes):
        raise TypeError(f"{name} must be a str or an iterable of str (got {type(names).__name__})")
    names = list(names)
    for each in names:
        _text(name, each)
    return ",".join(names)


class autocast:
    """A region, as context manager or decorator. Arguments that are None keep the values of the surrounding region.

    `threads="all"` also applies to all threads without a region, until this one ends. PyTorch's backward pass needs it.
    `weights` is a value of AUTOAMP_WEIGHTS. `cache_enabled` has no effect: autoamp keeps converted weights only if `weights` or
    AUTOAMP_WEIGHTS allows it."""
    _is_programs = True

    def __init__(self, device_type=None, dtype=None, enabled=True, cache_enabled=None, *, level=None, lists=None,
                 custom_white_list=None, custom_black_list=None, use_promote=None, threads="current", name=None, weights=None):
        if device_type is not None and not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = "cuda" if device_type is None else _device(device_type)
        _flag("cache_enabled", cache_enabled)
        self.is_enabled, self.dtype = _flag("enabled", enabled), _word(dtype)
        is_refused = self.dtype not in (None, "float16", "bfloat16") and _DATA_TYPE.fullmatch(self.dtype)
        if is_refused and self.is_enabled is not False:
            warnings.warn(f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                          f"autoamp supports float16 and bfloat16, not {self.dtype}.", stacklevel=2)
            self.is_enabled = False
        self._flags = {"enabled": self.is_enabled, "use_promote": _flag("use_promote", use_promote)}
        self._texts = {"name": name, "dtype": None if is_refused else self.dtype, "level": level, "lists": lists,
                       "custom_white_list": _list("custom_white_list", custom_white_list),
                       "custom_black_list": _list("custom_black_list", custom_black_list), "threads": threads,
                       "weights": weights}
        self._prepare()

    def _prepare(self):
        self._region = _Region(size=ctypes.sizeof(_Region),
                               **{key: _SAME if flag is None else int(flag) for key, flag in self._flags.items()},
                               **{key: _text(key, text) for key, text in self._texts.items()}, device=self.device.encode())
        self._open = []  # for each open entry: the thread and the number of the region on it

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "_region"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._prepare()

    def __enter__(self):
        number = _enter(self._region) if self.device in _intercepted else 0
        if self._is_programs:
            if self.device in _intercepted:
                _library.autoamp_require_regions_of(self._region.device)
            elif self.is_enabled is not False and (text := next(_warnings_left.get(self.device, iter(())), None)):
                level = 2 if sys._getframe(1).f_globals is not globals() else 3  # 3: called by the decorator below
                warnings.warn(text, stacklevel=level)
        _thread.open.append(self)
        self._open.append((threading.get_ident(), number))
        return self

    def __exit__(self, *exception):
        entered = next((each for each in reversed(self._open) if each[0] == threading.get_ident()), None)
        if not entered:
            raise RuntimeError("autocast: left on a thread that did not enter it")
        self._open.remove(entered)
        del _thread.open[len(_thread.open) - 1 - _thread.open[::-1].index(self)]
        if self.device in _intercepted:
            _library.autoamp_leave(entered[1])
        return False

    def __call__(self, function):
        if not callable(function):
            raise TypeError(f"autocast()(function) needs a callable, not {type(function).__name__}. As a context manager: "
                            "with autocast(...):")

        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)
        return inside


class _FunctionRegion(autocast):
    """The region of custom_fwd or custom_bwd. A program that opens no other region is lowered as a whole."""
    _is_programs = False


def _cast(value, device_type, dtype):
    """Converts the floating-point tensors on the device in a structure of containers, except those of float64."""
    torch = sys.modules.get("torch")
    if torch and isinstance(value, torch.Tensor):
        casts = value.is_floating_point() and value.device.type == device_type and value.dtype != torch.float64
        return value.to(dtype) if casts else value
    if isinstance(value, (str, bytes)) or hasattr(value, "__array_interface__"):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {_cast(key, device_type, dtype): _cast(each, device_type, dtype) for key, each in value.items()}
    if isinstance(value, collections.abc.Iterable):
        parts = (_cast(each, device_type, dtype) for each in value)
        return type(value)(parts) if isinstance(value, (list, tuple)) else parts
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates the `forward` of a torch.autograd.Function, as torch.amp.custom_fwd: records for custom_bwd whether calls may be
    lowered. With `cast_inputs`, an enabled forward converts its tensors to this type and runs with autocast disabled."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(context, *arguments, **keywords):
        is_enabled = is_autocast_enabled(device_type)
        context._dtype = get_autocast_dtype(device_type)
        context._fwd_used_autocast = is_enabled and cast_inputs is None
        if not is_enabled or cast_inputs is None:
            return fwd(context, *arguments, **keywords)
        with _FunctionRegion(device_type, enabled=False):
            return fwd(context, *_cast(arguments, device_type, cast_inputs), **_cast(keywords, device_type, cast_inputs))
    return forward


def custom_bwd(bwd=None, *, device_type):
    """Decorates the `backward` of a torch.autograd.Function, as torch.amp.custom_bwd: it runs in the state that custom_fwd
    recorded, on any thread."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(context, *arguments, **keywords):
        with _FunctionRegion(device_type, context._dtype, context._fwd_used_autocast):
            return bwd(context, *arguments, **keywords)
    return backward


from .grad_scaler import GradScaler  # noqa: E402 (it needs the library that this module has found)
