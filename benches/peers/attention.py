"""FlashAttention-3 (PyPI's fa3-fwd), cuDNN, and FlashAttention-2 (through torch).

cuDNN comes through torch, where torch has the option, else through its graphs (PyPI's
nvidia-cudnn-frontend).
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def peers(case):
    """Those that the case names."""
    is_plain = not case["packed"] and case["window"] is None
    makers = {
        "fa3": flash_attention_3,
        "fa3_split": flash_attention_3_split,
        "fa3_paged": flash_attention_3_paged,
        "cudnn": by_torch(SDPBackend.CUDNN_ATTENTION) if is_plain else cudnn_graph,
        "flash": by_torch(SDPBackend.FLASH_ATTENTION) if is_plain else flash_attention_2,
    }
    return {name: lambda x, name=name: makers[name](case, x) for name in case["peers"]}


def flash_attention_3_split(case, x):
    """With keys in as many parts as it finds best; without being told, it takes them in one."""
    return flash_attention_3(case, x, num_splits=0)


def flash_attention_3_paged(case, x):
    """With keys in pages, in as many parts as it finds best."""
    import fa3_fwd_interface as fa3

    batch = len(x.pages)
    lengths = torch.full((batch,), case["max_seqlen"], dtype=torch.int32, device="cuda")
    options = {"cache_seqlens": lengths, "page_table": x.pages, "causal": case["causal"], "num_splits": 0}

    def run():
        o = fa3.flash_attn_with_kvcache(x.q, x.k, x.v, **options)
        return {"o": o[0] if isinstance(o, tuple) else o}

    return run


def flash_attention_3(case, x, **more):
    import fa3_fwd_interface as fa3

    window = (-1, -1) if case["window"] is None else (case["window"], 0)
    options = {"causal": case["causal"], "window_size": window, **more}
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


def by_torch(backend):
    def make(case, x):
        q, k, v = (tensor.transpose(1, 2) for tensor in (x.q, x.k, x.v))
        options = {"is_causal": case["causal"], "enable_gqa": q.shape[1] != k.shape[1]}

        def run():
            with sdpa_kernel(backend):
                o = scaled_dot_product_attention(q, k, v, **options)
            return {"o": o.transpose(1, 2)}

        return run

    return make


def flash_attention_2(case, x):
    """By the operator below torch's function, which has no window and no lengths."""
    bounds, longest = (x.cu_seqlens, case["max_seqlen"]) if case["packed"] else (None, x.q.shape[1])
    window = {}
    if case["window"] is not None:
        window = {"window_size_left": case["window"], "window_size_right": 0}

    def run():
        # Dropout, causal, mask for debugging.
        options = 0.0, case["causal"], False
        forward = torch.ops.aten._flash_attention_forward
        o = forward(x.q, x.k, x.v, bounds, bounds, longest, longest, *options, **window)
        return {"o": o[0]}

    return run


def cudnn_graph(case, x):
    import cudnn

    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    dtype = {torch.bfloat16: cudnn.data_type.BFLOAT16, torch.float16: cudnn.data_type.HALF}[x.q.dtype]
    graph = cudnn.pygraph(
        io_data_type=dtype,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
        handle=handle,
    )
    seqlen, buffers = case["max_seqlen"], {}

    def given(name, values):
        """A tensor of `batch` or more integers."""
        kind = {torch.int32: cudnn.data_type.INT32, torch.int64: cudnn.data_type.INT64}[values.dtype]
        tensor = graph.tensor(name=name, dim=[len(values), 1, 1, 1], stride=[1, 1, 1, 1], data_type=kind)
        buffers[tensor] = values
        return tensor

    def laid_out(tensor):
        """Extents and strides as cuDNN orders them: batch, heads, positions."""
        heads, head_dim = tensor.shape[-2:]
        batch = len(x.cu_seqlens) - 1
        dim = [batch, heads, seqlen, head_dim]
        return {"dim": dim, "stride": [seqlen * heads * head_dim, head_dim, heads * head_dim, 1]}

    options = {}
    if case["packed"]:
        lengths = given("lengths", x.cu_seqlens.diff().contiguous())
        options = {"use_padding_mask": True, "seq_len_q": lengths, "seq_len_kv": lengths}

    def ragged(name, tensor):
        if not case["packed"]:
            return None
        return given(f"{name}_offsets", x.cu_seqlens.long() * tensor.shape[-2] * tensor.shape[-1])

    tensors = {}
    for name in "qkv":
        tensor = getattr(x, name)
        place = {**laid_out(tensor), "data_type": dtype, "ragged_offset": ragged(name, tensor)}
        tensors[name] = graph.tensor(name=name, **place)
        buffers[tensors[name]] = tensor
    if case["window"] is not None:
        # cuDNN counts the query's own position.
        options["diagonal_band_left_bound"] = case["window"] + 1
    if case["causal"]:
        options["diagonal_band_right_bound"] = 0
    o, _ = graph.sdpa(
        **tensors,
        **options,
        name="attention",
        generate_stats=False,
        attn_scale=x.q.shape[-1] ** -0.5,
        diagonal_alignment=cudnn.diagonal_alignment.TOP_LEFT,
    )
    place = laid_out(x.q)
    o.set_output(True).set_data_type(dtype).set_dim(place["dim"]).set_stride(place["stride"])
    if case["packed"]:
        o.set_ragged_offset(ragged("o", x.q))
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")

    def run():
        answer = torch.empty_like(x.q)
        graph.execute({**buffers, o: answer}, workspace, handle=handle)
        return {"o": answer}

    return run
