# Writes threefry.json: what JAX's default generator makes of some keys.
#   python threefry.py > threefry.json      (JAX 0.10.2, CPU, jax_threefry_partitionable)
import json

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
assert jax.config.jax_threefry_partitionable

UINT = {"float64": np.uint64, "float32": np.uint32, "bfloat16": np.uint16, "float16": np.uint16}


def words(x):  # integers as they are, floats as bits
    x = np.asarray(x)
    if x.dtype.name in UINT:
        x = x.view(UINT[x.dtype.name])
    return [str(v) for v in x.reshape(-1).tolist()]


cases = []


def case(op, key, out, **more):
    cases.append({"op": op, "key": words(jax.random.key_data(key)), "out": words(out), **more})


keys = []
for seed in [0, 1, 42, 2**31 - 1, 2**32 + 7, 2**63 - 1]:
    key = jax.random.key(seed)
    keys.append(key)
    case("seed", key, jax.random.key_data(key), seed=str(seed))
keys.append(jax.random.fold_in(keys[2], 3))

for key in keys[:1] + keys[2:3] + keys[4:]:
    for data in [0, 1, 2**32 - 1]:
        case("fold_in", key, jax.random.key_data(jax.random.fold_in(key, data)), data=data)
    for shape in [(), (1,), (7,), (3, 5), (2, 3, 4)]:
        case("bits", key, jax.random.bits(key, shape, "uint32"), dtype="uint32")
    for dtype in UINT:
        case("normal", key, jax.random.normal(key, (7, 11), dtype), dtype=dtype)
        for lo, hi in [(0.0, 1.0), (-1.0, 1.0), (-0.3, 0.7), (2.5, 1000.0)]:
            lo, hi = jnp.asarray(lo, dtype), jnp.asarray(hi, dtype)
            case("uniform", key, jax.random.uniform(key, (4, 8), dtype, lo, hi), dtype=dtype, lo=words(lo), hi=words(hi))

# Most bfloat16 results, and the tail of the inverse error function in float32.
case("normal", keys[1], jax.random.normal(keys[1], (512,), "bfloat16"), dtype="bfloat16")
big = np.asarray(jax.random.normal(keys[1], (200_000,), "float32"))
at = np.argsort(-np.abs(big))[:64]
case("normal_at", keys[1], big[at], dtype="float32", at=[int(i) for i in at])

# The exclusive or of many bits tells how products and sums are rounded, in few bytes.
for dtype in UINT:
    for lo, hi in [(-0.3, 0.7), (2.5, 1000.0)]:
        lo, hi = jnp.asarray(lo, dtype), jnp.asarray(hi, dtype)
        u = np.asarray(jax.random.uniform(keys[2], (20_000,), dtype, lo, hi)).view(UINT[dtype])
        case("uniform_xor", keys[2], np.bitwise_xor.reduce(u), dtype=dtype, lo=words(lo), hi=words(hi))

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
