"""Trains a three-layer perceptron on handwritten digits with NumPy, and then classifies digits that it has not seen, a few
at a time, as a service does. Prints both times and the accuracy. It has no knowledge of autoamp.

usage: perceptron.py [DIGITS]   (default: digits.csv next to this file)
"""
import pathlib
import sys
import time

import numpy as np

HIDDEN, BATCH, EPOCHS, RATE = 2048, 1024, 4, np.float32(0.1)
FEW, ROUNDS = 8, 5  # digits at a time; how often all of them are classified


def load(path):
    """Images as float32 in [0, 1], and digits. One line: 64 pixels from 0 to 16, and the digit."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return table[:, :64] / 16, table[:, 64].astype(int)


def main(path):
    images, digits = load(path)
    random = np.random.default_rng(1)
    order = random.permutation(len(images))
    # Each training image appears shifted by small noise, so that an epoch has enough work to measure.
    train, test = np.tile(order[:-360], 6), order[-360:]
    noise = random.standard_normal((len(train), 64), dtype=np.float32) * np.float32(0.05)
    inputs, labels = images[train] + noise, np.eye(10, dtype=np.float32)[digits[train]]
    sizes = [64, HIDDEN, HIDDEN, 10]
    weights = [random.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / shape[0]))
               for shape in zip(sizes, sizes[1:])]

    def forward(batch):
        layers = [batch]
        for weight in weights[:-1]:
            layers.append(layers[-1] @ weight)
            np.maximum(layers[-1], 0, out=layers[-1])
        return layers, layers[-1] @ weights[-1]

    begin = time.perf_counter()
    for _ in range(EPOCHS):
        shuffled = random.permutation(len(train))
        for at in range(0, len(train), BATCH):
            chosen = shuffled[at:at + BATCH]
            layers, scores = forward(inputs[chosen])
            scores -= scores.max(axis=1, keepdims=True)
            chances = np.exp(scores)
            chances /= chances.sum(axis=1, keepdims=True)
            gradient = (chances - labels[chosen]) / np.float32(len(chosen))
            for i in reversed(range(len(weights))):
                change = layers[i].T @ gradient
                if i:
                    gradient = gradient @ weights[i].T
                    gradient *= layers[i] > 0
                change *= RATE
                weights[i] -= change
    training = time.perf_counter() - begin

    begin = time.perf_counter()
    for _ in range(ROUNDS):
        found = [forward(images[test[at:at + FEW]])[1].argmax(axis=1) for at in range(0, len(test), FEW)]
    inference = time.perf_counter() - begin
    accuracy = (np.concatenate(found) == digits[test]).mean()
    print(f"training {training:.2f} s, inference {inference:.2f} s, test accuracy {100 * accuracy:.1f} %")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [pathlib.Path(__file__).with_name("digits.csv")]))
