"""Layers of ONNX Runtime's CUDA provider compared with its CPU provider: one line of JSON for each, with the largest
error relative to the largest element. Convolution algorithms are searched for (benchmark mode), and graphs are
captured."""
import json

import numpy
import onnxruntime
from onnx import TensorProto, helper

RANDOM = numpy.random.default_rng(0)


def numbers(*shape, scale=1):
    return (RANDOM.standard_normal(shape) * scale).astype(numpy.float32)


def session(nodes, weights, inputs, output, options=None):
    """The model of these nodes; without options on the CPU."""
    described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "layers", described, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
                              [helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.tobytes(), raw=True)
                               for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    providers = ["CPUExecutionProvider"] if options is None else [("CUDAExecutionProvider", options)]
    made = onnxruntime.InferenceSession(model, providers=providers)
    assert options is None or "CUDAExecutionProvider" in made.get_providers()
    return made


def check(name, nodes, weights, inputs, **options):
    """Runs three times: a graph is captured at one of the runs and launched at the others."""
    expected = session(nodes, weights, inputs, None).run(None, inputs)[0]
    made = session(nodes, weights, inputs, None, {"use_tf32": "0", **options})
    binding = made.io_binding()
    values = {key: onnxruntime.OrtValue.ortvalue_from_numpy(value, "cuda", 0) for key, value in inputs.items()}
    result = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.zeros_like(expected), "cuda", 0)
    for key, value in values.items():
        binding.bind_ortvalue_input(key, value)
    binding.bind_ortvalue_output("y", result)
    for _ in range(3):
        made.run_with_iobinding(binding)
    error = float(abs(result.numpy() - expected).max() / abs(expected).max())
    print(json.dumps({"case": name, "error": error}), flush=True)


check("matmul", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": numbers(256, 128)}, {"x": numbers(64, 256)})
check("batched matmul", [helper.make_node("MatMul", ["x", "w"], ["y"])], {}, {"x": numbers(4, 64, 96), "w": numbers(4, 96, 64)})
check("gemm", [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], {"w": numbers(128, 256)}, {"x": numbers(64, 256)})
IMAGE = {"x": numbers(8, 16, 16, 16)}
CONVOLUTIONS = [helper.make_node("Conv", ["x", "w1", "b1"], ["one"], pads=[1, 1, 1, 1]),
                helper.make_node("Conv", ["one", "w2"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
WEIGHTS = {"w1": numbers(32, 16, 3, 3, scale=.1), "b1": numbers(32), "w2": numbers(16, 32, 3, 3, scale=.1)}
for search in ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"):
    for graph in "01":
        check(f"convolutions, {search}, graph {graph}", CONVOLUTIONS, WEIGHTS, IMAGE, cudnn_conv_algo_search=search,
              enable_cuda_graph=graph)
# The gradient of a convolution's data.
check("transposed convolution", [helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
      {"w": numbers(16, 32, 3, 3, scale=.1)}, IMAGE)
