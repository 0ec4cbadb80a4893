# Writes f8.bin:  python f8.py      (numpy 2, ml_dtypes)
#
# The file holds, little-endian, the 256 values of f8_e4m3 as f32, those of f8_e5m2, and then
# records of an f32, its code in f8_e4m3 and its code in f8_e5m2. Inputs beyond the range of a
# format are clipped to it first, which is how conversions saturate. All NaNs of ml_dtypes have
# the code that it rounds a NaN to.
import ml_dtypes
import numpy as np

formats = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
codes = np.arange(256, dtype=np.uint8)
values = [codes.view(d).astype("<f4") for d in formats]
inputs = [np.array([0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, 3e38, 464, 465, 61440, 65536], "f4")]
for v in values:
    v = np.sort(v[np.isfinite(v)])
    tie = ((v[1:].astype("f8") + v[:-1]) / 2).astype("f4")
    inputs += [v, tie, np.nextafter(tie, np.float32(np.inf)), np.nextafter(tie, np.float32(-np.inf))]
rng = np.random.default_rng(1)
inputs.append((rng.standard_normal(500) * 2.0 ** rng.integers(-20, 18, 500)).astype("f4"))
x = np.unique(np.concatenate(inputs).view("<u4")).view("<f4")
table = np.zeros(len(x), [("x", "<f4"), ("e4m3", "u1"), ("e5m2", "u1")])
table["x"] = x
for d, name in zip(formats, ["e4m3", "e5m2"]):
    largest = float(ml_dtypes.finfo(d).max)
    table[name] = np.clip(x, -largest, largest).astype(d).view("u1")
with open("f8.bin", "wb") as f:
    f.write(b"".join(v.tobytes() for v in values) + table.tobytes())
for d, name in zip(formats, ["f8_e4m3", "f8_e5m2"]):
    np.save(name, np.array([[0, 1, 2], [3, 4, 100]]).astype(d))
