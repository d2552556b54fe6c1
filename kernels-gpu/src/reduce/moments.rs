//! Mean and variance in one pass, by Welford's recurrence for sets of more than one element, as
//! Chan, Golub and LeVeque have it.
//!
//! Distances of a batch are taken from the mean of the elements before it, the *pivot*, and so are
//! those that go into the sum of squares. With `s` and `q` their sum and sum of squares, and `n`
//! elements by now, the mean moves by `s / n`, and squared deviations grow by `q - s^2 / n`. That
//! takes away at most half of `q` where at least as many elements came before, and so loses no more
//! than a bit. A first batch has the mean of some of its own elements as its pivot.

use core::marker::PhantomData;

use abi::reduce::{FINISH_DIVIDE_ROOT, ReduceParams};
use cuda_std::warp::Words;

use super::fold::{Fold, Indices, tree_of};
use super::number::Real;
use super::store::Rounded;

/// Most elements that are taken in at a time.
const FEW: usize = 16;
/// Squares that are added one after the other.
const CHAIN: usize = 4;

/// Means, and squared deviations from them.
pub(super) struct Moments<R>(PhantomData<R>);

/// The count, the mean, and the squared deviations of a set.
#[derive(Clone, Copy)]
pub(super) struct Spread<R> {
    count: R,
    mean: R,
    squares: R,
}

impl<R: Real> Words for Spread<R> {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            count: self.count.map_words(&mut f),
            mean: self.mean.map_words(&mut f),
            squares: self.squares.map_words(&mut f),
        }
    }
}

/// How many of `count` elements are taken in at a time, so that few are in registers.
const fn few(count: usize) -> usize {
    if count < FEW { count } else { FEW }
}

/// The mean of as many of them as are taken in at a time.
#[inline(always)]
fn mean_of_few<R: Real, const U: usize>(lane: &[R; U]) -> R {
    let sum = tree_of(*lane, few(U), R::plus);
    sum.times(R::ONE.quotient(R::of(few(U) as u32)))
}

/// The sum of the squares of the first `count`: a tree over chains of multiply-adds.
#[inline(always)]
fn sum_of_squares<R: Real>(xs: [R; FEW], count: usize) -> R {
    let chains = count.div_ceil(CHAIN);
    let mut sums = xs.map(|x| x.times(x));
    for u in chains..count {
        sums[u % chains] = xs[u].fma(xs[u], sums[u % chains]);
    }
    tree_of(sums, chains, R::plus)
}

impl<R: Real + Rounded> Fold for Moments<R> {
    type Number = R;
    /// The mean and the squared deviations; the count is the same for all lanes, and known.
    type Local = [R; 2];
    type Acc = Spread<R>;
    type Out = R;
    const WORDS: usize = 3 * (size_of::<R>() / 4);

    #[inline(always)]
    fn start(_: &ReduceParams) -> [R; 2] {
        [R::ZERO; 2]
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> Spread<R> {
        Spread {
            count: R::ZERO,
            mean: R::ZERO,
            squares: R::ZERO,
        }
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [[R; 2]; V],
        xs: impl Fn(usize, usize) -> R,
        k: u32,
        _: &ReduceParams,
    ) -> [[R; 2]; V] {
        let part = R::ONE.quotient(R::of(k + U as u32));
        for (v, local) in locals.iter_mut().enumerate() {
            let lane: [R; U] = core::array::from_fn(|u| xs(u, v));
            let [mean, mut squares] = *local;
            let pivot = if k == 0 { mean_of_few(&lane) } else { mean };
            let mut sum = R::ZERO;
            for first in (0..U).step_by(FEW) {
                let distances = core::array::from_fn(|u| lane[(first + u) % U].minus(pivot));
                sum = sum.plus(tree_of(distances, few(U), R::plus));
                squares = squares.plus(sum_of_squares(distances, few(U)));
            }
            let moved = sum.times(part);
            *local = [pivot.plus(moved), moved.reversed().fma(sum, squares)];
        }
        locals
    }
    #[inline(always)]
    fn close([mean, squares]: [R; 2], count: u32, _: &Indices, _: usize) -> Spread<R> {
        Spread {
            count: R::of(count),
            mean,
            squares,
        }
    }
    #[inline(always)]
    fn single(x: R, _: u64, _: &ReduceParams) -> Spread<R> {
        Spread {
            count: R::ONE,
            mean: x,
            // 0, or NaN if the element is not finite.
            squares: x.minus(x),
        }
    }
    #[inline(always)]
    fn merge(a: Spread<R>, b: Spread<R>, _: &ReduceParams) -> Spread<R> {
        let count = a.count.plus(b.count);
        let share = b
            .count
            .quotient(if count.beats(R::ZERO) { count } else { R::ONE });
        let apart = b.mean.minus(a.mean);
        Spread {
            count,
            mean: apart.fma(share, a.mean),
            squares: apart
                .times(a.count.times(share))
                .fma(apart, a.squares.plus(b.squares)),
        }
    }
    #[inline(always)]
    fn result(acc: Spread<R>, params: &ReduceParams) -> R {
        let variance = acc.squares.over(params.divisor).nan();
        match params.finish {
            FINISH_DIVIDE_ROOT => variance.root().nan(),
            _ => variance,
        }
    }
    #[inline(always)]
    unsafe fn beside(acc: Spread<R>, params: &ReduceParams, at: u64) {
        if params.means == 0 {
            return;
        }
        let means = core::ptr::with_exposed_provenance_mut::<R>(params.means as usize);
        // The mean of no elements is NaN, as their variance is.
        let mean = if params.view.is_empty() {
            acc.squares.over(params.divisor)
        } else {
            acc.mean
        };
        // SAFETY: passed on to the caller.
        unsafe { means.wrapping_add(at as usize).write(mean.nan()) };
    }
}
