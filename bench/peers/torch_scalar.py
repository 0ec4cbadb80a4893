"""A program of 20 equations over scalars: what a call costs."""

import torch


def twenty(x, y):
    for _ in range(5):
        x, y = torch.tanh(x * y + x), y - x
    return x, y


def scalar(data, params, threads):
    x, y = torch.from_numpy(data["x"].reshape(())), torch.from_numpy(data["y"].reshape(()))

    def prepare(wrap):
        def build():
            f = wrap(twenty)

            def step():
                with torch.inference_mode():
                    return dict(zip("xy", f(x, y)))

            return step

        return build

    return [("eager", prepare(lambda f: f)), ("compiled", prepare(torch.compile))]


def workloads():
    return {"scalar": scalar}
