"""Makes adapters of package models' test models with PEFT, in the folders adapters/*, and their losses, in adapters.json.

Run in this folder: python adapters.py, with torch, transformers 5.24 and peft 0.21.2.
"""
import json, os, shutil

import peft, torch, transformers

IDS = [1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6, 11, 3, 2]
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
PLAIN = dict(r=2, lora_alpha=5, target_modules=ATTENTION)
CASES = {
    "all_linear": ("olmoe", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    "all_linear_mixtral": ("mixtral", dict(r=2, lora_alpha=3, target_modules="all-linear", use_rslora=True)),
    "all_linear_latents": ("deepseek_v2_groups", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    "parameters": ("gpt_oss", dict(PLAIN, target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "one_parameter": ("qwen2_moe", dict(PLAIN, target_parameters=["mlp.experts.gate_up_proj"])),
    "patterns": ("qwen3", dict(PLAIN, rank_pattern={"q_proj": 4, r"layers\.1\.self_attn\.v_proj": 1}, alpha_pattern={"k_proj": 1})),
    "head": ("mixtral", dict(PLAIN, target_modules=["q_proj", "lm_head"])),
    "table": ("olmoe", dict(PLAIN, target_modules=["q_proj", "embed_tokens"])),
    "table_tied": ("mixtral_tied", dict(PLAIN, target_modules=["q_proj", "embed_tokens"])),
    "saved": ("glm4_moe", dict(PLAIN, modules_to_save=["lm_head", "norm"])),
    "tokens": ("mixtral_tied", dict(PLAIN, trainable_token_indices=[3, 7])),
    "eva": ("llama", dict(PLAIN, init_lora_weights="eva")),
    "pissa": ("llama", dict(PLAIN, init_lora_weights="pissa")),
}


def base(name):
    return transformers.AutoModelForCausalLM.from_pretrained(f"../../models/testdata/{name}", dtype=torch.float32, attn_implementation="eager").eval()


def loss(model):
    ids = torch.tensor([IDS])
    with torch.no_grad():
        logits = model(ids).logits[0].float()
    return torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item()


def main():
    shutil.rmtree("adapters", ignore_errors=True)
    all = []
    for case, (name, config) in CASES.items():
        torch.manual_seed(3)
        model = peft.get_peft_model(base(name), peft.LoraConfig(task_type="CAUSAL_LM", **config)).eval()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if "lora_" in n or "tokens_delta" in n:
                    p.copy_(torch.randn_like(p) * 0.3)
                elif "modules_to_save" in n:
                    p.add_(torch.randn_like(p) * 0.1)
        folder = f"adapters/{case}"
        model.save_pretrained(folder)
        os.remove(f"{folder}/README.md")
        again = peft.PeftModel.from_pretrained(base(name), folder).eval()
        all.append({"case": case, "model": name, "base": loss(base(name)), "loss": loss(again)})
    with open("adapters.json", "w") as f:
        json.dump({"ids": IDS, "adapters": all}, f, indent=1)
        f.write("\n")


main()
