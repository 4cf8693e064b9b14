"""The references of CuPy's cuBLAS module, which its own functions call after a query of the static CUDA runtime."""
import addresses
import cupy_backends.cuda.libs.cublas as module

addresses.Caller(addresses.bound_functions(module.__file__)).products()
