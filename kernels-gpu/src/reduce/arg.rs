//! Argmax and argmin.

use core::marker::PhantomData;

use abi::reduce::{MAP_NEGATE, ReduceParams};
use cuda_std::warp::Words;

use super::fold::{Fold, Indices};
use super::number::Number;

/// The lowest index of the largest element; in reversed order, of the smallest.
pub(super) struct Arg<N>(PhantomData<N>);

/// The index of no element.
const NONE: u64 = u64::MAX;

/// An element and its index along the axis.
#[derive(Clone, Copy)]
pub(super) struct Found<N> {
    value: N,
    index: u64,
}

impl<N: Number> Words for Found<N> {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            value: self.value.map_words(&mut f),
            index: self.index.map_words(&mut f),
        }
    }
}

impl<N: Number> Fold for Arg<N> {
    type Number = N;
    /// The largest element so far, and which of the thread's elements of its lane it is. It starts
    /// as element 0 with the least value, so that a lane that holds nothing else returns its lowest
    /// index.
    type Local = (N, u32);
    type Acc = Found<N>;
    type Out = i64;
    const WORDS: usize = size_of::<N>() / 4 + 2;

    #[inline(always)]
    fn start(_: &ReduceParams) -> (N, u32) {
        (N::LEAST, 0)
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> Found<N> {
        Found {
            value: N::LEAST,
            index: NONE,
        }
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [(N, u32); V],
        xs: impl Fn(usize, usize) -> N,
        k: u32,
        params: &ReduceParams,
    ) -> [(N, u32); V] {
        let reversal = N::reversal(params.map == MAP_NEGATE);
        let mut flag = N::ZERO;
        for u in 0..U {
            for v in 0..V {
                flag = xs(u, v).flagged(flag);
            }
        }
        // Two loops: in one, each comparison would be made in both ways.
        if Number::is_nan(flag) {
            for u in 0..U {
                for (v, (largest, at)) in locals.iter_mut().enumerate() {
                    let x = xs(u, v).ordered(reversal);
                    // Once a NaN is the largest it stays, as nothing beats it.
                    let is_above = x.beats(*largest);
                    *largest = if is_above { x } else { *largest };
                    *at = if is_above { k + u as u32 } else { *at };
                }
            }
        } else {
            for u in 0..U {
                for (v, (largest, at)) in locals.iter_mut().enumerate() {
                    let x = xs(u, v).ordered(reversal);
                    // Only the values form a dependency chain; an earlier NaN stays.
                    let is_above = x.above(*largest);
                    *largest = if is_above { x } else { *largest };
                    *at = if is_above { k + u as u32 } else { *at };
                }
            }
        }
        locals
    }
    #[inline(always)]
    fn close((value, k): (N, u32), count: u32, indices: &Indices, v: usize) -> Found<N> {
        let index = if count == 0 { NONE } else { indices.of(k, v) };
        Found { value, index }
    }
    #[inline(always)]
    fn close_joined<const V: usize>(
        (value, k): (N, u32),
        count: u32,
        indices: &Indices,
    ) -> Found<N> {
        Self::close((value, k / V as u32), count, indices, k as usize % V)
    }
    #[inline(always)]
    fn single(x: N, index: u64, params: &ReduceParams) -> Found<N> {
        let value = if params.map == MAP_NEGATE {
            x.reversed()
        } else {
            x
        };
        Found { value, index }
    }
    #[inline(always)]
    fn merge(a: Found<N>, b: Found<N>, _: &ReduceParams) -> Found<N> {
        // An accumulator without elements has the highest index and the least value.
        let is_b = b.value.beats(a.value) | (!a.value.beats(b.value) & (b.index < a.index));
        if is_b { b } else { a }
    }
    #[inline(always)]
    fn result(acc: Found<N>, _: &ReduceParams) -> i64 {
        acc.index as i64
    }
}
