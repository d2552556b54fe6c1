//! The logarithm of a sum of exponentials.

use core::marker::PhantomData;

use abi::reduce::ReduceParams;
use cuda_std::warp::Words;

use super::fold::{Fold, Indices};
use super::number::{Number, Real};
use super::store::Rounded;

/// ln Σ exp(x), as the maximum and the sum of exponentials relative to it.
pub(super) struct Lse<R>(PhantomData<R>);

/// The maximum, and the sum relative to it.
#[derive(Clone, Copy)]
pub(super) struct MaxSum<R> {
    max: R,
    sum: R,
}

impl<R: Real> Words for MaxSum<R> {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            max: self.max.map_words(&mut f),
            sum: self.sum.map_words(&mut f),
        }
    }
}

impl<R: Real + Rounded> Fold for Lse<R> {
    type Number = R;
    type Local = MaxSum<R>;
    type Acc = MaxSum<R>;
    type Out = R;
    const WORDS: usize = 2 * (size_of::<R>() / 4);
    const IS_BATCHED: bool = false;

    #[inline(always)]
    fn start(params: &ReduceParams) -> MaxSum<R> {
        Self::empty(params)
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> MaxSum<R> {
        MaxSum {
            max: R::LEAST,
            sum: R::ZERO,
        }
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [MaxSum<R>; V],
        xs: impl Fn(usize, usize) -> R,
        _: u32,
        params: &ReduceParams,
    ) -> [MaxSum<R>; V] {
        for u in 0..U {
            for (v, local) in locals.iter_mut().enumerate() {
                *local = Self::merge(*local, Self::single(xs(u, v), 0, params), params);
            }
        }
        locals
    }
    #[inline(always)]
    fn close(local: MaxSum<R>, _: u32, _: &Indices, _: usize) -> MaxSum<R> {
        local
    }
    #[inline(always)]
    fn single(x: R, _: u64, _: &ReduceParams) -> MaxSum<R> {
        MaxSum {
            max: x,
            sum: R::ONE,
        }
    }
    /// Takes one exponential, whichever maximum is larger. A NaN may become the maximum or not; in
    /// both cases it is in the sum, and stays there. Two equal maxima, also infinite ones, have the
    /// distance 0.
    #[inline(always)]
    fn merge(a: MaxSum<R>, b: MaxSum<R>, _: &ReduceParams) -> MaxSum<R> {
        let apart = b.max.minus(a.max);
        let apart = if a.max.beats(b.max) | b.max.beats(a.max) {
            apart
        } else {
            R::ZERO
        };
        let factor = apart.magnitude().reversed().exp();
        let (large, small) = if apart.beats(R::ZERO) { (b, a) } else { (a, b) };
        MaxSum {
            max: large.max,
            sum: small.sum.fma(factor, large.sum),
        }
    }
    #[inline(always)]
    fn result(acc: MaxSum<R>, _: &ReduceParams) -> R {
        // An infinite maximum is the result, unless there was a NaN among the elements.
        let result = match acc.max.is_finite() | Number::is_nan(acc.sum) {
            true => acc.max.plus(acc.sum.log()),
            false => acc.max,
        };
        result.nan()
    }
}
