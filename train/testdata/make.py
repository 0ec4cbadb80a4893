# Writes trajectories.json and schedules.json: what optimisers of PyTorch and optax do with the same gradients, and
# schedules of optax.
#   pip install torch optax jax && python make.py
import inspect, json, types
import jax, jax.numpy as jnp, numpy as np, optax, torch
import torch.optim._muon as muon

rng = np.random.default_rng(7)
shapes = {"b": [4], "wide": [2, 5], "w": [4, 3], "e": [2, 4, 3]}
steps = 5
rates = [0.01, 0.05, 0.03, 0.02, 0.01]
start = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
grads = [{n: (rng.standard_normal(s) * (0.3 + i)).astype(np.float32) for n, s in shapes.items()} for i in range(steps)]
grads[2]["w"][1] = 0


def flat(x):
    return [float(f"{v:.9g}") for v in np.asarray(x, np.float32).reshape(-1)]


def with_torch(make, after=None):
    ps = {n: torch.nn.Parameter(torch.tensor(x.copy())) for n, x in start.items()}
    opts, out = make(ps), []
    for i in range(steps):
        for n, p in ps.items():
            p.grad = torch.tensor(grads[i][n])
        for o in opts:
            for g in o.param_groups:
                g["lr"] = rates[i]
            o.step()
        if after:
            out.append({n: flat(x) for n, x in after(ps).items()})
        else:
            out.append({n: flat(p.detach().numpy()) for n, p in ps.items()})
    return out


def groups(ps, decay):
    return [{"params": [p for p in ps.values() if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in ps.values() if p.dim() <= 1], "weight_decay": 0.0}]


def with_optax(make):
    ps, out = {n: jnp.asarray(x) for n, x in start.items()}, []
    mask = {n: len(s) > 1 for n, s in shapes.items()}
    state = make(rates[0], mask).init(ps)
    for i in range(steps):
        up, state = make(rates[i], mask).update({n: jnp.asarray(g) for n, g in grads[i].items()}, state, ps)
        ps = optax.apply_updates(ps, up)
        out.append({n: flat(p) for n, p in ps.items()})
    return out


def half(ps):  # AdamW with moments that are stored as bf16, in PyTorch's order of operations
    class Half:
        param_groups = [{"lr": 0.0}]
        m = {n: torch.zeros_like(p).bfloat16() for n, p in ps.items()}
        v = {n: torch.zeros_like(p).bfloat16() for n, p in ps.items()}
        n = 0

        def step(self):
            self.n += 1
            lr, b1, b2, eps = self.param_groups[0]["lr"], 0.9, 0.95, 1e-8
            for k, p in ps.items():
                m, v = self.m[k].float() * b1 + p.grad * (1 - b1), self.v[k].float() * b2 + p.grad**2 * (1 - b2)
                d = (m / (1 - b1**self.n)) / ((v / (1 - b2**self.n)).sqrt() + eps) + (0.1 * p if p.dim() > 1 else 0)
                p.data -= lr * d
                self.m[k], self.v[k] = m.bfloat16(), v.bfloat16()
    return [Half()]


# PyTorch's iteration rounds to bf16; the comparison is of f32.
f32 = {"torch": torch, "Tensor": torch.Tensor}
exec(inspect.getsource(muon._zeropower_via_newtonschulz).replace("torch.bfloat16", "torch.float32"), f32)
muon._zeropower_via_newtonschulz = f32["_zeropower_via_newtonschulz"]


class Stack:
    """Muon for every matrix of a stack."""
    def __init__(self, p, **kw):
        self.p, self.parts = p, [torch.nn.Parameter(x.clone()) for x in p.detach()]
        self.o = torch.optim.Muon(self.parts, **kw)
        self.param_groups = self.o.param_groups

    def step(self):
        for x, g in zip(self.parts, self.p.grad):
            x.grad = g.clone()
        self.o.step()
        with torch.no_grad():
            self.p.copy_(torch.stack(self.parts))


def muons(adjust, nesterov):
    kw = dict(lr=0, weight_decay=0.1, momentum=0.95, nesterov=nesterov, adjust_lr_fn=adjust)
    return lambda ps: [torch.optim.Muon([ps["wide"], ps["w"]], **kw), Stack(ps["e"], **kw),
                       torch.optim.AdamW([ps["b"]], lr=0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)]


def adamw(ps):
    return [torch.optim.AdamW(groups(ps, 0.1), lr=0, betas=(0.9, 0.95), eps=1e-8)]


mean = {}


def ema(ps):
    with torch.no_grad():
        if not mean:
            mean.update({n: torch.tensor(x.copy()) for n, x in start.items()})
        torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)(list(mean.values()), [p.detach() for p in ps.values()], 1)
    return {n: x.numpy() for n, x in mean.items()}


runs = {
    "adamw": with_torch(adamw),
    "adamw, moments in bf16": with_torch(half),
    "adamw, clipped": with_optax(lambda lr, mask: optax.chain(optax.clip_by_global_norm(1.5), optax.adamw(lr, b1=0.9, b2=0.95, eps=1e-8, weight_decay=0.1, mask=mask))),
    "average of adamw": with_torch(adamw, ema),
    "sgd": with_torch(lambda ps: [torch.optim.SGD(groups(ps, 0.0), lr=0)]),
    "sgd, momentum": with_torch(lambda ps: [torch.optim.SGD(groups(ps, 0.1), lr=0, momentum=0.9)]),
    "sgd, nesterov": with_torch(lambda ps: [torch.optim.SGD(groups(ps, 0.1), lr=0, momentum=0.9, nesterov=True)]),
    "lion": with_optax(lambda lr, mask: optax.lion(lr, b1=0.9, b2=0.99, weight_decay=0.1, mask=mask)),
    "adafactor": with_torch(lambda ps: [torch.optim.Adafactor(groups(ps, 0.1), lr=0)]),
    "muon": with_torch(muons(None, True)),
    "muon like adam, plain": with_torch(muons("match_rms_adamw", False)),
}
with open("trajectories.json", "w") as f:
    json.dump({"shapes": shapes, "rates": rates, "start": {n: flat(x) for n, x in start.items()},
               "gradients": [{n: flat(x) for n, x in g.items()} for g in grads], "runs": runs}, f, separators=(",", ":"))
    f.write("\n")

peak, warm, total, floor, decay = 0.003, 4, 20, 0.1, 6
rise = optax.linear_schedule(0, peak, warm)
schedules = {
    "cosine": optax.warmup_cosine_decay_schedule(0, peak, warm, total, peak * floor),
    "linear": optax.join_schedules([rise, optax.linear_schedule(peak, peak * floor, total - warm)], [warm]),
    "wsd": optax.join_schedules([rise, optax.constant_schedule(peak), optax.linear_schedule(peak, peak * floor, decay)], [warm, total - decay]),
}
with open("schedules.json", "w") as f:
    json.dump({n: [float(s(i)) for i in range(1, total + 5)] for n, s in schedules.items()}, f, separators=(",", ":"))
    f.write("\n")
