"""Gradients of attention by cuDNN and by FlashAttention-2, through torch, and by FlashAttention-3
where its wheel has them (PyPI's fa3-fwd has not).

The gradients alone are timed: each peer calls what torch's own backward pass calls, with the o and lse
of our forward pass, which are those of every library (natural logarithm, `[batch, heads, seqlen]`).
"""

import torch


def peers(case):
    """All that there are."""
    if case["packed"]:
        return {"flash": lambda x: flash_packed(case, x)}
    return {
        "cudnn": lambda x: cudnn(case, x),
        "flash": lambda x: flash(case, x),
        "fa3": lambda x: flash_attention_3(case, x),
    }


def heads_first(x, *names):
    return tuple(getattr(x, name).transpose(1, 2) for name in names)


def answers(dq, dk, dv):
    return {"dq": dq.transpose(1, 2), "dk": dk.transpose(1, 2), "dv": dv.transpose(1, 2)}


def no_seed(x):
    """State of the generator, which dropout would need."""
    return torch.zeros((), dtype=torch.int64, device=x.q.device)


def cudnn(case, x):
    gradient = torch.ops.aten._scaled_dot_product_cudnn_attention_backward
    q, k, v, o, d_o = heads_first(x, "q", "k", "v", "o", "d_o")
    lse, seed, (_, _, seqlen, head_dim) = x.lse.unsqueeze(-1), no_seed(x), q.shape
    # Seed and offset, no bias, no lengths, longest sequences, dropout.
    options = seed, seed, None, None, None, seqlen, seqlen, 0.0, case["causal"]

    def run():
        return answers(*gradient(d_o, q, k, v, o, lse, *options, scale=head_dim**-0.5))

    return run


def flash(case, x):
    """It has no key heads that are shared: those are repeated before, and their gradients added up
    after, as torch does it."""
    gradient = torch.ops.aten._scaled_dot_product_flash_attention_backward
    q, k, v, o, d_o = heads_first(x, "q", "k", "v", "o", "d_o")
    seed, (batch, heads, seqlen, head_dim) = no_seed(x), q.shape
    group = heads // k.shape[1]
    options = None, None, seqlen, seqlen, 0.0, case["causal"], seed, seed

    def repeated(y):
        return y if group == 1 else y.repeat_interleave(group, dim=1)

    def added(y):
        return y if group == 1 else y.view(batch, -1, group, seqlen, head_dim).sum(2)

    def run():
        keys, values = repeated(k), repeated(v)
        dq, dk, dv = gradient(d_o, q, keys, values, o, x.lse, *options, scale=head_dim**-0.5)
        return answers(dq, added(dk), added(dv))

    return run


def flash_packed(case, x):
    """By the operator below torch's function for packed sequences."""
    gradient = torch.ops.aten._flash_attention_backward
    bounds, longest, seed = x.cu_seqlens, case["max_seqlen"], no_seed(x)
    options = bounds, bounds, longest, longest, 0.0, case["causal"], seed, seed

    def run():
        operands = x.d_o, x.q, x.k, x.v, x.o, x.lse
        dq, dk, dv = gradient(*operands, *options, scale=x.q.shape[-1] ** -0.5)
        return {"dq": dq, "dk": dk, "dv": dv}

    return run


def flash_attention_3(case, x):
    import fa3_fwd_interface as fa3

    if not hasattr(fa3, "_flash_attn_backward"):
        raise RuntimeError("this wheel of FlashAttention-3 has no gradients")
    dq, dk, dv = torch.empty_like(x.q), torch.empty_like(x.k), torch.empty_like(x.v)

    def run():
        operands = x.d_o, x.q, x.k, x.v, x.o, x.lse
        scale = x.q.shape[-1] ** -0.5
        results = {"dq": dq, "dk": dk, "dv": dv}
        fa3._flash_attn_backward(*operands, **results, softmax_scale=scale, is_causal=case["causal"])
        return results

    return run
