"""Writes numbers and what MLX quantises them to: pip install 'mlx[cpu]' && python make.py"""
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
rng = np.random.default_rng(1)
x = rng.normal(size=(8, 128)).astype(np.float32)
x[1] = np.abs(x[1])  # no negative numbers
x[2] = 0
x[3] = -np.abs(x[3]) - 3
x[4, :64] = 0.25  # one number
x[5] *= 1e-9
x[6] = np.round(x[6] * 3)
x[7, 0] = 1000
with open("affine.bin", "wb") as f:
    f.write(x.tobytes())
    for bits, group in (4, 32), (4, 64), (8, 64), (8, 128):
        for part in mx.quantize(mx.array(x), group, bits):
            f.write(np.array(part).tobytes())
