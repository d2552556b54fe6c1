"""torch's reductions."""

import torch


def peers(case):
    function, axis = {"sum": torch.sum, "max": torch.amax}[case["op"]], case["axis"]
    if axis is None:
        return {"torch": lambda x: lambda: {"y": function(x.x)}}
    return {"torch": lambda x: lambda: {"y": function(x.x, dim=axis)}}
