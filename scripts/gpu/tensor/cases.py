"""What the probe asks: instructions, input kinds, descriptors."""
from inputs import FORMATS

BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32, "b8": 8,
        **{n: f[0] for n, f in FORMATS.items()}}


def mma(name, m, n, k, d, a, b, mods="", ptx="8.4"):
    op = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{mods}.{d}.{a}.{b}.{d}"
    if a == "b1":
        op = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{d}.b1.b1.{d}{mods}"
    return dict(name=name, op=op, m=m, n=n, k=k, d=d, a=a, b=b, ptx=ptx, wgmma=False)


MMA = [
    mma("mma_f16_k16", 16, 8, 16, "f32", "f16", "f16"),
    mma("mma_f16_k8", 16, 8, 8, "f32", "f16", "f16"),
    mma("mma_bf16_k16", 16, 8, 16, "f32", "bf16", "bf16"),
    mma("mma_bf16_k8", 16, 8, 8, "f32", "bf16", "bf16"),
    mma("mma_f16_k16_h", 16, 8, 16, "f16", "f16", "f16"),
    mma("mma_f16_k8_h", 16, 8, 8, "f16", "f16", "f16"),
    mma("mma_tf32_k8", 16, 8, 8, "f32", "tf32", "tf32"),
    mma("mma_tf32_k4", 16, 8, 4, "f32", "tf32", "tf32"),
    mma("mma_e4m3_k32", 16, 8, 32, "f32", "e4m3", "e4m3"),
    mma("mma_e4m3_e5m2_k32", 16, 8, 32, "f32", "e4m3", "e5m2"),
    mma("mma_e5m2_e4m3_k32", 16, 8, 32, "f32", "e5m2", "e4m3"),
    mma("mma_e5m2_k32", 16, 8, 32, "f32", "e5m2", "e5m2"),
    mma("mma_e4m3_k16", 16, 8, 16, "f32", "e4m3", "e4m3", ptx="8.7"),
    mma("mma_e4m3_k32_h", 16, 8, 32, "f16", "e4m3", "e4m3", ptx="8.7"),
    mma("mma_e5m2_k32_h", 16, 8, 32, "f16", "e5m2", "e5m2", ptx="8.7"),
    mma("mma_e4m3_k16_h", 16, 8, 16, "f16", "e4m3", "e4m3", ptx="8.7"),
    mma("mma_f64_m8n8k4", 8, 8, 4, "f64", "f64", "f64"),
    mma("mma_f64_k4", 16, 8, 4, "f64", "f64", "f64"),
    mma("mma_f64_k8", 16, 8, 8, "f64", "f64", "f64"),
    mma("mma_f64_k16", 16, 8, 16, "f64", "f64", "f64"),
    mma("mma_s8_k32", 16, 8, 32, "s32", "s8", "s8"),
    mma("mma_s8_k32_sat", 16, 8, 32, "s32", "s8", "s8", ".satfinite"),
    mma("mma_s8_u8_k16_sat", 16, 8, 16, "s32", "s8", "u8", ".satfinite"),
    mma("mma_u8_s8_m8n8k16", 8, 8, 16, "s32", "u8", "s8"),
    mma("mma_s4_m8n8k32", 8, 8, 32, "s32", "s4", "s4"),
    mma("mma_u4_s4_k32", 16, 8, 32, "s32", "u4", "s4"),
    mma("mma_s4_u4_k64_sat", 16, 8, 64, "s32", "s4", "u4", ".satfinite"),
    mma("mma_b1_xor_m8n8k128", 8, 8, 128, "s32", "b1", "b1", ".xor.popc"),
    mma("mma_b1_xor_k128", 16, 8, 128, "s32", "b1", "b1", ".xor.popc"),
    mma("mma_b1_and_k256", 16, 8, 256, "s32", "b1", "b1", ".and.popc"),
]


def wg(name, n, d, a, b, tail="", ptx="8.4", from_registers=False, mods=""):
    k = 256 // BITS[a]
    op = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{mods}.{d}.{a}.{b}"
    if a == "b1":
        op = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.b1.b1.and.popc"
    return dict(name=name, op=op, m=64, n=n, k=k, d=d, a=a, b=b, ptx=ptx, wgmma=True,
                tail=tail, from_registers=from_registers)


SS16 = ", 1, 1, 0, 0"  # scale-a, scale-b, trans-a, trans-b
RS16 = ", 1, 1, 0"
S8BIT = ", 1, 1"
WGMMA = [
    wg("wg_f16", 32, "f32", "f16", "f16", SS16),
    wg("wg_bf16", 32, "f32", "bf16", "bf16", SS16),
    wg("wg_bf16_neg", 32, "f32", "bf16", "bf16", ", -1, 1, 0, 0"),
    wg("wg_f16_h", 32, "f16", "f16", "f16", SS16),
    wg("wg_f16_rs", 32, "f32", "f16", "f16", RS16, from_registers=True),
    wg("wg_tf32", 32, "f32", "tf32", "tf32", S8BIT),
    wg("wg_tf32_rs", 32, "f32", "tf32", "tf32", S8BIT, from_registers=True),
    wg("wg_e4m3", 32, "f32", "e4m3", "e4m3", S8BIT),
    wg("wg_e4m3_e5m2", 32, "f32", "e4m3", "e5m2", S8BIT),
    wg("wg_e5m2_e4m3", 32, "f32", "e5m2", "e4m3", S8BIT),
    wg("wg_e5m2", 32, "f32", "e5m2", "e5m2", S8BIT),
    wg("wg_e4m3_rs", 32, "f32", "e4m3", "e4m3", S8BIT, from_registers=True),
    wg("wg_e4m3_h", 32, "f16", "e4m3", "e4m3", S8BIT),
    wg("wg_e5m2_h", 32, "f16", "e5m2", "e5m2", S8BIT),
    wg("wg_s8", 32, "s32", "s8", "s8"),
    wg("wg_s8_sat", 32, "s32", "s8", "s8", mods="SAT"),
    wg("wg_u8_s8", 32, "s32", "u8", "s8"),
    wg("wg_b1", 32, "s32", "b1", "b1"),
]
for case in WGMMA:
    if "SAT" in case["op"]:
        case["op"] = case["op"].replace("SAT", "") + ".satfinite"
WGMMA += [
    wg("wg_bf16_neg_b", 32, "f32", "bf16", "bf16", ", 1, -1, 0, 0"),
    wg("wg_bf16_rs", 32, "f32", "bf16", "bf16", RS16, from_registers=True),
    wg("wg_f16_h_rs", 32, "f16", "f16", "f16", RS16, from_registers=True),
    wg("wg_e5m2_rs", 32, "f32", "e5m2", "e5m2", S8BIT, from_registers=True),
    wg("wg_e4m3_e5m2_h", 32, "f16", "e4m3", "e5m2", S8BIT),
    wg("wg_u8", 32, "s32", "u8", "u8"),
    wg("wg_s8_u8", 32, "s32", "s8", "u8"),
    wg("wg_s8_rs", 32, "s32", "s8", "s8", from_registers=True),
    wg("wg_b1_rs", 32, "s32", "b1", "b1", from_registers=True),
]
# Every number of columns, of each kind of accumulator.
for n in range(8, 257, 8):
    WGMMA.append(wg(f"wg_bf16_n{n}", n, "f32", "bf16", "bf16", SS16))
    WGMMA.append(wg(f"wg_f16_h_n{n}", n, "f16", "f16", "f16", SS16))
    if n % 16 == 0 or n in (8, 24):
        WGMMA.append(wg(f"wg_s8_n{n}", n, "s32", "s8", "s8"))


def sets(case):
    """(label, kind of A, of B, of C, iterations, blocks) to run an instruction on."""
    a, d = case["a"], case["d"]
    blocks = 6 if case["wgmma"] else 64
    if a in ("s8", "u8", "s4", "u4", "b1"):
        if "_n" in case["name"]:
            return [("raw", "raw", "raw", "raw", 1, 1)]
        return [("small", "raw", "raw", "small", 1, 2), ("raw", "raw", "raw", "raw", 1, 8)]
    if "_n" in case["name"] and "_neg" not in case["name"]:
        return [("normal", "normal", "normal", "normal", 1, 1)]
    reach = {"f16": 10, "bf16": 14, "tf32": 14, "e4m3": 5, "e5m2": 10, "f64": 40}[a]
    span = {"f16": 14, "f32": 24, "f64": 60}[d]
    near = 2
    long = 4096 // case["k"]
    out = [
        ("normal", "normal", "normal", "normal", 1, blocks),
        ("zero_c", "normal", "normal", "zero", 1, blocks),
        ("near", f"wide:{near}", f"wide:{near}", f"wide:{2 * near}", 1, blocks),
        ("wide", f"wide:{reach}", f"wide:{reach}", f"wide:{span}", 1, blocks),
        ("wide_zero_c", f"wide:{reach}", f"wide:{reach}", "zero", 1, blocks),
        ("ends", f"ends:{reach}", f"ends:{reach}", "zero", 1, blocks),
        ("ends_c", f"ends:{reach}", f"ends:{reach}", f"wide:{span}", 1, blocks),
        ("low", "low:3", f"wide:{reach}", f"low:3", 1, blocks),
        ("low_low", "low:3", "low:3", "zero", 1, blocks),
        ("raw", "raw", "raw", "raw", 1, blocks),
        ("k64", "normal", "normal", "zero", max(1, 64 // case["k"]), blocks // 2),
        ("k512", "normal", "normal", "zero", 512 // case["k"], max(2, blocks // 8)),
        ("k4096", "normal", "normal", "zero", long, max(2, blocks // 16)),
    ]
    for k in (256, 1024):
        out.append((f"k{k}", "normal", "normal", "zero", k // case["k"], max(2, blocks // 8)))
    return out


def seed_of(case, label, role):
    import zlib
    return zlib.crc32(f"{case['name']}/{label}/{role}".encode())


# Descriptor probes: (label, trans, swizzle, lbo, sbo, start, base offset), bytes.
DESCRIPTORS = []
for trans in (0, 1):
    for swizzle in (0, 1, 2, 3):
        for label, lbo, sbo, start, base in [
            ("plain", 4096, 1024, 0, 0),
            ("odd", 4096 + 16, 1024 + 48, 0, 0),
            ("odd2", 2048 + 128, 512 + 16, 0, 0),
            ("start", 4096, 1024, 32, 0),
            ("start2", 4096, 1024, 128 + 16, 0),
            ("start3", 4096, 1024, 512 + 96, 0),
            ("base1", 4096, 1024, 128, 1),
            ("base3", 4096, 1024, 384, 3),
            ("base_only", 4096, 1024, 0, 5),
            ("zero_lbo", 16, 1024, 64, 0),
        ]:
            DESCRIPTORS.append((label, trans, swizzle, lbo, sbo, start, base))
