"""One training step of the language model of examples/moe_lm: see bench/moelm.go."""

import torch
import torch.nn.functional as F

from torch_moe import silu_mul


class Model:
    def __init__(self, data, params, experts):
        self.p, self.experts = params, experts
        self.w = {}
        t = lambda n: torch.from_numpy(data["w_" + n])
        for n in params["weights"]:
            a = t(n)
            if a.dim() == 3 and experts == "list":  # one leaf per expert, as a list of modules holds them
                self.w[n] = [x.clone().requires_grad_() for x in a]
            else:
                self.w[n] = a.clone().requires_grad_()
        self.leaves = [x for w in self.w.values() for x in (w if isinstance(w, list) else [w])]
        self.bytes, self.targets = (torch.from_numpy(data[n]).long() for n in ("bytes", "targets"))
        s, d = self.bytes.shape[1], self.w["embed"].shape[1] // params["heads"]
        angle = torch.arange(s, dtype=torch.float64)[:, None] * 10000.0 ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
        self.cos, self.sin = angle.cos().float(), angle.sin().float()

    def rope(self, x):
        """x [B,N,S,D]."""
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)

    def attention(self, x, wq, wk, wv, wo):
        heads = lambda w: (x @ w).unflatten(-1, (self.p["heads"], -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(self.rope(heads(wq)), self.rope(heads(wk)), heads(wv), is_causal=True)
        return y.transpose(1, 2).flatten(2) @ wo

    def moe(self, x, router, gate, up, down):
        p, shape = self.p, x.shape
        x = x.flatten(0, 1)
        tokens, k, experts = x.shape[0], p["top_k"], p["experts"]
        logits = x @ router
        scores = torch.softmax(logits, -1)
        w, ids = torch.topk(scores, k, -1)
        w = w / w.sum(-1, keepdim=True)
        flat = ids.flatten()
        order = torch.argsort(flat, stable=True)
        counts = torch.bincount(flat, minlength=experts)
        rows = x.index_select(0, order // k)
        if self.experts == "list":
            y = torch.cat([silu_mul(r @ gate[e], r @ up[e]) @ down[e] for e, r in enumerate(rows.split(counts.tolist()))])
        elif self.experts == "grouped":
            mm = getattr(F, "grouped_mm", None) or torch._grouped_mm
            ends = counts.cumsum(0).to(torch.int32)
            y = mm(silu_mul(mm(rows, gate, offs=ends), mm(rows, up, offs=ends)), down, offs=ends)
        else:
            capacity = int(counts.max())
            expert = flat.index_select(0, order)
            place = expert * capacity + torch.arange(order.numel()) - (counts.cumsum(0) - counts).index_select(0, expert)
            padded = x.new_zeros(experts * capacity, x.shape[1]).index_copy(0, place, rows).view(experts, capacity, -1)
            y = torch.bmm(silu_mul(torch.bmm(padded, gate), torch.bmm(padded, up)), down).flatten(0, 1).index_select(0, place)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.numel())
        out = (y.index_select(0, inverse).view(tokens, k, -1) * w.unsqueeze(-1)).sum(1)
        balance = experts / (k * tokens * tokens) * (scores.sum(0) * counts).sum()
        return out.view(shape), balance, torch.logsumexp(logits, 1).square().mean()

    def loss(self):
        p, w = self.p, self.w
        d = w["norm"].shape
        x = F.embedding(self.bytes, w["embed"])
        aux = 0
        for l in range(p["layers"]):
            n = lambda s: w["l%d_%s" % (l, s)]
            x = x + self.attention(F.rms_norm(x, d, n("norm1"), 1e-5), n("wq"), n("wk"), n("wv"), n("wo"))
            y, balance, z = self.moe(F.rms_norm(x, d, n("norm2"), 1e-5), n("router"), n("gate"), n("up"), n("down"))
            x = x + y
            aux = aux + p["balance"] * balance + p["z_loss"] * z
        logits = F.rms_norm(x, d, w["norm"], 1e-5) @ w["head"]
        ce = F.cross_entropy(logits.flatten(0, 1), self.targets.flatten())
        return ce, ce + aux / p["layers"]


def lm(data, params, threads):
    def prepare(experts, wrap):
        def build():
            m = Model(data, params, experts)
            decayed = [x for x in m.leaves if x.dim() > 1]
            gains = [x for x in m.leaves if x.dim() == 1]
            groups = [{"params": decayed, "weight_decay": params["decay"]}, {"params": gains, "weight_decay": 0.0}]
            adamw = torch.optim.AdamW(groups, lr=params["rate"], betas=(params["beta1"], params["beta2"]), eps=params["eps"], fused=True)
            loss = wrap(m.loss)

            def train():
                adamw.zero_grad(set_to_none=True)
                ce, total = loss()
                total.backward()
                torch.nn.utils.clip_grad_norm_(m.leaves, params["clip"])
                adamw.step()
                return ce.item()

            losses = torch.tensor([train() for _ in range(params["first_steps"])])

            squares = [sum(float(x.detach().double().square().sum()) for x in (w if isinstance(w, list) else [w])) for w in m.w.values()]
            norms = torch.tensor(squares).sqrt()

            def step():
                train()
                return {"losses": losses, "norms": norms}

            return step

        return build

    eager, compiled = (lambda f: f), (lambda f: torch.compile(f, dynamic=True))
    return [
        ("eager, list of experts", prepare("list", eager)),
        ("eager, grouped_mm", prepare("grouped", eager)),
        ("eager, padded bmm", prepare("padded", eager)),
        ("torch.compile, grouped_mm", prepare("grouped", compiled)),
        ("torch.compile, padded bmm", prepare("padded", compiled)),
    ]


def workloads():
    return {"lm": lm}
