"""A program of 20 equations over scalars: what a call costs."""

import jax
import jax.numpy as jnp
import numpy as np


def twenty(x, y):
    for _ in range(5):
        x, y = jnp.tanh(x * y + x), y - x
    return x, y


def scalar(data, params, threads):
    x, y = data["x"], data["y"]

    def jitted():
        f, a, b = jax.jit(twenty), jnp.asarray(x), jnp.asarray(y)
        return lambda: dict(zip("xy", jax.block_until_ready(f(a, b))))

    def compiled():
        a, b = jnp.asarray(x), jnp.asarray(y)
        f = jax.jit(twenty).lower(a, b).compile()
        return lambda: dict(zip("xy", jax.block_until_ready(f(a, b))))

    return [("jit", jitted), ("lowered and compiled ahead", compiled)]


def workloads():
    return {"scalar": scalar}
