"""Times the operations of MLX's ring as gomoe bench collectives does, and prints a
row of JSON for each: mlx_ring.py NAME MIN MAX FACTOR BATCHES SECONDS OP...

MLX has all_sum and all_gather there; others are left out."""

import json
import sys
import time

import mlx.core as mx

mx.set_default_device(mx.cpu)
group = mx.distributed.init(strict=True, backend="ring")
rank, size = group.rank(), group.size()


def slowest(seconds):
    return mx.distributed.all_max(mx.array(seconds, dtype=mx.float32), group=group).item()


def main(name, smallest, largest, factor, batches, seconds, ops):
    share = (size - 1) / size
    for op in ops:
        if op not in ("all_sum", "all_gather"):
            continue
        s = smallest
        while s <= largest:
            if op == "all_sum":
                n = s // 4
                count = n * 4
                call, bus = mx.distributed.all_sum, 2 * share
            else:
                n = max(s // size // 4, 1)
                count = n * 4 * size
                call, bus = mx.distributed.all_gather, share
            x = mx.zeros((n,), dtype=mx.float32)
            mx.eval(x)

            def step():
                mx.eval(call(x, group=group))

            for _ in range(2):
                step()
            began = time.perf_counter()
            step()
            calls = int(min(max(seconds / slowest(time.perf_counter() - began), 1), 10000))
            times = []
            for _ in range(batches):
                slowest(0.0)
                began = time.perf_counter()
                for _ in range(calls):
                    step()
                times.append(slowest((time.perf_counter() - began) / calls))
            times.sort()
            median = times[len(times) // 2]
            if rank == 0:
                alg = count / median / 1e9
                print(json.dumps({"transport": name, "op": op, "ranks": size, "bytes": count, "calls": calls * batches,
                                  "us": median * 1e6, "us_min": times[0] * 1e6, "alg_gbs": alg, "bus_gbs": alg * bus}), flush=True)
            s *= factor


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]), sys.argv[7:])
