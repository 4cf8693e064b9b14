"""Searches the nearest ten neighbours of float32 vectors with Faiss on one thread, without an approximation. Prints the time and how
many of the neighbours are those of float64. It has no knowledge of autoamp.
"""
import time

import faiss
import numpy as np

faiss.omp_set_num_threads(1)
random = np.random.default_rng(0)
data, queries = (random.standard_normal((count, 256), dtype=np.float32) for count in (20000, 2000))
index = faiss.IndexFlatL2(256)
index.add(data)

begin = time.perf_counter()
neighbours = index.search(queries, 10)[1]
seconds = time.perf_counter() - begin

wide = data.astype(float)
exact = np.argpartition((wide**2).sum(1) - 2 * queries.astype(float) @ wide.T, 10)[:, :10]
right = sum(len(np.intersect1d(*pair)) for pair in zip(neighbours, exact))
print(f"{seconds:.3f} s, {right} of {exact.size} neighbours, Faiss {faiss.__version__}")
