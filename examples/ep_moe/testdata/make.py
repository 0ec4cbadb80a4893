"""Makes the fixtures of ep_moe's tests: inputs and expected results as .npy.

Needs NumPy only; run in this folder. `l1`, `l2` and `l3` hold the default job
of TransformerEngine's examples/jax/ep/ep_moe.py on four ranks (dp=2, ep=2) for
one to three layers, with the tensors its seeds give; `odd` routes at random,
with duplicates, missing choices, a rank without tokens and uneven weights.
Expected results are computed densely in f64.
"""
import os
import numpy as np


def job(name, tokens, w, idx, kernels):
    os.makedirs(name, exist_ok=True)
    save = lambda n, a: np.save(f"{name}/{n}.npy", a)
    save("tokens", tokens.astype(np.float32))
    save("topk_w", w.astype(np.float32))
    for l, (i, k) in enumerate(zip(idx, kernels)):
        save(f"topk_idx_{l}", i.astype(np.int32))
        save(f"kernels_{l}", k.astype(np.float32))
    x = [tokens.astype(np.float32).astype(np.float64)]
    w = w.astype(np.float32).astype(np.float64)
    ks = [k.astype(np.float32).astype(np.float64) for k in kernels]
    for i, k in zip(idx, ks):
        m = np.where(i[..., None, None] >= 0, k[i], 0)  # [T,K,H,F]
        x.append(np.einsum("th,tkhf,tk->tf", x[-1], m, w))
    g, gw = x[-1], np.zeros_like(w)
    save("want_out", x[-1])
    for l in reversed(range(len(ks))):
        i, k = idx[l], ks[l]
        m = np.where(i[..., None, None] >= 0, k[i], 0)
        gk = np.zeros_like(k)
        for t in range(i.shape[0]):
            for c in range(i.shape[1]):
                if i[t, c] >= 0:
                    gk[i[t, c]] += w[t, c] * np.outer(x[l][t], g[t])
        save(f"want_grad_kernels_{l}", gk)
        gw += np.einsum("th,tkhf,tf->tk", x[l], m, g)
        g = np.einsum("tf,tkhf,tk->th", g, m, w)
    save("want_grad_tokens", g)
    save("want_grad_topk_w", gw)
    print(name, "loss %.4f out.sum %.4f" % (0.5 * (x[-1] ** 2).sum(), x[-1].sum()))


def default(layers, T=8, K=2, H=32, dp=2, ep=2, E=4):
    nle = E // ep
    toks = [np.random.default_rng(42 + d).standard_normal((T, H), dtype=np.float32) * 0.5 for d in range(dp) for _ in range(ep)]
    t, k = np.arange(T)[:, None], np.arange(K)[None]
    idx = [np.concatenate([(d * nle + t * K + k + l) % E for d in range(dp) for _ in range(ep)]) for l in range(layers)]
    r = np.random.default_rng(42)
    kern = [r.standard_normal((E, H, H), dtype=np.float32) / np.sqrt(H) for _ in range(layers)]
    job(f"l{layers}", np.concatenate(toks), np.full((T * dp * ep, K), 1 / K), idx, kern)


def odd(T=16, K=3, H=5, E=4):
    r = np.random.default_rng(7)
    idx = [r.integers(-1, E, size=(T, K)) for _ in range(2)]
    for i in idx:
        i[4:8] = -1  # the second of four ranks has nothing to send
        i[8] = 3  # the same expert three times
    w = r.normal(size=(T, K))
    w[0, 0] = 0  # a weight that is zero has a gradient all the same
    job("odd", r.normal(size=(T, H)), w, idx, [r.normal(size=(E, H, H)) for _ in range(2)])


for n in (1, 2, 3):
    default(n)
odd()
