//! The largest, the least and the largest magnitude of bf16, two elements at a time.
//!
//! An extreme is one of the elements, so nothing has to be widened before the end: `max.NaN.bf16x2`
//! compares two pairs, and says NaN where [`super::fold::Value`] has to ask. Results have the bits
//! of that one.

use abi::reduce::{MAP_ABS, MAP_NEGATE, ReduceParams};
use cuda_std::{convert, math};
use half::bf16;

use super::fold::{Fold, Indices, Operations, butterfly, tree_of};
use super::load::{Load, Raw};
use super::number::Number;
use super::value::{Value, larger_or_nan};

/// The signs of two elements.
pub(super) const SIGNS: u32 = 0x8000_8000;
/// -inf, twice: no element is less.
const LEAST: u32 = 0xff80_ff80;

/// bf16, of which a "number" is the word that has it and its neighbour.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Load<8> for Pairs {
    type Number = u32;

    #[inline(always)]
    fn bytes(code: u64) -> i64 {
        <bf16 as Load<8>>::bytes(code)
    }
    #[inline(always)]
    unsafe fn gather(at: *const u8, step: i64, valid: u32, code: u64) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { <bf16 as Load<8>>::gather(at, step, valid, code) }
    }
    #[inline(always)]
    unsafe fn one(at: *const u8, _: u64) -> u32 {
        // SAFETY: passed on to the caller.
        u32::from(unsafe { at.cast::<u16>().read() }) * 0x1_0001
    }
    #[inline(always)]
    fn number(raw: Raw, v: usize) -> u32 {
        raw[v / 2]
    }
}

/// Extremes of [`Pairs`].
pub(super) struct Extreme;

/// Applies `params.map` to two elements.
#[inline(always)]
fn mapped(word: u32, params: &ReduceParams) -> u32 {
    // Choices, which are made once for all words, and no branches.
    let set = if params.map == MAP_ABS { SIGNS } else { 0 };
    let flip = if params.map == MAP_NEGATE { SIGNS } else { set };
    (word | set) ^ flip
}

/// The elements of a pair.
#[inline(always)]
fn halves(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(convert::bf16_to_f32)
}

impl Fold for Extreme {
    type Number = u32;
    /// The largest of the lower elements, and of the upper ones. Lanes of a pair have the same.
    type Local = u32;
    type Acc = f32;
    type Out = f32;
    const WORDS: usize = 1;
    const KINDS: Operations = Operations::Extremes;
    const IS_WRITTEN_AT_ONCE: bool = true;
    const TAKES_SOME: bool = true;

    #[inline(always)]
    fn start(_: &ReduceParams) -> u32 {
        LEAST
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> f32 {
        f32::LEAST
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [u32; V],
        xs: impl Fn(usize, usize) -> u32,
        _: u32,
        params: &ReduceParams,
    ) -> [u32; V] {
        if V == 1 {
            // Neighbours of one row, of which two have a word.
            let is_there = |_: usize| true;
            return [Self::some::<U>(locals[0], |u| xs(u, 0), is_there, params); V];
        }
        for v in (0..V).step_by(2) {
            let words: [u32; U] = core::array::from_fn(|u| mapped(xs(u, v), params));
            let largest = math::max_nan_bf16x2(locals[v], tree_of(words, U, math::max_nan_bf16x2));
            (locals[v], locals[v + 1]) = (largest, largest);
        }
        locals
    }
    #[inline(always)]
    fn some<const U: usize>(
        local: u32,
        xs: impl Fn(usize) -> u32,
        is_there: impl Fn(usize) -> bool,
        params: &ReduceParams,
    ) -> u32 {
        let words: [u32; U] = core::array::from_fn(|u| match is_there(2 * u % U) {
            true => mapped(xs(2 * u % U), params),
            false => LEAST,
        });
        math::max_nan_bf16x2(local, tree_of(words, U / 2, math::max_nan_bf16x2))
    }
    #[inline(always)]
    fn close(local: u32, _: u32, _: &Indices, v: usize) -> f32 {
        halves(local)[v % 2].nan()
    }
    #[inline(always)]
    fn close_columns<const V: usize>(locals: [u32; V], count: u32, indices: &Indices) -> [f32; V] {
        core::array::from_fn(|v| Self::close(locals[v], count, indices, v))
    }
    #[inline(always)]
    fn close_joined<const V: usize>(local: u32, _: u32, _: &Indices) -> f32 {
        let [low, high] = halves(local);
        larger_or_nan(low, high)
    }
    #[inline(always)]
    fn single(x: u32, _: u64, params: &ReduceParams) -> f32 {
        halves(mapped(x, params))[0].nan()
    }
    #[inline(always)]
    fn merge(a: f32, b: f32, _: &ReduceParams) -> f32 {
        larger_or_nan(a, b)
    }
    #[inline(always)]
    unsafe fn merge_lanes(acc: f32, lanes: u32, _: &ReduceParams) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { butterfly(acc, lanes, larger_or_nan) }
    }
    #[inline(always)]
    fn result(acc: f32, params: &ReduceParams) -> f32 {
        Value::result(acc, params)
    }
}
