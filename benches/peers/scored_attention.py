"""torch's FlexAttention, compiled with max-autotune, and torch's ordinary attention with a bias.

FlexAttention computes every pair, as ours does here: it gets no block mask. CUDA graphs are left out, as
the caller gives the stream.
"""

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention


def peers(case):
    made = {"flex": lambda x: flex(case, x)}
    if case["change"] == "bias":
        made["torch_bias"] = lambda x: ordinary(x)
    return made


def score_mod(case, x):
    """What changes a score, or None."""
    cap, window, slopes, bias = case["cap"], case["window"], x.slopes, x.bias

    def alibi(score, b, h, q, k):
        return score - slopes[h] * (q - k).abs()

    def softcap(score, b, h, q, k):
        return cap * torch.tanh(score / cap)

    def sliding_window(score, b, h, q, k):
        return torch.where((k <= q) & (q - k < window), score, -float("inf"))

    def biased(score, b, h, q, k):
        return score + bias[0, h, q, k]

    return {
        "plain": None,
        "alibi": alibi,
        "softcap": softcap,
        "window": sliding_window,
        "bias": biased,
        "bias_grad": biased,
    }[case["change"]]


def flex(case, x):
    compiled = torch.compile(flex_attention, dynamic=False, mode="max-autotune-no-cudagraphs")
    q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))
    if case["change"] == "bias_grad":
        return flex_gradients(case, x, compiled, (q, k, v))
    change = score_mod(case, x)

    def run():
        return {"o": compiled(q, k, v, score_mod=change).transpose(1, 2)}

    return run


def flex_gradients(case, x, compiled, qkv):
    """The backward pass alone; the forward pass runs once, before."""
    inputs = [tensor.detach().requires_grad_() for tensor in (*qkv, x.bias)]
    x.bias = inputs[3]
    d_o = x.d_o.transpose(1, 2)
    with torch.enable_grad():
        o = compiled(*inputs[:3], score_mod=score_mod(case, x))

    def run():
        dq, dk, dv, d_bias = torch.autograd.grad(o, inputs, d_o, retain_graph=True)
        dq, dk, dv = (gradient.transpose(1, 2) for gradient in (dq, dk, dv))
        return {"dq": dq, "dk": dk, "dv": dv, "d_bias": d_bias}

    return run


def ordinary(x):
    q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))

    def run():
        return {"o": scaled_dot_product_attention(q, k, v, attn_mask=x.bias).transpose(1, 2)}

    return run
