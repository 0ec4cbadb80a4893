"""Attention of q, k, v [B,S,N,D], and its gradients for the cotangent ct."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def attention(data, params, threads):
    causal = params["causal"]
    # [B,N,S,D] contiguous is what scaled_dot_product_attention likes best.
    q, k, v, ct = (torch.from_numpy(data[n]).transpose(1, 2).contiguous() for n in ("q", "k", "v", "ct"))

    class Back(dict):
        def items(self):
            return {n: t.transpose(1, 2) for n, t in super().items()}.items()

    def prepare(fn, backends):
        def build():
            ps = [t.clone().requires_grad_() for t in (q, k, v)]

            def step():
                with sdpa_kernel(backends):
                    out = fn(*ps)
                    g = torch.autograd.grad(out, ps, ct)
                return Back(out=out, grad_q=g[0], grad_k=g[1], grad_v=g[2])

            return step

        return build

    def sdpa(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return [
        ("scaled_dot_product_attention, flash", prepare(sdpa, [SDPBackend.FLASH_ATTENTION])),
        ("scaled_dot_product_attention, math", prepare(sdpa, [SDPBackend.MATH])),
        ("scaled_dot_product_attention, compiled", prepare(torch.compile(sdpa), [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])),
    ]


def workloads():
    return {"attention_f32": attention}
