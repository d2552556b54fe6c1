//! What is computed. A thread has one *local* for each lane of its vectors and accumulates elements
//! into it, a batch at a time. At the end it closes its locals to *accumulators*, which are merged
//! in a fixed order.

use core::marker::PhantomData;

use abi::reduce::{
    FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_ROOT, KIND_LARGEST, KIND_NORM, KIND_PRODUCT, MAP_ABS,
    MAP_NEGATE, ReduceParams,
};
use cuda_std::hint::opaque;
use cuda_std::warp::{self, Words};

use super::number::Number;
use super::partial::Partial;
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

/// Applies `params.finish` to a sum.
#[inline(always)]
fn finished<N: Partial>(sum: N, params: &ReduceParams) -> N {
    match params.finish {
        FINISH_DIVIDE => sum.over(params.divisor),
        FINISH_ROOT => sum.norm_result(),
        FINISH_DIVIDE_ROOT => sum.over(params.divisor).root(),
        _ => sum,
    }
}

/// Sums, products, norms and extremes.
pub(super) struct Value<N>(PhantomData<N>);

/// A partial result of a local.
#[inline(always)]
fn closed<N: Number>([value, lost]: [N; 2]) -> N {
    // An infinite sum has lost NaN, which is left out. Other operations lose nothing.
    if value.is_finite() {
        value.plus(lost)
    } else {
        value
    }
}

/// Applies a `MAP_..` to an element.
#[inline(always)]
fn mapped<N: Number>(x: N, map: u32) -> N {
    match map {
        MAP_NEGATE => x.reversed(),
        MAP_ABS => x.magnitude(),
        _ => x,
    }
}

/// Applies a `MAP_..` to several elements, with one branch for all.
#[inline(always)]
fn mapped_lane<N: Number, const U: usize>(xs: [N; U], map: u32) -> [N; U] {
    match map {
        MAP_NEGATE => xs.map(N::reversed),
        MAP_ABS => xs.map(N::magnitude),
        _ => xs,
    }
}

/// Multiplies a product by more elements.
#[inline(always)]
fn multiplied<N: Partial, const U: usize>([value, lost]: [N; 2], xs: [N; U]) -> [N; 2] {
    [value.product(N::product_of(xs)), lost]
}

/// The larger of two; NaN if one of them is.
#[inline(always)]
pub(super) fn larger_or_nan<N: Number>(a: N, b: N) -> N {
    if Number::is_nan(a) | Number::is_nan(b) {
        N::not_a_number(a)
    } else {
        a.larger(b)
    }
}

/// The largest of a value and more elements; NaN if any of them is.
#[inline(always)]
fn raised<N: Number, const U: usize>([value, lost]: [N; 2], mut xs: [N; U]) -> [N; 2] {
    let mut is_nan = Number::is_nan(value) | (U == 1 && Number::is_nan(xs[0]));
    // In pairs, which one instruction tests, and which are not needed after that.
    for u in 0..U / 2 {
        is_nan |= Number::is_nan(xs[u]) | Number::is_nan(xs[u + U / 2]);
        xs[u] = xs[u].larger(xs[u + U / 2]);
    }
    let largest = value.larger(tree_of(xs, U.div_ceil(2), N::larger));
    let largest = match is_nan {
        true => N::not_a_number(largest),
        false => largest,
    };
    [largest, lost]
}

/// Adds more elements to a sum; the second number accumulates what rounding lost (two-sum).
#[inline(always)]
fn added<N: Number, const U: usize>([value, lost]: [N; 2], xs: [N; U]) -> [N; 2] {
    let more = tree(xs, N::plus);
    let sum = value.plus(more);
    [sum, lost.plus(N::lost(value, more, sum))]
}

/// A local after more elements.
#[inline(always)]
fn taken<N: Partial, const U: usize>(local: [N; 2], xs: [N; U], kind: u32) -> [N; 2] {
    match kind {
        KIND_NORM => N::norm_of(local, xs),
        KIND_PRODUCT => multiplied(local, xs),
        KIND_LARGEST => raised(local, xs),
        _ => added(local, xs),
    }
}

/// The neutral element of a `KIND_..`.
#[inline(always)]
fn neutral<N: Number>(kind: u32) -> N {
    match kind {
        KIND_PRODUCT => N::ONE,
        KIND_LARGEST => N::LEAST,
        _ => N::ZERO,
    }
}

impl<N: Partial + Rounded> Fold for Value<N> {
    type Number = N;
    /// The value and, for sums, what rounding lost.
    type Local = [N; 2];
    type Acc = N;
    type Out = N;
    const WORDS: usize = size_of::<N>() / 4;
    const IS_SHORT: bool = true;
    const IS_JOINED: bool = true;
    const KINDS: Operations = Operations::All;
    const IS_PAIR: bool = true;
    const IS_WRITTEN_AT_ONCE: bool = true;

    #[inline(always)]
    fn start(params: &ReduceParams) -> [N; 2] {
        [neutral(params.kind), N::NOTHING]
    }
    #[inline(always)]
    fn empty(params: &ReduceParams) -> N {
        neutral(params.kind)
    }
    #[inline(always)]
    fn pair(x: N, y: N) -> N {
        x.times(y)
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [[N; 2]; V],
        xs: impl Fn(usize, usize) -> N,
        _: u32,
        params: &ReduceParams,
    ) -> [[N; 2]; V] {
        macro_rules! take {
            ($v:expr) => {{
                let lane: [N; U] = core::array::from_fn(|u| xs(u, $v));
                locals[$v] = taken(locals[$v], mapped_lane(lane, params.map), params.kind);
            }};
        }
        if V == 2 {
            // Lanes of 64 bits take so many instructions that LLVM would not unroll the loop.
            take!(0);
            take!(1 % V);
        } else {
            #[expect(clippy::needless_range_loop, reason = "the macro takes the index")]
            for v in 0..V {
                take!(v);
            }
        }
        locals
    }
    const TAKES_SOME: bool = true;
    #[inline(always)]
    fn some<const U: usize>(
        local: [N; 2],
        xs: impl Fn(usize) -> N,
        is_there: impl Fn(usize) -> bool,
        params: &ReduceParams,
    ) -> [N; 2] {
        let mut lane = mapped_lane(core::array::from_fn::<N, U, _>(xs), params.map);
        if matches!(params.kind, KIND_PRODUCT | KIND_LARGEST) {
            for (u, x) in lane.iter_mut().enumerate() {
                if !is_there(u) {
                    *x = neutral(params.kind);
                }
            }
        }
        taken(local, lane, params.kind)
    }
    /// One tree loses nothing to a sum of 0: no pair of numbers.
    #[inline(always)]
    fn once<const R: usize, const U: usize>(
        xs: impl Fn(usize, usize) -> N,
        _: &Indices,
        params: &ReduceParams,
    ) -> [N; R] {
        by_operation!(Self, |params| core::array::from_fn(|r| {
            let lane = mapped_lane(core::array::from_fn::<N, U, _>(|u| xs(u, r)), params.map);
            match params.kind {
                KIND_PRODUCT => N::product_of(lane),
                KIND_NORM => closed(N::norm_of([N::ZERO, N::NOTHING], lane)),
                KIND_LARGEST => raised([N::LEAST, N::ZERO], lane)[0],
                _ => N::ZERO.plus(tree(lane, N::plus)),
            }
        }))
    }
    #[inline(always)]
    fn close(local: [N; 2], _: u32, _: &Indices, _: usize) -> N {
        closed(local)
    }
    #[inline(always)]
    fn single(x: N, _: u64, params: &ReduceParams) -> N {
        match params.kind {
            KIND_PRODUCT => N::product_of([x]),
            KIND_NORM => closed(N::norm_of([N::ZERO, N::NOTHING], [x])),
            _ => mapped(x, params.map),
        }
    }
    #[inline(always)]
    fn merge(a: N, b: N, params: &ReduceParams) -> N {
        match params.kind {
            KIND_PRODUCT => a.product(b),
            KIND_NORM => a.norm(b),
            KIND_LARGEST => larger_or_nan(a, b),
            _ => a.plus(b),
        }
    }
    /// One branch on the operation for all steps: they follow one another too closely to hide it.
    #[inline(always)]
    unsafe fn merge_lanes(acc: N, lanes: u32, params: &ReduceParams) -> N {
        // SAFETY: passed on to the caller.
        unsafe {
            match params.kind {
                KIND_PRODUCT => butterfly(acc, lanes, N::product),
                KIND_NORM => butterfly(acc, lanes, N::norm),
                KIND_LARGEST => butterfly(acc, lanes, larger_or_nan),
                _ => butterfly(acc, lanes, N::plus),
            }
        }
    }
    #[inline(always)]
    fn result(acc: N, params: &ReduceParams) -> N {
        let result = match (params.kind, params.map) {
            (KIND_PRODUCT, _) => acc.product_result(),
            (KIND_LARGEST, MAP_NEGATE) => acc.reversed().nan(),
            // The largest magnitude of no elements is 0.
            (KIND_LARGEST, MAP_ABS) if params.view.is_empty() => N::ZERO,
            _ => acc,
        };
        finished(result, params)
    }
}
