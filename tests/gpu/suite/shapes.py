"""Products: transa, transb, m, n, k, batch, epilogue. Convolutions: direction, images, channels, size, filters, kernel,
stride."""


def nn(m, n, k, batch=1, epilogue="none"):
    return "N", "N", m, n, k, batch, epilogue


def shape(words):
    """As in reports."""
    _, _, m, n, k, batch, _ = words
    return f"{m}x{n}x{k}" + (f" b{batch}" if batch > 1 else "")


PRODUCTS = {
    **{f"{n}^3": nn(n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)},
    # Different k, so that a report has a row for each.
    **{f"{n}x{n}x{k} {ta}{tb}": (ta, tb, n, n, k, 1, "none") for n in (1024, 4096)
       for k, (ta, tb) in ((n + 64, "NT"), (n + 128, "TN"), (n + 192, "TT"))},
    **{f"4096x4096x{k} {name}": nn(4096, 4096, k, 1, name) for k, name in ((1088, "bias"), (1152, "relu"), (1216, "gelu"))},
    "64^3, 1024 times": nn(64, 64, 64, 1024), "512x512x64, 128 times": nn(512, 512, 64, 128), "1024^3, 16 times": nn(1024, 1024, 1024, 16),
    "BERT-L QKV": nn(4096, 3072, 1024), "BERT-L FFN1": nn(4096, 4096, 1024), "BERT-L FFN2": nn(4096, 1024, 4096),
    "LLM FFN": nn(4096, 16384, 4096), "weight gradient": ("N", "T", 4096, 16384, 8192, 1, "none"), "MLP": nn(512, 4096, 4096),
    "decode 1": nn(1, 4096, 4096), "decode 16": nn(16, 4096, 4096), "decode 64": nn(64, 4096, 4096),
    "skinny n 8": nn(8192, 8, 8192), "skinny k 16": nn(8192, 8192, 16), "long k": nn(256, 256, 65536),
}
SMALL = {"256^3": nn(256, 256, 256), "64^3, 16 times": nn(64, 64, 64, 16), "128x96x160 NT": ("N", "T", 128, 96, 160, 1, "none"),
         "128^3 gelu": nn(128, 128, 128, 1, "gelu")}
# x[M, N] times a weight of N x N, in column order: M, N, K of a product whose A is the weight.
WEIGHTS = {f"{n}, {m} rows": (n, m, n) for n in (1024, 2048, 4096, 8192) for m in (1, 4, 16, 64, 128, 256, 512, 1024, 4096)}
SMALL_WEIGHTS = {"512, 4 rows": (512, 4, 512), "512, 16 rows": (512, 16, 512)}
TRACED = {name: PRODUCTS[name] for name in ("256^3", "1024^3", "4096^3", "512x512x64, 128 times")}


def _spread():
    """100 products from 2^19 to 2^38 multiplications, of different proportions; no random numbers."""
    found = {}
    for i in range(100):
        work = (19 + 19 * (i * 37 % 100) / 99) / 3
        aspect, depth = 4 * (i * 61 % 100) / 99 - 2, 4 * (i * 83 % 100) / 99 - 2
        m, n, k = (max(8, round(2 ** (work + part) / 8) * 8) for part in (aspect - depth / 2, -aspect - depth / 2, depth))
        found[f"{m}x{n}x{k}"] = nn(m, n, k)
    return found


SPREAD = _spread()


def _convolution(name, channels, size, filters, kernel, stride, images=32):
    return {f"{name} {direction}": (direction, images, channels, size, filters, kernel, stride)
            for direction in ("forward", "data", "filter")}


CONVOLUTIONS = {}
for _row in (("ResNet-50 7x7 3-64 224/2", 3, 224, 64, 7, 2), ("ResNet-50 3x3 64 56", 64, 56, 64, 3, 1),
             ("ResNet-50 1x1 64-256 56", 64, 56, 256, 1, 1), ("ResNet-50 1x1 256-64 56", 256, 56, 64, 1, 1),
             ("ResNet-50 3x3 128 28", 128, 28, 128, 3, 1), ("ResNet-50 1x1 512-128 28", 512, 28, 128, 1, 1),
             ("ResNet-50 3x3 256 14", 256, 14, 256, 3, 1), ("ResNet-50 1x1 256-1024 14", 256, 14, 1024, 1, 1),
             ("ResNet-50 1x1 512-1024 28/2", 512, 28, 1024, 1, 2), ("ResNet-50 3x3 512 7", 512, 7, 512, 3, 1),
             ("ResNet-50 1x1 2048-512 7", 2048, 7, 512, 1, 1),
             ("U-Net 3x3 64 256", 64, 256, 64, 3, 1, 4), ("U-Net 3x3 128 128", 128, 128, 128, 3, 1, 4),
             ("U-Net 3x3 256 64", 256, 64, 256, 3, 1, 4), ("U-Net 3x3 512 32", 512, 32, 512, 3, 1, 4),
             ("U-Net 3x3 1024 16", 1024, 16, 1024, 3, 1, 4), ("U-Net 3x3 1024-512 32", 1024, 32, 512, 3, 1, 4),
             ("U-Net 3x3 128-64 256", 128, 256, 64, 3, 1, 4)):
    CONVOLUTIONS.update(_convolution(*_row))
SMALL_CONVOLUTIONS = _convolution("3x3 32 14", 32, 14, 32, 3, 1, 2)
