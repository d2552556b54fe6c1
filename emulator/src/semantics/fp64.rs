//! f64 arithmetic. Subnormals are always kept; there is no `.ftz`, and `.sat` only in
//! conversions.

use super::Rounding;
use super::round::Exact;

/// The NaN of an f64 operation that has no NaN among its operands.
pub const DEFAULT_NAN: f64 = f64::from_bits(0xfff8_0000_0000_0000);

const SIGN: u64 = 1 << 63;
const INFINITY: u64 = 0x7ff0_0000_0000_0000;

/// `a`, which is NaN, as a quiet NaN.
#[inline(always)]
fn quiet(a: f64) -> f64 {
    f64::from_bits(a.to_bits() | 0x0008_0000_0000_0000)
}

/// The NaN of an operation on `operands`: the last NaN among them, made quiet.
#[inline(always)]
fn nan_of<const N: usize>(operands: [f64; N]) -> f64 {
    operands.into_iter().fold(
        DEFAULT_NAN,
        |nan, x| if x.is_nan() { quiet(x) } else { nan },
    )
}

#[inline(always)]
fn settle<const N: usize>(result: f64, operands: [f64; N]) -> f64 {
    // On the bits, as in `fp32::canonical`.
    if result.to_bits() & !SIGN > INFINITY {
        nan_of(operands)
    } else {
        result
    }
}

/// `.sat` of a conversion: clamps to `[0, 1]`; NaN gives `+0`.
#[inline(always)]
pub fn saturate(a: f64) -> f64 {
    let above_zero = if a > 0.0 { a } else { 0.0 };
    if above_zero < 1.0 { above_zero } else { 1.0 }
}

/// `add.rn`
#[inline(always)]
pub fn add(a: f64, b: f64) -> f64 {
    settle(a + b, [a, b])
}

/// `sub.rn`
#[inline(always)]
pub fn sub(a: f64, b: f64) -> f64 {
    settle(a - b, [a, b])
}

/// `mul.rn`
#[inline(always)]
pub fn mul(a: f64, b: f64) -> f64 {
    settle(a * b, [a, b])
}

/// `fma.rn`, `mad.rn`. Of several NaN operands, `b` is propagated before `c`, and `c` before `a`.
#[inline(always)]
pub fn fma(a: f64, b: f64, c: f64) -> f64 {
    settle(a.mul_add(b, c), [a, c, b])
}

/// `div.rn`. Of two NaN operands, the first is propagated.
#[inline(always)]
pub fn div(a: f64, b: f64) -> f64 {
    settle(a / b, [b, a])
}

/// `rcp.rn`
#[inline(always)]
pub fn rcp(a: f64) -> f64 {
    settle(1.0 / a, [a])
}

/// `sqrt.rn`
#[inline(always)]
pub fn sqrt(a: f64) -> f64 {
    settle(a.sqrt(), [a])
}

/// `add` in any rounding mode.
#[inline]
pub fn add_with(rounding: Rounding, a: f64, b: f64) -> f64 {
    match (rounding, Exact::from_f64(a), Exact::from_f64(b)) {
        (Rounding::NearestEven, ..) => add(a, b),
        (_, Some(x), Some(y)) => x.plus(y, rounding).to_f64(rounding),
        _ => add(a, b),
    }
}

/// `sub` in any rounding mode.
#[inline]
pub fn sub_with(rounding: Rounding, a: f64, b: f64) -> f64 {
    match (rounding, Exact::from_f64(a), Exact::from_f64(b)) {
        (Rounding::NearestEven, ..) => sub(a, b),
        (_, Some(x), Some(y)) => x.plus(y.negated(), rounding).to_f64(rounding),
        _ => sub(a, b),
    }
}

/// `mul` in any rounding mode.
#[inline]
pub fn mul_with(rounding: Rounding, a: f64, b: f64) -> f64 {
    match (rounding, Exact::from_f64(a), Exact::from_f64(b)) {
        (Rounding::NearestEven, ..) => mul(a, b),
        (_, Some(x), Some(y)) => x.times(y).to_f64(rounding),
        _ => mul(a, b),
    }
}

/// `fma` and `mad` in any rounding mode: one rounding.
#[inline]
pub fn fma_with(rounding: Rounding, a: f64, b: f64, c: f64) -> f64 {
    match (
        rounding,
        Exact::from_f64(a),
        Exact::from_f64(b),
        Exact::from_f64(c),
    ) {
        (Rounding::NearestEven, ..) => fma(a, b, c),
        (_, Some(x), Some(y), Some(z)) => x.times(y).plus(z, rounding).to_f64(rounding),
        _ => fma(a, b, c),
    }
}

/// `div` in any rounding mode.
#[inline]
pub fn div_with(rounding: Rounding, a: f64, b: f64) -> f64 {
    match (rounding, Exact::from_f64(a), Exact::from_f64(b)) {
        (Rounding::NearestEven, ..) => div(a, b),
        (_, Some(x), Some(y)) if a != 0.0 && b != 0.0 => x.over(y).to_f64(rounding),
        _ => div(a, b),
    }
}

/// `rcp` in any rounding mode.
#[inline]
pub fn rcp_with(rounding: Rounding, a: f64) -> f64 {
    settle(div_with(rounding, 1.0, a), [a])
}

/// `sqrt` in any rounding mode.
#[inline]
pub fn sqrt_with(rounding: Rounding, a: f64) -> f64 {
    match (rounding, Exact::from_f64(a)) {
        (Rounding::NearestEven, _) => sqrt(a),
        (_, Some(x)) if a > 0.0 => x.square_root().to_f64(rounding),
        _ => sqrt(a),
    }
}

/// `abs`. A NaN is made quiet and keeps its sign.
#[inline(always)]
pub fn abs(a: f64) -> f64 {
    settle(a.abs(), [a])
}

/// `neg`. A NaN is made quiet and keeps its sign.
#[inline(always)]
pub fn neg(a: f64) -> f64 {
    settle(-a, [a])
}

/// `copysign`: the sign of `a` on the magnitude of `b`.
#[inline(always)]
pub fn copysign(a: f64, b: f64) -> f64 {
    b.copysign(a)
}

/// A key whose integer order is the order of f64, `-0` before `+0`.
#[inline(always)]
fn order(a: f64) -> i64 {
    let bits = a.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// `min`: `-0` is less than `+0`; of a NaN and a number, the number.
#[inline(always)]
pub fn min(a: f64, b: f64) -> f64 {
    let least = if order(a) < order(b) { a } else { b };
    pick_number(a, b, least)
}

/// `max`: `+0` is greater than `-0`; of a NaN and a number, the number.
#[inline(always)]
pub fn max(a: f64, b: f64) -> f64 {
    let greatest = if order(a) > order(b) { a } else { b };
    pick_number(a, b, greatest)
}

#[inline(always)]
fn pick_number(a: f64, b: f64, chosen: f64) -> f64 {
    let result = if a.is_nan() { b } else { chosen };
    let result = if b.is_nan() { a } else { result };
    if a.is_nan() & b.is_nan() {
        nan_of([a, b])
    } else {
        result
    }
}

/// `cvt.rni.f64.f64` and the like: rounds to an integral value and keeps the sign of zero.
#[inline(always)]
pub fn round_to_integer(rounding: Rounding, a: f64) -> f64 {
    let result = match rounding {
        Rounding::NearestEven => a.round_ties_even(),
        Rounding::NearestAway => a.round(),
        Rounding::TowardZero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
    };
    settle(result, [a])
}
