"""One MoE layer: softmax router in f32, K of E experts, SwiGLU, combine."""

import jax
import jax.numpy as jnp
import numpy as np


def route(x, router, k):
    scores = jax.nn.softmax(x.astype(jnp.float32) @ router, -1)
    w, ids = jax.lax.top_k(scores, k)
    return (w / w.sum(-1, keepdims=True)).astype(x.dtype), ids


def combine(y, order, w):
    """Rows y[T*k, D] in the order of experts, weighted and summed per token."""
    y = y[jnp.argsort(order)].reshape(*w.shape, -1)
    return (y * w[..., None]).sum(1)


def ragged(x, w, ids, gate, up, down):
    flat = ids.reshape(-1)
    order = jnp.argsort(flat, stable=True)
    sizes = jnp.bincount(flat, length=gate.shape[0]).astype(jnp.int32)
    rows = x[order // ids.shape[1]]
    h = jax.nn.silu(jax.lax.ragged_dot(rows, gate, sizes)) * jax.lax.ragged_dot(rows, up, sizes)
    return combine(jax.lax.ragged_dot(h, down, sizes), order, w)


def dense(x, w, ids, gate, up, down):
    """Every expert sees every token."""
    weights = jnp.zeros((x.shape[0], gate.shape[0]), x.dtype).at[jnp.arange(x.shape[0])[:, None], ids].set(w)
    h = jax.nn.silu(jnp.einsum("td,edf->etf", x, gate)) * jnp.einsum("td,edf->etf", x, up)
    return jnp.einsum("etf,efd,te->td", h, down, weights)


def gathered(x, ids, experts, capacity):
    """Rows [E, C, D], and the place in them of every pair in the order of experts."""
    flat = ids.reshape(-1)
    order = jnp.argsort(flat, stable=True)
    sizes = jnp.bincount(flat, length=experts)
    expert = flat[order]
    place = expert * capacity + jnp.arange(flat.size) - (jnp.cumsum(sizes) - sizes)[expert]
    rows = jnp.zeros((experts * capacity, x.shape[1]), x.dtype).at[place].set(x[order // ids.shape[1]], unique_indices=True)
    return rows.reshape(experts, capacity, -1), place, order


def padded(capacity, unrolled):
    """Batched products over the rows of the busiest expert, or one after another."""

    def layer(x, w, ids, gate, up, down):
        experts = down.shape[0]
        rows, place, order = gathered(x, ids, experts, capacity)
        if unrolled:
            ys = []
            for e in range(experts):
                g, u = rows[e] @ gate[e], rows[e] @ up[e]
                ys.append((jax.nn.silu(g) * u) @ down[e])
            y = jnp.stack(ys)
        else:
            h = jax.nn.silu(jnp.einsum("ecd,edf->ecf", rows, gate)) * jnp.einsum("ecd,edf->ecf", rows, up)
            y = jnp.einsum("ecf,efd->ecd", h, down)
        return combine(y.reshape(experts * capacity, -1)[place], order, w)

    return layer


def moe(dtype, backward):
    def formulations(data, params, threads):
        k, experts = params["top_k"], params["experts"]
        arrays = [jnp.asarray(data[n]).astype(jnp.float32 if n == "router" else dtype) for n in ("x", "router", "gate", "up", "down")]
        ids = np.asarray(route(arrays[0], arrays[1], k)[1])
        capacity = int(np.bincount(ids.reshape(-1), minlength=experts).max())

        def prepare(layer, split=False):
            def build():
                def forward(x, router, gate, up, down):
                    w, ids = route(x, router, k)
                    return layer(x, w, ids, gate, up, down)

                args = list(arrays)
                if split:  # one array per expert, as separate modules would hold
                    args[2:] = [[jnp.array(a[e]) for e in range(experts)] for a in args[2:]]
                if not backward:
                    f = jax.jit(forward)
                    return lambda: {"out": f(*args).block_until_ready()}
                g = jax.jit(jax.value_and_grad(lambda *a: 0.5 * jnp.sum(jnp.square(forward(*a).astype(jnp.float32))), argnums=(0, 1, 2, 3, 4)))

                def step():
                    loss, grads = jax.block_until_ready(g(*args))
                    return {"loss": loss, **dict(zip(("grad_x", "grad_router", "grad_gate", "grad_up", "grad_down"), grads))}

                return step

            return build

        def listed(x, w, ids, gate, up, down):
            rows, place, order = gathered(x, ids, experts, capacity)
            y = jnp.concatenate([(jax.nn.silu(rows[e] @ gate[e]) * (rows[e] @ up[e])) @ down[e] for e in range(experts)])
            return combine(y[place], order, w)

        out = [
            ("padded, einsum", prepare(padded(capacity, False))),
            ("padded, experts unrolled", prepare(padded(capacity, True))),
            ("ragged_dot", prepare(ragged)),
        ]
        if experts <= 32:
            out.append(("padded, one array per expert", prepare(listed, True)))
        if experts <= 8:
            out.append(("dense einsum", prepare(dense)))
        return out

    return formulations


def workloads():
    return {
        "moe_f32_forward": moe(jnp.float32, False), "moe_f32_backward": moe(jnp.float32, True),
        "moe_bf16_forward": moe(jnp.bfloat16, False), "moe_bf16_backward": moe(jnp.bfloat16, True),
    }
