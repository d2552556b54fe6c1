//! What a kernel does to its results between the accumulators and memory.
//!
//! An [`Epilogue`] is a value of a type; a kernel is generic over the type, so it is inlined and what
//! it does not do costs nothing. Small ones compose by [`Epilogue::then`]:
//!
//! ```
//! use cuda_std::epilogue::{Activate, Epilogue, Gelu, Place, Scale};
//! let epilogue = Scale(0.5).then(Activate(Gelu));
//! # let _ = epilogue;
//! ```
//!
//! One of your own is a type with one function:
//!
//! ```
//! use cuda_std::epilogue::{Epilogue, Place};
//! /// Zero above the diagonal.
//! #[derive(Clone, Copy)]
//! struct LowerTriangle;
//! impl Epilogue for LowerTriangle {
//!     fn apply(&self, place: Place, x: f32) -> f32 {
//!         if place.column > place.row { 0.0 } else { x }
//!     }
//! }
//! assert_eq!(LowerTriangle.apply(Place { batch: 0, row: 1, column: 2 }, 5.0), 0.0);
//! ```

mod activation;
mod memory;

pub use activation::{
    Activate, Activation, Gelu, GeluTanh, Identity, Logistic, Relu, SIGMOID, SILU, TANH,
};
pub use memory::{AddMatrix, AddVector, ScaleByVector};

/// Where a result belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Product of the batch.
    pub batch: u64,
    /// Row of D, less than m.
    pub row: u32,
    /// Column of D, less than n.
    pub column: u32,
}

/// A function of a result and its place, in f32.
pub trait Epilogue: Copy {
    /// The result at `place`, of what came before it. `place` is always inside of D, so that the
    /// function may read memory by it; where a tile reaches beyond D, what it gives is dropped.
    fn apply(&self, place: Place, x: f32) -> f32;

    /// [`apply`](Self::apply) to the results that a thread holds: the `i`th is at `place(i)`. To
    /// override where something is better decided once for all of them.
    #[inline(always)]
    fn apply_all<const N: usize>(&self, place: impl Fn(usize) -> Place, x: &mut [f32; N]) {
        for (i, x) in x.iter_mut().enumerate() {
            *x = self.apply(place(i), *x);
        }
    }

    /// [`apply_all`](Self::apply_all) to the results that `x` gives, which come two by two: neighbours
    /// of a row, the first in an even column. To override where memory is better read before the
    /// results are there, or two elements at once. `PAIRS` is half of `N`.
    #[inline(always)]
    fn apply_pairs<const N: usize, const PAIRS: usize>(
        &self,
        place: impl Fn(usize) -> Place,
        x: impl FnOnce() -> [f32; N],
    ) -> [f32; N] {
        let mut x = x();
        self.apply_all(place, &mut x);
        x
    }

    /// This one, then `next`.
    #[inline(always)]
    fn then<E: Epilogue>(self, next: E) -> Then<Self, E> {
        Then(self, next)
    }
}

/// Nothing: the result as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep;

impl Epilogue for Keep {
    #[inline(always)]
    fn apply(&self, _place: Place, x: f32) -> f32 {
        x
    }
}

/// `factor * x`.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f32);

impl Epilogue for Scale {
    #[inline(always)]
    fn apply(&self, _place: Place, x: f32) -> f32 {
        self.0 * x
    }
}

/// One after the other; see [`Epilogue::then`].
#[derive(Clone, Copy, Debug)]
pub struct Then<First, Second>(First, Second);

impl<First: Epilogue, Second: Epilogue> Epilogue for Then<First, Second> {
    #[inline(always)]
    fn apply(&self, place: Place, x: f32) -> f32 {
        self.1.apply(place, self.0.apply(place, x))
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, place: impl Fn(usize) -> Place, x: &mut [f32; N]) {
        self.0.apply_all(&place, x);
        self.1.apply_all(&place, x);
    }
}
