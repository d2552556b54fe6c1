"""torch's elementwise operations."""

import torch
from torch.nn import functional

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


def chain8(x):
    return torch.clamp(torch.sqrt(torch.square(functional.silu(x * 0.7 + 0.1)) + 1.0), 0.2, 3.0)


def peers(case):
    op = case["op"]
    if op == "add":
        return {"torch": lambda x: lambda: {"y": torch.add(x.a, x.b)}}
    if op == "cast":
        return {"torch": lambda x: lambda: {"y": x.x.to(DTYPES[case["to"]])}}
    if op == "permute":
        return {"torch": lambda x: lambda: {"y": x.x.permute(case["axes"]).contiguous()}}
    if op == "chain8":
        compiled = torch.compile(chain8)
        return {
            "torch": lambda x: lambda: {"y": chain8(x.x)},
            "torch.compile": lambda x: lambda: {"y": compiled(x.x)},
        }
    function = getattr(torch, op, None) or getattr(functional, op)
    return {"torch": lambda x: lambda: {"y": function(x.x)}}
