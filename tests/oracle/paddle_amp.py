"""paddle.amp, run: in static mode auto_cast writes its casts into a program (PIR), on any machine; the program is read,
not executed. Ops that no public function makes are taken from the package's own lists. Called by record.py."""
import paddle
from paddle.amp.amp_lists import black_list, white_list
from paddle.nn import functional as F

VERSION = paddle.__version__
HOW = "run as a static program, which is not executed; listed: from paddle.amp.amp_lists"
CELLS = ["O0", "O1", "O2", "O2 use_promote=0", "OD"]
HELPERS = {"pd_op.data", "pd_op.cast", "pd_op.full", "pd_op.full_int_array", "pd_op.reshape", "pd_op.unsqueeze", "pd_op.squeeze",
           "pd_op.transpose", "builtin.combine", "pd_op.full_like"}


def images(x):
    return paddle.reshape(x, [1, 1, 4, 4])


def kernel(y):
    return paddle.reshape(y, [1, 1, 4, 4])


def labels(y):
    return paddle.full([4, 1], 0, "int64")


# Operator, as the lists spell it: a call of two 4x4 matrices that makes it, and its name in a program.
CALLS = {
    "matmul_v2": (paddle.matmul, "matmul"), "matmul": (paddle.matmul, "matmul"), "bmm": (lambda x, y: paddle.bmm(x[None], y[None]), "bmm"),
    "mv": (lambda x, y: paddle.mv(x, y[0]), "mv"), "dot": (paddle.dot, "dot"),
    "einsum": (lambda x, y: paddle.einsum("ij,jk->ik", x, y), "matmul"),
    "linear_v2": (F.linear, "matmul"), "outer": (lambda x, y: paddle.outer(x[0], y[0]), "multiply"),
    "conv2d": (lambda x, y: F.conv2d(images(x), kernel(y)), "conv2d"),
    "conv2d_transpose": (lambda x, y: F.conv2d_transpose(images(x), kernel(y)), "conv2d_transpose"),
    "depthwise_conv2d": (lambda x, y: F.conv2d(paddle.expand(images(x), [1, 2, 4, 4]), paddle.expand(kernel(y), [2, 1, 4, 4]), groups=2), "depthwise_conv2d"),
    "conv3d": (lambda x, y: F.conv3d(images(x)[None], kernel(y)[None]), "conv3d"),
    "max_pool2d_with_index": (lambda x, y: F.max_pool2d(images(x), 2, return_mask=True), "max_pool2d_with_index"),
    "pool2d": (lambda x, y: F.avg_pool2d(images(x), 2), "pool2d"),
    "tan": (lambda x, y: paddle.tan(x), "tan"), "acos": (lambda x, y: paddle.acos(x), "acos"), "asin": (lambda x, y: paddle.asin(x), "asin"),
    "sinh": (lambda x, y: paddle.sinh(x), "sinh"), "cosh": (lambda x, y: paddle.cosh(x), "cosh"), "atanh": (lambda x, y: paddle.atanh(x), "atanh"),
    "erfinv": (lambda x, y: paddle.erfinv(x), "erfinv"), "exp": (lambda x, y: paddle.exp(x), "exp"), "expm1": (lambda x, y: paddle.expm1(x), "expm1"),
    "log": (lambda x, y: paddle.log(x), "log"), "log10": (lambda x, y: paddle.log10(x), "log10"), "log2": (lambda x, y: paddle.log2(x), "log2"),
    "reciprocal": (lambda x, y: paddle.reciprocal(x), "reciprocal"), "rsqrt": (lambda x, y: paddle.rsqrt(x), "rsqrt"),
    "pow": (lambda x, y: paddle.pow(x, 2.0), "pow"), "square": (lambda x, y: paddle.square(x), "square"),
    "reduce_sum": (lambda x, y: paddle.sum(x), "sum"), "reduce_mean": (lambda x, y: paddle.mean(x), "mean"),
    "mean": (lambda x, y: paddle.mean(x), "mean"), "reduce_prod": (lambda x, y: paddle.prod(x), "prod"),
    "cumprod": (lambda x, y: paddle.cumprod(x, 0), "cumprod"), "cumsum": (lambda x, y: paddle.cumsum(x), "cumsum"),
    "dist": (paddle.dist, "dist"), "frobenius_norm": (lambda x, y: paddle.linalg.norm(x, "fro"), "frobenius_norm"),
    "renorm": (lambda x, y: paddle.renorm(x, 2.0, 0, 1.0), "renorm"), "group_norm": (lambda x, y: F.group_norm(images(x), 1), "group_norm"),
    "layer_norm": (lambda x, y: F.layer_norm(x, [4]), "layer_norm"), "softmax": (lambda x, y: F.softmax(x), "softmax"),
    "softplus": (lambda x, y: F.softplus(x), "softplus"), "log_softmax": (lambda x, y: F.log_softmax(x), "log_softmax"),
    "softmax_with_cross_entropy": (lambda x, y: F.softmax_with_cross_entropy(x, labels(y)), "cross_entropy_with_softmax"),
    "sigmoid_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, "sigmoid_cross_entropy_with_logits"),
    "nll_loss": (lambda x, y: F.nll_loss(x, labels(y)[:, 0]), "nll_loss"), "huber_loss": (F.smooth_l1_loss, "huber_loss"),
    "log_loss": (lambda x, y: F.log_loss(x[:, :1], y[:, :1]), "log_loss"),
    "bilinear_interp_v2": (lambda x, y: F.interpolate(images(x), size=[8, 8], mode="bilinear"), "bilinear_interp"),
    "nearest_interp_v2": (lambda x, y: F.interpolate(images(x), size=[8, 8], mode="nearest"), "nearest_interp"),
    "bicubic_interp_v2": (lambda x, y: F.interpolate(images(x), size=[8, 8], mode="bicubic"), "bicubic_interp"),
    "linear_interp_v2": (lambda x, y: F.interpolate(x[None], size=[8], mode="linear", data_format="NCW"), "linear_interp"),
    "trilinear_interp_v2": (lambda x, y: F.interpolate(images(x)[None], size=[2, 8, 8], mode="trilinear", data_format="NCDHW"), "trilinear_interp"),
    "lookup_table_v2": (lambda x, y: F.embedding(paddle.full([1], 0, "int64"), x), "embedding"),
    "scatter": (lambda x, y: paddle.scatter(x, paddle.full([1], 0, "int64"), y[:1]), "scatter"),
    "elementwise_add": (paddle.add, "add"), "elementwise_mul": (paddle.multiply, "multiply"), "scale": (lambda x, y: paddle.scale(x, 2.0), "scale"),
    "relu": (lambda x, y: F.relu(x), "relu"), "sigmoid": (lambda x, y: F.sigmoid(x), "sigmoid"), "tanh": (lambda x, y: F.tanh(x), "tanh"),
    "elu": (lambda x, y: F.elu(x), "elu"), "silu": (lambda x, y: F.silu(x), "silu"), "gelu": (lambda x, y: F.gelu(x), "gelu"),
    "erf": (lambda x, y: paddle.erf(x), "erf"), "sqrt": (lambda x, y: paddle.sqrt(x), "sqrt"), "sin": (lambda x, y: paddle.sin(x), "sin"),
    "cos": (lambda x, y: paddle.cos(x), "cos"), "atan2": (paddle.atan2, "atan2"), "concat": (lambda x, y: paddle.concat([x, y]), "concat"),
    "reduce_max": (lambda x, y: paddle.max(x), "max"), "reduce_min": (lambda x, y: paddle.min(x), "min"), "dropout": (lambda x, y: F.dropout(x), "dropout"),
    "batch_norm": (lambda x, y: F.batch_norm(images(x), y[0, :1], y[1, :1], training=False), "batch_norm"),
    "instance_norm": (lambda x, y: F.instance_norm(images(x)), "instance_norm"), "lrn": (lambda x, y: F.local_response_norm(images(x), 3), None),
    "grid_sample": (lambda x, y: F.grid_sample(images(x), paddle.reshape(y, [1, 2, 4, 2])), "grid_sample"),
    "affine_grid": (lambda x, y: F.affine_grid(paddle.reshape(y[:3, :2], [1, 2, 3]), [1, 1, 4, 4]), "affine_grid"),
    "triangular_solve": (paddle.linalg.triangular_solve, "triangular_solve"), "solve": (paddle.linalg.solve, "solve"),
    "inverse": (lambda x, y: paddle.linalg.inv(x), "inverse"),
}


def dtypes(values):
    for value in values:
        if value.initialized() and value.is_dense_tensor_type():
            yield str(value.dtype).lower().rpartition(".")[2]
        elif value.initialized():  # several in one
            yield from dtypes(value.get_defining_op().operands_source())


def observe(call, name, types, options, low):
    """Type that the operator receives and the type that it returns: h the low one, s float32, ? not seen."""
    letters = {"float32": "s", low: "h"}
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x, y = (paddle.static.data(n, [4, 4], t) for n, t in zip("xy", types))
        try:
            with paddle.amp.auto_cast(options["level"] != "O0", dtype=low, **options):
                call(x, y)
        except Exception:
            pass  # no CPU kernel of that type: the casts are there
    ops = program.global_block().ops
    for op in ops:
        if op.name() == "pd_op." + str(name):
            got = [letters[each] for each in dtypes(op.operands_source()) if each in letters]
            returned = [letters.get(each, "?") for each in dtypes([op.result(0)])]
            return (got or "?")[0] + (returned or "?")[0]
    casts = [op for op in ops if op.name() == "pd_op.cast"]
    return letters.get(next(dtypes([casts[-1].result(0)])), "?") + "?" if casts else "??"


def listed(level, dtype, name):
    for category, lists in (("lower_precision", white_list()), ("fp32", black_list())):
        if level != "O0" and name in lists[dtype][level]:
            return category
    return "unlisted"


def cell(level, dtype, names):
    paddle.enable_static()
    options = {"level": level.split()[0], "use_promote": not level.endswith("=0")}
    universe = set(names) | {name for lists in (white_list(), black_list()) for of in lists.values() for each in of.values() for name in each}
    found = {}
    for name in sorted(universe):
        seen = []
        if name in CALLS:
            call, op = CALLS[name]
            seen = [observe(call, op, types, options, dtype) for types in (("float32",) * 2, (dtype,) * 2, (dtype, "float32"))]
        found[name] = (listed(options["level"], dtype, name), " ".join(seen) if seen and seen[0][0] != "?" else "listed")
    return found
