"""Writes python.safetensors with Hugging Face's own library.

    pip install safetensors numpy && python make.py
"""
import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "f64": np.arange(3, dtype=np.float64) / 4,
        "f32": (np.arange(6, dtype=np.float32) - 2).reshape(2, 3),
        "f16": np.arange(4, dtype=np.float16).reshape(4, 1),
        "i64": np.array(-7, dtype=np.int64),
        "i32": np.arange(2, dtype=np.int32),
        "i16": np.arange(2, dtype=np.int16),
        "u8": np.arange(5, dtype=np.uint8),
        "bool": np.array([True, False, True]),
        "empty": np.zeros((0, 4), dtype=np.float32),
        'name "with" é': np.ones(1, dtype=np.float32),
    },
    "python.safetensors",
    {"format": "np"},
)
