//! Dot products of packed bytes and halfwords, and arithmetic on pairs of 16-bit integers.

/// The four bytes of `a`, sign-extended if `signed`, else zero-extended.
#[inline(always)]
fn bytes(a: u32, signed: bool) -> [i32; 4] {
    a.to_le_bytes().map(|byte| {
        if signed {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    })
}

/// The two halves of `a`, sign-extended if `signed`, else zero-extended.
#[inline(always)]
fn halves(a: u32, signed: bool) -> [i32; 2] {
    [a as u16, (a >> 16) as u16].map(|half| {
        if signed {
            i32::from(half as i16)
        } else {
            i32::from(half)
        }
    })
}

/// `dp4a`: `c` plus the dot product of four bytes; `signed_a` and `signed_b` stand for `.s32`
/// operands.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, signed_a: bool, signed_b: bool) -> u32 {
    let (a, b) = (bytes(a, signed_a), bytes(b, signed_b));
    (0..4).fold(c, |sum, i| sum.wrapping_add((a[i] * b[i]) as u32))
}

/// `dp2a`: `c` plus the dot product of the halves of `a` and two bytes of `b`: the lower two, or
/// with `high` the upper two.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, signed_a: bool, signed_b: bool, high: bool) -> u32 {
    let (a, b) = (halves(a, signed_a), bytes(b, signed_b));
    let first = if high { 2 } else { 0 };
    (0..2).fold(c, |sum, i| {
        sum.wrapping_add(a[i].wrapping_mul(b[first + i]) as u32)
    })
}

/// Applies `f` to both halves.
#[inline(always)]
fn map2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(high) << 16 | u32::from(f(a as u16, b as u16))
}

/// `add.u16x2`, `add.s16x2`
#[inline(always)]
pub fn add_x2(a: u32, b: u32) -> u32 {
    map2(a, b, u16::wrapping_add)
}

/// `min.u16x2`
#[inline(always)]
pub fn min_u16x2(a: u32, b: u32) -> u32 {
    map2(a, b, u16::min)
}

/// `max.u16x2`
#[inline(always)]
pub fn max_u16x2(a: u32, b: u32) -> u32 {
    map2(a, b, u16::max)
}

/// `min.s16x2`, and with `relu` `min.relu.s16x2`.
#[inline(always)]
pub fn min_s16x2(a: u32, b: u32, relu: bool) -> u32 {
    let floor = if relu { 0 } else { i16::MIN };
    map2(a, b, |a, b| (a as i16).min(b as i16).max(floor) as u16)
}

/// `max.s16x2`, and with `relu` `max.relu.s16x2`.
#[inline(always)]
pub fn max_s16x2(a: u32, b: u32, relu: bool) -> u32 {
    let floor = if relu { 0 } else { i16::MIN };
    map2(a, b, |a, b| (a as i16).max(b as i16).max(floor) as u16)
}

/// `cvt.pack.sat`: `a` and `b`, clamped to the range of a signed or unsigned integer of `bits`
/// bits. `b` is in the lowest bits, then `a`, and above them the low bits of `c`.
#[inline(always)]
pub fn cvt_pack(a: i32, b: i32, c: u32, bits: u32, signed: bool) -> u32 {
    let (least, most) = if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    let cut = |value: i32| value.clamp(least, most) as u32 & ((1 << bits) - 1);
    let above = if bits == 16 { 0 } else { c << (2 * bits) };
    above | cut(a) << bits | cut(b)
}
