"""lookup.py ctypes|cffi: cuBLAS from Python, one product, checked. 77: cffi is not installed."""
import ctypes
import sys

m, n, k = 3, 2, 4
A = (ctypes.c_float * (m * k))(*range(m * k))
B = (ctypes.c_float * (k * n))(*range(k * n))
C = (ctypes.c_float * (m * n))()
one, zero = ctypes.c_float(1), ctypes.c_float(0)
cudart = ctypes.CDLL("libcudart.so.13")


def device(values):
    memory = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(values))) == 0
    assert cudart.cudaMemcpy(memory, values, ctypes.c_size_t(ctypes.sizeof(values)), 1) == 0
    return memory


def by_ctypes(a, b, c):
    cublas = ctypes.CDLL("libcublas.so.13")
    handle = ctypes.c_void_p()
    assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
    status = cublas.cublasSgemm_v2(handle, 0, 0, m, n, k, ctypes.byref(one), a, m, b, k, ctypes.byref(zero), c, m)
    assert cublas.cublasDestroy_v2(handle) == 0
    return status


def by_cffi(a, b, c):
    try:
        import cffi
    except ImportError:
        sys.exit(77)
    ffi = cffi.FFI()
    ffi.cdef("int cublasCreate_v2(void **); int cublasDestroy_v2(void *);"
             "int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,"
             "const float *, float *, int);")
    cublas = ffi.dlopen("libcublas.so.13")
    handle = ffi.new("void **")
    assert cublas.cublasCreate_v2(handle) == 0
    matrices = [ffi.cast("float *", each.value) for each in (a, b, c)]
    scalars = [ffi.new("float *", each.value) for each in (one, zero)]
    status = cublas.cublasSgemm_v2(handle[0], 0, 0, m, n, k, scalars[0], matrices[0], m, matrices[1], k, scalars[1],
                                   matrices[2], m)
    assert cublas.cublasDestroy_v2(handle[0]) == 0
    return status


c = device(C)
status = {"ctypes": by_ctypes, "cffi": by_cffi}[sys.argv[1] if sys.argv[1:] else "ctypes"](device(A), device(B), c)
assert cudart.cudaMemcpy(C, c, ctypes.c_size_t(ctypes.sizeof(C)), 2) == 0
expected = [sum(A[i + l * m] * B[l + j * k] for l in range(k)) for j in range(n) for i in range(m)]
sys.exit(status != 0 or list(C) != expected)
