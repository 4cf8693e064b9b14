"""Regions of autoamp from Python, in the words of torch.autocast.

Works without autoamp in the process (it then does nothing), and without torch. State belongs to the thread, as torch's
does: a generator or coroutine that is suspended inside `with` leaves its region open to whoever runs on that thread, and of a
decorated one only the call that makes it runs inside. Unlike torch's, one instance may be entered again while it is open.
"""
import ctypes
import functools
import threading

__all__ = ["autocast", "is_autocast_available", "is_loaded"]

_SAME = -1


class _Region(ctypes.Structure):
    """autoamp_region of autoamp.h."""
    _fields_ = ([("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("enabled", ctypes.c_int), ("use_promote", ctypes.c_int)] +
                [(name, ctypes.c_char_p) for name in
                 ("dtype", "level", "lists", "custom_white_list", "custom_black_list", "threads")])


def _find():
    try:
        library = ctypes.CDLL(None)
        library.autoamp_error.restype = ctypes.c_char_p
        library.autoamp_push.argtypes = [ctypes.POINTER(_Region)]
        library.autoamp_pop.argtypes = []
        return library
    except AttributeError:
        return None


_library = _find()  # in front of the program from the start, or never


def is_loaded():
    """Whether autoamp is in this process."""
    return _library is not None


def is_autocast_available(device_type):
    """Whether `autocast(device_type)` does anything here."""
    return device_type == "cuda" and is_loaded()


def _word(value):
    """torch.float16, numpy.float16, numpy.dtype("float16"), "fp16": a name, without its package."""
    if value is None or isinstance(value, str):
        return value
    name = value.__name__ if isinstance(value, type) else str(value)
    return name.rsplit(".", 1)[-1].lower()


def _list(names):
    return names if names is None or isinstance(names, str) else ",".join(names)


class autocast:
    """A region, as context manager or decorator. What is None is as it is around it.

    `threads="all"`: every thread without a region of its own, until this one ends, as PyTorch's backward needs it."""

    def __init__(self, device_type=None, *, enabled=True, dtype=None, level=None, lists=None, custom_white_list=None,
                 custom_black_list=None, use_promote=None, threads="current", name=None):
        if device_type is not None and not isinstance(device_type, str):
            raise ValueError(f"device_type must be a string, got {type(device_type).__name__}")
        self._is_ours = device_type in (None, "cuda")
        flags = {"enabled": enabled, "use_promote": use_promote}
        texts = {"name": name, "dtype": _word(dtype), "level": level, "lists": lists,
                 "custom_white_list": _list(custom_white_list), "custom_black_list": _list(custom_black_list),
                 "threads": threads}
        self._region = _Region(size=ctypes.sizeof(_Region),
                               **{key: _SAME if flag is None else int(bool(flag)) for key, flag in flags.items()},
                               **{key: None if text is None else text.encode() for key, text in texts.items()})
        self._threads = []  # that are inside, innermost last

    def __enter__(self):
        if self._is_ours and _library:
            status = _library.autoamp_push(ctypes.byref(self._region))
            if status:
                raise (ValueError if status == -1 else RuntimeError)((_library.autoamp_error() or b"not now").decode())
            self._threads.append(threading.get_ident())
        return self

    def __exit__(self, *exception):
        if self._is_ours and _library:
            here = threading.get_ident()
            if here not in self._threads:
                raise RuntimeError("autocast: left on a thread that did not enter it")
            self._threads.remove(here)
            _library.autoamp_pop()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)
        return inside
