"""The arguments of autocast: calls that torch.autocast and autoamp.autocast run in the same way. `torch_arguments.json` has
torch's results: `python arguments.py torch_arguments.json` in a venv with torch records them. No GPU is needed."""
import datetime
import json
import sys
import warnings


class Torch:
    """Data types by their texts, for code without torch."""

    class Dtype:
        def __init__(self, text):
            self.text = text

        def __str__(self):
            return self.text

    def __getattr__(self, name):
        return self.Dtype("torch." + name)


# Arguments as Python source; `torch` has the data types.
CASES = [f"'{device}'" for device in ("cuda", "cuda:0", "cuda:1", "cpu", "cpu:0", "xpu", "mps", "hpu", "xla", "ipu", "mtia", "maia", "meta",
                                      "vulkan", "cdua", "", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:007", "cuda:0:1")]
CASES += [f"'{device}', torch.{dtype}{more}" for device in ("cuda", "cuda:0", "cpu", "xpu")
          for dtype in ("float16", "bfloat16", "float32", "float64", "int8", "float8_e4m3fn") for more in ("", ", False", ", True, False")]
CASES += [f"'{device}', {keyword}={value}" for device in ("cuda", "cpu") for keyword in ("enabled", "cache_enabled", "dtype")
          for value in ("True", "False", "1", "0", "'yes'", "1.0", "[]") if (keyword, value) != ("dtype", "'yes'")]
CASES += ["0", "b'cuda'", "device_type='cuda'", "device_type='cuda', dtype=torch.bfloat16, enabled=True, cache_enabled=True",
          "'cuda', None, True, True, 1", "'cuda', foo=1", "'cuda', None, False, None", "enabled=True, device_type='cpu'"]


def outcome(case, torch, autocast, is_enabled, dtype_of):
    """The type of the error, or the state inside the region and the number of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            arguments, keywords = eval(f"(lambda *a, **k: (a, k))({case})", {"torch": torch})  # pylint: disable=eval-used
            with autocast(*arguments, **keywords):
                device = str(arguments[0] if arguments else keywords["device_type"]).split(":", maxsplit=1)[0]
                state = [is_enabled(device), str(dtype_of(device)).rsplit(".", maxsplit=1)[-1]]
        except Exception as error:  # pylint: disable=broad-except
            return type(error).__name__
    return state + [len(caught)]


def wanted(case, answers):
    """autoamp's answer: torch's. Only for the device "cuda", torch runs products in fp32 without disabling autocast."""
    return answers[case.replace("'cuda', torch.", "'cuda:0', torch.")]


if __name__ == "__main__":
    import torch as real

    # As on a machine with a GPU.
    real.cuda.amp.common.amp_definitely_not_available = lambda: False
    real.cuda.is_bf16_supported = lambda: True

    def answer(case):
        found = outcome(case, real, real.autocast, real.is_autocast_enabled, real.get_autocast_dtype)
        for device in ("cuda", "cpu"):  # __enter__ that fails halfway leaves its changes
            real.set_autocast_enabled(device, False)
        real.set_autocast_dtype("cuda", real.float16)
        real.set_autocast_dtype("cpu", real.bfloat16)
        real.set_autocast_cache_enabled(True)
        return found

    with open(sys.argv[1], "w", encoding="utf-8") as file:
        answers = ",\n".join(f"  {json.dumps(case)}: {json.dumps(answer(case))}" for case in CASES)
        file.write(f'{{"version": "{real.__version__.partition("+")[0]}", "date": "{datetime.date.today().isoformat()}", "answers": {{\n'
                   f"{answers}\n}}}}\n")
