"""A typical fp32 PyTorch program: Linear layers trained for a few steps, mm, bmm. It imports nothing else and does not
know whether autoamp is preloaded. Errors are relative to fp64 on the same device."""
import sys

import torch
from torch import nn

if not torch.cuda.is_available():
    print("no CUDA device for PyTorch")
    sys.exit(77)
torch.manual_seed(0)
device = torch.device("cuda")
print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}")


def error(result, exact):
    return ((result.double() - exact).norm() / exact.norm()).item()


a, b = (torch.randn(4096, 4096, device=device) for _ in range(2))
print(f"mm   4096^3         error {error(a @ b, a.double() @ b.double()):.1e}")
x, y = (torch.randn(32, 1024, 1024, device=device) for _ in range(2))
print(f"bmm  32 x 1024^3    error {error(torch.bmm(x, y), torch.bmm(x.double(), y.double())):.1e}")

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(4096, 1024, device=device)
labels = (inputs @ torch.randn(1024, 10, device=device)).argmax(1)
losses = []
for _ in range(30):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
sys.exit(not losses[-1] < 0.95 * losses[0])
