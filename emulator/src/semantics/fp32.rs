//! f32 arithmetic.
//!
//! Directed rounding modes compute in f64, where the product of two f32 is exact. The last bit
//! records whether rounding to 53 bits cut anything off ("round to odd"). A second rounding, to 24
//! bits, then gives what one rounding of the exact value would, in every mode.

use super::{FloatMode, Rounding};

const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;
const EPSILON: f64 = f32::EPSILON as f64;

/// The NaN of every f32 operation.
pub const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// `a`, or the NaN that hardware gives in its place.
///
/// Works on the bits, as integers: LLVM treats the bits of a NaN from arithmetic as arbitrary, and
/// folds `if sqrt(x).is_nan() { NAN } else { sqrt(x) }` to `sqrt(x)`.
#[inline(always)]
pub fn canonical(a: f32) -> f32 {
    let bits = a.to_bits();
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if is_nan { 0x7fff_ffff } else { bits })
}

/// `add.rn`
#[inline(always)]
pub fn add(a: f32, b: f32) -> f32 {
    canonical(a + b)
}

/// `sub.rn`
#[inline(always)]
pub fn sub(a: f32, b: f32) -> f32 {
    canonical(a - b)
}

/// `mul.rn`
#[inline(always)]
pub fn mul(a: f32, b: f32) -> f32 {
    canonical(a * b)
}

/// `fma.rn`, `mad.rn`
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    canonical(a.mul_add(b, c))
}

/// `div.rn`
#[inline(always)]
pub fn div(a: f32, b: f32) -> f32 {
    canonical(a / b)
}

/// `rcp.rn`
#[inline(always)]
pub fn rcp(a: f32) -> f32 {
    canonical(1.0 / a)
}

/// `sqrt.rn`
#[inline(always)]
pub fn sqrt(a: f32) -> f32 {
    canonical(a.sqrt())
}

/// Flushes subnormals to zeros of the same sign: what `.ftz` does to each input and to the result.
#[inline(always)]
pub fn flush(a: f32) -> f32 {
    let bits = a.to_bits();
    let kept = if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    };
    f32::from_bits(kept)
}

/// What `.sat` does to a result: NaN and negative numbers become `+0`, those above 1 become 1.
#[inline(always)]
pub fn saturate(a: f32) -> f32 {
    let above_zero = if a > 0.0 { a } else { 0.0 };
    if above_zero < 1.0 { above_zero } else { 1.0 }
}

#[inline(always)]
fn input(mode: FloatMode, a: f32) -> f32 {
    if mode.ftz { flush(a) } else { a }
}

/// Rounds a value that is exact, or rounded to odd, and applies `.ftz` and `.sat`. For `.ftz`, the
/// value rounded to 24 bits with an unbounded exponent decides. So the least normal number times `1
/// - 2^-24` becomes zero, although rounding it as a subnormal gives the least normal number.
#[inline(always)]
fn output(mode: FloatMode, exact: f64) -> f32 {
    let rounds_away = match mode.rounding {
        Rounding::Up => exact > 0.0,
        Rounding::Down => exact < 0.0,
        _ => false,
    };
    let magnitude = exact.abs();
    let tiny = match mode.rounding {
        Rounding::NearestEven => magnitude < LEAST_NORMAL * (1.0 - EPSILON / 4.0),
        _ if rounds_away => magnitude <= LEAST_NORMAL * (1.0 - EPSILON / 2.0),
        _ => magnitude < LEAST_NORMAL,
    } & mode.ftz;
    let zero = 0.0_f32.copysign(exact as f32);
    saturated(
        mode,
        if tiny {
            zero
        } else {
            narrow(exact, mode.rounding)
        },
    )
}

#[inline(always)]
fn saturated(mode: FloatMode, result: f32) -> f32 {
    if mode.saturate {
        saturate(result)
    } else {
        result
    }
}

/// Rounds `value` to f32; NaN gives [`NAN`].
#[inline(always)]
pub fn narrow(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let result = match rounding {
        Rounding::NearestEven => nearest,
        Rounding::TowardZero if back.abs() > value.abs() => toward_zero(nearest),
        Rounding::Down if back > value => nearest.next_down(),
        Rounding::Up if back < value => nearest.next_up(),
        Rounding::NearestAway => nearest_away(value, nearest),
        _ => nearest,
    };
    canonical(result)
}

/// The neighbour of `a` toward zero.
#[inline(always)]
fn toward_zero(a: f32) -> f32 {
    f32::from_bits(a.to_bits() - 1)
}

/// `nearest`, or on a tie the neighbour farther from zero.
#[inline(always)]
fn nearest_away(value: f64, nearest: f32) -> f32 {
    let further = f32::from_bits(nearest.to_bits().wrapping_add(1));
    let is_tie = value.abs() - f64::from(nearest).abs() == f64::from(further).abs() - value.abs();
    if nearest.is_finite() && is_tie {
        further
    } else {
        nearest
    }
}

/// Turns a sum rounded to nearest into one rounded to odd. `error` is the exact value minus `sum`.
#[inline(always)]
pub(super) fn to_odd(sum: f64, error: f64) -> f64 {
    let opposite = u64::from((error < 0.0) != (sum < 0.0));
    let odd = f64::from_bits((sum.to_bits().wrapping_sub(opposite)) | 1);
    if (error < 0.0) | (error > 0.0) {
        odd
    } else {
        sum
    }
}

/// `x + y` rounded to odd; an exact zero has the sign that `rounding` gives it.
#[inline(always)]
pub(super) fn sum_to_odd(x: f64, y: f64, rounding: Rounding) -> f64 {
    let sum = x + y;
    let y_part = sum - x;
    let x_part = sum - y_part;
    let error = (x - x_part) + (y - y_part);
    let signs_differ = x.is_sign_negative() != y.is_sign_negative();
    if sum == 0.0 && signs_differ && rounding == Rounding::Down {
        return -0.0;
    }
    to_odd(sum, error)
}

/// `add` with any modifiers.
#[inline(always)]
pub fn add_with(mode: FloatMode, a: f32, b: f32) -> f32 {
    let (a, b) = (input(mode, a), input(mode, b));
    if mode.rounding == Rounding::NearestEven {
        // A subnormal sum is exact, so flushing it after rounding gives the same.
        let sum = add(a, b);
        return saturated(mode, if mode.ftz { flush(sum) } else { sum });
    }
    output(mode, sum_to_odd(f64::from(a), f64::from(b), mode.rounding))
}

/// `sub` with any modifiers.
#[inline(always)]
pub fn sub_with(mode: FloatMode, a: f32, b: f32) -> f32 {
    add_with(mode, a, -b)
}

/// `mul` with any modifiers.
#[inline(always)]
pub fn mul_with(mode: FloatMode, a: f32, b: f32) -> f32 {
    let (a, b) = (input(mode, a), input(mode, b));
    if mode.rounding == Rounding::NearestEven && !mode.ftz {
        return saturated(mode, mul(a, b));
    }
    output(mode, f64::from(a) * f64::from(b))
}

/// `fma` and `mad` with any modifiers: one rounding.
#[inline(always)]
pub fn fma_with(mode: FloatMode, a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (input(mode, a), input(mode, b), input(mode, c));
    if mode.rounding == Rounding::NearestEven && !mode.ftz {
        return saturated(mode, fma(a, b, c));
    }
    output(
        mode,
        sum_to_odd(f64::from(a) * f64::from(b), f64::from(c), mode.rounding),
    )
}

/// `div` with any modifiers.
#[inline(always)]
pub fn div_with(mode: FloatMode, a: f32, b: f32) -> f32 {
    let (a, b) = (input(mode, a), input(mode, b));
    if mode.rounding == Rounding::NearestEven && !mode.ftz {
        return saturated(mode, div(a, b));
    }
    let (x, y) = (f64::from(a), f64::from(b));
    let quotient = x / y;
    // The remainder is exact; with the divisor's sign it says on which side of the exact value the
    // quotient is.
    let remainder = (-quotient).mul_add(y, x);
    let error = if y < 0.0 { -remainder } else { remainder };
    output(mode, to_odd(quotient, error))
}

/// `rcp` with any modifiers.
#[inline(always)]
pub fn rcp_with(mode: FloatMode, a: f32) -> f32 {
    div_with(mode, 1.0, a)
}

/// `sqrt` with any modifiers.
#[inline(always)]
pub fn sqrt_with(mode: FloatMode, a: f32) -> f32 {
    let a = input(mode, a);
    if mode.rounding == Rounding::NearestEven && !mode.ftz {
        return saturated(mode, sqrt(a));
    }
    let x = f64::from(a);
    let root = x.sqrt();
    output(mode, to_odd(root, (-root).mul_add(root, x)))
}

/// `abs`; NaN gives [`NAN`].
#[inline(always)]
pub fn abs(a: f32) -> f32 {
    canonical(a.abs())
}

/// `neg`; NaN gives [`NAN`].
#[inline(always)]
pub fn neg(a: f32) -> f32 {
    canonical(-a)
}

/// `copysign`: the sign of `a` on the magnitude of `b`.
#[inline(always)]
pub fn copysign(a: f32, b: f32) -> f32 {
    b.copysign(a)
}

/// A key whose integer order is the order of f32, `-0` before `+0`.
#[inline(always)]
fn order(a: f32) -> i32 {
    let bits = a.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// `min`: `-0` is less than `+0`; of a NaN and a number, the number.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    let least = if order(a) < order(b) { a } else { b };
    pick_number(a, b, least)
}

/// `max`: `+0` is greater than `-0`; of a NaN and a number, the number.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    let greatest = if order(a) > order(b) { a } else { b };
    pick_number(a, b, greatest)
}

#[inline(always)]
fn pick_number(a: f32, b: f32, chosen: f32) -> f32 {
    let result = if a.is_nan() { b } else { chosen };
    canonical(if b.is_nan() { a } else { result })
}

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MinMaxMode {
    /// `.ftz`
    pub ftz: bool,
    /// `.NaN`: a NaN operand makes the result NaN.
    pub nan: bool,
    /// `.xorsign.abs`: compares magnitudes, and gives the result the exclusive or of the signs.
    pub xorsign_abs: bool,
}

/// `min` with any modifiers.
#[inline(always)]
pub fn min_with(mode: MinMaxMode, a: f32, b: f32) -> f32 {
    min_max(mode, a, b, min)
}

/// `max` with any modifiers.
#[inline(always)]
pub fn max_with(mode: MinMaxMode, a: f32, b: f32) -> f32 {
    min_max(mode, a, b, max)
}

#[inline(always)]
fn min_max(mode: MinMaxMode, a: f32, b: f32, choose: impl Fn(f32, f32) -> f32) -> f32 {
    let (a, b) = if mode.ftz {
        (flush(a), flush(b))
    } else {
        (a, b)
    };
    let is_nan = mode.nan & (a.is_nan() | b.is_nan());
    let result = if mode.xorsign_abs {
        let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
        let magnitude = choose(a.abs(), b.abs());
        let signed = f32::from_bits(magnitude.to_bits() ^ sign);
        if magnitude.is_nan() { NAN } else { signed }
    } else {
        choose(a, b)
    };
    if is_nan { NAN } else { result }
}

/// `cvt.rni.f32.f32` and the like: rounds to an integral value and keeps the sign of zero.
#[inline(always)]
pub fn round_to_integer(rounding: Rounding, a: f32) -> f32 {
    canonical(match rounding {
        Rounding::NearestEven => a.round_ties_even(),
        Rounding::NearestAway => a.round(),
        Rounding::TowardZero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
    })
}
