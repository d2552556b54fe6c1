"""torch's addition by indices to zeros, eager and compiled, and its gradient of an embedding."""

import torch


def peers(case):
    count = case["count"]

    def add(x):
        y = torch.zeros((count, x.src.shape[1]), dtype=x.src.dtype, device=x.src.device)
        return y.index_add_(0, x.indices, x.src)

    def grad(x):
        return torch.ops.aten.embedding_dense_backward(x.src, x.indices, count, -1, False)

    compiled = torch.compile(add, dynamic=False)
    return {
        "torch": lambda x: lambda: {"y": add(x)},
        "torch.compile": lambda x: lambda: {"y": compiled(x)},
        "torch embedding": lambda x: lambda: {"y": grad(x)},
    }
