"""Elementwise operations, reductions, scans, atomics, normalisations: most Triton kernels."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@triton.jit
def activations(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x + offsets, mask, other=0.0).to(tl.float32)
    gelu = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    silu = v * tl.sigmoid(v)
    wave = tl.sin(v) + tl.cos(v) + tl.log(tl.abs(v) + 1) + tl.sqrt(tl.abs(v)) + tl.exp2(v)
    tl.store(out + offsets, gelu.to(tl.float16), mask)
    tl.store(out + n + offsets, silu.to(tl.float16), mask)
    tl.store(out + 2 * n + offsets, wave.to(tl.float16), mask)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    v = tl.load(x + row * stride + offsets, mask, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + offsets, v / tl.sum(v, axis=0), mask)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, stride, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + offsets, offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + offsets, offsets < columns, other=0.0).to(tl.float32)
        d = tl.where(offsets < columns, v - mean, 0.0)
        squares += d * d
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns + epsilon)
    tl.store(mean_out + row, mean)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        mask = offsets < columns
        v = tl.load(x + row * stride + offsets, mask, other=0.0).to(tl.float32)
        w = tl.load(weight + offsets, mask)
        b = tl.load(bias + offsets, mask)
        tl.store(out + row * stride + offsets, ((v - mean) * scale * w + b).to(tl.bfloat16), mask)


@triton.jit
def rows_and_columns(x, row_sums, row_tops, column_sums, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    tl.store(row_sums + tl.arange(0, M), tl.sum(v, axis=1))
    tl.store(row_tops + tl.arange(0, M), tl.argmax(v, axis=1))
    tl.store(column_sums + tl.arange(0, N), tl.sum(v, axis=0))


@triton.jit
def combine(a, b):
    return a * 3 + b


@triton.jit
def scans(x, out, other, N: tl.constexpr):
    offsets = tl.arange(0, N)
    v = tl.load(x + offsets)
    tl.store(out + offsets, tl.cumsum(v, axis=0))
    tl.store(out + N + offsets, tl.cumsum(v, axis=0, reverse=True))
    wide = tl.reshape(v, [N // 32, 32])
    tl.store(other + tl.arange(0, N // 32)[:, None] * 32 + tl.arange(0, 32)[None, :], tl.cumprod(wide % 3 + 1, axis=1))


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x + offsets, mask, other=0)
    counts = tl.histogram(v, BINS, mask=mask)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def atomics(x, out, tops, lock, shared, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x + offsets, mask, other=0.0)
    tl.atomic_add(out + offsets % 7, v, mask)
    tl.atomic_max(tops + offsets % 5, v, mask)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = tl.load(shared) + 1
    tl.store(shared, total)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def sort(x, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * N + offsets)
    tl.store(out + tl.program_id(0) * N + offsets, tl.sort(v))


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    v = tl.load(x + rows[:, None] * N + columns[None, :], inside, other=0.0)
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(v), tl.trans(inside))


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keep = tl.rand(seed, offsets) > p
    tl.store(out + offsets, tl.where(keep, tl.load(x + offsets, mask) / (1 - p), 0.0), mask)


@triton.jit
def gather(x, index, out, N: tl.constexpr, M: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    i = tl.load(index + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :])
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.gather(v, i, 1))


@triton.jit
def eighths(x, out, back, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x + offsets, mask, other=0.0).to(tl.float8e5)
    tl.store(out + offsets, v, mask)
    tl.store(back + offsets, v.to(tl.float32), mask)


@triton.jit
def talk(x, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    v = tl.load(x + offsets)
    tl.device_print("value", v)
    tl.device_assert(v < n, "too large")


ALL = [75, 80, 90]
CASES = [
    {
        "name": "add",
        "fn": add,
        "signature": {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"},
        "constants": {"BLOCK": 1024},
        "arch": ALL,
    },
    {
        "name": "activations",
        "fn": activations,
        "signature": {"x": "*fp16", "out": "*fp16", "n": "i32"},
        "constants": {"BLOCK": 256},
        "arch": ALL,
    },
    {
        "name": "softmax",
        "fn": softmax,
        "signature": {"x": "*fp32", "out": "*fp32", "stride": "i32", "columns": "i32"},
        "constants": {"BLOCK": 1024},
        "arch": ALL,
    },
    {
        "name": "layer_norm",
        "fn": layer_norm,
        "signature": {
            "x": "*bf16",
            "weight": "*fp32",
            "bias": "*fp32",
            "out": "*bf16",
            "mean_out": "*fp32",
            "stride": "i32",
            "columns": "i32",
            "epsilon": "fp32",
        },
        "constants": {"BLOCK": 512},
        "divisible": ["stride"],
        "arch": ALL,
        "warps": 8,
    },
    {
        "name": "rows_and_columns",
        "fn": rows_and_columns,
        "signature": {
            "x": "*fp32",
            "row_sums": "*fp32",
            "row_tops": "*i32",
            "column_sums": "*fp32",
        },
        "constants": {"M": 64, "N": 128},
        "arch": ALL,
    },
    {
        "name": "scans",
        "fn": scans,
        "signature": {"x": "*i32", "out": "*i32", "other": "*i32"},
        "constants": {"N": 512},
        "arch": ALL,
    },
    {
        "name": "histogram",
        "fn": histogram,
        "signature": {"x": "*i32", "out": "*i32", "n": "i32"},
        "constants": {"BLOCK": 512, "BINS": 64},
        "arch": ALL,
    },
    {
        "name": "atomics",
        "fn": atomics,
        "signature": {
            "x": "*fp32",
            "out": "*fp32",
            "tops": "*fp32",
            "lock": "*i32",
            "shared": "*i32",
            "n": "i32",
        },
        "constants": {"BLOCK": 128},
        "arch": ALL,
    },
    {
        "name": "sort",
        "fn": sort,
        "signature": {"x": "*i32", "out": "*i32"},
        "constants": {"N": 256},
        "arch": [80],
    },
    {
        "name": "transpose",
        "fn": transpose,
        "signature": {"x": "*fp16", "out": "*fp16", "M": "i32", "N": "i32"},
        "constants": {"BM": 64, "BN": 32},
        "arch": ALL,
    },
    {
        "name": "dropout",
        "fn": dropout,
        "signature": {"x": "*fp32", "out": "*fp32", "n": "i32", "p": "fp32", "seed": "i32"},
        "constants": {"BLOCK": 512},
        "arch": [75, 90],
    },
    {
        "name": "gather",
        "fn": gather,
        "signature": {"x": "*fp32", "index": "*i32", "out": "*fp32"},
        "constants": {"N": 16, "M": 64},
        "arch": [80],
    },
    {
        "name": "eighths",
        "fn": eighths,
        "signature": {"x": "*fp32", "out": "*fp8e5", "back": "*fp32", "n": "i32"},
        "constants": {"BLOCK": 256},
        "arch": [80, 90],
    },
    {
        "name": "talk",
        "fn": talk,
        "signature": {"x": "*i32", "n": "i32"},
        "constants": {"BLOCK": 64},
        "arch": [80, 90],
        "warps": 1,
        "options": {"debug": True},
    },
]
