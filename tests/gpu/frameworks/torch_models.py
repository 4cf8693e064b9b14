"""BERT-large, GPT-2 and ResNet-50 in plain PyTorch with random weights: forward passes and training steps in fp32, TF32,
under torch.autocast, and in fp32 inside a region of autoamp. Prints a line of JSON for each model and pass. The models do
not know autoamp; only the loop that measures opens its region.

torch_models.py [--small] [--device cpu|cuda] [--seconds N]"""
import argparse
import contextlib
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

try:
    import autoamp
except ImportError:  # without the package: only the other modes
    autoamp = None


class Block(nn.Module):
    """A transformer layer: attention and two linear layers, normalised before (GPT-2) or after (BERT)."""

    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (each.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for each in self.qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-1, -2)) * (width // self.heads) ** -0.5
        if self.is_causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(mask, float("-inf"))
        found = torch.matmul(scores.softmax(-1), v)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        if self.is_causal:
            x = x + self.attend(self.first(x))
            return x + self.down(functional.gelu(self.up(self.second(x))))
        x = self.first(x + self.attend(x))
        return self.second(x + self.down(functional.gelu(self.up(x))))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads, words, length, is_causal):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, is_causal) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width

        def layer(*arguments, **keywords):
            return nn.Sequential(nn.Conv2d(*arguments, bias=False, **keywords), nn.BatchNorm2d(arguments[1]))

        self.one, self.three = layer(before, width, 1), layer(width, width, 3, stride=stride, padding=1)
        self.last = layer(width, after, 1)
        self.beside = layer(before, after, 1, stride=stride) if stride > 1 or before != after else nn.Identity()

    def forward(self, x):
        return functional.relu(self.last(functional.relu(self.three(functional.relu(self.one(x))))) + self.beside(x))


def resnet(counts):
    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, count in enumerate(counts):
        for i in range(count):
            layers.append(Bottleneck(before, 64 << stage, 2 if stage and not i else 1))
            before = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def cases(is_small):
    """Name, model, and inputs with the classes to learn."""
    layers, width, words, batch, length = (2, 64, 100, 2, 16) if is_small else (24, 1024, 30522, 16, 384)
    yield ("BERT-large", lambda: Transformer(layers, width, width // 64, words, length, False),
           lambda: torch.randint(words, (batch, length)), (batch, length, words))
    layers, width, words, batch, length = (2, 64, 100, 2, 16) if is_small else (12, 768, 50257, 8, 1024)
    yield ("GPT-2", lambda: Transformer(layers, width, width // 64, words, length, True),
           lambda: torch.randint(words, (batch, length)), (batch, length, words))
    batch, size = (2, 64) if is_small else (64, 224)
    yield ("ResNet-50", lambda: resnet((1, 1, 1, 1) if is_small else (3, 4, 6, 3)), lambda: torch.randn(batch, 3, size, size), (batch, 1000))


@contextlib.contextmanager
def settings(mode, region, device):
    """TF32 and autocast are PyTorch's own switches; with the last two modes they have PyTorch's defaults. A region for all
    threads reaches the backward pass."""
    torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
    torch.backends.cudnn.allow_tf32 = mode != "fp32"
    with contextlib.ExitStack() as stack:
        if mode == "autocast":
            stack.enter_context(torch.autocast(device, dtype=torch.bfloat16 if device == "cpu" else torch.float16))
        if mode == "autoamp":
            stack.enter_context(autoamp.autocast(name=region, threads="all"))
        yield


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=200)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch has no CUDA device")
        sys.exit(77)
    until = time.monotonic() + options.seconds
    modes = ["fp32", "tf32", "autocast"] + ["autoamp"] * bool(autoamp and autoamp.is_loaded())
    problems = []
    for name, make, inputs, answer in cases(options.small):
        torch.manual_seed(0)
        try:
            model, x = make().to(options.device), inputs().to(options.device)
            y = torch.randint(answer[-1], answer[:-1], device=options.device)
            for what in ("forward", "training"):
                if time.monotonic() > until:
                    raise RuntimeError("out of time")
                measure(f"{name} {what}", name, what, model, x, y, modes, options)
        except RuntimeError as error:  # such as too little memory; the other models may have enough
            problems.append(f"{name}: {error}")
        model = x = y = None
        if options.device == "cuda":
            torch.cuda.empty_cache()
    print("\n".join(problems), file=sys.stderr)
    sys.exit(bool(problems))


def measure(region, name, what, model, x, y, modes, options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # all modes see the same weights
    is_timed = options.device == "cuda"

    def forward():
        with torch.no_grad():
            return model(x)

    def train():
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = functional.cross_entropy(logits.float().flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return logits

    run = forward if what == "forward" else train
    model.train(what == "training")

    def once(mode, count):
        with settings(mode, region, options.device):
            if is_timed:
                torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(count):
                found = run()
            if is_timed:
                torch.cuda.synchronize()
            return (time.perf_counter() - begun) / count, found.detach().float()

    results = {mode: [once(mode, 1) for _ in range(2)][-1] for mode in modes}  # plans, caches, memory
    exact, last = results["fp32"][1], results[modes[-1]][1]
    count = max(1, round(0.3 / results["fp32"][0])) if is_timed else 1
    rounds = []
    for index in range(5 if is_timed else 1):
        start = index % len(modes)
        rounds.append({mode: once(mode, count)[0] if is_timed else None for mode in modes[start:] + modes[:start]})
    print(json.dumps({"model": name, "pass": what, "modes": modes, "rounds": rounds,
                      "difference": float((last - exact).norm() / exact.norm())}), flush=True)


main()
