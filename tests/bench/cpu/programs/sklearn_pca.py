"""Finds the 64 largest principal components of float32 data with scikit-learn's randomised PCA, three times. Prints the time, the
variance that the components explain, and their orthogonality. It has no knowledge of autoamp.
"""
import time

import numpy as np
from sklearn.decomposition import PCA

random = np.random.default_rng(0)
factors = random.standard_normal((8000, 64), dtype=np.float32) * np.linspace(10, 1, 64, dtype=np.float32)
noise = 30 * random.standard_normal((8000, 2000), dtype=np.float32)
data = factors @ random.standard_normal((64, 2000), dtype=np.float32) + noise

begin = time.perf_counter()
for _ in range(3):
    model = PCA(64, svd_solver="randomized", random_state=0).fit(data)
seconds = time.perf_counter() - begin

vectors, centred = model.components_.astype(float), data - data.mean(0)
explained = np.linalg.norm(centred.astype(float) @ vectors.T) ** 2 / np.linalg.norm(centred.astype(float)) ** 2
print(f"{seconds:.3f} s, explained variance {explained:.6f} (the model says {model.explained_variance_ratio_.sum():.6f}),"
      f" orthogonality {np.linalg.norm(vectors @ vectors.T - np.eye(64)):.1e}")
