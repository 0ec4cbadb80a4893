"""Writes python.gguf with llama.cpp's own library.

    pip install gguf && python make.py
"""
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFWriter, quants

w = GGUFWriter("python.gguf", "olmoe")
w.add_block_count(2)
w.add_rope_freq_base(10000.5)
w.add_name("été")
w.add_token_list(["a", "b", "", "é"])
w.add_token_scores([0.5, -1.0, 0.0, 2.0])
w.add_token_types([1, 2, 3, 4])
w.add_bool("olmoe.expert_weights_norm", True)
x = (np.arange(2 * 3 * 64, dtype=np.float32) - 100).reshape(2, 3, 64) / 8
w.add_tensor("f32", x[0, :, :5].copy())
w.add_tensor("f16", x[0, 0, :3].astype(np.float16))
for name, q in {"q8_0": Q.Q8_0, "q4_0": Q.Q4_0, "bf16": Q.BF16}.items():
    w.add_tensor(name, quants.quantize(x, q), raw_dtype=q)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
