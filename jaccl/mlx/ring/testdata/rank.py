"""A rank of MLX's ring that runs a list of operations and prints what it got.

usage: MLX_RANK=1 MLX_HOSTFILE=nodes.json python rank.py '[{"op": "all_sum", "dtype": "bf16", "count": 7, "seed": 1, "period": 0}]'

Prints a JSON list with the SHA-256 of each result. Element i of rank r has bits that
depend on i, r and seed only; with a period, on i modulo the period.
"""

import hashlib
import json
import sys

import mlx.core as mx
import numpy as np

TYPES = {
    "bool": (np.uint8, mx.bool_),
    "u8": (np.uint8, mx.uint8), "u32": (np.uint32, mx.uint32), "i32": (np.uint32, mx.int32), "i64": (np.uint64, mx.int64),
    "f16": (np.uint16, mx.float16), "bf16": (np.uint16, mx.bfloat16), "f32": (np.uint32, mx.float32), "f64": (np.uint64, mx.float64),
}


def bits(dtype, count, seed, period, rank):
    i = np.arange(count, dtype=np.uint64)
    if period:
        i = i % np.uint64(period)
    h = (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64((seed * 1000003 + rank) * 0xBF58476D1CE4E5B9 % 2**64)
    h = (h ^ (h >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    h = h ^ (h >> np.uint64(29))
    # Floats keep their sign and mantissa and get one of 16 exponents around that of 1.
    low, width, bias = {"f16": (10, 16, 15), "bf16": (7, 16, 127), "f32": (23, 32, 127), "f64": (52, 64, 1023)}.get(dtype, (0, 0, 0))
    if width:
        keep = np.uint64((1 << low) - 1 | 1 << width - 1)
        h = (h & keep) | ((h >> np.uint64(3)) % np.uint64(16) + np.uint64(bias - 8)) << np.uint64(low)
    if dtype == "bool":
        h = h & np.uint64(1)
    return h.astype(TYPES[dtype][0])


def main():
    g = mx.distributed.init(backend="ring", strict=True)
    n, r = g.size(), g.rank()
    got = []
    with mx.stream(mx.cpu):
        for o in json.loads(sys.argv[1]):
            x = mx.array(bits(o["dtype"], o["count"], o["seed"], o["period"], r)).view(TYPES[o["dtype"]][1])
            mx.eval(x)
            if o["op"] == "send_recv":
                mx.eval(mx.distributed.send(x, (r + 1) % n, group=g))
                y = mx.distributed.recv_like(x, (r + n - 1) % n, group=g)
            elif o["op"] == "barrier":
                mx.eval(mx.distributed.all_sum(mx.array(1.0), group=g))
                y = x[:0]
            else:
                y = getattr(mx.distributed, o["op"])(x, group=g)
            mx.eval(y)
            got.append(hashlib.sha256(np.array(y.view(mx.uint8)).tobytes() if y.size else b"").hexdigest())
        print(json.dumps(got), flush=True)
        # The end of a process cuts off what its neighbour has not read.
        mx.eval(mx.distributed.all_sum(mx.array(1.0), group=g))


main()
