"""Adds to saved.json the config.json files that a version of transformers saves, of sizes that this project's fixtures have.

    for v in 4.43.4 4.51.3 4.57.1 5.24.0; do pip install --target transformers-$v transformers==$v; PYTHONPATH=transformers-$v python saved.py; done
"""
import json
import os
import tempfile

import transformers

out = json.load(open("saved.json")) if os.path.exists("saved.json") else {}
out[transformers.__version__] = saved = {}
for family in ["deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "llama", "mixtral", "olmoe", "qwen2_moe", "qwen3", "qwen3_moe"]:
    try:
        cls = type(transformers.AutoConfig.for_model(family))
    except ValueError:
        continue  # the version does not have it
    values = json.load(open(f"{family}/config.json"))
    if family == "qwen3_moe":  # whose other name transformers 4 does not know
        values["num_experts"] = values.pop("num_local_experts")
    rope = values.pop("rope_parameters")
    values |= {k: rope.pop(k) for k in ["rope_theta", "partial_rotary_factor"] if k in rope}
    if rope["rope_type"] != "default":
        values["rope_scaling"] = dict(rope, type=rope["rope_type"])
    for k in ["transformers_version", "architectures", "dtype", "bos_token_id", "eos_token_id", "pad_token_id"]:
        values.pop(k, None)
    config = cls.from_dict(dict(values, torch_dtype="bfloat16"))
    with tempfile.TemporaryDirectory() as d:
        config.to_json_file(f"{d}/all.json", use_diff=False)
        config.save_pretrained(d)
        saved[family] = [json.load(open(f"{d}/{name}")) for name in ["config.json", "all.json"]]
json.dump(out, open("saved.json", "w"), separators=(",", ":"), sort_keys=True)
