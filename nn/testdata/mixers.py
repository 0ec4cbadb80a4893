"""Writes mixers.json: layers of transformers 5.24 with a state, their results and gradients.

Run it in a Python that has torch and transformers: python mixers.py > mixers.json
"""

import json
import torch
from transformers import BambaConfig, Qwen3NextConfig
from transformers.models.bamba.modeling_bamba import BambaMixer
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


def write(layer, hidden, tokens=12):
    layer = layer.double()
    for name, p in layer.named_parameters():
        with torch.no_grad():
            p.copy_(torch.randn(p.shape) * 0.4 + (1 if name in ("norm.weight", "D", "dt_bias") else 0))
    x = torch.randn(2, tokens, hidden, requires_grad=True)
    y = layer(x)
    (y * torch.cos(torch.arange(y.numel()).reshape(y.shape) * 0.37)).sum().backward()
    flat = lambda t: [float(f"{v:.9g}") for v in t.detach().flatten().tolist()]
    return {
        "x": flat(x), "y": flat(y), "dx": flat(x.grad),
        "params": {n: {"shape": list(p.shape), "value": flat(p), "grad": flat(p.grad)} for n, p in layer.named_parameters()},
    }


out = {
    "gated_delta": write(Qwen3NextGatedDeltaNet(Qwen3NextConfig(hidden_size=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5, linear_conv_kernel_dim=4, num_hidden_layers=1, rms_norm_eps=1e-5), 0), 8),
    "mamba2": write(BambaMixer(BambaConfig(hidden_size=8, mamba_n_heads=4, mamba_d_head=6, mamba_expand=3, mamba_n_groups=2, mamba_d_state=5, mamba_d_conv=3, mamba_conv_bias=True, mamba_proj_bias=True, num_hidden_layers=1, rms_norm_eps=1e-5), 0), 8),
}
print(json.dumps(out, separators=(",", ":")))
