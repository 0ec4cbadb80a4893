"""Writes tiny random models as mlx-lm quantises them, and what mlx-lm computes with them on the processor: logits and the
tokens that it generates.

    pip install 'mlx[cpu]' mlx-lm && python make.py
"""
import json
import os
import shutil
from pathlib import Path

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.utils import _get_classes, quantize_model, save_config, save_model

mx.set_default_device(mx.cpu)
mx.random.seed(1)
common = dict(vocab_size=40, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=96, rope_theta=1000.0, rms_norm_eps=1e-6)
models = {
    # The router has 8 bits, which config.json says of its layer.
    "qwen3_moe": (dict(common, model_type="qwen3_moe", num_key_value_heads=2, head_dim=16, intermediate_size=96, moe_intermediate_size=32, num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[0], tie_word_embeddings=False), dict(bits=4, group_size=32)),
    # Keys and values of latents are matrices of their own.
    "deepseek_v3": (dict(common, model_type="deepseek_v3", num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=32, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=32, intermediate_size=64, first_k_dense_replace=1, moe_layer_freq=1, n_group=2, topk_group=1, topk_method="noaux_tc", scoring_func="sigmoid", norm_topk_prob=True, routed_scaling_factor=1.5, attention_bias=False), dict(bits=8, group_size=32)),
    # The head is the table of tokens.
    "mixtral": (dict(common, model_type="mixtral", hidden_size=128, num_key_value_heads=2, intermediate_size=128, num_local_experts=3, num_experts_per_tok=2, tie_word_embeddings=True), dict(bits=4, group_size=128)),
    # Experts and the table of tokens are MXFP4's numbers, all else is affine.
    "gpt_oss": (dict(common, model_type="gpt_oss", num_key_value_heads=2, head_dim=16, intermediate_size=32, num_local_experts=3, num_experts_per_tok=2, sliding_window=5, layer_types=["sliding_attention", "full_attention"], rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, truncate=True)), dict(mode="mxfp4")),
}


def greedy(model, ids):
    for _ in range(64):
        ids = ids + [mx.argmax(model(mx.array([ids]))[0, -1]).item()]
    return ids


for name, (config, quantization) in models.items():
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    model.update(tree_map_with_path(lambda path, x: mx.random.normal(x.shape) * (0.3 if x.ndim > 1 else 0.1) + (1 if "norm" in path else 0), model.parameters()))
    if name == "deepseek_v3":  # mlx-lm chooses experts of other groups instead of those whose selection value is negative
        gate = model.model.layers[1].mlp.gate
        gate.e_score_correction_bias = mx.abs(gate.e_score_correction_bias)
    predicate = None
    if name == "gpt_oss":
        predicate = lambda path, _: True if "experts" in path or "embed" in path else dict(bits=8, group_size=64, mode="affine")
    model, config = quantize_model(model, config, quantization.get("group_size"), quantization.get("bits"), mode=quantization.get("mode", "affine"), quant_predicate=predicate)
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    save_model(name, model)
    save_config(config, Path(name) / "config.json")
    os.remove(f"{name}/model.safetensors.index.json")
    tokens = mx.random.randint(0, 40, (2, 12))
    logits = model(tokens)
    json.dump(dict(mlx_lm=mlx_lm.__version__, mlx=mx.__version__, tokens=tokens.tolist(), logits=[[[round(x, 7) for x in r] for r in b] for b in logits.tolist()], generated=greedy(model, tokens[0, :5].tolist())), open(f"{name}/expected.json", "w"))
    print(name, [(k, v.shape, v.dtype) for k, v in tree_flatten(model.parameters())][:14])
