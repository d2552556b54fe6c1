//! Epilogues: what a kernel does to its results between the accumulators and memory.
//!
//! A kernel is generic over the type of its [`Epilogue`], so the epilogue is inlined and unused
//! steps cost nothing. Small epilogues compose by [`Epilogue::then`]:
//!
//! ```
//! use cuda_std::epilogue::{Activate, Epilogue, Gelu, Coord, Scale};
//! let epilogue = Scale(0.5).then(Activate(Gelu));
//! # let _ = epilogue;
//! ```
//!
//! To write your own, implement one function:
//!
//! ```
//! use cuda_std::epilogue::{Epilogue, Coord};
//! /// Zero above the diagonal.
//! #[derive(Clone, Copy)]
//! struct LowerTriangle;
//! impl Epilogue for LowerTriangle {
//!     fn apply(&self, coord: Coord, x: f32) -> f32 {
//!         if coord.column > coord.row { 0.0 } else { x }
//!     }
//! }
//! assert_eq!(LowerTriangle.apply(Coord { batch: 0, row: 1, column: 2 }, 5.0), 0.0);
//! ```

mod activation;
mod memory;

pub use activation::{
    Activate, Activation, Gelu, GeluTanh, Identity, Logistic, Relu, SIGMOID, SILU, TANH,
};
pub use memory::{AddMatrix, AddVector, ScaleByVector};

/// The position of a result in the output D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coord {
    /// Index of the GEMM in the batch.
    pub batch: u64,
    /// Row of D, less than m.
    pub row: u32,
    /// Column of D, less than n.
    pub column: u32,
}

/// A function of a result and its coordinates, in f32.
///
/// One that reads memory by the coordinates has an `unsafe` constructor. Its caller guarantees that
/// the memory is there for all coordinates in D, and that no others are used.
pub trait Epilogue: Copy {
    /// The result for `coord`, computed from `x`, the result of the step before.
    ///
    /// `coord` is always inside D, so the function may use it to index memory. Where a tile reaches
    /// beyond the edge of D, the kernel discards what the function returns.
    fn apply(&self, coord: Coord, x: f32) -> f32;

    /// Applies [`apply`](Self::apply) to all results that a thread holds; result `i` belongs to
    /// `coord(i)`. Override it where a decision can be made once for all of them.
    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        for (i, x) in x.iter_mut().enumerate() {
            *x = self.apply(coord(i), *x);
        }
    }

    /// As [`apply_all`](Self::apply_all), for results that come in pairs: results `2 i` and `2 i +
    /// 1` are neighbours in a row, the first in an even column. `PAIRS` is half of `N`.
    ///
    /// Calling `x` yields the results. Override it to read memory before the results are ready, or
    /// to read two elements at once.
    #[inline(always)]
    fn apply_pairs<const N: usize, const PAIRS: usize>(
        &self,
        coord: impl Fn(usize) -> Coord,
        x: impl FnOnce() -> [f32; N],
    ) -> [f32; N] {
        let mut x = x();
        self.apply_all(coord, &mut x);
        x
    }

    /// Brings what is read for `columns` columns from `coord` on, all of them in D, into L1: a hint
    /// for kernels that have time before their results are there. All lanes of a warp call it.
    #[inline(always)]
    fn bring_near(&self, coord: Coord, columns: u32) {
        let _ = (coord, columns);
    }

    /// The epilogue that applies `self` first, then `next`.
    #[inline(always)]
    fn then<E: Epilogue>(self, next: E) -> Then<Self, E> {
        Then(self, next)
    }
}

/// Leaves the result unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep;

impl Epilogue for Keep {
    #[inline(always)]
    fn apply(&self, _coord: Coord, x: f32) -> f32 {
        x
    }
}

/// `factor * x`.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f32);

impl Epilogue for Scale {
    #[inline(always)]
    fn apply(&self, _coord: Coord, x: f32) -> f32 {
        self.0 * x
    }
}

/// One after the other; see [`Epilogue::then`].
#[derive(Clone, Copy, Debug)]
pub struct Then<First, Second>(First, Second);

impl<First: Epilogue, Second: Epilogue> Epilogue for Then<First, Second> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        self.1.apply(coord, self.0.apply(coord, x))
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        self.0.apply_all(&coord, x);
        self.1.apply_all(&coord, x);
    }

    #[inline(always)]
    fn bring_near(&self, coord: Coord, columns: u32) {
        self.0.bring_near(coord, columns);
        self.1.bring_near(coord, columns);
    }
}
