"""Trains a perceptron in float32 with PyTorch on one thread of the CPU. Prints the time, the last loss and the accuracy. It has no
knowledge of autoamp. With the argument autocast, PyTorch itself uses bfloat16.
"""
import sys
import time

import torch
from torch.nn import Linear, ReLU

torch.manual_seed(0)
torch.set_num_threads(1)
inputs = torch.randn(2048, 784)
labels = torch.tanh(inputs @ torch.randn(784, 10) / 5).argmax(1)
model = torch.nn.Sequential(Linear(784, 1024), ReLU(), Linear(1024, 1024), ReLU(), Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

begin = time.perf_counter()
for _ in range(6):
    for start in range(0, 2048, 256):
        with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in sys.argv):
            loss = torch.nn.functional.cross_entropy(model(inputs[start : start + 256]), labels[start : start + 256])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
seconds = time.perf_counter() - begin
with torch.no_grad():
    accuracy = (model(inputs).argmax(1) == labels).float().mean()
print(f"{seconds:.3f} s, loss {loss:.5f}, accuracy {accuracy:.4f}, PyTorch {torch.__version__}")
