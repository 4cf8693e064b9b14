"""autoamp regions for Python, with the same interface as torch.autocast.

Does not need torch, and does nothing if autoamp is not in the process. As in torch, a region belongs to its thread. If a
generator or coroutine is suspended inside `with`, the region stays open for the other code on that thread. If it is decorated,
only the call that creates it runs inside the region. Regions may end in any order; the end of one does not end another. Unlike
in torch, one instance may be entered again while it is open.
"""
import ctypes
import functools
import threading

__all__ = ["autocast", "is_autocast_available", "is_loaded"]

_SAME = -1
_OTHER_DEVICES = ("cpu", "xpu", "mps", "hpu", "xla", "ipu", "mtia", "maia", "privateuseone")  # torch device types without
                                                                                              # effect here


class _Region(ctypes.Structure):
    """The struct autoamp_region in autoamp.h."""
    _fields_ = ([("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("enabled", ctypes.c_int), ("use_promote", ctypes.c_int)] +
                [(name, ctypes.c_char_p) for name in
                 ("dtype", "level", "lists", "custom_white_list", "custom_black_list", "threads")])


def _find():
    try:
        library = ctypes.CDLL(None)
        library.autoamp_error.restype = ctypes.c_char_p
        library.autoamp_enter.argtypes = [ctypes.POINTER(_Region), ctypes.POINTER(ctypes.c_size_t)]
        library.autoamp_leave.argtypes = [ctypes.c_size_t]
        return library
    except AttributeError:
        return None


_library = _find()  # autoamp can only be preloaded, so one search is enough


def is_loaded():
    """Returns True if autoamp is in this process."""
    return _library is not None


def is_autocast_available(device_type):
    """Returns True if `autocast(device_type)` has an effect in this process."""
    if device_type != "cuda" or not is_loaded():
        return False
    with autocast(enabled=None):  # the first region reads the configuration
        return _library.autoamp_current(None) != 1


def _word(value):
    """Returns the name without its package: torch.float16, numpy.float16, numpy.dtype("float16"), "fp16"."""
    if value is None or isinstance(value, str):
        return value
    name = value.__name__ if isinstance(value, type) else str(value)
    return name.rsplit(".", 1)[-1].lower()


def _list(names):
    return names if names is None or isinstance(names, str) else ",".join(names)


class autocast:
    """A region, as context manager or decorator. Arguments that are None keep the values of the surrounding region.

    `threads="all"` also applies to all threads without a region, until this one ends. PyTorch's backward pass needs it."""

    def __init__(self, device_type=None, *, enabled=True, dtype=None, level=None, lists=None, custom_white_list=None,
                 custom_black_list=None, use_promote=None, threads="current", name=None):
        if device_type is not None and not isinstance(device_type, str):
            raise ValueError(f"device_type must be a string, got {type(device_type).__name__}")
        if device_type not in (None, "cuda", *_OTHER_DEVICES):
            raise RuntimeError(f"unsupported autocast device_type '{device_type}'")
        self._is_ours = device_type in (None, "cuda")
        flags = {"enabled": enabled, "use_promote": use_promote}
        texts = {"name": name, "dtype": _word(dtype), "level": level, "lists": lists,
                 "custom_white_list": _list(custom_white_list), "custom_black_list": _list(custom_black_list),
                 "threads": threads}
        self._region = _Region(size=ctypes.sizeof(_Region),
                               **{key: _SAME if flag is None else int(bool(flag)) for key, flag in flags.items()},
                               **{key: None if text is None else text.encode() for key, text in texts.items()})
        self._open = []  # for each open entry: the thread and the number of the region on it

    def __enter__(self):
        if self._is_ours and _library:
            number = ctypes.c_size_t()
            status = _library.autoamp_enter(ctypes.byref(self._region), ctypes.byref(number))
            if status:
                raise (ValueError if status == -1 else RuntimeError)((_library.autoamp_error() or b"not now").decode())
            self._open.append((threading.get_ident(), number.value))
        return self

    def __exit__(self, *exception):
        if self._is_ours and _library:
            entered = next((each for each in reversed(self._open) if each[0] == threading.get_ident()), None)
            if not entered:
                raise RuntimeError("autocast: left on a thread that did not enter it")
            self._open.remove(entered)
            _library.autoamp_leave(entered[1])
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)
        return inside
