"""Writes errors.json: numbers with the outliers that weights have, and the root mean square error of llama.cpp's blocks of each type.

    pip install numpy gguf llama-cpp-python && python errors.py
"""
import ctypes
import json
import os

import gguf
import llama_cpp
import numpy as np

folder = os.path.join(os.path.dirname(llama_cpp.__file__), "lib")
lib = ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
lib.ggml_quantize_chunk.restype = ctypes.c_size_t
lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
rng = np.random.default_rng(7)
x = np.concatenate([rng.standard_normal((3, 256)) * 0.03, rng.laplace(size=(3, 256)) * 0.03, rng.standard_t(3, size=(3, 256)) * 0.02, rng.standard_normal((1, 256)) * 0.01 + 0.05, rng.standard_normal((1, 256)) * 2e-4])
x = np.array([[float(f"{v:.4g}") for v in row] for row in x], np.float32)
even, errors = np.ones(256, np.float32), {}
for name in "Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ3_XXS IQ4_NL IQ4_XS MXFP4".split():
    t = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[t]
    blocks = np.zeros(x.size // elements * size, np.uint8)
    lib.ggml_quantize_chunk(int(t), x.ctypes.data, blocks.ctypes.data, 0, *x.shape, even.ctypes.data if name == "IQ2_XXS" else None)
    y = gguf.quants.dequantize(blocks.reshape(len(x), -1), t)
    errors[name.lower()] = [float(e) for e in np.sqrt(((y - x) ** 2).mean(1))]
json.dump(dict(rows=[[float(f"{v:.4g}") for v in row] for row in x], errors=errors), open("errors.json", "w"), separators=(",", ":"))
