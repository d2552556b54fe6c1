"""Block-sparse attention by torch's FlexAttention, compiled with max-autotune, and its gradients.

Blocks of the mask are full: the kernel applies no mask function. Where the case is full, there is no
mask. The gradients alone are timed, of an o that is computed once.
"""

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention


def peers(case):
    """FlexAttention."""
    return {"flex": lambda x: flex(case, x)}


def block_mask(case, x):
    if case["full"]:
        return None
    block, seqlen = case["block"], x.q.shape[1]
    counts = (x.blocks >= 0).sum(-1, dtype=torch.int32)
    # Indices of all blocks, those that are seen first, as the kernel wants them.
    along = x.blocks.shape[2]
    indices = torch.zeros(1, 1, along, along, dtype=torch.int32, device="cuda")
    indices[..., : x.blocks.shape[3]] = x.blocks.clamp(min=0)
    nothing = torch.zeros_like(counts)
    return BlockMask.from_kv_blocks(
        nothing,
        torch.zeros_like(indices),
        full_kv_num_blocks=counts,
        full_kv_indices=indices,
        BLOCK_SIZE=block,
        seq_lengths=(seqlen, seqlen),
    )


def flex(case, x):
    mask = block_mask(case, x)
    compiled = torch.compile(flex_attention, mode="max-autotune-no-cudagraphs", dynamic=False)
    q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))
    if not case["backward"]:

        def run():
            return {"o": compiled(q, k, v, block_mask=mask).transpose(1, 2)}

        return run
    q, k, v = (tensor.detach().requires_grad_() for tensor in (q, k, v))
    o, d_o = compiled(q, k, v, block_mask=mask), x.d_o.transpose(1, 2)

    def run_backward():
        grads = torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)
        return {name: grad.transpose(1, 2) for name, grad in zip(("dq", "dk", "dv"), grads)}

    return run_backward
