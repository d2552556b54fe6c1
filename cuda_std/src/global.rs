//! Variables that the host writes.

use core::cell::UnsafeCell;

use crate::safe::Plain;

/// A `static` that the host writes between launches and kernels read.
///
/// ```
/// use cuda_std::{Global, prelude::*};
///
/// /// By which `scale` multiplies.
/// #[unsafe(no_mangle)]
/// pub static FACTOR: Global<f32> = Global::new(1.0);
///
/// #[kernel(requires = "x.len() == y.len()", grid = "y")]
/// pub fn scale(x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
///     let i = Index1::here();
///     if let Some(y) = y.get_mut(&i) {
///         *y = FACTOR.get() * x[i.get()];
///     }
/// }
/// ```
///
/// The host finds it by its name, `Module::global("FACTOR")`, and `#[unsafe(no_mangle)]` keeps that.
/// A variable that kernels write too is an atomic: `static COUNT: AtomicU32`. Each module of the crate
/// that uses the variable has its own.
///
/// `#[unsafe(link_section = ".constant")]` puts it into constant memory, 64 KiB of a module, which is fast
/// where all threads of a warp read the same element.
#[repr(transparent)]
#[derive(Debug)]
pub struct Global<T>(UnsafeCell<T>);

// SAFETY: kernels read it. The host's `write` is `unsafe`, and may run while no kernel reads it.
unsafe impl<T: Plain> Sync for Global<T> {}

impl<T: Plain> Global<T> {
    /// A variable with this value until the host writes another one.
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: nothing writes it while a kernel runs.
        unsafe { *self.0.get() }
    }
}

impl<T: Plain, const N: usize> Global<[T; N]> {
    /// An element of an array.
    ///
    /// # Panics
    /// Where the index is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn at(&self, index: usize) -> T {
        assert!(index < N, "index out of bounds");
        // SAFETY: an element of the array, which nothing writes while a kernel runs.
        unsafe { *self.0.get().cast::<T>().add(index) }
    }
}
