//! Sums of integers, of single bits, and of f64.

use super::arrange::{GROUPS, WIDTH, columns, rows};
use super::sum::Place;
use super::{BitOp, Element};
use crate::exec::kernel::vectorized;
use crate::semantics::{Rounding, fp64};

/// Vectors of integers, or of 32-bit words of single bits; used for one instruction after another.
#[derive(Debug, Default)]
pub(crate) struct Integers {
    values: Vec<[i32; WIDTH]>,
    k: usize,
    /// The integers as they were extended.
    extended: Vec<i32>,
}

impl Integers {
    /// Takes A, from the bits of `[row][k]`.
    pub(crate) fn set_a(&mut self, element: Element, bits: &[u32], k: usize) {
        self.extend(element, bits);
        rows(&self.extended, k, &mut self.values);
        self.k = k;
    }

    /// Takes B, from the bits of `[column][k]`.
    pub(crate) fn set_b(&mut self, element: Element, bits: &[u32], k: usize) {
        self.extend(element, bits);
        columns(&self.extended, k, &mut self.values);
        self.k = k;
    }

    fn extend(&mut self, element: Element, bits: &[u32]) {
        let signed = |width: u32| move |word: &u32| (*word << (32 - width)) as i32 >> (32 - width);
        let out = &mut self.extended;
        out.clear();
        match element {
            Element::S8 => out.extend(bits.iter().map(signed(8))),
            Element::S4 => out.extend(bits.iter().map(signed(4))),
            _ => out.extend(bits.iter().map(|word| *word as i32)),
        }
    }

    fn vectors(&self, index: usize) -> &[[i32; WIDTH]] {
        &self.values[index * self.k..(index + 1) * self.k]
    }
}

/// How integers or single bits are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntegerRule {
    /// Sums of products; the result wraps, or with `true` saturates.
    Products(bool),
    /// Population count of each pair of words, combined by the operation.
    Ones(BitOp),
}

/// The 32 lanes of an s32 accumulator register after the products are added.
pub(crate) fn accumulate_s32(
    rule: IntegerRule,
    a: &Integers,
    b: &Integers,
    (block, half, odd): Place,
    c: &[u32; 32],
) -> [u32; 32] {
    let b = b.vectors(2 * block + odd);
    let mut out = [0; 32];
    vectorized(
        #[inline(always)]
        || {
            for group in 0..GROUPS {
                let a = a.vectors(half * GROUPS + group);
                // At most 64 products of 16 bits: the sum cannot overflow.
                let mut sum = [0i32; WIDTH];
                for (a, b) in a.iter().zip(b) {
                    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
                        *sum += match rule {
                            IntegerRule::Products(_) => a * b,
                            IntegerRule::Ones(BitOp::Xor) => (a ^ b).count_ones() as i32,
                            IntegerRule::Ones(BitOp::And) => (a & b).count_ones() as i32,
                        };
                    }
                }
                for (i, sum) in sum.into_iter().enumerate() {
                    let lane = group * WIDTH + i;
                    let start = c[lane] as i32;
                    out[lane] = match rule {
                        IntegerRule::Products(true) => start.saturating_add(sum),
                        _ => start.wrapping_add(sum),
                    } as u32;
                }
            }
        },
    );
    out
}

/// The lanes of an f64 accumulator register: one fused multiply-add after another, from k = 0 on.
/// `a` is `[row][k]`, `b` is `[column][k]`.
pub(crate) fn accumulate_f64(
    rounding: Rounding,
    (a, b): (&[f64], &[f64]),
    k: usize,
    (_, half, odd): Place,
    c: &[u64; 32],
) -> [u64; 32] {
    let mut out = *c;
    for (lane, out) in out.iter_mut().enumerate() {
        let (row, column) = (lane / 4 + 8 * half, lane % 4 * 2 + odd);
        let mut sum = f64::from_bits(*out);
        for i in 0..k {
            let (a, b) = (a[row * k + i], b[column * k + i]);
            sum = match rounding {
                Rounding::NearestEven => fp64::fma(a, b, sum),
                _ => fp64::fma_with(rounding, a, b, sum),
            };
        }
        *out = sum.to_bits();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_a(element: Element, bits: &[u32], k: usize) -> Integers {
        let mut integers = Integers::default();
        integers.set_a(element, bits, k);
        integers
    }

    fn of_b(element: Element, bits: &[u32], k: usize) -> Integers {
        let mut integers = Integers::default();
        integers.set_b(element, bits, k);
        integers
    }

    #[test]
    fn saturation_is_of_the_whole_sum() {
        let a = of_a(Element::S8, &[0x80; 64], 4);
        let b = of_b(Element::S8, &[0x80; 32], 4);
        let start = [i32::MAX as u32 - 1; 32];
        let at = (0, 1, 1);
        let clamped = accumulate_s32(IntegerRule::Products(true), &a, &b, at, &start);
        assert_eq!(clamped, [i32::MAX as u32; 32]);
        let wrapped = accumulate_s32(IntegerRule::Products(false), &a, &b, at, &start);
        assert_eq!(wrapped, [(i32::MAX as u32 - 1).wrapping_add(4 << 14); 32]);
    }

    #[test]
    fn signs_follow_the_element() {
        let sum = |element, word| {
            let a = of_a(element, &[word; 16], 1);
            let b = of_b(Element::U8, &[1; 8], 1);
            accumulate_s32(IntegerRule::Products(false), &a, &b, (0, 0, 0), &[0; 32])[0] as i32
        };
        assert_eq!(sum(Element::S8, 0xff), -1);
        assert_eq!(sum(Element::U8, 0xff), 255);
        assert_eq!(sum(Element::S4, 0xf), -1);
        assert_eq!(sum(Element::U4, 0xf), 15);
    }

    #[test]
    fn single_bits_are_counted() {
        let a = of_a(Element::B1, &[0xff00_00ff; 32], 2);
        let b = of_b(Element::B1, &[0x0f00_0000; 16], 2);
        let count = |op| accumulate_s32(IntegerRule::Ones(op), &a, &b, (0, 0, 0), &[1; 32])[0];
        assert_eq!(count(BitOp::And), 1 + 2 * 4);
        assert_eq!(count(BitOp::Xor), 1 + 2 * 12);
    }
}
