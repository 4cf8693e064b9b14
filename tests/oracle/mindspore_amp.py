"""MindSpore's auto_mixed_precision, run on the CPU. At auto its C++ code is queried for every Primitive. At O1, O2 and
O3 each Cell and Primitive is put into a network that is then rewritten. The casts that were written (O1) or the type
that the Cell was given (O2, O3) are read. Called by record.py."""
import os

os.environ.setdefault("GLOG_v", "4")
import mindspore
from mindspore import amp, nn, ops
from mindspore._c_expression import amp as strategy
from mindspore.ops import auto_generate
from mindspore.train import amp as train

VERSION = mindspore.__version__
HOW = "run on the CPU: the rewriting (O1), to_float (O2, O3), the C++ strategy (auto); listed: from its lists"
CELLS = ["O0", "O1", "O2", "O3", "auto"]
DTYPES = {"float16": mindspore.float16, "bfloat16": mindspore.bfloat16}
ARGUMENTS = {  # of Cells and Primitives that need some
    "Conv1d": (1, 1, 1), "Conv2d": (1, 1, 1), "Conv3d": (1, 1, 1), "Conv1dTranspose": (1, 1, 1), "Conv2dTranspose": (1, 1, 1),
    "Conv3dTranspose": (1, 1, 1), "Dense": (4, 4), "LSTMCell": (4, 4), "RNNCell": (4, 4), "GRUCell": (4, 4), "LSTM": (4, 4),
    "BatchNorm1d": (4,), "BatchNorm2d": (4,), "BatchNorm3d": (4,), "LayerNorm": ((4,),), "GroupNorm": (1, 4), "Conv2D": (1, 1),
    "Conv3D": (1, 1), "Conv2DTranspose": (1, 1), "Conv3DTranspose": (1, 1), "Conv2DBackpropInput": (1, 1), "LRN": (3,),
}


def names_of(things):
    return {thing.__name__ for thing in things}


def listed(level, name):
    lists = {"O1": [("lower_precision", names_of(amp.get_white_list()))], "O2": [("fp32", names_of(amp.get_black_list()))],
             "auto": [("lower_precision", names_of(train.AMP_AUTO_WHITE_LIST)), ("fp32", names_of(train.AMP_AUTO_BLACK_LIST)),
                      ("promote", {prim for prim, _ in strategy.AutoPromoteList})]}
    return next((category for category, names in lists.get(level, []) if name in names), "unlisted")


def make(name):
    """The Cell or Primitive of that name; None: it does not exist, or needs arguments that are not known here."""
    known = {each.__name__: each for each in train.AMP_AUTO_WHITE_LIST + train.AMP_AUTO_BLACK_LIST + amp.get_white_list() + amp.get_black_list()}
    for each in (known.get(name), *(getattr(place, name, None) for place in (nn, ops, auto_generate))):
        if isinstance(each, type):
            try:
                return each(*ARGUMENTS.get(name, ()))
            except (TypeError, ValueError):
                pass
    return None


class Network(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def construct(self, x):
        y = self.inner(x)
        return y


class Binary(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def construct(self, x):
        y = self.inner(x, x)
        return y


def at_auto(dtype, name):
    lists = [[(prim.__name__, []) for prim in each] for each in (train.AMP_AUTO_WHITE_LIST, train.AMP_AUTO_BLACK_LIST)]
    asked = strategy.get_prim_cast_strategy_info(strategy.create_amp_strategy(strategy.AmpLevel.AmpAuto, DTYPES[dtype], *lists), name)
    kind = {"AmpDoCast": "lower_precision" if asked.dtype == DTYPES[dtype] else "fp32", "AmpAutoPromote": "promote",
            "AmpIgnore": "unlisted"}[asked.strategy.name]
    return kind, {"lower_precision": "h", "fp32": "s", "promote": "s", "unlisted": "s"}[kind]


def rewritten(level, dtype, name):
    """The type of the inner Cell or Primitive after the rewriting: h the low one, s float32, None not seen."""
    inner = make(name)
    if inner is None:
        return None
    if level == "O1":
        rewrite = mindspore.rewrite
        rewrite.common.namespace._ms_cells_to_subtree = True  # as auto_mixed_precision sets it meanwhile
        for network in (Network, Binary):
            try:
                tree = rewrite.SymbolTree.create(network(inner))
                break
            except TypeError:
                pass
        else:
            return None  # its source cannot be read
        train._insert_cast_for_operators(tree, DTYPES[dtype], False, white_list=amp.get_white_list(), black_list=None)
        return "h" if any(node.get_instance_type() is train._amp_cast_op for node in tree.nodes(all_nodes=True)) else "s"
    network = amp.auto_mixed_precision(Network(inner), level, DTYPES[dtype])
    if not isinstance(inner, nn.Cell):
        return None  # runs in its Cell's type
    flags = inner.get_flags()
    return "h" if flags.get("fp16") or flags.get("bf16") else "s"


def cell(level, dtype, names):
    universe = set(names) | names_of(amp.get_white_list() + amp.get_black_list() + train.AMP_AUTO_WHITE_LIST + train.AMP_AUTO_BLACK_LIST)
    universe |= {prim for prim, _ in strategy.AutoPromoteList}
    found = {}
    for name in sorted(universe):
        category, seen = listed(level, name), None
        if level == "auto":
            kind, seen = at_auto(dtype, name)
            if kind != category:
                raise SystemExit(f"auto {name}: listed {category}, run {kind}")
        elif level != "O0":
            seen = rewritten(level, dtype, name)
            if level == "O1" and seen and (seen == "h") != (category == "lower_precision"):
                raise SystemExit(f"O1 {name}: listed {category}, run {seen}")
        found[name] = (category, seen or "listed")
    return found
