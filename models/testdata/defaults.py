"""Writes defaults.json: the values that transformers' configuration classes give to settings which config.json leaves out.
Writes nulls.json: the settings that are true or false and may be null, with the truth of the value that null becomes.

    pip install torch transformers && python defaults.py
"""
import dataclasses
import json
import logging

from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import AutoConfig

logging.disable(logging.WARNING)
families = ["deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "llama", "mixtral", "olmoe", "qwen2_moe", "qwen3", "qwen3_moe"]
out, nulls = {}, {}
for family in families:
    config = AutoConfig.for_model(family)
    names = {f.name for f in dataclasses.fields(type(config)) if f.init}
    values = {}
    for cls in reversed(type(config).__mro__):  # what the class says, before sizes are derived from other sizes
        values |= {k: v for k, v in vars(cls).items() if k in names}
    values |= {f.name: f.default for f in dataclasses.fields(type(config)) if f.name in names and f.default is not dataclasses.MISSING}
    rope = dict(config.rope_parameters)
    del values["rope_parameters"]
    values["rope_theta"] = rope.pop("rope_theta")
    values["partial_rotary_factor"] = rope.pop("partial_rotary_factor", 1.0)
    values["rope_scaling"] = rope
    out[family] = {k: v for k, v in sorted(values.items()) if v is None or isinstance(v, (bool, int, float, str, list, dict))}
    nulls[family] = {}
    for name in [k for k, v in sorted(values.items()) if isinstance(v, bool)]:
        try:
            nulls[family][name] = bool(getattr(AutoConfig.for_model(family, **{name: None}), name))
        except StrictDataclassFieldValidationError:
            pass  # the class refuses null
json.dump(nulls, open("nulls.json", "w"), indent=1)
json.dump(out, open("defaults.json", "w"), indent=1)
