"""Clusters float32 data with scikit-learn's KMeans. Prints the time, the inertia (computed in float64), and how well the clusters
agree with the groups that the data was made of. It has no knowledge of autoamp.
"""
import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

random = np.random.default_rng(0)
centers = random.standard_normal((128, 512), dtype=np.float32)
labels = random.integers(0, 128, 10000)
data = centers[labels] + 2 * random.standard_normal((10000, 512), dtype=np.float32)

begin = time.perf_counter()
model = KMeans(128, n_init=1, max_iter=30, tol=0, random_state=0).fit(data)
seconds = time.perf_counter() - begin

inertia = ((data.astype(float) - model.cluster_centers_.astype(float)[model.labels_]) ** 2).sum()
print(f"{seconds:.3f} s, {model.n_iter_} iterations, inertia {inertia:.6e},"
      f" adjusted Rand index {adjusted_rand_score(labels, model.labels_):.4f}")
