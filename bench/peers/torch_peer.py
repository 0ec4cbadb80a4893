"""PyTorch's side of bench-peers."""

import os

import numpy as np
import torch

import protocol
import torch_attention
import torch_mixer
import torch_matmul
import torch_moe
import torch_lm
import torch_scalar


def to_numpy(results):
    def one(x):
        return x.detach().float().numpy() if isinstance(x, torch.Tensor) else np.asarray(x, dtype=np.float64)

    # A list is one array per expert, in PyTorch's layout [out, in].
    return {k: np.stack([one(x).T for x in v]) if isinstance(v, list) else one(v) for k, v in results.items()}


def main():
    threads = int(os.environ["BENCH_PEERS_THREADS"])
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    workloads = {}
    for m in (torch_matmul, torch_moe, torch_attention, torch_mixer, torch_lm, torch_scalar):
        workloads.update(m.workloads())
    protocol.serve("torch", torch.__version__, threads, workloads, to_numpy)


main()
