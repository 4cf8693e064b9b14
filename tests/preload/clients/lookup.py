"""cuBLAS from Python by ctypes: one product, checked."""
import ctypes
import sys

cublas = ctypes.CDLL("libcublas.so.13")
cudart = ctypes.CDLL("libcudart.so.13")
m, n, k = 3, 2, 4
A = (ctypes.c_float * (m * k))(*range(m * k))
B = (ctypes.c_float * (k * n))(*range(k * n))
C = (ctypes.c_float * (m * n))()
one, zero = ctypes.c_float(1), ctypes.c_float(0)


def device(values):
    memory = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(values))) == 0
    assert cudart.cudaMemcpy(memory, values, ctypes.c_size_t(ctypes.sizeof(values)), 1) == 0
    return memory


a, b, c = device(A), device(B), device(C)
handle = ctypes.c_void_p()
assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
status = cublas.cublasSgemm_v2(handle, 0, 0, m, n, k, ctypes.byref(one), a, m, b, k, ctypes.byref(zero), c, m)
assert cudart.cudaMemcpy(C, c, ctypes.c_size_t(ctypes.sizeof(C)), 2) == 0
assert cublas.cublasDestroy_v2(handle) == 0
expected = [sum(A[i + l * m] * B[l + j * k] for l in range(k)) for j in range(n) for i in range(m)]
sys.exit(status != 0 or list(C) != expected)
