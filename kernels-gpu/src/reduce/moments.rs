//! Mean and variance in one pass. Each batch has its own mean; batches are merged as by Chan, Golub
//! and LeVeque (Welford's recurrence for sets of more than one), so that no large sums are
//! subtracted.

use core::marker::PhantomData;

use cuda_std::warp::Words;
use spec::reduce::{FINISH_DIVIDE_ROOT, ReduceParams};

use super::fold::{Fold, Indices, tree};
use super::number::Real;
use super::store::Rounded;

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
        let part = R::ONE.quotient(R::of(U as u32));
        // The batch's share of all elements, and that share times the count before.
        let share = R::of(U as u32).quotient(R::of(k + U as u32));
        let before = R::of(k).times(share);
        for (v, local) in locals.iter_mut().enumerate() {
            let lane: [R; U] = core::array::from_fn(|u| xs(u, v));
            let mean = tree(lane, R::plus).times(part);
            let squares = lane.map(|x| {
                let distance = x.minus(mean);
                distance.times(distance)
            });
            let squares = tree(squares, R::plus);
            let apart = mean.minus(local[0]);
            *local = [
                apart.fma(share, local[0]),
                // A count of 0 before has no weight, whatever the mean.
                apart.times(before).fma(apart, local[1].plus(squares)),
            ];
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
