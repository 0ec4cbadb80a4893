"""A training step of a small OLMoE in transformers, of all weights or, with peft, of LoRA of rank 16 on attention.

    python bench/peers/torch_olmoe.py all float32 grouped_mm
    python bench/peers/torch_olmoe.py lora bfloat16 grouped_mm

The sizes are those of docs/performance.md: 4 layers, 512 columns, 16 experts of 512 columns, 4 per token, 8 sequences of 128
bytes. It prints the time of every step in ms. The third argument is how transformers computes experts.
"""
import sys
import time

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM

what, dtype, experts = sys.argv[1:4]
torch.set_num_threads(2)
torch.manual_seed(0)
config = OlmoeConfig(
    vocab_size=256, hidden_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8, intermediate_size=512,
    num_experts=16, num_experts_per_tok=4, norm_topk_prob=True, max_position_embeddings=128, use_cache=False, pad_token_id=0, eos_token_id=1)
config._experts_implementation = experts
model = OlmoeForCausalLM(config).to(getattr(torch, dtype)).train()
if what == "lora":
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
for step in range(6):
    tokens = torch.randint(0, 256, (8, 128))
    began = time.time()
    model(input_ids=tokens, labels=tokens).loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"{1e3 * (time.time() - began):.0f}", flush=True)
