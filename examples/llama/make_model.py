"""Writes model.gguf: a model with the architecture of Llama and random fp32 weights, 220 MB. It stands for a model that you have.

    pip install gguf numpy
    python3 make_model.py
"""
import gguf
import numpy as np

WIDTH, FORWARD, HEADS, LAYERS, VOCABULARY, CONTEXT = 1024, 2816, 16, 4, 2048, 2048
SHARPNESS = 2  # of the attention

random = np.random.default_rng(1)
writer = gguf.GGUFWriter("model.gguf", "llama")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_feed_forward_length(FORWARD)
writer.add_block_count(LAYERS)
writer.add_head_count(HEADS)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_file_type(0)  # fp32
writer.add_tokenizer_model("llama")
writer.add_token_list([b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)] + [b"word%d" % i for i in range(VOCABULARY - 259)])
writer.add_token_scores([0.0] * VOCABULARY)
writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))


def add(name, rows, columns, size=1):
    weights = random.standard_normal((rows, columns), dtype=np.float32)
    writer.add_tensor(name, weights * np.float32(size / np.sqrt(columns)))


def add_norm(name):
    writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))


add("token_embd.weight", VOCABULARY, WIDTH)
for layer in range(LAYERS):
    for name, size in (("attn_q", SHARPNESS), ("attn_k", SHARPNESS), ("attn_v", 1), ("attn_output", 1)):
        add(f"blk.{layer}.{name}.weight", WIDTH, WIDTH, size)
    add(f"blk.{layer}.ffn_gate.weight", FORWARD, WIDTH)
    add(f"blk.{layer}.ffn_up.weight", FORWARD, WIDTH)
    add(f"blk.{layer}.ffn_down.weight", WIDTH, FORWARD)
    add_norm(f"blk.{layer}.attn_norm.weight")
    add_norm(f"blk.{layer}.ffn_norm.weight")
add_norm("output_norm.weight")
add("output.weight", VOCABULARY, WIDTH)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
