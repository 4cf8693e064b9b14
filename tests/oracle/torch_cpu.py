"""torch.autocast("cpu"), run: tensors on the CPU go through the AutocastCPU kernels of the installed torch. Called by
record.py."""
import functools

import torch_autocast

VERSION = torch_autocast.VERSION
HOW = "run on CPU tensors; listed: from the registrations for AutocastCPU"
CELLS = ["O0", "O1"]
cell = functools.partial(torch_autocast.cell, device="cpu")
