"""PyTorch products and convolutions on the device compared with PyTorch on the CPU, with gradients: one line of JSON
for each, with the largest error relative to the largest element. PyTorch's own kernels are not emulated, so tensors are
made on the CPU."""
import json

import torch
from torch.nn import functional

torch.manual_seed(0)
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def check(name, function, *shapes, scale=1.0, runs=1):
    """The function and its gradients with respect to all operands."""
    operands = [torch.randn(*shape) * scale for shape in shapes]
    devices = {}
    for device in ("cpu", "cuda"):
        values = [operand.to(device).requires_grad_() for operand in operands]
        for _ in range(runs):
            result = function(*values)
        generator = torch.Generator().manual_seed(1)
        gradient = torch.randn(result.shape, generator=generator).to(device)
        found = [result, *torch.autograd.grad(result, values, gradient)]
        devices[device] = [value.detach().cpu() for value in found]
    report(name, devices["cuda"], devices["cpu"])


def report(name, found, expected):
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
    print(json.dumps({"case": name, "error": error}), flush=True)


def products():
    check("mm", torch.mm, (64, 96), (96, 48))
    check("mm, transposed", lambda a, b: torch.mm(a.t(), b), (96, 64), (96, 48))
    check("bmm", torch.bmm, (4, 32, 48), (4, 48, 40))
    check("linear", functional.linear, (64, 96), (48, 96))
    check("matmul, batched", torch.matmul, (2, 3, 32, 48), (2, 3, 48, 40))


def convolutions():
    check("conv1d", lambda x, w: functional.conv1d(x, w, padding=1), (4, 8, 40), (16, 8, 3), scale=.3)
    check("conv2d", lambda x, w: functional.conv2d(x, w, padding=1), (4, 8, 16, 16), (16, 8, 3, 3), scale=.3)
    check("conv2d, strided", lambda x, w: functional.conv2d(x, w, stride=2, padding=1), (4, 8, 16, 16), (16, 8, 3, 3), scale=.3)
    check("conv2d, dilated", lambda x, w: functional.conv2d(x, w, dilation=2), (4, 8, 16, 16), (16, 8, 3, 3), scale=.3)
    check("conv2d, grouped", lambda x, w: functional.conv2d(x, w, groups=2), (4, 8, 16, 16), (16, 4, 3, 3), scale=.3)
    check("conv3d", lambda x, w: functional.conv3d(x, w, padding=1), (2, 8, 6, 6, 6), (8, 8, 3, 3, 3), scale=.3)
    check("conv_transpose2d", lambda x, w: functional.conv_transpose2d(x, w, stride=2), (4, 8, 8, 8), (8, 16, 3, 3), scale=.3)


def captured():
    """A graph of a product and a convolution, launched three times."""
    values = [torch.randn(*shape) for shape in ((64, 96), (96, 48), (4, 8, 16, 16), (16, 8, 3, 3))]
    a, b, x, w = (value.cuda() for value in values)

    def work():
        return torch.mm(a, b), functional.conv2d(x, w)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = work()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    report("graph", [value.cpu() for value in found],
           [torch.mm(values[0], values[1]), functional.conv2d(values[2], values[3])])


def recurrent(kind):
    """A recurrent network with its gradients. cuDNN needs its weights in one block, but the module was made on the CPU
    without one."""
    module = kind(24, 32, num_layers=2)
    x = torch.randn(6, 4, 24)
    devices = {}
    for device in ("cpu", "cuda"):
        module = module.to(device)
        values = [x.to(device).requires_grad_(), *(value for value in module.parameters())]
        result = module(values[0])[0]
        gradient = torch.ones(result.shape).to(device)
        devices[device] = [value.detach().cpu() for value in (result, *torch.autograd.grad(result, values, gradient))]
    report(kind.__name__, devices["cuda"], devices["cpu"])


def scaler():
    """The update of a gradient scaler. Its other kernels are not emulated."""
    devices = {}
    for device in ("cpu", "cuda"):
        scale, tracker = torch.tensor([65536.0]).to(device), torch.tensor([0], dtype=torch.int32).to(device)
        devices[device] = []
        for found in (0, 1, 0, 0, 1, 0):
            torch._amp_update_scale_(scale, tracker, torch.tensor([float(found)]).to(device), 2.0, 0.5, 2)
            devices[device] += [scale.cpu().clone(), tracker.cpu() + 1.0]  # not zero: errors are relative
    report("scaler", devices["cuda"], devices["cpu"])


products()
convolutions()
torch.backends.cudnn.benchmark = True
check("conv2d, benchmark", lambda x, w: functional.conv2d(x, w, padding=1), (4, 8, 18, 18), (16, 8, 3, 3), scale=.3, runs=2)
torch.backends.cudnn.benchmark = False
captured()
for cell in (torch.nn.LSTM, torch.nn.GRU):
    recurrent(cell)
scaler()
