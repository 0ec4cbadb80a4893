"""JAX's side of bench-peers."""

import os

import jax
import numpy as np

import jax_attention
import jax_lm
import jax_moe
import jax_scalar
import protocol


def main():
    threads = int(os.environ["BENCH_PEERS_THREADS"])
    workloads = {}
    for m in (jax_moe, jax_attention, jax_lm, jax_scalar):
        workloads.update(m.workloads())
    protocol.serve("jax", jax.__version__, threads, workloads, lambda results: {k: np.asarray(v, dtype=np.float32) for k, v in results.items()})


main()
