"""Evaluates 2048 tokens with model.gguf, and compares the logits with stored ones.

    python3 logits.py                  # stores them in reference.npy
    python3 logits.py TOLERANCE        # exit status 1 if their relative difference from reference.npy is larger
"""
import sys

import llama_cpp
import numpy as np

# Without f16_kv, llama.cpp keeps its key-value cache in fp32.
model = llama_cpp.Llama("model.gguf", n_ctx=2048, n_batch=2048, logits_all=True, f16_kv=False, verbose=False)
model.eval([1] + [259 + 37 * i % 1789 for i in range(2047)])
logits = np.array(model.scores[:2048])
if len(sys.argv) == 1:
    np.save("reference.npy", logits)
else:
    reference = np.load("reference.npy")
    difference = np.linalg.norm(logits - reference) / np.linalg.norm(reference)
    print(f"relative difference of the logits: {difference:.1e}")
    sys.exit(int(difference > float(sys.argv[1])))
