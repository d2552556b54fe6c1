"""torch's operations on rows, as they are and compiled."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def softmax(x):
    return lambda: {"y": torch.softmax(x.x, dim=-1)}


def layer_norm(x):
    return lambda: {"y": F.layer_norm(x.x, x.weight.shape, x.weight, x.bias, EPSILON)}


def rms_norm(x):
    return lambda: {"y": F.rms_norm(x.x, x.weight.shape, x.weight, EPSILON)}


def softmax_grad(x):
    gradient = torch.ops.aten._softmax_backward_data
    return lambda: {"dx": gradient(x.dy, x.y, -1, x.y.dtype)}


def layer_norm_grad(x):
    gradient = torch.ops.aten.native_layer_norm_backward
    mean, rstd, bias = x.mean.unsqueeze(-1), x.rstd.unsqueeze(-1), torch.zeros_like(x.weight)

    def run():
        dx, _, _ = gradient(x.dy, x.x, x.weight.shape, mean, rstd, x.weight, bias, [True, True, True])
        return {"dx": dx}

    return run


def cross_entropy(x):
    logits = x.x.detach().requires_grad_(True)
    ones = torch.ones(x.targets.shape, device=x.x.device, dtype=x.x.dtype)

    def run():
        with torch.enable_grad():
            loss = F.cross_entropy(logits, x.targets, reduction="none")
        return {"loss": loss.detach(), "dx": torch.autograd.grad(loss, logits, ones)[0]}

    return run


COMPILED = {
    "softmax": lambda x: torch.softmax(x.x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x.x, x.weight.shape, x.weight, x.bias, EPSILON),
    "rms_norm": lambda x: F.rms_norm(x.x, x.weight.shape, x.weight, EPSILON),
}


def compiled(op):
    def make(x):
        function = torch.compile(lambda: COMPILED[op](x), dynamic=False)
        return lambda: {"y": function()}

    return make


def peers(case):
    """torch, and torch.compile where the operation is one expression."""
    op = case["op"]
    found = {"torch": globals()[op]}
    if op in COMPILED:
        found["torch.compile"] = compiled(op)
    return found
