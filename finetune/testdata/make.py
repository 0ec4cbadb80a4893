"""Writes steps.json: the losses of a tiny model of package models' testdata with adapters, as transformers and PEFT train it.

    pip install torch transformers peft && python make.py

Adapters and their numbers are those of start(), which the test computes, too.
"""
import json
import math

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
model = AutoModelForCausalLM.from_pretrained("../../models/testdata/olmoe", dtype=torch.float32, attn_implementation="eager")
model = get_peft_model(model, LoraConfig(r=3, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM"))


def start(name, n):
    """Returns numbers that follow from a name."""
    seed = sum((i + 1) * ord(c) for i, c in enumerate(name)) % 1000
    return [((seed + 37 * i) % 101 - 50) / 200 for i in range(n)]


names = []
for name, p in model.named_parameters():
    if p.requires_grad:
        plain = name.removeprefix("base_model.model.").replace(".default", "")
        names.append(plain)
        p.data = torch.tensor(start(plain, p.numel())).reshape(p.shape)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, betas=(0.9, 0.999), weight_decay=0.0)
tokens = [[(7 * i + 3 * j * j + i * j) % 40 for j in range(12)] for i in range(4)]
ids = torch.tensor(tokens)
losses = []
for step in range(6):
    logits = model(input_ids=ids).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 40), ids[:, 1:].reshape(-1))
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
last = {n.removeprefix("base_model.model.").replace(".default", ""): p.flatten().tolist() for n, p in model.named_parameters() if p.requires_grad}
first = "model.layers.0.self_attn.q_proj.lora_B.weight"
json.dump({"tokens": tokens, "losses": losses, "names": sorted(names), "last": {first: last[first]}}, open("steps.json", "w"))
print(losses)
