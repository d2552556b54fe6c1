//! How a tensor core sums products of floats: aligned, truncated, then added exactly.

use super::arrange::{GROUPS, WIDTH, columns, rows};
use super::float::{NOTHING, decode_all, f16_parts, f32_parts};
use super::{Accumulator, Element};
use crate::exec::kernel::vectorized;

/// How a sum is formed; the parent module says what was seen on an H200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// Bits kept below the largest exponent when addends are aligned.
    pub(crate) fraction: i32,
    /// Low bits cleared in an f32 result.
    pub(crate) cleared: u32,
    /// Number of steps in which the products are added, from zero, before an ordinary addition to
    /// the accumulator; 0 means one step, together with the accumulator.
    pub(crate) steps: usize,
    pub(crate) accumulator: Accumulator,
}

impl Rule {
    /// The rule of `mma.sync`.
    pub(crate) fn of_mma(element: Element, accumulator: Accumulator) -> Self {
        Self {
            fraction: 25,
            cleared: 0,
            steps: if element.is_fp8() { 2 } else { 0 },
            accumulator,
        }
    }

    /// The rule of `wgmma`.
    pub(crate) fn of_wgmma(element: Element, accumulator: Accumulator) -> Self {
        let short = element.is_fp8();
        Self {
            fraction: if short { 13 } else { 25 },
            cleared: if short { 10 } else { 0 },
            steps: 0,
            accumulator,
        }
    }

    /// The place of element `k` of `count` in the order of addition: `mma` of fp8 takes those with
    /// `k % 4 < 2` first.
    pub(crate) fn place(self, k: usize, count: usize) -> usize {
        if self.steps == 0 {
            return k;
        }
        let within = k / 4 * 2 + k % 2;
        if k % 4 < 2 {
            within
        } else {
            count / 2 + within
        }
    }
}

/// Values and exponents, in vectors; used for one instruction after another.
#[derive(Debug, Default)]
pub(crate) struct Floats {
    values: Vec<[f32; WIDTH]>,
    exponents: Vec<[i32; WIDTH]>,
    k: usize,
    /// Values and exponents as they were decoded.
    decoded: (Vec<f32>, Vec<i32>),
}

impl Floats {
    /// Takes A, from the bits of `[row][k]`.
    pub(crate) fn set_a(&mut self, element: Element, bits: &[u32], k: usize, negated: bool) {
        vectorized(
            #[inline(always)]
            || {
                self.decode(element, bits, negated);
                rows(&self.decoded.0, k, &mut self.values);
                rows(&self.decoded.1, k, &mut self.exponents);
                self.k = k;
            },
        );
    }

    /// Takes B, from the bits of `[column][k]`.
    pub(crate) fn set_b(&mut self, element: Element, bits: &[u32], k: usize, negated: bool) {
        vectorized(
            #[inline(always)]
            || {
                self.decode(element, bits, negated);
                columns(&self.decoded.0, k, &mut self.values);
                columns(&self.decoded.1, k, &mut self.exponents);
                self.k = k;
            },
        );
    }

    #[inline(always)]
    fn decode(&mut self, element: Element, bits: &[u32], negated: bool) {
        let (values, exponents) = &mut self.decoded;
        values.resize(bits.len(), 0.0);
        exponents.resize(bits.len(), 0);
        decode_all(element, bits, values, exponents);
        if negated {
            values.iter_mut().for_each(|value| *value = -*value);
        }
    }

    fn vectors(&self, index: usize) -> Vectors<'_> {
        let range = index * self.k..(index + 1) * self.k;
        Vectors {
            values: &self.values[range.clone()],
            exponents: &self.exponents[range],
        }
    }
}

/// The elements of eight lanes along k.
#[derive(Clone, Copy)]
struct Vectors<'a> {
    values: &'a [[f32; WIDTH]],
    exponents: &'a [[i32; WIDTH]],
}

impl<'a> Vectors<'a> {
    /// Part `index` of `count`, for one step.
    fn part(self, index: usize, count: usize) -> Self {
        let len = self.values.len() / count;
        Self {
            values: &self.values[index * len..(index + 1) * len],
            exponents: &self.exponents[index * len..(index + 1) * len],
        }
    }
}

/// What an accumulator register holds: block of columns, half of the rows, odd column.
pub(crate) type Place = (usize, usize, usize);

/// The 32 lanes of an f32 accumulator register after the products are added.
pub(crate) fn accumulate_f32(
    rule: Rule,
    a: &Floats,
    b: &Floats,
    at: Place,
    c: &[u32; 32],
) -> [u32; 32] {
    vectorized(
        #[inline(always)]
        || {
            let mut out = [0; 32];
            each_group(
                a,
                b,
                at,
                #[inline(always)]
                |group, a, b| {
                    let own = &c[group * WIDTH..][..WIDTH];
                    let mut lanes = [0; WIDTH];
                    lanes.copy_from_slice(own);
                    out[group * WIDTH..][..WIDTH]
                        .copy_from_slice(&step_all::<F32>(rule, a, b, lanes));
                },
            );
            out
        },
    )
}

/// The same for a register of f16 pairs; `at` names the even columns.
pub(crate) fn accumulate_f16(
    rule: Rule,
    a: &Floats,
    b: &Floats,
    at: Place,
    c: &[u32; 32],
) -> [u32; 32] {
    vectorized(
        #[inline(always)]
        || {
            let mut out = [0; 32];
            for odd in 0..2 {
                each_group(
                    a,
                    b,
                    (at.0, at.1, odd),
                    #[inline(always)]
                    |group, a, b| {
                        let mut lanes = [0; WIDTH];
                        for (lane, c) in lanes.iter_mut().zip(&c[group * WIDTH..]) {
                            *lane = c >> (16 * odd) & 0xffff;
                        }
                        let sums = step_all::<F16>(rule, a, b, lanes);
                        for (out, sum) in out[group * WIDTH..].iter_mut().zip(sums) {
                            *out |= sum << (16 * odd);
                        }
                    },
                );
            }
            out
        },
    )
}

#[inline(always)]
fn each_group<'a>(
    a: &'a Floats,
    b: &'a Floats,
    (block, half, odd): Place,
    mut f: impl FnMut(usize, Vectors<'a>, Vectors<'a>),
) {
    let b = b.vectors(2 * block + odd);
    for group in 0..GROUPS {
        f(group, a.vectors(half * GROUPS + group), b);
    }
}

/// Format of an accumulator.
trait Format {
    /// Decodes to value and exponent.
    fn parts(bits: u32) -> (f32, i32);
    /// Encodes an exact sum, truncated or rounded.
    fn fit(sum: f64, cleared: u32) -> u32;
    /// The same for a sum that is zero or in the normal range of f32.
    fn fit_normal(sum: f64, cleared: u32) -> u32;
    /// The ordinary, rounded addition.
    fn add(a: u32, b: u32) -> u32;
}

struct F32;
struct F16;

impl Format for F32 {
    #[inline(always)]
    fn parts(bits: u32) -> (f32, i32) {
        f32_parts(bits)
    }

    #[inline(always)]
    fn fit(sum: f64, cleared: u32) -> u32 {
        f32_toward_zero(sum) & u32::MAX << cleared
    }

    #[inline(always)]
    fn fit_normal(sum: f64, cleared: u32) -> u32 {
        // With the bits below the 24th cleared the conversion is exact; adding 0 turns -0 into +0.
        let cut = f64::from_bits(sum.to_bits() & !((1 << 29) - 1));
        (cut as f32 + 0.0).to_bits() & u32::MAX << cleared
    }

    fn add(a: u32, b: u32) -> u32 {
        let sum = f32::from_bits(a) + f32::from_bits(b);
        if sum.is_nan() {
            0x7fff_ffff
        } else {
            sum.to_bits()
        }
    }
}

impl Format for F16 {
    #[inline(always)]
    fn parts(bits: u32) -> (f32, i32) {
        f16_parts(bits)
    }

    fn fit(sum: f64, _cleared: u32) -> u32 {
        f16_nearest(sum)
    }

    #[inline(always)]
    fn fit_normal(sum: f64, _cleared: u32) -> u32 {
        f16_nearest(sum)
    }

    fn add(a: u32, b: u32) -> u32 {
        let sum = f64::from(f16_parts(a).0) + f64::from(f16_parts(b).0);
        if sum.is_nan() {
            0x7fff
        } else if sum == 0.0 {
            u32::from(sum.is_sign_negative()) << 15
        } else {
            f16_nearest(sum)
        }
    }
}

/// All steps for eight lanes.
#[inline(always)]
fn step_all<F: Format>(
    rule: Rule,
    a: Vectors<'_>,
    b: Vectors<'_>,
    c: [u32; WIDTH],
) -> [u32; WIDTH] {
    if rule.steps == 0 {
        return step::<F>(rule, a, b, c);
    }
    let mut own = [0; WIDTH];
    for i in 0..rule.steps {
        own = step::<F>(rule, a.part(i, rule.steps), b.part(i, rule.steps), own);
    }
    let mut out = c;
    for (out, own) in out.iter_mut().zip(own) {
        *out = F::add(own, *out);
    }
    out
}

/// Range of exponents in which no f32 on the way to a sum overflows or underflows.
const SAFE: (i32, i32) = (-100, 120);

/// One step for eight lanes. Nothing here overflows; it wraps so that a build with overflow checks
/// has vectors too.
#[inline(always)]
fn step<F: Format>(rule: Rule, a: Vectors<'_>, b: Vectors<'_>, c: [u32; WIDTH]) -> [u32; WIDTH] {
    let mut start = [0.0; WIDTH];
    let mut top = [0; WIDTH];
    for i in 0..WIDTH {
        (start[i], top[i]) = F::parts(c[i]);
    }
    for (a, b) in a.exponents.iter().zip(b.exponents) {
        for i in 0..WIDTH {
            top[i] = top[i].max(a[i].wrapping_add(b[i]));
        }
    }
    let mut unsafe_lanes = 0;
    let mut scale = [0.0; WIDTH];
    for i in 0..WIDTH {
        let empty = top[i] < NOTHING / 2;
        unsafe_lanes |= u32::from(top[i] > SAFE.1) | u32::from(!empty) & u32::from(top[i] < SAFE.0);
        top[i] = top[i].clamp(SAFE.0, SAFE.1);
        let field = rule.fraction.wrapping_sub(top[i]).wrapping_add(127);
        scale[i] = f32::from_bits((field as u32) << 23);
    }
    if unsafe_lanes != 0 {
        return step_by_lane::<F>(rule, a, b, c);
    }
    // Two integer sums, so that neither overflows: at most 8 addends below 2^27 each and the
    // accumulator, or 32 addends below 2^15 each.
    let mut sums = [[0i32; WIDTH]; 2];
    for i in 0..WIDTH {
        sums[0][i] = cut(start[i] * scale[i]);
    }
    let half = a.values.len() / 2;
    let (a, b) = (a.values.split_at(half), b.values.split_at(half));
    for (sum, (a, b)) in sums.iter_mut().zip([(a.0, b.0), (a.1, b.1)]) {
        for (a, b) in a.iter().zip(b) {
            for i in 0..WIDTH {
                sum[i] = sum[i].wrapping_add(cut(a[i] * b[i] * scale[i]));
            }
        }
    }
    let mut out = [0; WIDTH];
    for i in 0..WIDTH {
        // The lowest place of the sum: a power of two in the range of f64.
        let field = top[i].wrapping_sub(rule.fraction).wrapping_add(1023);
        let unit = f64::from_bits((field as u64) << 52);
        let sum = f64::from(sums[0][i]) + f64::from(sums[1][i]);
        out[i] = F::fit_normal(sum * unit, rule.cleared);
    }
    out
}

/// The integer part of an aligned addend: truncation drops the bits below.
#[inline(always)]
fn cut(addend: f32) -> i32 {
    // SAFETY: no addend is infinite, NaN or as large as 2^31. Alignment scales by `2^(fraction -
    // top)`, with `fraction` at most 25 and `top` at least the exponent of the addend. So the
    // addend's magnitude is below `2^(top + 2)`. `step` leaves lanes with infinities or NaN, whose
    // exponent is `SPECIAL`, to `step_by_lane`. Where `top` was raised to the lower end of `SAFE`,
    // all addends of the lane are zero.
    unsafe { addend.to_int_unchecked() }
}

#[cold]
#[inline(never)]
fn step_by_lane<F: Format>(
    rule: Rule,
    a: Vectors<'_>,
    b: Vectors<'_>,
    c: [u32; WIDTH],
) -> [u32; WIDTH] {
    let mut out = [0; WIDTH];
    for (i, out) in out.iter_mut().enumerate() {
        let (start, mut top) = F::parts(c[i]);
        let mut ordinary = f64::from(start);
        for k in 0..a.values.len() {
            let product = f64::from(a.values[k][i]) * f64::from(b.values[k][i]);
            top = top.max(a.exponents[k][i] + b.exponents[k][i]);
            ordinary += product;
        }
        if !ordinary.is_finite() {
            // Products of these formats are far inside the range of f64.
            *out = F::fit(ordinary, 0);
            continue;
        }
        if top < NOTHING / 2 {
            continue;
        }
        let scale = power_of_two(rule.fraction - top);
        let mut sum = (f64::from(start) * scale).trunc();
        for k in 0..a.values.len() {
            let product = f64::from(a.values[k][i]) * f64::from(b.values[k][i]);
            sum += (product * scale).trunc();
        }
        *out = F::fit(sum * power_of_two(top - rule.fraction), rule.cleared);
    }
    out
}

/// `2^exponent`, for a normal f64.
#[inline(always)]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits((exponent.wrapping_add(1023) as u64) << 52)
}

/// The nearest f32 toward zero, as bits; `+0` for zero, infinity from `2^128` on.
fn f32_toward_zero(value: f64) -> u32 {
    if value.is_nan() {
        return 0x7fff_ffff;
    }
    let sign = u32::from(value.is_sign_negative()) << 31;
    let magnitude = value.abs();
    if magnitude >= power_of_two(128) {
        return sign | 0x7f80_0000;
    }
    if magnitude < f64::from(f32::MIN_POSITIVE) {
        let bits = (magnitude * power_of_two(149)).trunc() as u32;
        return if bits == 0 { 0 } else { sign | bits };
    }
    let cut = f64::from_bits(magnitude.to_bits() & !((1 << 29) - 1));
    sign | (cut as f32).to_bits()
}

/// The nearest f16, ties to even, as bits; `+0` for zero.
#[inline(always)]
fn f16_nearest(value: f64) -> u32 {
    let magnitude = value.abs();
    let field = ((magnitude.to_bits() >> 52) as i32).wrapping_sub(1023);
    let field = field.clamp(-14, 16);
    // Adding 2^52 rounds to an integer, which are then the low bits.
    const TO_INTEGER: f64 = (1u64 << 52) as f64;
    let units =
        (magnitude.min(131_072.0) * power_of_two(10i32.wrapping_sub(field)) + TO_INTEGER).to_bits();
    // The leading bit of a normal number adds one to the exponent field.
    let exponent = field.wrapping_add(14) as u32;
    let bits = (exponent << 10).wrapping_add(units as u32 & 0xffff);
    let bits = if magnitude >= 65520.0 { 0x7c00 } else { bits };
    let sign = ((value.to_bits() >> 63) as u32) << 15;
    let signed = if bits == 0 { 0 } else { sign | bits };
    if value.is_nan() { 0x7fff } else { signed }
}

#[cfg(test)]
mod tests;
