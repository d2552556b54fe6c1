"""torch's operations on rows, as they are and compiled; QuACK's (PyPI's quack-kernels, 0.6.5)."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def softmax(x):
    return lambda: {"y": torch.softmax(x.x, dim=-1)}


def layer_norm(x):
    return lambda: {"y": F.layer_norm(x.x, x.weight.shape, x.weight, x.bias, EPSILON)}


def rms_norm(x):
    return lambda: {"y": F.rms_norm(x.x, x.weight.shape, x.weight, EPSILON)}


def layer_norm_residual(x):
    def run():
        total = x.x + x.residual
        return {"y": F.layer_norm(total, x.weight.shape, x.weight, x.bias, EPSILON), "sum": total}

    return run


def rms_norm_residual(x):
    def run():
        total = x.x + x.residual
        return {"y": F.rms_norm(total, x.weight.shape, x.weight, EPSILON), "sum": total}

    return run


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


def rms_norm_grad(x):
    gradient, rstd = torch.ops.aten._fused_rms_norm_backward, x.rstd.unsqueeze(-1)
    return lambda: {"dx": gradient(x.dy, x.x, x.weight.shape, rstd, x.weight, [True, True])[0]}


def cross_entropy(x):
    logits = x.x.detach().requires_grad_(True)
    ones = torch.ones(x.targets.shape, device=x.x.device, dtype=x.x.dtype)

    def run():
        with torch.enable_grad():
            loss = F.cross_entropy(logits, x.targets, reduction="none")
        return {"loss": loss.detach(), "dx": torch.autograd.grad(loss, logits, ones)[0]}

    return run


def normalized_gradient(x, centred):
    """Formulas of the gradients of norms, in f32: those of rows, weights and, if centred, biases."""
    values, dy, rstd = x.x.float(), x.dy.float(), x.rstd.unsqueeze(-1)
    y = (values - x.mean.unsqueeze(-1)) * rstd if centred else values * rstd
    weighted = dy * x.weight.float()
    dx = weighted - y * (weighted * y).mean(-1, keepdim=True)
    if centred:
        dx = dx - weighted.mean(-1, keepdim=True)
    columns = {"dweight": (dy * y).sum(0)} | ({"dbias": dy.sum(0)} if centred else {})
    return {"dx": (dx * rstd).to(x.x.dtype)} | columns


def softmax_gradient(x):
    y, dy = x.y.float(), x.dy.float()
    return {"dx": (y * (dy - (y * dy).sum(-1, keepdim=True))).to(x.y.dtype)}


def cross_entropy_gradient(x):
    logits, targets = x.x.float(), x.targets.unsqueeze(-1)
    log_sum = torch.logsumexp(logits, -1, keepdim=True)
    classes = torch.arange(logits.shape[-1], device=logits.device)
    dx = torch.exp(logits - log_sum) - (classes == targets)
    loss = log_sum - logits.gather(-1, targets)
    return {"loss": loss.squeeze(-1), "dx": dx.to(x.x.dtype)}


# Gradients of weights and biases are computed on both sides, and compared nowhere.
ANSWERS = ("y", "sum", "dx", "loss")

COMPILED = {
    "softmax": lambda x: {"y": torch.softmax(x.x, dim=-1)},
    "layer_norm": lambda x: {"y": F.layer_norm(x.x, x.weight.shape, x.weight, x.bias, EPSILON)},
    "rms_norm": lambda x: {"y": F.rms_norm(x.x, x.weight.shape, x.weight, EPSILON)},
    "layer_norm_residual": lambda x: layer_norm_residual(x)(),
    "rms_norm_residual": lambda x: rms_norm_residual(x)(),
    "softmax_grad": softmax_gradient,
    "layer_norm_grad": lambda x: normalized_gradient(x, centred=True),
    "rms_norm_grad": lambda x: normalized_gradient(x, centred=False),
    "cross_entropy": cross_entropy_gradient,
}


def compiled(op):
    function = torch.compile(COMPILED[op], dynamic=False)
    return lambda x: lambda: {name: y for name, y in function(x).items() if name in ANSWERS}


# QuACK is imported where it is made ready, so that its absence is said below the row.


def quack_softmax(x):
    from quack.softmax import softmax_fwd

    return lambda: {"y": softmax_fwd(x.x)}


def quack_layer_norm(x):
    from quack.rmsnorm import layernorm_fwd

    # It takes weights of f32 alone.
    weight, bias = x.weight.float(), x.bias.float()
    return lambda: {"y": layernorm_fwd(x.x, weight, bias, EPSILON)}


def quack_rms_norm(x):
    from quack.rmsnorm import rmsnorm_fwd

    return lambda: {"y": rmsnorm_fwd(x.x, x.weight, eps=EPSILON)[0]}


def quack_layer_norm_residual(x):
    from quack.rmsnorm import layernorm_fwd

    # It adds no residual.
    weight, bias = x.weight.float(), x.bias.float()

    def run():
        total = x.x + x.residual
        return {"y": layernorm_fwd(total, weight, bias, EPSILON), "sum": total}

    return run


def quack_rms_norm_residual(x):
    from quack.rmsnorm import rmsnorm_fwd

    def run():
        y, total, _ = rmsnorm_fwd(x.x, x.weight, residual=x.residual, eps=EPSILON)
        return {"y": y, "sum": total}

    return run


def quack_softmax_grad(x):
    from quack.softmax import softmax_bwd

    return lambda: {"dx": softmax_bwd(x.dy, x.y)}


def quack_layer_norm_grad(x):
    from quack.rmsnorm import layernorm_bwd

    # Weights of f32, as above. The gradients of weights and biases are added up too, as ours are.
    weight = x.weight.float()
    return lambda: {"dx": layernorm_bwd(x.x, weight, x.dy, x.rstd, x.mean, has_bias=True)[0]}


def quack_rms_norm_grad(x):
    from quack.rmsnorm import rmsnorm_bwd

    return lambda: {"dx": rmsnorm_bwd(x.x, x.weight, x.dy, x.rstd)[0]}


def quack_cross_entropy(x):
    from quack.cross_entropy import cross_entropy_fwd

    def run():
        loss, dx = cross_entropy_fwd(x.x, x.targets, return_dx=True)
        return {"loss": loss, "dx": dx}

    return run


QUACK = {
    "softmax": quack_softmax,
    "layer_norm": quack_layer_norm,
    "rms_norm": quack_rms_norm,
    "layer_norm_residual": quack_layer_norm_residual,
    "rms_norm_residual": quack_rms_norm_residual,
    "softmax_grad": quack_softmax_grad,
    "layer_norm_grad": quack_layer_norm_grad,
    "rms_norm_grad": quack_rms_norm_grad,
    "cross_entropy": quack_cross_entropy,
}


def peers(case):
    """torch, torch.compile and QuACK."""
    op = case["op"]
    return {"torch": globals()[op], "torch.compile": compiled(op), "quack": QUACK[op]}
