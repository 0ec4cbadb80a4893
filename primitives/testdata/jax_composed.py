"""Writes jax_composed.json: values and derivatives that JAX 0.10.2 on a CPU gives
for the composed primitives, in f32 with matrix products in full precision.

    python3 jax_composed.py > jax_composed.json
"""

import json

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")
rng = np.random.default_rng(7)
cases = []


def normal(*shape, scale=2.0):
    return jnp.asarray(rng.normal(size=shape) * scale, jnp.float32)


def flat(x):
    return [float(f"{v:.9g}") if np.isfinite(v) else str(v) for v in np.asarray(x).ravel().tolist()]


def typ(x):
    d = {"float32": "f32", "int32": "i32"}[str(x.dtype)]
    return f"{d}[{','.join(map(str, x.shape))}]"


def case(name, body, fn, differentiable=True, **args):
    """fn maps args to a tuple of results; body assigns them to r0, r1, .."""
    outs = fn(*args.values())
    rs = ", ".join(f"r{i}" for i in range(len(outs)))
    sig = ", ".join(f"{n} {typ(x)}" for n, x in args.items())
    c = {
        "name": name,
        "src": f"program p({sig}) {{\n {rs} = {body}\n return {rs}\n}}",
        "in": {n: flat(x) for n, x in args.items()},
        "out": [flat(o) for o in outs],
    }
    floats = [i for i, x in enumerate(args.values()) if x.dtype == jnp.float32]
    if differentiable:
        cts = tuple(normal(*o.shape, scale=1.0) for o in outs)

        def f(*xs):
            full = list(args.values())
            for i, x in zip(floats, xs):
                full[i] = x
            return fn(*full)

        _, pull = jax.vjp(f, *[list(args.values())[i] for i in floats])
        c["ct"] = [flat(x) for x in cts]
        c["grad"] = [flat(g) for g in pull(cts)]
    cases.append(c)


for axis in (0, 1, 2):
    x = normal(2, 3, 5)
    case(f"softmax axis {axis}", f"softmax(x) axis={axis}", lambda x: (jax.nn.softmax(x, axis),), x=x)
    case(f"log_softmax axis {axis}", f"log_softmax(x) axis={axis}", lambda x: (jax.nn.log_softmax(x, axis),), x=x)
    case(f"logsumexp axis {axis}", f"logsumexp(x) axis={axis}", lambda x: (jax.nn.logsumexp(x, axis),), x=x)

inf = jnp.inf
odd = jnp.asarray([[-inf, -inf, -inf], [-inf, 0, 1], [inf, 0, 1], [jnp.nan, 0, 1], [1e30, -1e30, 1e30], [-200, -201, -202]], jnp.float32)
case("softmax of odd numbers", "softmax(x) axis=1", lambda x: (jax.nn.softmax(x, 1),), differentiable=False, x=odd)
case("log_softmax of odd numbers", "log_softmax(x) axis=1", lambda x: (jax.nn.log_softmax(x, 1),), differentiable=False, x=odd)
case("logsumexp of odd numbers", "logsumexp(x) axis=1", lambda x: (jax.nn.logsumexp(x, 1),), differentiable=False, x=odd)


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[..., None], -1)[..., 0]
    return (jnp.where(labels < 0, 0.0, -picked),)


case("cross_entropy", "cross_entropy(logits, labels)", cross_entropy,
     logits=normal(2, 3, 7, scale=4.0), labels=jnp.asarray([[0, 6, -1], [3, -1, 2]], jnp.int32))


def rms_norm(x, gain):
    return (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain,)


def layer_norm(x, gain, bias):
    return ((x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain + bias,)


case("rms_norm", "rms_norm(x, gain) eps=1e-06", rms_norm, x=normal(3, 2, 6), gain=normal(6))
case("layer_norm", "layer_norm(x, gain, bias) eps=1e-05", layer_norm, x=normal(3, 2, 6), gain=normal(6), bias=normal(6))

x = jnp.concatenate([normal(16, scale=3.0), jnp.asarray([0.0, -0.0, 30, -30], jnp.float32)])
case("silu", "silu(x)", lambda x: (jax.nn.silu(x),), x=x)
case("gelu", "gelu(x)", lambda x: (jax.nn.gelu(x, approximate=False),), x=x)
case("gelu tanh", "gelu(x) tanh=true", lambda x: (jax.nn.gelu(x, approximate=True),), x=x)
wild = jnp.asarray([-inf, inf, jnp.nan, -1000, 1000], jnp.float32)
case("silu of odd numbers", "silu(x)", lambda x: (jax.nn.silu(x),), differentiable=False, x=wild)
case("gelu of odd numbers", "gelu(x)", lambda x: (jax.nn.gelu(x, approximate=False),), differentiable=False, x=wild)
case("gelu tanh of odd numbers", "gelu(x) tanh=true", lambda x: (jax.nn.gelu(x, approximate=True),), differentiable=False, x=wild)
case("swiglu", "swiglu(gate, up)", lambda g, u: (jax.nn.silu(g) * u,), gate=normal(3, 5), up=normal(3, 5))


def rope(base, interleaved):
    """Multiplies pairs, as complex numbers, by e to the i times angle."""

    def f(x, at):
        d = x.shape[-1]
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : d // 2], x[..., d // 2 :])
        freq = base ** (-2 * np.arange(d // 2) / d)
        angle = np.asarray(at)[:, None] * freq
        z = (a + 1j * b) * jnp.asarray(np.exp(1j * angle), jnp.complex64)[None, :, None, :]
        if interleaved:
            return (jnp.stack([z.real, z.imag], -1).reshape(x.shape),)
        return (jnp.concatenate([z.real, z.imag], -1),)

    return f


at = jnp.arange(5, dtype=jnp.int32)
case("rope", "rope(x, at)", rope(10000.0, False), x=normal(2, 5, 2, 6), at=at)
case("rope later", "rope(x, at) base=500", rope(500.0, False), x=normal(1, 5, 2, 6), at=at + 1000)
case("rope interleaved", "rope(x, at) interleaved=true", rope(10000.0, True), x=normal(2, 5, 2, 6), at=at)


def attention(causal, scale):
    def f(q, k, v):
        out = jax.nn.dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        kk = jnp.repeat(k, q.shape[2] // k.shape[2], 2)
        s = jnp.einsum("bind,bjnd->bnij", q, kk) * (scale or q.shape[-1] ** -0.5)
        if causal:
            s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
        return out, jax.nn.logsumexp(s, -1)

    return f


case("attention", "attention(q, k, v)", attention(True, None), q=normal(2, 5, 4, 3), k=normal(2, 5, 2, 3), v=normal(2, 5, 2, 3))
case("attention full", "attention(q, k, v) scale=0.3 full=true", attention(False, 0.3), q=normal(1, 5, 2, 4), k=normal(1, 5, 2, 4), v=normal(1, 5, 2, 4))
case("embedding", "embedding(table, ids)", lambda t, i: (t[i],), table=normal(5, 3), ids=jnp.asarray([[4, 0, 4], [1, 4, 1]], jnp.int32))


def adamw(p, m, v, g, lr, step, scale):
    b1, b2, eps, decay = 0.9, 0.95, 1e-8, 0.1
    g = g * scale
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    t = step.astype(jnp.float32)
    return p - lr * (m / (1 - b1**t) / (jnp.sqrt(v / (1 - b2**t)) + eps) + decay * p), m, v


case("adamw", "adamw(p, m, v, g, lr, step, scale) b1=0.9 b2=0.95 eps=1e-08 weight_decay=0.1", adamw, differentiable=False,
     p=normal(2, 3), m=normal(2, 3), v=normal(2, 3) ** 2, g=normal(2, 3), lr=jnp.float32(0.01), step=jnp.int32(3), scale=jnp.float32(0.5))

print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
