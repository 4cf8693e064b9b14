"""Results of torch.autocast("cpu", bfloat16) whose sums are exact in fp32: `python rounded.py torch_rounded.json` in a venv with torch
records them. No GPU is needed. The test `rounded` computes the same products with AUTOAMP_ROUND_OUTPUT=1.

The operands are bfloat16 numbers from the generator below. All sums have at most 24 bits, so their order does not matter, and a result
is that of one rounding."""
import datetime
import json
import struct
import sys

# Name, operation, sizes, largest integer of the operands, power of two of their unit.
CASES = [("mm.small", "mm", (4, 5, 6), 15, 0), ("mm.long", "mm", (7, 6, 64), 31, -3), ("mm.one", "mm", (3, 9, 1), 127, 5),
         ("mm.large", "mm", (5, 4, 16), 63, 55), ("mm.tiny", "mm", (5, 4, 16), 63, -60),
         ("bmm", "bmm", (4, 6, 24), 31, -1), ("addmm", "addmm", (6, 5, 20), 31, 0),
         ("conv2d", "conv2d", (3, 4, 8), 15, -2), ("conv2d.data", "conv2d_data", (3, 4, 8), 15, -2),
         ("conv2d.filter", "conv2d_filter", (3, 4, 8), 15, -2)]


class Random:
    """The generator of the test's program."""

    def __init__(self, seed):
        self.state = seed

    def integer(self, most):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % (2 * most + 1) - most


def values(seed, count, most, power):
    random = Random(seed)
    return [random.integer(most) * 2.0**power for _ in range(count)]


def bits(tensor):
    return "".join(struct.pack(">f", value).hex() for value in tensor.flatten().tolist())


def result(torch, operation, sizes, most, power):
    def tensor(seed, *shape):
        count = 1
        for size in shape:
            count *= size
        return torch.tensor(values(seed, count, most, power), dtype=torch.float32).reshape(shape)

    m, n, k = sizes
    with torch.autocast("cpu", torch.bfloat16):
        if operation == "mm":
            made = torch.mm(tensor(1, m, k), tensor(2, k, n))
        elif operation == "bmm":
            made = torch.bmm(tensor(1, 3, m, k), tensor(2, 3, k, n))
        elif operation == "addmm":
            made = torch.addmm(tensor(3, m, n), tensor(1, m, k), tensor(2, k, n))
        else:  # images of n x n, m channels, k filters
            x, w = tensor(1, 2, m, n, n), tensor(2, k, m, 3, 3)
            x.requires_grad_(), w.requires_grad_()
            made = torch.nn.functional.conv2d(x, w, padding=1)
            if operation != "conv2d":
                made.backward(tensor(3, 2, k, n, n).to(made.dtype))
                made = x.grad if operation == "conv2d_data" else w.grad
    return made.detach().float()


def main():
    import torch  # pylint: disable=import-outside-toplevel
    cases = {name: {"op": operation, "sizes": sizes, "most": most, "power": power,
                    "bits": bits(result(torch, operation, sizes, most, power))}
             for name, operation, sizes, most, power in CASES}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        rows = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
        file.write(f'{{"version": "{torch.__version__.split("+")[0]}", "date": "{datetime.date.today()}", "cases": {{\n  {rows}\n}}}}\n')


if __name__ == "__main__":
    main()
