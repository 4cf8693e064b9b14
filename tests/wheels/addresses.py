"""Products by the cuBLAS functions that a library of a wheel would call: one line of JSON for each. The emulated runtime
provides the memory, because the wheels do not work without a GPU."""
import ctypes
import json
import subprocess

import numpy

F32, COMPUTE, DEFAULT_ALGORITHM = 0, 68, -1  # CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
SIZE = 192
RANDOM = numpy.random.default_rng(0)


def base_of(path):
    with open("/proc/self/maps", encoding="ascii") as maps:
        return next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(str(path)))


def lines_of(*command):
    return [line.split() for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]


def local_functions(path):
    """Addresses of the functions in a loaded library that it does not export."""
    base = base_of(path)
    return {row[2]: base + int(row[0], 16) for row in lines_of("nm", path) if row[1:2] == ["t"]}


def bound_functions(path):
    """Addresses to which the loader has bound the references of a loaded library."""
    base = base_of(path)
    return {row[4].partition("@")[0]: ctypes.c_void_p.from_address(base + int(row[0], 16)).value
            for row in lines_of("readelf", "-rW", path) if row[2:3] == ["R_X86_64_JUMP_SLOT"] or row[2:3] == ["R_X86_64_GLOB_DAT"]}


class Caller:
    def __init__(self, addresses):
        self.addresses = addresses
        self.runtime = ctypes.CDLL("libcudart.so.13")
        self.matrices = [RANDOM.standard_normal((SIZE, SIZE)).astype(numpy.float32) for _ in "ABC"]
        self.handle, self.scalars = ctypes.c_void_p(), numpy.array([1, 0], numpy.float32)
        self.device = [self.copy(matrix) for matrix in self.matrices]
        self.call("cublasCreate_v2", ctypes.byref(self.handle))

    def copy(self, matrix):
        memory = ctypes.c_void_p()
        assert self.runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(matrix.nbytes)) == 0
        assert self.runtime.cudaMemcpy(memory, ctypes.c_void_p(matrix.ctypes.data), ctypes.c_size_t(matrix.nbytes), 1) == 0
        return memory

    def call(self, name, *arguments):
        assert ctypes.CFUNCTYPE(ctypes.c_int)(self.addresses[name])(*arguments) == 0, name

    def check(self, name):
        A, B, C = self.matrices
        assert self.runtime.cudaMemcpy(ctypes.c_void_p(C.ctypes.data), self.device[2], ctypes.c_size_t(C.nbytes), 2) == 0
        expected = B @ A  # in the order of rows
        print(json.dumps({"case": name, "error": float(abs(C - expected).max() / abs(expected).max())}), flush=True)
        C[:] = 0

    def products(self):
        one, zero = (ctypes.c_void_p(self.scalars[i:].ctypes.data) for i in range(2))
        A, B, C = self.device
        shape, stride = (self.handle, 0, 0, SIZE, SIZE, SIZE, one), ctypes.c_longlong(SIZE * SIZE)
        for name, *arguments in (("cublasSgemm_v2", A, SIZE, B, SIZE, zero, C, SIZE),
                                 ("cublasSgemmStridedBatched", A, SIZE, stride, B, SIZE, stride, zero, C, SIZE, stride, 1),
                                 ("cublasGemmEx", A, F32, SIZE, B, F32, SIZE, zero, C, F32, SIZE, COMPUTE, DEFAULT_ALGORITHM),
                                 ("cublasGemmStridedBatchedEx", A, F32, SIZE, stride, B, F32, SIZE, stride, zero, C, F32, SIZE, stride, 1, COMPUTE,
                                  DEFAULT_ALGORITHM)):
            self.call(name, *shape, *arguments)
            self.check(name)

    def matmul(self):
        handle, product, layout = (ctypes.c_void_p() for _ in range(3))
        one, zero = (ctypes.c_void_p(self.scalars[i:].ctypes.data) for i in range(2))
        A, B, C = self.device
        size = ctypes.c_size_t(SIZE)
        self.call("cublasLtCreate", ctypes.byref(handle))
        self.call("cublasLtMatmulDescCreate", ctypes.byref(product), COMPUTE, F32)
        self.call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), F32, size, size, size)
        self.call("cublasLtMatmul", handle, product, one, A, layout, B, layout, zero, C, layout, C, layout, None, None, ctypes.c_size_t(0),
                  None)
        self.check("cublasLtMatmul")
