"""Writes published.json: config.json files as they are published, with the sizes of the models here, and what transformers computes
with them: the logits after the last token of expected.json's first sequence, and the tokens it generates where a text's length matters.

    pip install torch transformers safetensors && python published.py

The names and values of settings are those of the files on the hub; sizes, and settings that the tensors here fix, are the fixture's.
"""
import json
import logging
import os
import re
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

logging.disable(logging.WARNING)
torch.set_num_threads(1)
generic = "architectures hidden_act hidden_size initializer_range intermediate_size max_position_embeddings model_type num_attention_heads num_hidden_layers num_key_value_heads rms_norm_eps rope_scaling rope_theta tie_word_embeddings torch_dtype transformers_version use_cache vocab_size bos_token_id eos_token_id"
qwen = generic + " attention_dropout max_window_layers sliding_window use_sliding_window"
experts = " num_experts_per_tok output_router_logits router_aux_loss_coef"
qwen_moe = qwen + experts + " decoder_sparse_step moe_intermediate_size norm_topk_prob num_experts mlp_only_layers"
deep = generic + " attention_bias attention_dropout auto_map aux_loss_alpha first_k_dense_replace kv_lora_rank moe_intermediate_size moe_layer_freq n_group n_routed_experts n_shared_experts norm_topk_prob num_experts_per_tok pretraining_tp q_lora_rank qk_nope_head_dim qk_rope_head_dim routed_scaling_factor scoring_func seq_aux topk_group topk_method v_head_dim"
glm = generic + " attention_bias attention_dropout head_dim partial_rotary_factor moe_intermediate_size norm_topk_prob n_group topk_group n_routed_experts n_shared_experts routed_scaling_factor num_experts_per_tok first_k_dense_replace num_nextn_predict_layers use_qk_norm pad_token_id"
oss = generic + experts + " attention_bias attention_dropout experts_per_token head_dim initial_context_length layer_types num_local_experts pad_token_id sliding_window swiglu_limit"
usual = dict(initializer_range=0.02, rope_scaling=None, rope_theta=10000.0, torch_dtype="bfloat16", transformers_version="4.46.0", use_cache=True, bos_token_id=1, eos_token_id=2, attention_dropout=0.0, output_router_logits=False, router_aux_loss_coef=0.001,
             max_window_layers=48, sliding_window=None, use_sliding_window=False, auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, aux_loss_alpha=0.001, moe_layer_freq=1, scoring_func="softmax", seq_aux=True, initial_context_length=32, experts_per_token=2)
yarn = dict(beta_fast=32, beta_slow=1, factor=40, original_max_position_embeddings=24, type="yarn")
llama3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32, rope_type="llama3")
long = dict(long_factor=[4.0, 6.5, 9.0], short_factor=[1.0, 1.25, 2.0], original_max_position_embeddings=8)
sigmoid = dict(scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=1, ep_size=1)
llama = generic + " pretraining_tp head_dim"
cases = [  # name, model, names, values, tensors that are not there
    ("Llama-2-7b-hf", "llama", llama, dict(rms_norm_eps=1e-5), r"bias$"),
    ("huggyllama/llama-7b", "llama", llama.replace(" rope_theta rope_scaling", "").replace("rope_scaling rope_theta ", "") + " max_sequence_length pad_token_id", dict(max_sequence_length=96, pad_token_id=0), r"bias$"),
    ("Llama-3.1-8B-Instruct", "llama", llama + " attention_bias attention_dropout mlp_bias", dict(attention_bias=False, rope_scaling=llama3, rope_theta=500000.0, eos_token_id=[1, 8, 9]), r"bias$"),
    ("Llama-3.2-1B", "llama", llama + " attention_bias attention_dropout mlp_bias", dict(attention_bias=False, rope_scaling=dict(llama3, factor=32.0), rope_theta=500000.0, tie_word_embeddings=True), r"bias$|lm_head"),
    ("SmolLM2-1.7B-Instruct", "llama", llama + " attention_bias attention_dropout mlp_bias is_llama_config rope_interleaved pad_token_id transformers.js_config", dict(attention_bias=False, is_llama_config=True, rope_interleaved=False, pad_token_id=2, rope_theta=130000, **{"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}}), r"bias$"),
    ("TinyLlama-1.1B-Chat-v1.0", "llama", llama + " attention_bias", dict(attention_bias=False), r"bias$"),
    ("deepseek-coder-6.7b-instruct", "llama", llama, dict(rope_scaling=dict(factor=4.0, type="linear"), rope_theta=100000), r"bias$"),
    ("a fine-tune of deepseek-coder", "llama", llama + " attention_bias attention_dropout mlp_bias _attn_implementation_autoset _name_or_path neftune_noise_alpha", dict(attention_bias=False, rope_scaling=dict(factor=4.0, rope_type="linear", type="linear"), rope_theta=100000, _attn_implementation_autoset=True, _name_or_path="deepseek-ai/deepseek-coder-6.7b-base", neftune_noise_alpha=5), r"bias$"),
    ("vicuna-13b-v1.5-16k", "llama", llama + " max_sequence_length pad_token_id", dict(rope_scaling=dict(factor=4.0, type="linear"), max_sequence_length=384, pad_token_id=0), r"bias$"),
    ("Yarn-Llama-2-7b-64k", "llama", llama, dict(rope_scaling=dict(factor=16.0, original_max_position_embeddings=24, type="yarn", finetuned=True)), r"bias$"),
    ("yarn without a length", "llama", llama, dict(rope_scaling=dict(rope_type="yarn", factor=4.0), max_position_embeddings=16), r"bias$"),
    ("yarn with a length next to it", "llama", llama + " original_max_position_embeddings", dict(rope_scaling=dict(rope_type="yarn", factor=4.0), original_max_position_embeddings=16), r"bias$"),
    ("yarn with a factor that is null", "llama", llama, dict(rope_scaling=dict(rope_type="yarn", factor=None, original_max_position_embeddings=24)), r"bias$"),
    ("dynamic NTK", "llama", llama, dict(rope_scaling=dict(type="dynamic", factor=2.0), max_position_embeddings=8), r"bias$"),
    ("dynamic NTK, texts within the context", "llama", llama, dict(rope_scaling=dict(rope_type="dynamic", factor=4.0)), r"bias$"),
    ("longrope", "llama", llama, dict(rope_scaling=dict(long, rope_type="longrope")), r"bias$"),
    ("longrope with a factor", "llama", llama, dict(rope_scaling=dict(long, type="longrope", factor=2.0)), r"bias$"),
    ("longrope with an attention factor", "llama", llama, dict(rope_scaling=dict(long, rope_type="longrope", attention_factor=1.3, original_max_position_embeddings=64)), r"bias$"),
    ("longrope of DeepSeek", "deepseek_v3", deep, dict(sigmoid, rope_scaling=dict(long, rope_type="longrope", long_factor=[4.0, 6.5], short_factor=[1.0, 1.25])), ""),
    ("dynamic NTK of a part of a head", "glm4_moe", glm, dict(rope_scaling=dict(rope_type="dynamic", factor=3.0), max_position_embeddings=8, use_qk_norm=True, attention_bias=True), ""),
    ("rope_parameters and rope_scaling with rope_theta", "llama", llama + " rope_parameters", dict(rope_theta=5000.0, rope_scaling=dict(factor=4.0, type="linear"), rope_parameters=dict(rope_theta=5000.0, rope_type="linear", factor=4.0)), r"bias$"),
    ("Mixtral-8x7B-v0.1", "mixtral", generic + experts + " num_local_experts attention_dropout sliding_window", dict(rope_theta=1000000.0, rms_norm_eps=1e-5, router_aux_loss_coef=0.02), ""),
    ("Mixtral-8x7B-Instruct-v0.1, first published", "mixtral", generic + experts + " num_local_experts sliding_window", dict(rope_theta=1000000.0, rms_norm_eps=1e-5, sliding_window=5), ""),
    ("Mixtral without what its class says", "mixtral", " ".join(n for n in (generic + experts + " num_local_experts").split() if n not in ("rope_theta", "rope_scaling", "rms_norm_eps", "tie_word_embeddings", "hidden_act")), {}, ""),
    ("OLMoE-1B-7B-0924", "olmoe", generic + experts + " attention_bias attention_dropout clip_qkv norm_topk_prob num_experts pad_token_id", dict(clip_qkv=None, rms_norm_eps=1e-5, pad_token_id=1), ""),
    ("OLMoE with normalised weights and clipping", "olmoe", generic + experts + " attention_bias clip_qkv norm_topk_prob num_local_experts", dict(norm_topk_prob=True, num_local_experts=8), ""),
    ("OLMoE with biases", "olmoe", generic + experts + " attention_bias clip_qkv norm_topk_prob num_experts", dict(attention_bias=True), ""),
    ("Qwen1.5-MoE-A2.7B", "qwen2_moe", qwen_moe.replace(" mlp_only_layers", "") + " shared_expert_intermediate_size", dict(rope_theta=1000000.0, max_window_layers=21, sliding_window=32768), ""),
    ("Qwen2-57B-A14B-Instruct", "qwen2_moe", qwen_moe + " shared_expert_intermediate_size qkv_bias layer_types", dict(rope_theta=1000000.0, max_window_layers=28, sliding_window=65536, layer_types=["full_attention"] * 2, mlp_only_layers=[]), ""),
    ("Qwen2-MoE with windows in half of its layers", "qwen2_moe", qwen_moe + " shared_expert_intermediate_size", dict(use_sliding_window=True, sliding_window=4, mlp_only_layers=[]), ""),
    ("Qwen3-8B", "qwen3", qwen + " attention_bias head_dim", dict(rope_theta=1000000), ""),
    ("Qwen3-8B with yarn", "qwen3", qwen + " attention_bias head_dim", dict(rope_theta=1000000, rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=24)), ""),
    ("DeepSeek-R1-0528-Qwen3-8B", "qwen3", qwen + " attention_bias head_dim", dict(rope_theta=1000000, rope_scaling=dict(attn_factor=0.8782488562869419, factor=4.0, original_max_position_embeddings=24, rope_type="yarn")), ""),
    ("Qwen3 with windows", "qwen3", qwen + " attention_bias head_dim", dict(use_sliding_window=True, sliding_window=4, max_window_layers=1), ""),
    ("Qwen3 with windows after the last layer", "qwen3", qwen + " attention_bias head_dim", dict(use_sliding_window=True, sliding_window=4, max_window_layers=2), ""),
    ("Qwen3-30B-A3B", "qwen3_moe", qwen_moe + " attention_bias head_dim", dict(rope_theta=1000000.0, attention_bias=False), ""),
    ("Qwen3-Coder-30B-A3B-Instruct", "qwen3_moe", qwen_moe.replace(" bos_token_id", "") + " head_dim qkv_bias shared_expert_intermediate_size use_qk_norm", dict(rope_theta=10000000, qkv_bias=False, shared_expert_intermediate_size=0, use_qk_norm=True), ""),
    ("Qwen3-MoE with biases", "qwen3_moe", qwen_moe + " attention_bias head_dim", dict(attention_bias=True), ""),
    ("Qwen3-MoE with windows", "qwen3_moe", qwen_moe + " attention_bias head_dim", dict(use_sliding_window=True, sliding_window=4), ""),
    ("DeepSeek-V2-Lite", "deepseek_v2", deep, dict(topk_method="greedy", n_group=1, topk_group=1, rope_scaling=dict(yarn, mscale=0.707, mscale_all_dim=0.707), rope_theta=10000), ""),
    ("DeepSeek-V2", "deepseek_v2_groups", deep + " ep_size", dict(topk_method="group_limited_greedy", routed_scaling_factor=16.0, ep_size=1, rope_scaling=dict(yarn, mscale=1.0, mscale_all_dim=1.0)), ""),
    ("DeepSeek-Coder-V2-Lite-Instruct, saved again", "deepseek_v2", deep + " head_dim mlp_bias", dict(topk_method="greedy", n_group=1, topk_group=1, head_dim=4, mlp_bias=False, rope_scaling=dict(yarn, mscale=0.707, mscale_all_dim=0.707, rope_type="yarn")), ""),
    ("DeepSeek-V3", "deepseek_v3", deep + " ep_size num_nextn_predict_layers", dict(sigmoid, rope_scaling=dict(yarn, mscale=1.0, mscale_all_dim=1.0), rope_theta=10000), ""),
    ("DeepSeek-V3.1", "deepseek_v3_fp8", deep + " ep_size num_nextn_predict_layers quantization_config", dict(sigmoid, rope_scaling=dict(yarn, mscale=1.0, mscale_all_dim=1.0), quantization_config=dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", scale_fmt="ue8m0", weight_block_size=[128, 128])), ""),
    ("fp8 as transformers saves it", "deepseek_v3_fp8", deep + " quantization_config", dict(sigmoid, quantization_config=dict(activation_scheme="dynamic", dequantize=False, modules_to_not_convert=["lm_head"], quant_method="fp8", weight_block_size=[128, 128])), ""),
    ("fp8 with ignored layers", "deepseek_v3_fp8", deep + " quantization_config", dict(sigmoid, quantization_config=dict(activation_scheme="dynamic", ignored_layers=["lm_head"], is_checkpoint_fp8_serialized=True, quant_method="fp8", weight_block_size=[128, 128])), ""),
    ("Moonlight-16B-A3B-Instruct", "deepseek_v3", deep + " ep_size num_nextn_predict_layers", dict(sigmoid, n_group=1, topk_group=1, routed_scaling_factor=2.446, rope_theta=50000.0, num_nextn_predict_layers=0, ep_size=1), ""),
    ("DeepSeek-V3 without what its class says", "deepseek_v3", " ".join(n for n in deep.split() if n not in ("rope_theta", "rope_scaling", "rms_norm_eps", "routed_scaling_factor", "norm_topk_prob", "topk_method", "scoring_func", "hidden_act", "n_shared_experts")), {}, ""),
    ("GLM-4.5-Air", "glm4_moe", glm, dict(rope_theta=1000000, eos_token_id=[1, 6, 8], use_qk_norm=True, rms_norm_eps=1e-5), ""),
    ("GLM-4.6 saved by transformers 5", "glm4_moe", glm.replace(" rope_theta", "").replace(" rope_scaling", "").replace(" partial_rotary_factor", "").replace(" torch_dtype", " dtype").replace("num_nextn_predict_layers", "num_mtp_layers") + " rope_parameters", dict(dtype="bfloat16", num_mtp_layers=1, rope_parameters=dict(partial_rotary_factor=0.5, rope_theta=1000000, rope_type="default")), ""),
    ("GLM-4.5 without what its class says", "glm4_moe", " ".join(n for n in glm.split() if n not in ("rope_theta", "rope_scaling", "rms_norm_eps", "partial_rotary_factor", "norm_topk_prob", "n_group", "topk_group", "hidden_act", "first_k_dense_replace")), {}, ""),
    ("gpt-oss-20b", "gpt_oss", oss, dict(rope_theta=150000, rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=32, rope_type="yarn", truncate=False)), ""),
    ("gpt-oss without what its class says", "gpt_oss", " ".join(n for n in oss.split() if n not in ("rope_theta", "rope_scaling", "rms_norm_eps", "swiglu_limit", "layer_types", "attention_bias", "hidden_act", "experts_per_token", "initial_context_length")), {}, ""),
    ("gpt-oss with plain positions", "gpt_oss", oss + " rope_parameters", dict(rope_parameters=dict(rope_type="default", rope_theta=150000.0)), ""),
    ("Unsloth's mark", "qwen3", qwen + " attention_bias head_dim unsloth_fixed unsloth_version", dict(unsloth_fixed=True, unsloth_version="2025.6.2"), ""),
    ("a trainer's settings", "llama", llama + " use_flash_attention_2 gradient_checkpointing keys_to_ignore_at_inference tokenizer_class temperature top_p max_length id2label label2id pruned_heads is_decoder add_cross_attention", dict(use_flash_attention_2=True, gradient_checkpointing=True, keys_to_ignore_at_inference=["past_key_values"], tokenizer_class="LlamaTokenizer", temperature=0.6, top_p=0.9, max_length=4096, id2label={"0": "A", "1": "B"}, label2id={"A": 0, "B": 1}, pruned_heads={}, is_decoder=True, add_cross_attention=False), r"bias$"),
]
out = []
torch.manual_seed(3)
for name, model, names, values, absent in cases:
    fixture = json.load(open(f"{model}/config.json"))
    rope = fixture.pop("rope_parameters")
    fixture |= {k: rope[k] for k in ["partial_rotary_factor"] if k in rope}
    if model == "qwen3_moe":
        fixture["num_experts"] = fixture.pop("num_local_experts")
    config = {}
    for n in names.split():
        if n in values:
            config[n] = values[n]
        elif n in usual and not (n == "sliding_window" and model == "gpt_oss"):
            config[n] = usual[n]
        else:
            config[n] = fixture[n]
    tensors = load_file(f"{model}/model.safetensors")
    if absent:
        tensors = {k: v for k, v in tensors.items() if not re.search(absent, k)}
    more = {}
    if "with biases" in name:
        more = {k.replace("weight", "bias"): torch.randn(w.shape[0]) * 0.3 for k, w in tensors.items() if re.search(r"self_attn\.[qkvo]_proj\.weight", k)}
    with tempfile.TemporaryDirectory() as d:
        save_file(tensors | more, f"{d}/model.safetensors", {"format": "pt"})
        loaded = config
        if "quantization_config" in config:  # on a CPU transformers takes the numbers that 8-bit floats stand for
            for k in [k for k in tensors if k.endswith("_scale_inv")]:
                w, s = tensors[k.removesuffix("_scale_inv")].float(), tensors.pop(k)
                s = s.repeat_interleave(128, 0).repeat_interleave(128, 1)[: w.shape[0], : w.shape[1]]
                tensors[k.removesuffix("_scale_inv")] = w * s
            save_file({k: v.float() for k, v in tensors.items()}, f"{d}/model.safetensors", {"format": "pt"})
            loaded = {k: v for k, v in config.items() if k != "quantization_config"}
        json.dump(loaded, open(f"{d}/config.json", "w"))
        m = AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32, attn_implementation="eager").eval()
    tokens = torch.tensor(json.load(open(f"{model}/expected.json"))["tokens"][:1])
    with torch.no_grad():
        case = dict(name=name, model=model, config=config, absent=absent, more={k: v.tolist() for k, v in more.items()}, logits=m(tokens).logits[0, -1].tolist())
        if "dynamic" in name or "longrope" in name:
            case["generated"] = []
            for n in [5, 11]:
                m.model.rotary_emb.__init__(m.config)  # no length of another text
                case["generated"].append(m.generate(tokens[:, :n], attention_mask=torch.ones(1, n, dtype=torch.long), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0)[0].tolist())
    out.append(case)
    print(name, file=sys.stderr)
json.dump(out, open("published.json", "w"), separators=(",", ":"))
