"""torch's elementwise operations."""

import torch


def peers(case):
    op = case["op"]
    if op == "add":
        return {"torch": lambda x: lambda: {"y": torch.add(x.a, x.b)}}
    function = getattr(torch, op)
    return {"torch": lambda x: lambda: {"y": function(x.x)}}
