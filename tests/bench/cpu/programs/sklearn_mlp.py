"""Trains scikit-learn's MLPClassifier in float32 on the handwritten digits that scikit-learn contains. Prints the time of the
training and the accuracy on digits that it has not seen. It has no knowledge of autoamp.
"""
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

images, digits = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
order = np.random.default_rng(0).permutation(len(images))
train, test = order[:-360], order[-360:]

model = MLPClassifier((1024, 1024), batch_size=256, max_iter=8, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it says that 8 epochs do not converge
    begin = time.perf_counter()
    model.fit(images[train], digits[train])
    seconds = time.perf_counter() - begin
print(f"{seconds:.3f} s, test accuracy {model.score(images[test], digits[test]):.4f}, loss {model.loss_:.5f}")
