//! The fold of sums, products, norms and extremes.

use core::marker::PhantomData;

use abi::reduce::{
    FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_ROOT, KIND_LARGEST, KIND_NORM, KIND_PRODUCT, MAP_ABS,
    MAP_NEGATE, ReduceParams,
};

use super::fold::{Fold, Indices, Operations, butterfly, by_operation, tree, tree_of};
use super::number::Number;
use super::partial::Partial;
use super::store::Rounded;

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
