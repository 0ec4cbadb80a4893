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
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4SparseMoeBlock
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

torch.manual_seed(1)
torch.set_num_threads(1)
common = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=96, rope_theta=1000.0, bos_token_id=None, eos_token_id=None, pad_token_id=None)
latent = dict(num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8)
experts = dict(n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=8, intermediate_size=20, first_k_dense_replace=1)
yarn = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=24, beta_fast=4, beta_slow=1)
small_oss = dict(common, hidden_size=32, intermediate_size=32, num_key_value_heads=2, head_dim=8, num_local_experts=3, num_experts_per_tok=2, sliding_window=5, swiglu_limit=2.0, rope_parameters=dict(yarn, original_max_position_embeddings=32, truncate=False))
families = {
    "mixtral": transformers.MixtralConfig(**common, num_key_value_heads=2, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, sliding_window=None),
    "mixtral_tied": transformers.MixtralConfig(**common, num_key_value_heads=4, intermediate_size=8, num_local_experts=3, num_experts_per_tok=1, sliding_window=5, tie_word_embeddings=True),
    "olmoe": transformers.OlmoeConfig(**common, num_key_value_heads=4, intermediate_size=16, num_experts=8, num_experts_per_tok=3, clip_qkv=0.4),
    "qwen3_moe": transformers.Qwen3MoeConfig(**common, num_key_value_heads=2, head_dim=6, intermediate_size=20, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[0]),
    "llama": transformers.LlamaConfig(**common, num_key_value_heads=2, head_dim=6, intermediate_size=20, attention_bias=True, rope_parameters=dict(rope_type="llama3", rope_theta=1000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "qwen3": transformers.Qwen3Config(**common, num_key_value_heads=2, head_dim=8, intermediate_size=24, tie_word_embeddings=True),
    "qwen2_moe": transformers.Qwen2MoeConfig(**common, num_key_value_heads=2, intermediate_size=20, moe_intermediate_size=16, shared_expert_intermediate_size=12, num_experts=6, num_experts_per_tok=3),
    "deepseek_v2": transformers.DeepseekV2Config(**common, **latent, q_lora_rank=None, **experts, n_shared_experts=2, rope_parameters=dict(yarn, mscale=0.7, mscale_all_dim=0.7)),
    "deepseek_v2_groups": transformers.DeepseekV2Config(**common, **latent, q_lora_rank=7, **experts, n_shared_experts=1, topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=2.0, rope_parameters=dict(yarn, mscale=1.0, mscale_all_dim=0.7)),
    "deepseek_v3": transformers.DeepseekV3Config(**common, **latent, q_lora_rank=7, **dict(experts, n_routed_experts=8), n_shared_experts=1, n_group=4, topk_group=2, rms_norm_eps=1e-5, rope_parameters=dict(yarn, mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v3_fp8": transformers.DeepseekV3Config(**dict(common, hidden_size=136, num_attention_heads=2), **dict(latent, num_key_value_heads=2, kv_lora_rank=132), q_lora_rank=None, **dict(experts, n_routed_experts=3, intermediate_size=12, num_experts_per_tok=2), n_shared_experts=1, n_group=1, topk_group=1),
    "glm4_moe": transformers.Glm4MoeConfig(**common, num_key_value_heads=2, head_dim=8, attention_bias=True, use_qk_norm=True, partial_rotary_factor=0.5, **dict(experts, n_routed_experts=4), n_shared_experts=2, n_group=1, topk_group=1, routed_scaling_factor=1.5),
    "gpt_oss": transformers.GptOssConfig(**dict(small_oss, hidden_size=16, intermediate_size=16)),
    "gpt_oss_mxfp4": transformers.GptOssConfig(**small_oss),
}
architectures = {"mixtral": "LLAMA", "mixtral_tied": "LLAMA", "qwen2_moe": "QWEN2MOE", "qwen3_moe": "QWEN3MOE", "deepseek_v2": "DEEPSEEK2", "deepseek_v2_groups": "DEEPSEEK2", "deepseek_v3": "DEEPSEEK2", "deepseek_v3_fp8": "DEEPSEEK2", "gpt_oss_mxfp4": "GPT_OSS"}


def gguf_names(name, layers):
    """Returns the names in GGUF files of the parameters that are saved."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architectures.get(name, name.upper())], layers)
    out = {}
    with safe_open(f"{name}/model.safetensors", "pt") as f:
        for key in sorted(f.keys()):
            if name.startswith("gpt_oss") and "experts" in key:  # whose experts the converter takes apart
                kind = ".bias" if key.endswith("_bias") else ".weight"
                for part in ["gate_proj", "up_proj"] if "gate_up" in key else ["down_proj"]:
                    star = re.sub(r"experts\..*", "experts.*." + part, key)
                    out[star + kind] = names.get_name(star.replace("*.", ""), ()) + kind
                continue
            if key.endswith("sinks"):
                out[key] = names.get_name(key, ()) + ".weight"
                continue
            stacked = re.sub(r"experts\.\d+\.", "experts.", key).replace("e_score_correction_bias", "e_score_correction.bias")
            out[re.sub(r"experts\.\d+\.", "experts.*.", key)] = names.get_name(stacked, try_suffixes=(".weight", ".bias"))
    return out


def fp8(name):
    """Makes 8-bit floats with scales of the matrices in a folder. Returns the model of what they stand for."""
    path = f"{name}/model.safetensors"
    with safe_open(path, "pt") as f:
        numbers = {k: f.get_tensor(k) for k in f.keys()}
    small = {}
    for k, w in list(numbers.items()):
        if not k.endswith("_proj.weight") and not k.endswith("_mqa.weight"):
            small[k] = w
            continue
        rows, columns = [(n + 127) // 128 for n in w.shape]
        scales, codes = torch.zeros(rows, columns), torch.zeros(w.shape, dtype=torch.float8_e4m3fn)
        for i in range(rows):
            for j in range(columns):
                block = slice(i * 128, (i + 1) * 128), slice(j * 128, (j + 1) * 128)
                scales[i, j] = w[block].abs().max() / 448
                codes[block] = (w[block] / scales[i, j]).to(torch.float8_e4m3fn)
                numbers[k][block] = codes[block].float() * scales[i, j]
        small[k], small[k + "_scale_inv"] = codes, scales
    save_file(numbers, path)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, attn_implementation="eager").eval()
    save_file(small, path)
    config = json.load(open(f"{name}/config.json"))
    config["quantization_config"] = dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", weight_block_size=[128, 128])
    json.dump(config, open(f"{name}/config.json", "w"), indent=2)
    return model


def mxfp4(name):
    """Has blocks of 4-bit floats with scales for the experts in a folder. Returns the model of what they stand for."""
    path = f"{name}/model.safetensors"
    with safe_open(path, "pt") as f:
        numbers = {k: f.get_tensor(k) for k in f.keys()}
    small = {}
    for k, w in list(numbers.items()):
        if not k.endswith("experts.gate_up_proj") and not k.endswith("experts.down_proj"):
            small[k] = w
            continue
        experts, columns, rows = w.shape
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
        scales = torch.randint(122, 126, (experts, rows, columns // 32), dtype=torch.uint8)
        numbers[k] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).contiguous()
        assert numbers[k].shape == w.shape
        small[k + "_blocks"], small[k + "_scales"] = blocks, scales
    save_file(numbers, path)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, attn_implementation="eager").eval()
    save_file(small, path)
    config = json.load(open(f"{name}/config.json"))
    config["quantization_config"] = dict(modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], quant_method="mxfp4")
    json.dump(config, open(f"{name}/config.json", "w"), indent=2)
    return model


for name, config in families.items():
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.2) + (p.dim() == 1))
        for n, b in model.named_buffers():
            if "e_score_correction_bias" in n:
                b.copy_(torch.randn_like(b) * 0.3)
    shutil.rmtree(name, ignore_errors=True)
    model.save_pretrained(name)
    os.chmod(f"{name}/model.safetensors", 0o644)
    for extra in ["generation_config.json"]:
        if os.path.exists(f"{name}/{extra}"):
            os.remove(f"{name}/{extra}")
    if name.endswith("_fp8"):
        model = fp8(name)
    if name.endswith("_mxfp4"):
        model = mxfp4(name)
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


def deepseek_v4():
    """Writes two layers of experts of DeepSeek-V4 with its names, and what transformers computes with them. The first
    chooses experts by a table of tokens."""
    name, result = "deepseek_v4_experts", {}
    config = transformers.DeepseekV4Config(vocab_size=40, hidden_size=16, moe_intermediate_size=8, num_hidden_layers=2, n_routed_experts=6, num_experts_per_tok=3, mlp_layer_types=["hash_moe", "moe"], swiglu_limit=1.5)
    tokens, x, saved = torch.randint(0, 40, (2, 6)), torch.randn(2, 6, 16), {}
    for layer in range(2):
        block = DeepseekV4SparseMoeBlock(config, layer)
        with torch.no_grad():
            for n, p in block.state_dict().items():
                p.copy_(torch.argsort(torch.rand(40, 6), 1)[:, :3] if p.dtype == torch.long else torch.randn(p.shape) * 0.5)
        own = x.clone().requires_grad_()
        y = block(own, tokens)
        (y * torch.arange(16)).sum().backward()
        result[f"y{layer}"], result[f"dx{layer}"] = y.flatten().tolist(), own.grad.flatten().tolist()
        for n, p in block.state_dict().items():
            n = f"layers.{layer}.ffn." + n.replace("e_score_correction_bias", "bias")
            n = n.replace("gate_proj", "w1").replace("shared_experts.up_proj", "shared_experts.w3").replace("shared_experts.down_proj", "shared_experts.w2")
            if n.endswith("gate_up_proj"):
                for e in range(6):
                    saved[n.replace("gate_up_proj", f"{e}.w1.weight")], saved[n.replace("gate_up_proj", f"{e}.w3.weight")] = p[e, :8].clone(), p[e, 8:].clone()
            elif n.endswith("down_proj"):
                for e in range(6):
                    saved[n.replace("down_proj", f"{e}.w2.weight")] = p[e].clone()
            else:
                saved[n] = p
    os.makedirs(name, exist_ok=True)
    save_file(saved, f"{name}/model.safetensors")
    json.dump(dict(model_type="deepseek_v4", vocab_size=40, hidden_size=16, moe_intermediate_size=8, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=3, num_hash_layers=1, scoring_func="sqrtsoftplus",
        topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=1.5, swiglu_limit=1.5), open(f"{name}/config.json", "w"), indent=2)
    json.dump(dict(tokens=tokens.flatten().tolist(), x=x.flatten().tolist(), **result), open(f"{name}/expected.json", "w"))


deepseek_v4()
