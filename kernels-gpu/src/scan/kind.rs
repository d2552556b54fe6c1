//! How elements and partial results combine.

use abi::reduce::{KIND_LOG_SUM, KIND_PRODUCT};
use abi::scan::ScanParams;
use cuda_std::hint::opaque;

use crate::reduce::number::Number;
use crate::reduce::partial::Partial;

/// What a launch computes: `KIND_..` of [`abi::reduce`]. It is known when an entry of logsumexps is
/// compiled, and otherwise when it runs.
#[derive(Clone, Copy)]
pub(super) struct Kind<const IS_LSE: bool>(u32);

impl<const IS_LSE: bool> Kind<IS_LSE> {
    /// That of a launch; recomputed at each use, so that LLVM does not specialise the kernel for it.
    #[inline(always)]
    pub(super) fn of(params: &ScanParams) -> Self {
        Self(opaque(params.kind))
    }

    #[inline(always)]
    pub(super) fn code(self) -> u32 {
        if IS_LSE { KIND_LOG_SUM } else { self.0 }
    }

    /// Whether it is the logsumexp; a constant.
    #[inline(always)]
    pub(super) const fn is_lse(self) -> bool {
        IS_LSE
    }

    /// Whether a value that elements were combined to is a product beyond the range, which may be 0
    /// or infinite: [`Partial`].
    #[inline(always)]
    pub(super) fn is_rare<N: Number>(self, value: N) -> bool {
        self.code() == KIND_PRODUCT && !value.is_finite()
    }

    /// Combines `a`, which comes first, with `b`.
    #[inline(always)]
    pub(super) fn combined<N: Partial>(self, a: N, b: N) -> N {
        by_kind!(self, Partial::product, |op| op(a, b))
    }

    /// Each element, with `first` before it.
    #[inline(always)]
    pub(super) fn behind<N: Partial, const K: usize>(self, first: N, xs: [N; K]) -> [N; K] {
        by_kind!(self, Partial::product, |op| self
            .each(xs, |_, x| op(first, x)))
    }

    /// `f` of each index and element, in order: of logarithms in a loop, since they are much code.
    #[inline(always)]
    pub(super) fn each<N: Copy, const K: usize>(
        self,
        xs: [N; K],
        mut f: impl FnMut(usize, N) -> N,
    ) -> [N; K] {
        if !IS_LSE {
            return core::array::from_fn(|i| f(i, xs[i]));
        }
        let (mut xs, mut k) = (xs, opaque(0) as usize); // not unrolled
        while k < K {
            let y = f(k, xs[0]);
            // Shifts the array, as registers cannot be indexed in a loop.
            xs = core::array::from_fn(|i| if i + 1 < K { xs[i + 1] } else { y });
            k += 1;
        }
        xs
    }

    /// The elements, combined from left to right: of logarithms in a loop.
    #[inline(always)]
    pub(super) fn folded<N: Copy, const K: usize>(self, xs: [N; K], op: impl Fn(N, N) -> N) -> N {
        let mut total = xs[0];
        if IS_LSE {
            let (mut xs, mut left) = (xs, opaque(K as u32)); // not unrolled
            while left > 1 {
                xs = core::array::from_fn(|i| xs[(i + 1) % K]);
                total = op(total, xs[0]);
                left -= 1;
            }
        } else {
            for &x in &xs[1..] {
                total = op(total, x);
            }
        }
        total
    }
}

/// The larger of two, or NaN.
#[inline(always)]
pub(super) fn larger<N: Number>(a: N, b: N) -> N {
    if a.is_nan() | b.is_nan() {
        N::not_a_number(a)
    } else {
        a.larger(b)
    }
}

/// The smaller of two, or NaN.
#[inline(always)]
pub(super) fn smaller<N: Number>(a: N, b: N) -> N {
    if a.is_nan() | b.is_nan() {
        N::not_a_number(a)
    } else {
        a.smaller(b)
    }
}

/// Specialises `$body` for each way in which elements combine, with one branch for all of it.
/// `$product` is that of products: [`Number::times`] of elements, [`Partial::product`] of partial
/// products.
macro_rules! by_kind {
    ($kind:expr, $product:path, |$op:ident| $body:expr) => {
        if $kind.is_lse() {
            let $op = $crate::reduce::number::Number::log_sum;
            $body
        } else {
            match $kind.code() {
                abi::reduce::KIND_PRODUCT => {
                    let $op = $product;
                    $body
                }
                abi::reduce::KIND_SMALLEST => {
                    let $op = $crate::scan::kind::smaller;
                    $body
                }
                abi::reduce::KIND_LARGEST => {
                    let $op = $crate::scan::kind::larger;
                    $body
                }
                _ => {
                    let $op = $crate::reduce::number::Number::plus;
                    $body
                }
            }
        }
    };
}
pub(super) use by_kind;
