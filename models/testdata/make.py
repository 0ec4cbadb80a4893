"""Writes a tiny random model of each family, and what transformers computes with it: logits, the tokens that it
generates, and some gradients. The names that the package gguf gives to the parameters are in gguf.json.

    pip install torch transformers safetensors gguf && python make.py

Sizes follow the traps of real files: nothing is square unless a name says so, gains are not ones, and no two
experts are alike. A new family is added at the end, as all take their numbers from one generator.
"""
import json
import os
import re
import shutil
import sys

import gguf
import torch
import transformers
from safetensors import safe_open
from transformers import AutoModelForCausalLM

torch.manual_seed(1)
torch.set_num_threads(1)
common = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=96, rope_theta=1000.0, bos_token_id=None, eos_token_id=None, pad_token_id=None)
families = {
    "mixtral": transformers.MixtralConfig(**common, num_key_value_heads=2, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, sliding_window=None),
    "mixtral_tied": transformers.MixtralConfig(**common, num_key_value_heads=4, intermediate_size=8, num_local_experts=3, num_experts_per_tok=1, sliding_window=5, tie_word_embeddings=True),
    "olmoe": transformers.OlmoeConfig(**common, num_key_value_heads=4, intermediate_size=16, num_experts=8, num_experts_per_tok=3, clip_qkv=0.4),
    "qwen3_moe": transformers.Qwen3MoeConfig(**common, num_key_value_heads=2, head_dim=6, intermediate_size=20, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[0]),
    "llama": transformers.LlamaConfig(**common, num_key_value_heads=2, head_dim=6, intermediate_size=20, attention_bias=True, rope_parameters=dict(rope_type="llama3", rope_theta=1000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "qwen3": transformers.Qwen3Config(**common, num_key_value_heads=2, head_dim=8, intermediate_size=24, tie_word_embeddings=True),
    "qwen2_moe": transformers.Qwen2MoeConfig(**common, num_key_value_heads=2, intermediate_size=20, moe_intermediate_size=16, shared_expert_intermediate_size=12, num_experts=6, num_experts_per_tok=3),
}
architectures = {"mixtral": "LLAMA", "mixtral_tied": "LLAMA", "qwen2_moe": "QWEN2MOE", "qwen3_moe": "QWEN3MOE"}


def gguf_names(name, layers):
    """Returns the names in GGUF files of the parameters that are saved."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architectures.get(name, name.upper())], layers)
    out = {}
    with safe_open(f"{name}/model.safetensors", "pt") as f:
        for key in sorted(f.keys()):
            stacked = re.sub(r"experts\.\d+\.", "experts.", key)
            out[re.sub(r"experts\.\d+\.", "experts.*.", key)] = names.get_name(stacked, try_suffixes=(".weight", ".bias"))
    return out


for name, config in families.items():
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.2) + (p.dim() == 1))
    shutil.rmtree(name, ignore_errors=True)
    model.save_pretrained(name)
    os.chmod(f"{name}/model.safetensors", 0o644)
    for extra in ["generation_config.json"]:
        if os.path.exists(f"{name}/{extra}"):
            os.remove(f"{name}/{extra}")
    json.dump(gguf_names(name, config.num_hidden_layers), open(f"{name}/gguf.json", "w"), indent=1)

    tokens = torch.randint(0, 40, (2, 12))
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 40), tokens[:, 1:].reshape(-1))
    loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters()}
    norms = {n: g.double().norm().item() for n, g in grads.items() if g is not None}
    ids = tokens[:1, :5]
    with torch.no_grad():
        for _ in range(64):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    json.dump(
        dict(
            transformers=transformers.__version__, tokens=tokens.tolist(),
            logits=[[[round(x, 7) for x in r] for r in b] for b in logits.tolist()],
            loss=loss.item(), norms=norms, generated=ids[0].tolist(),
        ),
        open(f"{name}/expected.json", "w"),
    )
    print(name, sorted(norms)[:12], file=sys.stderr)
