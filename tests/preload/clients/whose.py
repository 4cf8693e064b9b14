"""whose.py FILE resolve|call NAME...: for each entry point of this cuDNN, the file in which a lookup finds it
("absent"). With `call`, also the library's status for a call without arguments. Needs no device."""
import ctypes
import sys

# These read a null pointer that they are given.
CRASH = {"cudnnBackendCreateDescriptor", "cudnnCTCLoss", "cudnnCTCLoss_v8", "cudnnFusedOpsExecute", "cudnnTransformFilter"}

file, how, *names = sys.argv[1:]
library = ctypes.CDLL(file)
loader = ctypes.CDLL(None)


class Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def file_of(function):
    place = Place()
    loader.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(place))
    return place.file.decode().rpartition("/")[2]


def row(name):
    try:
        function = getattr(library, name)
    except AttributeError:
        return "absent"
    return f"{file_of(function)} {function(*[None] * 26) if how == 'call' and name not in CRASH else '-'}"


if how == "call":
    library.cudnnGetErrorString.restype = ctypes.c_char_p
    print("version", "-", library.cudnnGetVersion())
    print("text", "-", library.cudnnGetErrorString(0).decode())
for each in names:
    print(each, row(each), flush=True)
