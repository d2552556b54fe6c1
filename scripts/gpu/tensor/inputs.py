"""Inputs of the tensor-core probe: element bits from a counter, so that they need not be kept.

`element(i)` depends on a seed and its position alone; emulator/tests repeats the same in Rust.
"""
import numpy as np

U = np.uint64
# name -> (bits, exponent bits, mantissa bits, bias, element is kept in the top of a wider word)
FORMATS = {
    "f16": (16, 5, 10, 15),
    "bf16": (16, 8, 7, 127),
    "tf32": (32, 8, 23, 127),
    "f32": (32, 8, 23, 127),
    "f64": (64, 11, 52, 1023),
    "e4m3": (8, 4, 3, 7),
    "e5m2": (8, 5, 2, 15),
}


def mix(x):
    x = x.astype(U)
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return x ^ (x >> U(31))


def words(seed, count, stream=0):
    """64 random bits for each of `count` positions."""
    with np.errstate(over="ignore"):
        start = mix(np.array([seed * 16 + stream + 1], U) * U(0x9E3779B97F4A7C15))[0]
        return mix(start + np.arange(count, dtype=U) * U(0x9E3779B97F4A7C15))


def normal(seed, count):
    """About standard normal, exact multiples of 2^-16: a sum of twelve uniforms."""
    total = np.zeros(count, np.int64)
    for stream in range(3):
        h = words(seed, count, stream)
        for part in range(4):
            total += ((h >> U(16 * part)) & U(0xFFFF)).astype(np.int64)
    return (2 * total - 12 * 65535).astype(np.float64) / 131072.0


def encode(values, name):
    """Nearest-even bits of f64 values (in range) in a format."""
    bits, ebits, mbits, bias = FORMATS[name]
    if name == "f64":
        return values.view(U)
    kept = 10 if name == "tf32" else mbits
    sign = np.signbit(values).astype(U)
    mag = np.abs(values)
    exponent = np.frexp(mag)[1] - 1
    exponent = np.where(mag == 0, 1 - bias, np.maximum(exponent, 1 - bias))
    scaled = np.rint(np.ldexp(mag, kept - exponent)).astype(np.int64)
    # The implicit bit adds one to the exponent field; a carry moves into it by itself.
    field = ((exponent + bias - 1) << kept) + scaled
    field <<= mbits - kept
    return field.astype(U) | (sign << U(bits - 1))


def elements(name, kind, seed, count):
    """`count` elements of a format as unsigned integers of its bits."""
    if name in ("s8", "u8", "s4", "u4", "b1", "s32", "b8"):
        bits = {"s8": 8, "u8": 8, "b8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}[name]
        h = words(seed, count)
        if kind == "small":
            return (h >> U(44)) & U(0xFFFFF)
        return (h >> U(32)) & U((1 << bits) - 1)
    bits, ebits, mbits, bias = FORMATS[name]
    if kind == "zero":
        return np.zeros(count, U)
    if kind == "normal":
        return encode(normal(seed, count), name)
    h = words(seed, count)
    sign = (h & U(1)) << U(bits - 1)
    mantissa = (h >> U(1)) & U((1 << mbits) - 1)
    choice = h >> U(55)
    if kind == "raw":
        return (h >> U(64 - bits)) & U((1 << bits) - 1 if bits < 64 else 0xFFFFFFFFFFFFFFFF)
    family, reach = kind.split(":")
    reach = int(reach)
    if family == "wide":  # exponents evenly in -reach..=reach
        exponent = (choice % U(2 * reach + 1)).astype(np.int64) - reach
        field = (exponent + bias).astype(U)
    elif family == "ends":  # half zero, else at one end of the range
        exponent = np.where(choice & U(1), reach, -reach)
        field = (exponent + bias).astype(U)
        zero = (choice & U(2)) != 0
        field = np.where(zero, U(0), field)
        mantissa = np.where(zero, U(0), mantissa)
    elif family == "low":  # the lowest `reach` exponent fields: subnormals among them
        field = choice % U(reach)
    else:
        raise ValueError(kind)
    return sign | (field << U(mbits)) | mantissa


def pack(values, bits):
    """Elements to bytes, lowest first."""
    values = np.ascontiguousarray(values)
    if bits >= 8:
        return values.astype({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: U}[bits]).view(np.uint8)
    per = 8 // bits
    grouped = values.reshape(-1, per).astype(np.uint8)
    out = np.zeros(grouped.shape[0], np.uint8)
    for i in range(per):
        out |= grouped[:, i] << np.uint8(i * bits)
    return out
