"""Writes the fixtures of this directory with PyPI's mlx 0.32.4 and NumPy:

    pip install 'mlx[cpu]' && python3 make.py

BITS_GROUP_TYPE.bin is what mlx.core.quantize makes of random weights [6,128], its words,
scales and biases; the weights that mlx.core.dequantize makes of these, as f32; rows
x f32[3,128]; and x times the transposed weights, f32[3,6].
"""

import mlx.core as mx
import numpy as np

rng = np.random.default_rng(7)
for bits, group, dtype in [(4, 64, "f32"), (8, 32, "f16"), (4, 128, "bf16"), (8, 64, "f32")]:
    t = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}[dtype]
    dense = mx.array(rng.standard_normal((6, 128)).astype(np.float32)).astype(t)
    w, s, b = mx.quantize(dense, group, bits)
    x = mx.array(rng.standard_normal((3, 128)).astype(np.float32))
    wide = mx.dequantize(w, s.astype(mx.float32), b.astype(mx.float32), group, bits)
    y = mx.quantized_matmul(x, w, s.astype(mx.float32), b.astype(mx.float32), True, group, bits)
    out = b""
    for a in (w, s, b, wide, x, y):
        if a.dtype == mx.bfloat16:
            a = a.view(mx.uint16)
        out += np.array(a).tobytes()
    open(f"{bits}_{group}_{dtype}.bin", "wb").write(out)
