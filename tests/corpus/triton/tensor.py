"""Matrix products and attention: tensor cores, asynchronous copies, tensor descriptors."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B, all row-major, edges masked."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    x = a + rows[:, None] * K + inner[None, :]
    y = b + inner[:, None] * N + columns[None, :]
    sum = tl.zeros([BM, BN], dtype=tl.float32)
    for base in range(0, K, BK):
        left = (rows[:, None] < M) & (base + inner[None, :] < K)
        right = (base + inner[:, None] < K) & (columns[None, :] < N)
        sum = tl.dot(tl.load(x, left, other=0.0), tl.load(y, right, other=0.0), sum)
        x += BK
        y += BK * N
    at = c + rows[:, None] * N + columns[None, :]
    tl.store(at, sum, (rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def matmul_i8(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T in integers; extents are multiples of the tile."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sum = tl.zeros([BM, BN], dtype=tl.int32)
    for base in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + base + inner[None, :])
        y = tl.load(b + columns[:, None] * K + base + inner[None, :])
        sum += tl.dot(x, tl.trans(y))
    tl.store(c + rows[:, None] * N + columns[None, :], sum)


@triton.jit
def matmul_tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B^T through descriptors that the host makes."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    sum = tl.zeros([BM, BN], dtype=tl.float32)
    for base in range(0, K, BK):
        x = a.load([row, base])
        y = b.load([column, base])
        sum = tl.dot(x, y.T, sum)
    c.store([row, column], sum.to(tl.float16))


@triton.jit
def attention(q, k, v, o, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """One head's causal attention: online softmax over tiles of keys."""
    head = tl.program_id(1) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    queries = tl.load(q + head + rows[:, None] * D + inner[None, :], rows[:, None] < length, other=0.0)
    top = tl.full([BM], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BM], dtype=tl.float32)
    sum = tl.zeros([BM, D], dtype=tl.float32)
    for base in range(0, (tl.program_id(0) + 1) * BM, BN):
        keys = base + tl.arange(0, BN)
        inside = keys[:, None] < length
        x = tl.load(k + head + keys[:, None] * D + inner[None, :], inside, other=0.0)
        s = tl.dot(queries, tl.trans(x)) * (scale * 1.44269504)
        s = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < length), s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - higher[:, None])
        correction = tl.exp2(top - higher)
        total = total * correction + tl.sum(p, axis=1)
        y = tl.load(v + head + keys[:, None] * D + inner[None, :], inside, other=0.0)
        sum = tl.dot(p.to(y.dtype), y, sum * correction[:, None])
        top = higher
    out = (sum / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + head + rows[:, None] * D + inner[None, :], out, rows[:, None] < length)


EXTENTS = {"M": "i32", "N": "i32", "K": "i32"}
CASES = [
    {
        "name": "matmul_f16",
        "fn": matmul,
        "signature": {"a": "*fp16", "b": "*fp16", "c": "*fp32", **EXTENTS},
        "constants": {"BM": 64, "BN": 64, "BK": 32},
        "divisible": ["N", "K"],
        "arch": [75, 80, 90],
    },
    {
        "name": "matmul_f32",
        "fn": matmul,
        "signature": {"a": "*fp32", "b": "*fp32", "c": "*fp32", **EXTENTS},
        "constants": {"BM": 32, "BN": 32, "BK": 32},
        "divisible": ["N", "K"],
        "arch": [80],
        "warps": 2,
    },
    {
        "name": "matmul_e5m2",
        "fn": matmul,
        "signature": {"a": "*fp8e5", "b": "*fp8e5", "c": "*fp32", **EXTENTS},
        "constants": {"BM": 64, "BN": 64, "BK": 64},
        "divisible": ["N", "K"],
        "arch": [89, 90],
    },
    {
        "name": "matmul_i8",
        "fn": matmul_i8,
        "signature": {"a": "*i8", "b": "*i8", "c": "*i32", "N": "i32", "K": "i32"},
        "constants": {"BM": 64, "BN": 64, "BK": 64},
        "divisible": ["N", "K"],
        "arch": [80, 90],
    },
    {
        "name": "matmul_tma",
        "fn": matmul_tma,
        "signature": {
            "a": "tensordesc<fp16[64, 64]>",
            "b": "tensordesc<fp16[128, 64]>",
            "c": "tensordesc<fp16[64, 128]>",
            **EXTENTS,
        },
        "constants": {"BM": 64, "BN": 128, "BK": 64},
        "arch": [90],
    },
    {
        "name": "attention",
        "fn": attention,
        "signature": {
            "q": "*fp16",
            "k": "*fp16",
            "v": "*fp16",
            "o": "*fp16",
            "scale": "fp32",
            "length": "i32",
        },
        "constants": {"D": 64, "BM": 64, "BN": 32},
        "arch": [80, 90],
        "stages": 2,
    },
]
