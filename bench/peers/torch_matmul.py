"""c[M,N] = a[M,K] b[K,N]."""

import torch
import torch.nn.functional as F


def matmul(dtype):
    def formulations(data, params, threads):
        a, b = (torch.from_numpy(data[n]).to(dtype) for n in ("a", "b"))
        bt = b.t().contiguous()

        def mm():
            def step():
                with torch.inference_mode():
                    return {"c": torch.mm(a, b)}

            return step

        def linear():
            def step():
                with torch.inference_mode():
                    return {"c": F.linear(a, bt)}

            return step

        def prepacked():
            w = torch.ops.mkldnn._reorder_linear_weight(bt, a.shape[0])

            def step():
                with torch.inference_mode():
                    return {"c": torch.ops.mkldnn._linear_pointwise(a, w, None, "none", [], "")}

            return step

        return [("mm", mm), ("linear", linear), ("oneDNN prepacked", prepacked)]

    return formulations


def workloads():
    return {"matmul_f32": matmul(torch.float32), "matmul_bf16": matmul(torch.bfloat16)}
