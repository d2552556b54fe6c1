//! What is computed. A thread has one *local* for each lane of its vectors and accumulates elements
//! into it, a batch at a time. At the end it closes its locals to *accumulators*, which are merged
//! in a fixed order.

use abi::reduce::ReduceParams;
use cuda_std::hint::opaque;
use cuda_std::warp::{self, Words};

use super::store::{Rounded, store};

/// Where a thread's elements are along the axis.
#[derive(Clone, Copy)]
pub(super) struct Indices {
    /// Index of the thread's first element of lane 0.
    pub(super) first: u64,
    /// Distance between its elements of one lane.
    pub(super) step: u64,
    /// Distance between lanes.
    pub(super) lane: u64,
}

impl Indices {
    #[inline(always)]
    pub(super) fn of(&self, k: u32, v: usize) -> u64 {
        self.first + u64::from(k) * self.step + v as u64 * self.lane
    }
}

/// Which operations a fold is asked for: [`by_operation`].
pub(super) enum Operations {
    /// One, or those that need no code of their own.
    One,
    /// Extremes; `params.map` says which.
    Extremes,
    /// All of `params.kind` and `params.map`.
    All,
}

/// An operation, or several that differ only in what is done before and after.
pub(super) trait Fold {
    /// The number type of the arithmetic.
    type Number: Copy;
    /// A thread's state for one lane.
    type Local: Copy;
    /// A partial result.
    type Acc: Words;
    /// A result.
    type Out: Rounded;
    /// Words of an accumulator.
    const WORDS: usize;
    /// False if an element takes so long that batched loads would hide no more latency.
    const IS_BATCHED: bool = true;
    /// Whether short axes, and remainders, are worth code of their own.
    const IS_SHORT: bool = false;
    /// Whether lanes that belong to one result may be accumulated as one.
    const IS_JOINED: bool = false;
    /// Operations that have code of their own.
    const KINDS: Operations = Operations::One;
    /// Whether there are operations with two tensors.
    const IS_PAIR: bool = false;
    /// Whether neighbouring results are stored in one access: they are quick to compute, and
    /// nothing is stored beside them.
    const IS_WRITTEN_AT_ONCE: bool = false;

    /// The local of no elements.
    fn start(params: &ReduceParams) -> Self::Local;

    /// The accumulator of no elements.
    fn empty(params: &ReduceParams) -> Self::Acc;

    /// Accumulates `U` more elements of each lane; `xs(u, v)` is element `u` of lane `v`, and `k`
    /// elements came before.
    fn batch<const V: usize, const U: usize>(
        locals: [Self::Local; V],
        xs: impl Fn(usize, usize) -> Self::Number,
        k: u32,
        params: &ReduceParams,
    ) -> [Self::Local; V];

    /// The accumulators of `U` elements of each of `R` results, which have no others; `xs(u, r)` is
    /// element `u` of result `r`.
    #[inline(always)]
    fn once<const R: usize, const U: usize>(
        xs: impl Fn(usize, usize) -> Self::Number,
        indices: &Indices,
        params: &ReduceParams,
    ) -> [Self::Acc; R] {
        let locals = Self::batch::<R, U>([Self::start(params); R], xs, 0, params);
        locals.map(|local| Self::close(local, U as u32, indices, 0))
    }

    /// Whether [`Fold::some`] is there.
    const TAKES_SOME: bool = false;

    /// Accumulates those of `U` elements that are there, for operations with a neutral element.
    /// `xs` is zero where there is none.
    #[inline(always)]
    fn some<const U: usize>(
        local: Self::Local,
        xs: impl Fn(usize) -> Self::Number,
        is_there: impl Fn(usize) -> bool,
        params: &ReduceParams,
    ) -> Self::Local {
        let _ = (xs, is_there, params);
        local
    }

    /// Combines the elements of two tensors, for operations with two.
    #[inline(always)]
    fn pair(x: Self::Number, y: Self::Number) -> Self::Number {
        let _ = y;
        x
    }

    /// The accumulator of a local with `count` elements of lane `v`.
    fn close(local: Self::Local, count: u32, indices: &Indices, v: usize) -> Self::Acc;

    /// The accumulators of a vector's lanes, each of which has `count` elements of a result.
    #[inline(always)]
    fn close_columns<const V: usize>(
        locals: [Self::Local; V],
        count: u32,
        indices: &Indices,
    ) -> [Self::Acc; V] {
        locals.map(|local| Self::close(local, count, indices, 0))
    }

    /// The accumulator of a local with `count` elements of all `V` lanes, which took in the lanes
    /// of each vector in turn.
    #[inline(always)]
    fn close_joined<const V: usize>(
        local: Self::Local,
        count: u32,
        indices: &Indices,
    ) -> Self::Acc {
        Self::close(local, count, indices, 0)
    }

    /// The accumulator of one element.
    fn single(x: Self::Number, index: u64, params: &ReduceParams) -> Self::Acc;

    /// Merges two accumulators.
    fn merge(a: Self::Acc, b: Self::Acc, params: &ReduceParams) -> Self::Acc;

    /// Merges the accumulators of `lanes` neighbouring lanes, a power of two, by a butterfly.
    ///
    /// # Safety
    /// All lanes of the warp are here.
    #[inline(always)]
    unsafe fn merge_lanes(acc: Self::Acc, lanes: u32, params: &ReduceParams) -> Self::Acc {
        // Opaque, so that it is not unrolled: merges may be long.
        // SAFETY: passed on to the caller.
        unsafe { butterfly(acc, opaque(lanes), |a, b| Self::merge(a, b, params)) }
    }

    /// The result.
    fn result(acc: Self::Acc, params: &ReduceParams) -> Self::Out;

    /// Stores what result number `at` has besides its value.
    ///
    /// # Safety
    /// The arrays that `params` names have that element.
    #[inline(always)]
    unsafe fn beside(acc: Self::Acc, params: &ReduceParams, at: u64) {
        let _ = (acc, params, at);
    }

    /// Stores result number `at`, of elements of which a vector has `V`.
    ///
    /// # Safety
    /// `out`, and the other arrays that `params` names, have that element.
    #[inline(always)]
    unsafe fn finish<const V: usize>(
        acc: Self::Acc,
        params: &ReduceParams,
        out: *mut Self::Out,
        at: u64,
    ) {
        // SAFETY: passed on to the caller.
        unsafe {
            store::<_, V>(Self::result(acc, params), params, out, at);
            Self::beside(acc, params, at);
        }
    }
}

/// An expression of `$params`, as code for each operation alone: one branch on it ahead of all that
/// the expression does. (A macro, as closures that are called more than once are not inlined.)
macro_rules! by_operation {
    ($fold:ty, |$params:ident| $run:expr) => {{
        use super::fold::Operations;
        use abi::reduce::{self as known, ReduceParams};
        macro_rules! of {
            ($kind:ident, $map:ident) => {{
                let $params = &ReduceParams {
                    kind: known::$kind,
                    map: known::$map,
                    ..*$params
                };
                $run
            }};
        }
        match (<$fold>::KINDS, $params.kind, $params.map) {
            (Operations::One, ..) => $run,
            (Operations::Extremes, _, known::MAP_NEGATE) => of!(KIND_LARGEST, MAP_NEGATE),
            (Operations::Extremes, _, known::MAP_ABS) => of!(KIND_LARGEST, MAP_ABS),
            (Operations::Extremes, ..) => of!(KIND_LARGEST, MAP_NONE),
            (_, known::KIND_PRODUCT, _) => of!(KIND_PRODUCT, MAP_NONE),
            (_, known::KIND_LARGEST, known::MAP_NEGATE) => of!(KIND_LARGEST, MAP_NEGATE),
            (_, known::KIND_LARGEST, known::MAP_ABS) => of!(KIND_LARGEST, MAP_ABS),
            (_, known::KIND_LARGEST, _) => of!(KIND_LARGEST, MAP_NONE),
            (_, _, known::MAP_ABS) => of!(KIND_SUM, MAP_ABS),
            (_, known::KIND_NORM, _) => of!(KIND_NORM, MAP_NONE),
            _ => of!(KIND_SUM, MAP_NONE),
        }
    }};
}
pub(super) use by_operation;

/// Combines what `lanes` neighbouring lanes of a warp have, a power of two.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
pub(super) unsafe fn butterfly<A: Words>(mut acc: A, lanes: u32, op: impl Fn(A, A) -> A) -> A {
    let mut apart = lanes / 2;
    while apart > 0 {
        // SAFETY: passed on to the caller.
        let other = unsafe { warp::shfl_bfly(warp::FULL_MASK, acc, apart) };
        acc = op(acc, other);
        apart /= 2;
    }
    acc
}

/// Combines by a tree: elements half the array apart, again and again.
#[inline(always)]
pub(super) fn tree<N: Copy, const U: usize>(xs: [N; U], op: impl Fn(N, N) -> N) -> N {
    tree_of(xs, U, op)
}

/// The same, of the first `count`.
#[inline(always)]
pub(super) fn tree_of<N: Copy, const U: usize>(
    mut xs: [N; U],
    count: usize,
    op: impl Fn(N, N) -> N,
) -> N {
    let mut half = count / 2;
    while half > 0 {
        for u in 0..half {
            xs[u] = op(xs[u], xs[u + half]);
        }
        half /= 2;
    }
    xs[0]
}
