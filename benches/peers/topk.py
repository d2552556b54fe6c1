"""torch's topk, as it is and compiled."""

import torch


def peers(case):
    def function(x):
        values, indices = torch.topk(x, case["k"], dim=-1)
        return {"y": values, "indices": indices}

    compiled = torch.compile(function, dynamic=False)
    return {
        "torch": lambda x: lambda: function(x.x),
        "torch.compile": lambda x: lambda: compiled(x.x),
    }
