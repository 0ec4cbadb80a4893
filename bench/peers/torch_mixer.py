"""Layers with a state, of transformers: the gated delta rule, by itself and as a layer, and Mamba2.

torch.compile takes minutes for their loops over blocks, and is left out."""

import torch


def gated_delta_rule(data, params, threads):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    names = ["q", "k", "v", "decay", "rates"]

    def rule(q, k, v, decay, rates):
        # The function scales queries by one over the root of their size.
        return torch_chunk_gated_delta_rule(q * q.shape[-1] ** 0.5, k, v, g=decay, beta=rates, output_final_state=False)[0]

    def build():
        ps = [torch.from_numpy(data[n]).clone().requires_grad_(params["backward"]) for n in names]
        ct = torch.from_numpy(data["ct"])

        def step():
            if not params["backward"]:
                with torch.no_grad():
                    return {"out": rule(*ps)}
            out = rule(*ps)
            return dict({"out": out}, **{"grad_" + n: g for n, g in zip(names, torch.autograd.grad(out, ps, ct))})

        return step

    return [("transformers", build)]


def layer(module):
    def formulations(data, params, threads):
        def build():
            m = module(params)
            for n, p in m.named_parameters():
                p.data = torch.from_numpy(data[n]).clone()
                p.requires_grad_(params["backward"])
            x, ct = torch.from_numpy(data["x"]).clone().requires_grad_(params["backward"]), torch.from_numpy(data["ct"])
            ps = [x] + list(m.parameters())

            def step():
                if not params["backward"]:
                    with torch.no_grad():
                        return {"out": m(x)}
                out = m(x)
                return {"out": out, "grad_x": torch.autograd.grad(out, ps, ct)[0]}

            return step

        return [("transformers", build)]

    return formulations


def gated_delta(p):
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    return Qwen3NextGatedDeltaNet(Qwen3NextConfig(hidden_size=p["hidden"], linear_num_key_heads=p["heads"], linear_num_value_heads=p["heads"], linear_key_head_dim=p["width"], linear_value_head_dim=p["width"], num_hidden_layers=1, rms_norm_eps=1e-6), 0)


def mamba2(p):
    from transformers import BambaConfig
    from transformers.models.bamba.modeling_bamba import BambaMixer

    return BambaMixer(BambaConfig(hidden_size=p["hidden"], mamba_n_heads=p["heads"], mamba_d_head=p["width"], mamba_expand=p["heads"] * p["width"] // p["hidden"], mamba_n_groups=1, mamba_d_state=p["width"], mamba_d_conv=4, num_hidden_layers=1, rms_norm_eps=1e-6), 0)


def workloads():
    return {"gated_delta_rule": gated_delta_rule, "gated_delta_layer": layer(gated_delta), "mamba2_layer": layer(mamba2)}
