"""FlashAttention-3 (PyPI's fa3-fwd), cuDNN and FlashAttention-2 (both through torch)."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def peers(case):
    """Those that the case names."""
    makers = {
        "fa3": flash_attention_3,
        "cudnn": lambda case: by_torch(case, SDPBackend.CUDNN_ATTENTION),
        "flash": lambda case: by_torch(case, SDPBackend.FLASH_ATTENTION),
    }
    return {name: makers[name](case) for name in case["peers"]}


def flash_attention_3(case):
    def make(x):
        import fa3_fwd_interface as fa3

        window = (-1, -1) if case["window"] is None else (case["window"], 0)
        options = {"causal": case["causal"], "window_size": window}
        if case["packed"]:
            longest = case["max_seqlen"]
            options |= {"cu_seqlens_q": x.cu_seqlens, "cu_seqlens_k": x.cu_seqlens}
            options |= {"max_seqlen_q": longest, "max_seqlen_k": longest}
            function = fa3.flash_attn_varlen_func
        else:
            function = fa3.flash_attn_func

        def run():
            o = function(x.q, x.k, x.v, **options)
            return {"o": o[0] if isinstance(o, tuple) else o}

        return run

    return make


def by_torch(case, backend):
    def make(x):
        if case["packed"] or case["window"] is not None:
            raise NotImplementedError("torch has no such option for this backend")
        q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))
        options = {"is_causal": case["causal"], "enable_gqa": q.shape[1] != k.shape[1]}

        def run():
            with sdpa_kernel(backend):
                o = scaled_dot_product_attention(q, k, v, **options)
            return {"o": o.transpose(1, 2)}

        return run

    return make
