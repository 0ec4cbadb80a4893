"""Attention of q, k, v [B,S,N,D], and its gradients for the cotangent ct."""

import jax
import jax.numpy as jnp


def attention(data, params, threads):
    q, k, v, ct = (jnp.asarray(data[n]) for n in ("q", "k", "v", "ct"))
    causal = params["causal"]

    def library(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    def plain(q, k, v):
        """The same with heads first, as two products of batches."""
        q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
        s = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5
        if causal:
            s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
        return (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3)

    def prepare(fn):
        def build():
            @jax.jit
            def run(q, k, v, ct):
                out, pull = jax.vjp(fn, q, k, v)
                return out, *pull(ct)

            return lambda: dict(zip(("out", "grad_q", "grad_k", "grad_v"), jax.block_until_ready(run(q, k, v, ct))))

        return build

    return [("jax.nn.dot_product_attention", prepare(library)), ("plain softmax", prepare(plain))]


def workloads():
    return {"attention_f32": attention}
