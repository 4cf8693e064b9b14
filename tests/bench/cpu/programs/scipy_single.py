"""Calls SciPy's own BLAS and LAPACK wrappers in float32: a product, and factorizations that must stay accurate. Prints the time of
the products, their relative error, and the orthogonality or the residual of each factorization. It has no knowledge of autoamp.
"""
import time

import numpy as np
import scipy.linalg as linalg

random = np.random.default_rng(0)
a, b = (np.asfortranarray(random.standard_normal((1024, 1024), dtype=np.float32)) for _ in range(2))

begin = time.perf_counter()
for _ in range(40):
    c = linalg.blas.sgemm(1, a, b)
seconds = time.perf_counter() - begin

exact, identity = a.astype(float) @ b.astype(float), np.eye(1024)
q = linalg.qr(a)[0].astype(float)
u, s, vt = (x.astype(float) for x in linalg.svd(a))
lu = linalg.lu_factor(a)
spd = a @ a.T + 1024 * np.eye(1024, dtype=np.float32)
low = linalg.cholesky(spd, lower=True).astype(float)
values, vectors = (x.astype(float) for x in linalg.eigh(spd))


def relative(x, y):
    return np.linalg.norm(x - y) / np.linalg.norm(y)


print(f"{seconds:.3f} s, sgemm {relative(c, exact):.1e}, qr {np.linalg.norm(q.T @ q - identity):.1e},"
      f" svd {relative(u * s @ vt, a):.1e}, lu {relative(a.astype(float) @ linalg.lu_solve(lu, b), b):.1e},"
      f" cholesky {relative(low @ low.T, spd):.1e}, eigh {relative(vectors * values @ vectors.T, spd):.1e}")
