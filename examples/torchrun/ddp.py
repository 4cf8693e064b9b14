"""Data-parallel training in PyTorch with the regions and the scaler of autoamp. Start it with job.sh.

The products run in lower precision in the regions and return fp32. The gradients are exchanged in float16, which needs a
loss scale. Without a GPU, it trains on the CPU: DEVICE=cpu ./job.sh 2 ddp.py
"""
import os

import autoamp
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
rank = torch.distributed.get_rank()

torch.manual_seed(rank)  # each worker has other data; DDP sends the weights of rank 0 to all workers
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).to(device)
model = torch.nn.parallel.DistributedDataParallel(model)
model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = autoamp.GradScaler(device, growth_interval=20)
inputs = torch.randn(512, 256, device=device)
targets = torch.tanh(inputs[:, :1] + inputs[:, 1:2])

for step in range(60):
    optimizer.zero_grad()
    with autoamp.autocast(device, name="forward"):
        outputs = model(inputs)
    loss = torch.nn.functional.mse_loss(outputs, targets)  # outside of regions: fp32
    with autoamp.autocast(device, name="backward", threads="all"):  # the backward pass runs on other threads
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if rank == 0 and step % 20 == 19:
        print(f"step {step:2}  loss {loss.item():.4f}  scale {scaler.get_scale():g}", flush=True)
torch.distributed.barrier()
del model, optimizer, outputs, loss  # else PyTorch can abort: its reducer must not outlive the process group
torch.distributed.destroy_process_group()
