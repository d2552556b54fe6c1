"""torch's addition by indices to zeros, eager and compiled, and its gradient of an embedding; and its
rows put into zeros that are there before."""

import torch


def put(count):
    def of_copy(x):
        # A table of its own for each copy of the operands, as ours has.
        y = torch.zeros((count, x.src.shape[1]), dtype=x.src.dtype, device=x.src.device)
        return lambda: {"y": y.index_copy_(0, x.indices, x.src)}

    return of_copy


def peers(case):
    count = case["count"]
    if case.get("set"):
        return {"torch": put(count)}

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
