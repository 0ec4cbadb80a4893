"""Writes rope_scaling.json: frequencies and magnitudes of transformers' RoPE scalings.

Run: pip install transformers numpy; python rope_scaling.py > rope_scaling.json

The functions are transformers' own. They compute in f32 with PyTorch; here they run in f64,
with NumPy in PyTorch's place.
"""

import json
import types

import numpy as np
import transformers
from transformers import modeling_rope_utils as rope


class Tensor(np.ndarray):
    def to(self, *_, **__):
        return self.astype(np.float64).view(Tensor)

    float = to


def tensor(x, *_, **__):
    return np.asarray(x, np.float64).view(Tensor)


rope.torch = types.SimpleNamespace(
    arange=lambda *a, **_: tensor(np.arange(*a)),
    tensor=tensor,
    clamp=np.clip,
    where=np.where,
    Tensor=Tensor,
    int64=None,
    float=None,
    float32=None,
)

cases = []


def case(name, kind, theta, width, seq_len=None, longest=4096, original=None, **parameters):
    config = types.SimpleNamespace(
        head_dim=width, hidden_size=width, num_attention_heads=1, max_position_embeddings=longest, standardize_rope_params=lambda: None
    )
    config.rope_parameters = {"rope_theta": theta, **parameters}
    if original:
        config.rope_parameters["original_max_position_embeddings"] = original
    f, m = rope.ROPE_INIT_FUNCTIONS[kind](config, None, seq_len=seq_len)
    cases.append({"name": name, "frequencies": [float(x) for x in f], "magnitude": float(m)})


case("linear", "linear", 1e4, 16, factor=4.0)
case("ntk", "dynamic", 1e4, 16, seq_len=10000, factor=2.0)
case("ntk short", "dynamic", 5e5, 8, seq_len=100, factor=2.0)
case("yarn gpt-oss", "yarn", 150000.0, 64, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original=4096)
case("yarn deepseek", "yarn", 1e4, 64, factor=40.0, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=1.0, original=4096)
case("yarn", "yarn", 1e6, 128, factor=4.0, original=32768)
case("yarn given", "yarn", 1e4, 12, factor=8.0, attention_factor=1.25, beta_fast=16, beta_slow=2, original=64)
case("llama3", "llama3", 5e5, 128, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original=8192)
factors = [1.0, 1.5, 2.25, 10.0]
case("longrope", "longrope", 1e4, 8, seq_len=131072, longest=131072, factor=32.0, long_factor=factors, short_factor=[1.0] * 4, original=4096)

print('{"versions": "transformers %s", "cases": [' % transformers.__version__)
print(",\n".join(json.dumps(c) for c in cases))
print("]}")
