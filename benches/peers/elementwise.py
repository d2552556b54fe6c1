"""torch's elementwise operations, eager and compiled."""

import torch
from torch.nn import functional

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


def chain8(x):
    return torch.clamp(torch.sqrt(torch.square(functional.silu(x * 0.7 + 0.1)) + 1.0), 0.2, 3.0)


def function(case):
    op = case["op"]
    if op == "add":
        return lambda x: torch.add(x.a, x.b)
    if op == "cast":
        return lambda x: x.x.to(DTYPES[case["to"]])
    if op == "permute":
        return lambda x: x.x.permute(case["axes"]).contiguous()
    unary = chain8 if op == "chain8" else getattr(torch, op, None) or getattr(functional, op)
    return lambda x: unary(x.x)


def peers(case):
    eager = function(case)
    compiled = torch.compile(eager, dynamic=False)
    return {
        "torch": lambda x: lambda: {"y": eager(x)},
        "torch.compile": lambda x: lambda: {"y": compiled(x)},
    }
