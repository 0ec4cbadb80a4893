"""Writes the fixtures of this directory with PyPI's gguf 0.19.0 and NumPy:

    pip install gguf==0.19.0 && python3 make.py

TYPE.bin is blocks of random bytes, whose f16 scales are random numbers of a
sensible size, and the f32 elements that gguf makes of them. TYPE_quantize.bin is
f32 elements and the blocks that gguf makes of those, for the types it can quantise.
"""

import numpy as np
from gguf import GGMLQuantizationType as T, quants

# name, type, elements and bytes of a block, where its f16 numbers are, blocks
types = [
    ("q8_0", T.Q8_0, 32, 34, [0], 8),
    ("q4_k", T.Q4_K, 256, 144, [0, 2], 2),
    ("q6_k", T.Q6_K, 256, 210, [208], 2),
    ("q2_k", T.Q2_K, 256, 84, [80, 82], 2),
    ("iq2_xxs", T.IQ2_XXS, 256, 66, [0], 3),
    ("mxfp4", T.MXFP4, 32, 17, [], 8),
    ("q4_0", T.Q4_0, 32, 18, [0], 4),
    ("q4_1", T.Q4_1, 32, 20, [0, 2], 4),
    ("q5_0", T.Q5_0, 32, 22, [0], 4),
    ("q5_1", T.Q5_1, 32, 24, [0, 2], 4),
    ("q3_k", T.Q3_K, 256, 110, [108], 2),
    ("q5_k", T.Q5_K, 256, 176, [0, 2], 2),
    ("iq3_xxs", T.IQ3_XXS, 256, 98, [0], 3),
    ("iq4_nl", T.IQ4_NL, 32, 18, [0], 4),
    ("iq4_xs", T.IQ4_XS, 256, 136, [0], 2),
]
rng = np.random.default_rng(1)
for name, t, elements, size, halves, n in types:
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in halves:
        b[:, at : at + 2] = (rng.standard_normal((n, 1)) / 16).astype("<f2").view(np.uint8)
    if name == "mxfp4":
        b[:, 0] = [0, 1, 2, 100, 127, 128, 130, 200]
    y = quants.dequantize(b, t)
    open(name + ".bin", "wb").write(b.tobytes() + y.astype("<f4").tobytes())
    if name in ("q8_0", "mxfp4", "q4_0", "q4_1", "q5_0", "q5_1"):
        x = (rng.standard_normal((6, elements)) * [[1], [1e-3], [100], [1e-6], [0], [3]]).astype(np.float32)
        x[4] = 0
        x[5] = np.round(x[5])
        open(name + "_quantize.bin", "wb").write(x.astype("<f4").tobytes() + quants.quantize(x, t).tobytes())
