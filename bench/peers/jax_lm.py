"""One training step of the language model of examples/moe_lm: see bench/moelm.go."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jax_moe


def rms_norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5) * gain


def rope(x):
    """x [B,S,N,D]."""
    s, d = x.shape[1], x.shape[3]
    angle = np.arange(s)[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    cos, sin = (np.asarray(f(angle), np.float32)[:, None, :] for f in (np.cos, np.sin))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(p, x, wq, wk, wv, wo):
    heads = lambda w: (x @ w).reshape(*x.shape[:2], p["heads"], -1)
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (rope(heads(wq)), rope(heads(wk)), heads(wv)))
    s = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5
    s = jnp.where(np.tril(np.ones(s.shape[-2:], bool)), s, -jnp.inf)
    y = (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3)
    return y.reshape(x.shape) @ wo


def loss(p, layer, w, tokens, targets):
    x = w["embed"][tokens]
    aux = 0.0
    for l in range(p["layers"]):
        n = lambda s: w["l%d_%s" % (l, s)]
        x = x + attention(p, rms_norm(x, n("norm1")), n("wq"), n("wk"), n("wv"), n("wo"))
        y = rms_norm(x, n("norm2")).reshape(-1, x.shape[-1])
        logits = y @ n("router")
        scores = jax.nn.softmax(logits, -1)
        weights, ids = jax.lax.top_k(scores, p["top_k"])
        weights = weights / weights.sum(-1, keepdims=True)
        x = x + layer(y, weights, ids, n("gate"), n("up"), n("down")).reshape(x.shape)
        demand = jnp.bincount(ids.reshape(-1), length=p["experts"])
        t = y.shape[0]
        balance = p["experts"] / (p["top_k"] * t * t) * jnp.sum(scores.sum(0) * demand)
        z = jnp.mean(jnp.square(jax.nn.logsumexp(logits, 1)))
        aux = aux + p["balance"] * balance + p["z_loss"] * z
    logits = rms_norm(x, w["norm"]) @ w["head"]
    ce = jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, targets[..., None], -1)[..., 0])
    return ce + aux / p["layers"], ce


def train(p, layer, w, m, v, number, tokens, targets):
    (_, ce), g = jax.value_and_grad(partial(loss, p, layer), has_aux=True)(w, tokens, targets)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(g)))
    scale = jnp.minimum(1.0, p["clip"] / norm)
    b1, b2 = p["beta1"], p["beta2"]
    c1, c2 = 1 - b1**number, 1 - b2**number

    def update(w, m, v, g):
        g = g * scale
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        decay = p["decay"] if w.ndim > 1 else 0.0
        return w - p["rate"] * (m / c1 / (jnp.sqrt(v / c2) + p["eps"]) + decay * w), m, v

    new = {n: update(w[n], m[n], v[n], g[n]) for n in w}
    return ce, *({n: x[i] for n, x in new.items()} for i in range(3))


def lm(data, params, threads):
    names = params["weights"]
    tokens, targets = jnp.asarray(data["bytes"]), jnp.asarray(data["targets"])
    most = []

    def watched(x, w, ids, *weights):
        """ragged_dot, and the rows of the busiest expert."""
        jax.debug.callback(lambda n: most.append(int(n)), jnp.bincount(ids.reshape(-1), length=params["experts"]).max())
        return jax_moe.ragged(x, w, ids, *weights)

    def prepare(layer):
        def build():
            w = {n: jnp.asarray(data["w_" + n]) for n in names}
            state = [w, jax.tree.map(jnp.zeros_like, w), jax.tree.map(jnp.zeros_like, w)]
            f = jax.jit(partial(train, params, layer), donate_argnums=(0, 1, 2))
            number = [0]

            def one():
                number[0] += 1
                ce, *state[:] = f(*state, jnp.float32(number[0]), tokens, targets)
                jax.block_until_ready(state)
                return float(ce)

            losses = np.array([one() for _ in range(params["first_steps"])])

            norms = np.array([np.linalg.norm(np.asarray(state[0][n]).reshape(-1).astype(np.float64)) for n in names])

            def step():
                one()
                return {"losses": losses, "norms": norms}

            return step

        return build

    # Shapes are static: a capacity has to be chosen. The least that drops nothing in
    # the first steps is the best that JAX could do.
    prepare(watched)()
    jax.effects_barrier()
    capacity = max(most)
    return [
        ("padded to the busiest expert, einsum", prepare(jax_moe.padded(capacity, False))),
        ("padded to the busiest expert, unrolled", prepare(jax_moe.padded(capacity, True))),
        ("ragged_dot", prepare(jax_moe.ragged)),
    ]


def workloads():
    return {"lm": lm}
