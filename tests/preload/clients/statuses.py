"""statuses.py FILE...: statuses of these cuBLAS libraries for calls without valid operands. Needs no device."""
import ctypes
import sys

NUMBER = ctypes.c_float(1)
SIZES = (8, 8, 8)


def answers(file):
    cublas = ctypes.CDLL(file)
    handle, one, version = ctypes.c_void_p(), ctypes.byref(NUMBER), ctypes.c_int()
    yield cublas.cublasCreate_v2(ctypes.byref(handle))
    yield cublas.cublasSgemm_v2(None, 0, 0, *SIZES, one, None, 8, None, 8, one, None, 8)
    yield cublas.cublasGemmEx(None, 0, 0, *SIZES, one, None, 0, 8, None, 0, 8, one, None, 0, 8, 68, -1)
    yield cublas.cublasSasum_v2(None, 4, None, 1, None)
    yield cublas.cublasLtMatmul(*[None] * 16)
    yield cublas.cublasGetProperty(0, ctypes.byref(version))
    yield version.value


for argument in sys.argv[1:]:
    print(argument, *answers(argument))
