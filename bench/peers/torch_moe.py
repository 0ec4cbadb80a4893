"""One MoE layer: softmax router in f32, K of E experts, SwiGLU, combine.

Formulations differ in where the tokens of an expert are gathered (per expert, or
once after a sort), in the layout of the weights ([out, in] as nn.Linear has it,
or [in, out]), in whether gate and up are one matrix, and in what combines.
"""

import torch
import torch.nn.functional as F


class Layer:
    def __init__(self, data, params, dtype):
        t = lambda n: torch.from_numpy(data[n])
        self.dtype, self.k, self.experts = dtype, params["top_k"], params["experts"]
        self.x, self.router = t("x").to(dtype), t("router")
        self.gate, self.up, self.down = (t(n).to(dtype) for n in ("gate", "up", "down"))
        self.tokens = self.x.shape[0]

    def route(self, x, router):
        scores = torch.softmax(x.float() @ router, -1)
        w, ids = torch.topk(scores, self.k, -1)
        return (w / w.sum(-1, keepdim=True)).to(self.dtype), ids

    def most(self):
        """Rows of the busiest expert: the capacity at which nothing is dropped."""
        _, ids = self.route(self.x, self.router)
        return int(torch.bincount(ids.flatten(), minlength=self.experts).max())


def per_expert(l, fused, linear, silu_mul):
    """index_select, three matrix products and index_add for each expert."""
    mul = F.linear if linear else torch.matmul

    def forward(x, router, *ws):
        w, ids = l.route(x, router)
        out = torch.zeros_like(x)
        for e in range(l.experts):
            token, slot = torch.where(ids == e)
            rows = x.index_select(0, token)
            if fused:
                g, u = mul(rows, ws[2 * e]).chunk(2, -1)
                h = mul(silu_mul(g, u), ws[2 * e + 1])
            else:
                h = mul(silu_mul(mul(rows, ws[3 * e]), mul(rows, ws[3 * e + 1])), ws[3 * e + 2])
            out.index_add_(0, token, h * w[token, slot].unsqueeze(1))
        return out

    return forward


def sort_once(l, ids):
    flat = ids.flatten()
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=l.experts)
    return order, counts


def combine(l, x, y, order, w):
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.numel())
    y = y.index_select(0, inverse).view(l.tokens, l.k, -1)
    return (y * w.unsqueeze(-1)).sum(1)


def sorted_experts(l, fused, linear, silu_mul):
    """One gather of all rows in the order of experts, then products per expert."""
    mul = F.linear if linear else torch.matmul

    def forward(x, router, *ws):
        w, ids = l.route(x, router)
        order, counts = sort_once(l, ids)
        parts = x.index_select(0, order // l.k).split(counts.tolist())
        ys = []
        for e, rows in enumerate(parts):
            if rows.shape[0] == 0:
                continue
            if fused:
                g, u = mul(rows, ws[2 * e]).chunk(2, -1)
                ys.append(mul(silu_mul(g, u), ws[2 * e + 1]))
            else:
                ys.append(mul(silu_mul(mul(rows, ws[3 * e]), mul(rows, ws[3 * e + 1])), ws[3 * e + 2]))
        return combine(l, x, torch.cat(ys), order, w)

    return forward


def padded(l, silu_mul, capacity):
    """Batched products over [E, C, D], C being the rows of the busiest expert."""

    def forward(x, router, gate, up, down):
        w, ids = l.route(x, router)
        order, counts = sort_once(l, ids)
        expert = ids.flatten().index_select(0, order)
        first = counts.cumsum(0) - counts
        place = expert * capacity + torch.arange(order.numel()) - first.index_select(0, expert)
        rows = x.new_zeros(l.experts * capacity, x.shape[1])
        rows = rows.index_copy(0, place, x.index_select(0, order // l.k)).view(l.experts, capacity, -1)
        y = torch.bmm(silu_mul(torch.bmm(rows, gate), torch.bmm(rows, up)), down)
        return combine(l, x, y.flatten(0, 1).index_select(0, place), order, w)

    return forward


def grouped(l, silu_mul):
    """torch._grouped_mm, which newer versions have on the CPU too."""
    mm = getattr(F, "grouped_mm", None) or torch._grouped_mm

    def forward(x, router, gate, up, down):
        w, ids = l.route(x, router)
        order, counts = sort_once(l, ids)
        ends = counts.cumsum(0).to(torch.int32)
        rows = x.index_select(0, order // l.k)
        y = mm(silu_mul(mm(rows, gate, offs=ends), mm(rows, up, offs=ends)), down, offs=ends)
        return combine(l, x, y, order, w)

    return forward


def silu_mul(g, u):
    return F.silu(g) * u


def leaves(l, fused, linear):
    """The experts' weights one by one, as a list of modules would hold them."""
    t = (lambda a: a.t().contiguous()) if linear else (lambda a: a.contiguous())
    out = []
    for e in range(l.experts):
        if fused:
            out += [t(torch.cat([l.gate[e], l.up[e]], 1)), t(l.down[e])]
        else:
            out += [t(l.gate[e]), t(l.up[e]), t(l.down[e])]
    return out


def regroup(l, gs, fused, linear):
    """Gradients of leaves by name, each a list of [out, in]."""
    t = (lambda a: a) if linear else (lambda a: a.t())
    if not fused:
        return {n: [t(g) for g in gs[i::3]] for i, n in enumerate(("grad_gate", "grad_up", "grad_down"))}
    both = [t(g) for g in gs[0::2]]
    f = l.gate.shape[2]
    return {"grad_gate": [g[:f] for g in both], "grad_up": [g[f:] for g in both], "grad_down": [t(g) for g in gs[1::2]]}


class Named(dict):
    """Gradients that are renamed only when they are looked at, outside the timing."""

    def __init__(self, first, rest):
        super().__init__(first)
        self.rest = rest

    def items(self):
        return {**dict(super().items()), **self.rest()}.items()


def moe(dtype, backward):
    def formulations(data, params, threads):
        l = Layer(data, params, dtype)
        compiled = torch.compile(silu_mul, dynamic=True)

        def prepare(make, ws, name):
            def build():
                forward, params_ = make(), [p.detach().clone() for p in ws()]
                if not backward:
                    def step():
                        with torch.inference_mode():
                            return {"out": forward(l.x, l.router, *params_)}

                    return step
                x, router = l.x.clone().requires_grad_(), l.router.clone().requires_grad_()
                for p in params_:
                    p.requires_grad_()

                def step():
                    loss = forward(x, router, *params_).float().square().sum() * 0.5
                    g = torch.autograd.grad(loss, [x, router, *params_])
                    return Named({"loss": loss, "grad_x": g[0], "grad_router": g[1]}, lambda: name(g[2:]))

                return step

            return build

        out = []
        for fused in (False, True):
            for linear in (False, True):
                ws = lambda fused=fused, linear=linear: leaves(l, fused, linear)
                name = lambda g, fused=fused, linear=linear: regroup(l, g, fused, linear)
                how = ("fused gate-up, " if fused else "") + ("F.linear" if linear else "matmul")
                out.append(("per expert, " + how, prepare(lambda f=fused, li=linear: per_expert(l, f, li, silu_mul), ws, name)))
                out.append(("sorted, " + how, prepare(lambda f=fused, li=linear: sorted_experts(l, f, li, silu_mul), ws, name)))
                if linear:
                    out.append(("sorted, " + how + ", compiled SwiGLU", prepare(lambda f=fused, li=linear: sorted_experts(l, f, li, compiled), ws, name)))
        stacked = lambda: [l.gate, l.up, l.down]
        named = lambda g: dict(zip(("grad_gate", "grad_up", "grad_down"), g))
        out.append(("padded bmm", prepare(lambda: padded(l, silu_mul, l.most()), stacked, named)))
        out.append(("padded bmm, compiled", prepare(lambda: torch.compile(padded(l, silu_mul, l.most())), stacked, named)))
        out.append(("grouped_mm", prepare(lambda: grouped(l, silu_mul), stacked, named)))
        out.append(("grouped_mm, compiled SwiGLU", prepare(lambda: grouped(l, compiled), stacked, named)))
        return out

    return formulations


def workloads():
    f32, bf16 = torch.float32, torch.bfloat16
    return {
        "moe_f32_forward": moe(f32, False), "moe_f32_backward": moe(f32, True),
        "moe_bf16_forward": moe(bf16, False), "moe_bf16_backward": moe(bf16, True),
    }
