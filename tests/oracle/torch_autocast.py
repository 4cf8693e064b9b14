"""torch.autocast, run: fake CUDA tensors go through the AutocastCUDA kernels of the installed torch (any build, no
GPU), and a dispatch mode records the operators that arrive below them. Called by record.py. torch_cpu.py does the same
with tensors on the CPU."""
import contextlib
import functools

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

VERSION = torch.__version__
HOW = "run on fake CUDA tensors; listed: from the registrations for AutocastCUDA"
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
CELLS = ["O0", "O1"]
F = torch.nn.functional
# Names that are not ATen operators, and arguments of names for which the schema alone is not sufficient.
FUNCTIONS = {
    "__matmul__": torch.Tensor.__matmul__, "__pow__": torch.Tensor.__pow__,
    "__rpow__": lambda x: 2.0 ** x, "__rdiv__": lambda x: 2.0 / x, "__rtruediv__": lambda x: 2.0 / x,
    "multi_dot": lambda x, y: torch.linalg.multi_dot([x, y]), "cross_entropy": F.cross_entropy, "normalize": F.normalize,
    "softmin": lambda x: F.softmin(x, 0), "softmax": lambda x: torch.softmax(x, 0), "log_softmax": lambda x: torch.log_softmax(x, 0),
    "grid_sample": lambda x, y: F.grid_sample(x[None, None], y[None, :, :2, None].expand(1, 4, 2, 2), align_corners=False),
    "BCELoss": lambda x, y: torch.nn.BCELoss()(x, y), "add": lambda x, y: torch.add(x, y), "mul": lambda x, y: torch.mul(x, y),
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", x, y), "linalg_multi_dot": lambda x, y: torch.linalg.multi_dot([x, y]),
    "chain_matmul": lambda x, y: torch.chain_matmul(x, y), "cat": lambda x, y: torch.cat([x, y]),
    "mv": lambda x, y: torch.mv(x, y[0]), "dot": lambda x, y: torch.dot(x[0], y[0]), "vdot": lambda x, y: torch.vdot(x[0], y[0]),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]), "index_put": lambda x, y: torch.index_put(x, [torch.tensor([0])], y[0]),
    "local_response_norm": lambda x: F.local_response_norm(x[None], 2), "gelu": F.gelu,
    "instance_norm": lambda x: F.instance_norm(x[None]), "dropout": lambda x: F.dropout(x, 0.5),
    "batch_norm": lambda x, y: F.batch_norm(x, y[0], y[1], training=False),
}
MOVES = {"select", "unsqueeze", "view", "t", "transpose", "empty", "expand", "slice", "detach", "alias", "permute"}  # compute nothing
CELL_MODULES = {"LSTMCell": torch.nn.LSTMCell, "GRUCell": torch.nn.GRUCell, "RNNCell": torch.nn.RNNCell}


class Below(TorchDispatchMode):
    """The types of the first operator below autocast."""

    def __init__(self):
        super().__init__()
        self.casts, self.computes = [], None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        if name in ("aten::_to_copy", "aten::to"):
            self.casts.append(kwargs.get("dtype"))
        elif self.computes is None and name.partition("::")[0] == "aten" and name.partition("::")[2] not in MOVES:
            found = {leaf.dtype for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()}
            asked = next((leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.dtype)), None)
            if found or self.casts:  # the type to which autocast cast; otherwise the operands' type, or the dtype argument
                self.computes = {asked} if asked else {self.casts[0]} if self.casts else found
        return function(*args, **kwargs)


def by_schema(overload, tensors):
    """A call with something of the right type everywhere; tensors in turn from the two given."""
    count = 0

    def value(argument):
        nonlocal count
        kind = str(argument.type)
        if kind == "Tensor" or kind == "List[Tensor]":
            count += 1
            tensor = tensors[min(count, len(tensors)) - 1]
            return tensor if kind == "Tensor" else [tensor, tensors[-1]]
        if argument.has_default_value():
            return argument.default_value
        if kind.startswith("Optional"):
            return None
        return {"int": 1, "float": 1.0, "number": 1.0, "bool": False, "str": "fro"}.get(kind, [1, 1] if "int" in kind else [True])

    positional = {a.name: value(a) for a in overload._schema.arguments}
    return functools.partial(overload, **positional)


def registrations(device):
    return [r.removeprefix("aten::") for r in torch._C._dispatch_get_registrations_for_dispatch_key(f"Autocast{device.upper()}")]


def overloads(name, device):
    registered = registrations(device)
    own = [r for r in registered if r.partition(".")[0] == name]
    for each in own or [name]:
        base, _, overload = each.partition(".")
        packet = getattr(torch.ops.aten, base)
        yield getattr(packet, overload or ("default" if "default" in packet.overloads() else packet.overloads()[0]))


def calls(name, x, y, device):
    if name in CELL_MODULES:
        cell = CELL_MODULES[name](4, 4, device=device, dtype=y.dtype)
        return [lambda: cell(x)]
    if FUNCTIONS.get(name):
        count = FUNCTIONS[name].__code__.co_argcount if hasattr(FUNCTIONS[name], "__code__") and name not in ("cross_entropy", "normalize", "gelu") else None
        arguments = (x, y) if name in ("cross_entropy", "__matmul__", "__pow__") or count == 2 else (x,)
        return [functools.partial(FUNCTIONS[name], *arguments)]
    return [by_schema(overload, (x, y)) for overload in overloads(name, device)]


def observe(call, low):
    """(computes in, returns) of one call; h the low type, s float32, X refused by autocast, ? not seen."""
    letter = {low: "h", torch.float32: "s"}
    returned = None
    with Below() as below:
        try:
            returned = next((r for r in tree_leaves(call()) if isinstance(r, torch.Tensor) and r.is_floating_point()), None)
        except Exception as error:
            if "unsafe to autocast" in str(error):
                return "XX"
            if below.casts and below.computes is None:
                below.computes = {below.casts[0]}  # the wrapper had done its work
    computes = below.computes or set()
    letters = {letter.get(c, "?") for c in computes}
    widest = "s" if torch.float32 in computes else letters.pop() if len(letters) == 1 else "?"
    return (widest or "?") + (letter.get(returned.dtype, "?") if returned is not None else "?")


def category(seen, level, is_registered):
    if level == "O0":
        return "unlisted"
    (one, _), half, (mixed, _) = seen
    if one in "Xh":
        return {"X": "banned", "h": "lower_precision"}[one]
    if "s" in half and (is_registered or half[0] != "?"):
        return "fp32"
    return "promote" if is_registered and mixed == "s" else "unlisted"


NOT_RUN = {"_cudnn_rnn": "lower_precision"}  # accepts only a whole network on a GPU; its kernel casts to float16


def cell(level, dtype, names, device="cuda"):
    """{op: (category, result)} of every registered op and of those of `names` that torch has."""
    low, found = DTYPES[dtype], {}
    known = {name.partition(".")[0] for name in registrations(device)}
    for name in sorted(known | set(names)):
        with FakeTensorMode() if device == "cuda" else contextlib.nullcontext():
            x, y, z, w = (torch.ones(4, 4, device=device, dtype=t) for t in (torch.float32, torch.float32, low, low))
            torch.set_autocast_enabled(device, level == "O1")
            torch.set_autocast_dtype(device, low)
            try:
                rows = [[observe(call, low) for call in overload] for overload in
                        zip(*(calls(name, *pair, device) for pair in ((x, y), (z, w), (z, x))))]
            except AttributeError:
                continue  # torch has no such op
            finally:
                torch.set_autocast_enabled(device, False)
        seen = max(rows, key=lambda row: -"".join(row).count("?"))
        kinds = {category(row, level, name in known | {"grid_sample"}) for row in rows if "?" not in row[0]}
        # None ran to its end. A recorded cast counts nevertheless, first one of low-precision data.
        for is_seen in (lambda row: row[1] != "??" or row[2] != "??", lambda row: row[0] != "??"):
            kinds = kinds or {category(row, level, name in known) for row in rows if is_seen(row)}
        listed = NOT_RUN if device == "cuda" else {}
        if not kinds or name in listed:
            found[name] = (listed[name] if level == "O1" and name in listed else "unlisted", "listed")
        elif len(kinds) > 1:
            raise SystemExit(f"{name}: overloads of several categories: {kinds} {rows}")
        else:
            found[name] = (kinds.pop(), " ".join(seen))
    return found
