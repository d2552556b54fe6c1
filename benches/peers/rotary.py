"""torch's rotary embedding as models write it, eager and compiled; FlashAttention's where it is installed."""

import torch

try:
    from flash_attn.layers.rotary import apply_rotary_emb
except ImportError:
    apply_rotary_emb = None


def turned(x, cos, sin, interleaved):
    rotary_dim = 2 * cos.shape[-1]
    cos, sin = cos.float()[:, None], sin.float()[:, None]
    rotated, rest = x[..., :rotary_dim].float(), x[..., rotary_dim:]
    if interleaved:
        a, b = rotated[..., ::2], rotated[..., 1::2]
        pairs = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = rotated.chunk(2, dim=-1)
        pairs = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return torch.cat((pairs.to(x.dtype), rest), dim=-1)


def peers(case):
    interleaved = case["interleaved"]
    compiled = torch.compile(turned, dynamic=False)
    result = {
        "torch": lambda x: lambda: {"y": turned(x.x, x.cos, x.sin, interleaved)},
        "torch.compile": lambda x: lambda: {"y": compiled(x.x, x.cos, x.sin, interleaved)},
    }
    if apply_rotary_emb is not None:
        result["flash_attn"] = lambda x: lambda: {"y": apply_rotary_emb(x.x, x.cos, x.sin, interleaved)}
    return result
