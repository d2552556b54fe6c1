//! What is computed. A thread has one *local* for each lane of its vectors, takes elements into
//! them by batches, and closes them to *accumulators*, which merge in a fixed order.

use core::marker::PhantomData;

use cuda_std::warp::Words;
use spec::reduce::{
    FINISH_ALL, FINISH_ANY, FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_ROOT, KIND_LARGEST,
    KIND_PRODUCT, MAP_ABS, MAP_NEGATE, MAP_SQUARE, ReduceParams,
};

use super::number::{Number, Real};

/// Where on its axis an element is.
#[derive(Clone, Copy)]
pub(super) struct Indices {
    /// Of a thread's first element of lane 0.
    pub(super) first: u64,
    /// Between its elements of a lane.
    pub(super) step: u64,
    /// Between lanes.
    pub(super) lane: u64,
}

impl Indices {
    #[inline(always)]
    pub(super) fn of(&self, k: u32, v: usize) -> u64 {
        self.first + u64::from(k) * self.step + v as u64 * self.lane
    }
}

/// An operation, or several that differ in what is done before and after.
pub(super) trait Fold {
    /// What it computes with.
    type Number: Copy;
    /// What a thread keeps of a lane.
    type Local: Copy;
    /// A partial result.
    type Acc: Words;
    /// A result.
    type Out: Words;
    /// Words of an accumulator.
    const WORDS: usize;
    /// False where an element takes so long that loads of others are waited for meanwhile anyway.
    const IS_BATCHED: bool = true;
    /// True where short axes, and what is left in the end, are worth code of their own.
    const IS_SHORT: bool = false;
    /// True where lanes that are of one result may be taken in as one.
    const IS_JOINED: bool = false;
    /// True where there are operations with two tensors.
    const IS_PAIR: bool = false;
    /// True where neighbouring results are written at once: they are short to compute, and alone.
    const IS_WRITTEN_AT_ONCE: bool = false;

    /// Of no elements.
    fn start(params: &ReduceParams) -> Self::Local;

    /// Of no elements.
    fn empty(params: &ReduceParams) -> Self::Acc;

    /// The locals with `U` elements more of each lane, of which `xs(u, v)` is number `u` of lane `v`;
    /// `k` came before.
    fn batch<const V: usize, const U: usize>(
        locals: [Self::Local; V],
        xs: impl Fn(usize, usize) -> Self::Number,
        k: u32,
        params: &ReduceParams,
    ) -> [Self::Local; V];

    /// The locals of no elements after so many batches, each of which `load` gives; `at(x, u, v)` is
    /// element `u` of lane `v` of one.
    #[inline(always)]
    fn batches<X, const V: usize, const U: usize>(
        count: u32,
        mut load: impl FnMut() -> X,
        at: impl Fn(&X, usize, usize) -> Self::Number,
        params: &ReduceParams,
    ) -> [Self::Local; V] {
        let mut locals = [Self::start(params); V];
        let mut batch = 0;
        while batch < count {
            let x = load();
            locals = Self::batch::<V, U>(locals, |u, v| at(&x, u, v), batch * U as u32, params);
            batch += 1;
        }
        locals
    }

    /// The element that two tensors' elements make, of operations with two.
    #[inline(always)]
    fn pair(x: Self::Number, y: Self::Number) -> Self::Number {
        let _ = y;
        x
    }

    /// What a local with `count` elements of lane `v` amounts to.
    fn close(local: Self::Local, count: u32, indices: &Indices, v: usize) -> Self::Acc;

    /// One element.
    fn single(x: Self::Number, index: u64, params: &ReduceParams) -> Self::Acc;

    /// Of both.
    fn merge(a: Self::Acc, b: Self::Acc, params: &ReduceParams) -> Self::Acc;

    /// The result.
    fn result(acc: Self::Acc, params: &ReduceParams) -> Self::Out;

    /// Writes what number `at` has beside its result.
    ///
    /// # Safety
    /// What `params` names has that element.
    #[inline(always)]
    unsafe fn beside(acc: Self::Acc, params: &ReduceParams, at: u64) {
        let _ = (acc, params, at);
    }

    /// Writes the result number `at`.
    ///
    /// # Safety
    /// `out`, and what `params` names besides, have that element.
    #[inline(always)]
    unsafe fn finish(acc: Self::Acc, params: &ReduceParams, out: *mut Self::Out, at: u64) {
        // SAFETY: passed on to the caller.
        unsafe {
            out.wrapping_add(at as usize)
                .write(Self::result(acc, params));
            Self::beside(acc, params, at);
        }
    }
}

/// By a tree: neighbours at half the distance, again and again.
#[inline(always)]
pub(super) fn tree<N: Copy, const U: usize>(xs: [N; U], op: impl Fn(N, N) -> N) -> N {
    folded(xs, U, op)
}

/// The number that `params` makes of a sum.
#[inline(always)]
fn finished<N: Number>(sum: N, params: &ReduceParams) -> N {
    match params.finish {
        FINISH_DIVIDE => sum.over(params.divisor),
        FINISH_ROOT => sum.root(),
        FINISH_DIVIDE_ROOT => sum.over(params.divisor).root(),
        _ => sum,
    }
}

/// Sums, products and extremes.
pub(super) struct Value<N>(PhantomData<N>);

/// An element, as what is done to it says.
#[inline(always)]
fn mapped<N: Number>(x: N, map: u32) -> N {
    match map {
        MAP_NEGATE => x.reversed(),
        MAP_ABS => x.magnitude(),
        MAP_SQUARE => x.times(x),
        _ => x,
    }
}

/// Elements as what is done to them says: one branch for all.
#[inline(always)]
fn mapped_lane<N: Number, const U: usize>(xs: [N; U], map: u32) -> [N; U] {
    match map {
        MAP_NEGATE => xs.map(N::reversed),
        MAP_ABS => xs.map(N::magnitude),
        MAP_SQUARE => xs.map(|x| x.times(x)),
        _ => xs,
    }
}

/// The same of elements that are asked for eight by eight, so that few of them are in registers;
/// `first` is what their pairs are combined by.
#[inline(always)]
fn tree_of<N: Copy, const U: usize>(
    x: impl Fn(usize) -> N,
    mut first: impl FnMut(N, N) -> N,
    op: impl Fn(N, N) -> N,
) -> N {
    if U == 1 {
        return x(0);
    }
    let of_eight = if U < 8 { U } else { 8 };
    let mut parts = [x(0); U];
    let mut part = 0;
    while part < U / of_eight {
        let from = part * of_eight;
        let mut xs = [x(from); 8];
        let mut u = 0;
        while u < of_eight / 2 {
            xs[u] = first(x(from + u), x(from + u + of_eight / 2));
            u += 1;
        }
        parts[part] = folded(xs, of_eight / 2, &op);
        part += 1;
    }
    folded(parts, U / of_eight, &op)
}

/// The first `count` of `xs` by a tree.
#[inline(always)]
fn folded<N: Copy, const U: usize>(mut xs: [N; U], count: usize, op: impl Fn(N, N) -> N) -> N {
    let mut half = count / 2;
    while half > 0 {
        for u in 0..half {
            xs[u] = op(xs[u], xs[u + half]);
        }
        half /= 2;
    }
    xs[0]
}

/// Products with `U` elements more of each lane.
#[inline(always)]
fn multiply<N: Number, const V: usize, const U: usize>(
    locals: &mut [[N; 2]; V],
    xs: impl Fn(usize, usize) -> N,
) {
    for (v, local) in locals.iter_mut().enumerate() {
        let more = tree_of::<N, U>(|u| xs(u, v), N::times, N::times);
        local[0] = local[0].times(more);
    }
}

/// The largest of them and `U` elements more of each lane; NaN if any is.
#[inline(always)]
fn raise<N: Number, const V: usize, const U: usize>(
    locals: &mut [[N; 2]; V],
    xs: impl Fn(usize, usize) -> N,
) {
    for (v, local) in locals.iter_mut().enumerate() {
        let mut is_nan = Number::is_nan(local[0]) | (U == 1 && Number::is_nan(xs(0, v)));
        let of_two = |a: N, b: N| {
            is_nan |= Number::is_nan(a) | Number::is_nan(b);
            a.larger(b)
        };
        let largest = tree_of::<N, U>(|u| xs(u, v), of_two, N::larger);
        let largest = local[0].larger(largest);
        local[0] = match is_nan {
            true => N::not_a_number(largest),
            false => largest,
        };
    }
}

/// Sums of them and `U` elements more of each lane, and what they lose.
#[inline(always)]
fn add<N: Number, const V: usize, const U: usize>(
    locals: &mut [[N; 2]; V],
    xs: impl Fn(usize, usize) -> N,
) {
    for (v, local) in locals.iter_mut().enumerate() {
        let more = tree_of::<N, U>(|u| xs(u, v), N::plus, N::plus);
        let sum = local[0].plus(more);
        *local = [sum, local[1].plus(N::lost(local[0], more, sum))];
    }
}

/// What combining with does not change.
#[inline(always)]
fn neutral<N: Number>(kind: u32) -> N {
    match kind {
        KIND_PRODUCT => N::ONE,
        KIND_LARGEST => N::LEAST,
        _ => N::ZERO,
    }
}

impl<N: Number> Fold for Value<N> {
    type Number = N;
    /// The value, and what a sum lost.
    type Local = [N; 2];
    type Acc = N;
    type Out = N;
    const WORDS: usize = size_of::<N>() / 4;
    const IS_SHORT: bool = true;
    const IS_JOINED: bool = true;
    const IS_PAIR: bool = true;
    const IS_WRITTEN_AT_ONCE: bool = true;

    #[inline(always)]
    fn start(params: &ReduceParams) -> [N; 2] {
        [neutral(params.kind), N::ZERO]
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
        for (v, local) in locals.iter_mut().enumerate() {
            let lane: [N; U] = core::array::from_fn(|u| xs(u, v));
            let lane = mapped_lane(lane, params.map);
            match params.kind {
                KIND_PRODUCT => local[0] = local[0].times(tree(lane, N::times)),
                KIND_LARGEST => {
                    let mut is_nan = Number::is_nan(local[0]);
                    for &x in &lane {
                        is_nan |= Number::is_nan(x);
                    }
                    let largest = local[0].larger(tree(lane, N::larger));
                    local[0] = match is_nan {
                        true => N::not_a_number(largest),
                        false => largest,
                    };
                }
                _ => {
                    let more = tree(lane, N::plus);
                    let sum = local[0].plus(more);
                    *local = [sum, local[1].plus(N::lost(local[0], more, sum))];
                }
            }
        }
        locals
    }
    /// A loop for each of what is computed: no branch in any, and few registers.
    #[inline(always)]
    fn batches<X, const V: usize, const U: usize>(
        count: u32,
        mut load: impl FnMut() -> X,
        at: impl Fn(&X, usize, usize) -> N,
        params: &ReduceParams,
    ) -> [[N; 2]; V] {
        let mut locals = [Self::start(params); V];
        let mut left = count;
        macro_rules! repeated {
            ($take_in:ident, |$x:ident| $mapped:expr) => {
                while left > 0 {
                    let loaded = load();
                    $take_in::<N, V, U>(&mut locals, |u, v| {
                        let $x = at(&loaded, u, v);
                        $mapped
                    });
                    left -= 1;
                }
            };
        }
        match (params.kind, params.map) {
            (KIND_PRODUCT, _) => repeated!(multiply, |x| x),
            (KIND_LARGEST, MAP_NEGATE) => repeated!(raise, |x| x.reversed()),
            (KIND_LARGEST, MAP_ABS) => repeated!(raise, |x| x.magnitude()),
            (KIND_LARGEST, _) => repeated!(raise, |x| x),
            (_, MAP_ABS) => repeated!(add, |x| x.magnitude()),
            (_, MAP_SQUARE) => repeated!(add, |x| x.times(x)),
            _ => repeated!(add, |x| x),
        }
        locals
    }
    #[inline(always)]
    fn close([value, lost]: [N; 2], _: u32, _: &Indices, _: usize) -> N {
        // An infinite sum has lost NaN; what is no sum has lost 0.
        if value.is_finite() {
            value.plus(lost)
        } else {
            value
        }
    }
    #[inline(always)]
    fn single(x: N, _: u64, params: &ReduceParams) -> N {
        mapped(x, params.map)
    }
    #[inline(always)]
    fn merge(a: N, b: N, params: &ReduceParams) -> N {
        match params.kind {
            KIND_PRODUCT => a.times(b),
            KIND_LARGEST if Number::is_nan(a) | Number::is_nan(b) => N::not_a_number(a),
            KIND_LARGEST => a.larger(b),
            _ => a.plus(b),
        }
    }
    #[inline(always)]
    fn result(acc: N, params: &ReduceParams) -> N {
        let result = match (params.kind, params.map) {
            (KIND_LARGEST, MAP_NEGATE) => acc.reversed().nan(),
            // Of nothing, magnitudes have 0.
            (KIND_LARGEST, MAP_ABS) if params.view.is_empty() => N::ZERO,
            _ => acc,
        };
        finished(result, params)
    }
}

/// Bits of an element that count.
pub(super) trait Bits: Copy {
    fn is_set(self, mask: u64) -> bool;
}

impl Bits for u32 {
    #[inline(always)]
    fn is_set(self, mask: u64) -> bool {
        self & mask as u32 != 0
    }
}

impl Bits for u64 {
    #[inline(always)]
    fn is_set(self, mask: u64) -> bool {
        self & mask != 0
    }
}

/// Elements that have some bit.
pub(super) struct Count<B>(PhantomData<B>);

impl<B: Bits> Fold for Count<B> {
    type Number = B;
    type Local = u32;
    type Acc = u64;
    type Out = i64;
    const WORDS: usize = 2;

    #[inline(always)]
    fn start(_: &ReduceParams) -> u32 {
        0
    }
    #[inline(always)]
    fn empty(_: &ReduceParams) -> u64 {
        0
    }
    #[inline(always)]
    fn batch<const V: usize, const U: usize>(
        mut locals: [u32; V],
        xs: impl Fn(usize, usize) -> B,
        _: u32,
        params: &ReduceParams,
    ) -> [u32; V] {
        for (v, local) in locals.iter_mut().enumerate() {
            for u in 0..U {
                *local += u32::from(xs(u, v).is_set(params.mask));
            }
        }
        locals
    }
    #[inline(always)]
    fn close(local: u32, _: u32, _: &Indices, _: usize) -> u64 {
        u64::from(local)
    }
    #[inline(always)]
    fn single(x: B, _: u64, params: &ReduceParams) -> u64 {
        u64::from(x.is_set(params.mask))
    }
    #[inline(always)]
    fn merge(a: u64, b: u64, _: &ReduceParams) -> u64 {
        a + b
    }
    #[inline(always)]
    fn result(acc: u64, params: &ReduceParams) -> i64 {
        let result = match params.finish {
            FINISH_ANY => u64::from(acc > 0),
            FINISH_ALL => u64::from(acc == params.view.len()),
            _ => acc,
        };
        result as i64
    }
}

/// ln Σ exp(x): the largest, and the sum of exponentials relative to it.
pub(super) struct Lse<R>(PhantomData<R>);

/// Both words of a pair.
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

impl<R: Real> Fold for Lse<R> {
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
    /// One exponential, whichever is larger. A NaN is no maximum, and stays in the sum; two equal
    /// maxima have the distance 0, infinite ones too.
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
        // An infinite maximum is the result, unless a NaN was among the elements.
        let result = match acc.max.is_finite() | Number::is_nan(acc.sum) {
            true => acc.max.plus(acc.sum.log()),
            false => acc.max,
        };
        result.nan()
    }
}
