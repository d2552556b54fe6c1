//! The built-in epilogue with as little code as possible.

use abi::gemm::{Activation, EpilogueParams, GemmParams};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue, Scale};
use cuda_std::hint::opaque;

use crate::gemm::fused::{Fused, Pointers};

/// Applies `F`, the built-in epilogue, to one result at a time, so that its code is there once. If
/// `alpha` is the whole epilogue, it is applied to all results at once.
#[derive(Clone, Copy)]
pub(super) struct OneByOne<F> {
    fused: F,
    only: Option<Scale>,
}

impl<Out: Element> OneByOne<Fused<Out>> {
    /// The epilogue that an entry's arguments describe.
    ///
    /// # Safety
    /// As for [`Fused::new`].
    #[inline(always)]
    pub(super) unsafe fn new(
        pointers: Pointers<Out>,
        params: &GemmParams,
        epilogue: &EpilogueParams,
    ) -> Self {
        let Pointers {
            c: _,
            bias,
            residual,
            row_scale,
            column_scale,
            alpha,
            beta,
        } = pointers;
        let is_bare = bias.is_null()
            && residual.is_null()
            && row_scale.is_null()
            && column_scale.is_null()
            && alpha.is_null()
            && beta.is_null()
            && params.beta == 0.0
            && epilogue.activation == Activation::Identity.code();
        Self {
            // SAFETY: the caller's promise.
            fused: unsafe { Fused::new(pointers, params, epilogue) },
            only: is_bare.then_some(Scale(params.alpha)),
        }
    }
}

impl<F> OneByOne<F> {
    /// `fused`, which does nothing but multiply by `factor` if there is one.
    #[inline(always)]
    pub(super) fn of(fused: F, factor: Option<f32>) -> Self {
        Self {
            fused,
            only: factor.map(Scale),
        }
    }

    /// `alpha`, if it is the whole epilogue.
    #[inline(always)]
    pub(super) fn only_factor(&self) -> Option<f32> {
        self.only.map(|Scale(factor)| factor)
    }
}

impl<F: Epilogue> Epilogue for OneByOne<F> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        self.fused.apply(coord, x)
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        if let Some(scale) = self.only {
            scale.apply_all(coord, x);
            return;
        }
        // Rotates the array, so that its index is constant; after `N` steps it is in order again.
        let mut i = 0;
        while i < opaque(N as u32) {
            let first = self.fused.apply(coord(i as usize), x[0]);
            for next in 1..N {
                x[next - 1] = x[next];
            }
            x[N - 1] = first;
            i += 1;
        }
    }
}
