"""torch's selection by indices, eager and compiled; along axis 0 its embedding too."""

import torch
from torch.nn import functional


def peers(case):
    axis = case["axis"]

    def select(x):
        return torch.index_select(x.x, axis, x.indices)

    def embed(x):
        return functional.embedding(x.indices, x.x)

    compiled = torch.compile(select, dynamic=False)
    result = {
        "torch": lambda x: lambda: {"y": select(x)},
        "torch.compile": lambda x: lambda: {"y": compiled(x)},
    }
    if axis == 0:
        result["torch embedding"] = lambda x: lambda: {"y": embed(x)}
    return result
