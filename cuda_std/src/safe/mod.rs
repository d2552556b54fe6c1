//! Parameters and resources of kernels without `unsafe`.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// `y = alpha * x + y`.
//! #[kernel]
//! pub fn saxpy(alpha: f32, x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
//!     let i = Index1::here();
//!     if let Some(y) = y.get_mut(&i) {
//!         *y += alpha * x[i.get()];
//!     }
//! }
//! ```
//!
//! A safe kernel's parameters are of these types alone:
//!
//! | parameter | is | a launch passes |
//! |---|---|---|
//! | a number, or a struct declared by `abi::kernel_param!` | the same in all threads | its bytes |
//! | `&[T]` | an input; with `T = AtomicU32`, [`AtomicF32`] and the like, memory that all threads update | address, length |
//! | [`View2<'_, T>`](View2) | an input with rows and columns | address, [`Shape2`] |
//! | [`View3<'_, T>`](View3) | an input with planes, rows and columns | address, [`Shape3`] |
//! | [`Disjoint<'_, T, W>`](Disjoint) | an output, of which each thread has its own elements | address, length, [`Shape2`] or [`Shape3`] |
//! | [`Block<'_, THREADS>`](Block) | the right to barriers and reductions of the block | nothing |
//! | [`SharedTile<'_, T, N>`](SharedTile) | shared memory of the block | nothing |
//!
//! Which elements a thread has follows from a *witness* `W`: [`Index1`], [`Index2`], [`Index3`], [`InRow`],
//! [`InTile`], [`PerWarp`], [`PerBlock`]. Only functions of this module make witnesses, and different
//! threads never hold the same one.
//!
//! `T` may be an array such as `[f32; 4]`. A launch takes memory of `f32` for it, aligned to the array's
//! size (at most 16 bytes), and an access is one wide load or store.
//!
//! What is guaranteed, and by what, is in the book: "Write a kernel", section "Safe kernels".

mod block;
mod collective;
mod disjoint;
mod in_tile;
mod index;
mod shared_tile;
mod view;

pub use block::{Block, Columns, Row, Rows, TileElements};
pub use disjoint::Disjoint;
pub use in_tile::InTile;
pub use index::{GridStride, InRow, Index1, Index2, Index3, PerBlock, PerWarp, Witness};
#[doc(hidden)]
pub use shared_tile::Stored;
pub use shared_tile::{Reading, SharedTile, Writing, Written, swizzled};
pub use view::{Shape2, Shape3, View2, View3};

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use crate::atomic::{AtomicBf16, AtomicF16, AtomicF32, AtomicF64};

/// An element that all threads may read through `&[T]`.
///
/// # Safety
/// All bits are a value. It is shared between threads without a race.
pub unsafe trait Input: Sync + Sized + 'static {
    /// Whether nobody writes it while a reference to it lives.
    const IS_FROZEN: bool;
    /// What a launch aligns its memory to, in bytes.
    #[doc(hidden)]
    const ALIGN: usize = align_of::<Self>();
}

/// An element that is written and read as a whole.
///
/// # Safety
/// `IS_FROZEN`, and any copy of it is a value in every thread.
pub unsafe trait Plain: Input + Copy + Send {}

macro_rules! inputs {
    ($is_frozen:literal: $($ty:ty),*) => {$(
        // SAFETY: a number, of which all bits are a value; atomics are made to be shared.
        unsafe impl Input for $ty {
            const IS_FROZEN: bool = $is_frozen;
        }
    )*};
}

macro_rules! plain {
    ($($ty:ty),*) => {
        inputs! { true: $($ty),* }
        $(
            // SAFETY: a number.
            unsafe impl Plain for $ty {}
        )*
    };
}

plain! { u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64, half::f16, half::bf16 }
inputs! {
    false: AtomicU32, AtomicI32, AtomicU64, AtomicI64, AtomicF32, AtomicF64, AtomicF16, AtomicBf16
}

// SAFETY: its elements are.
unsafe impl<T: Plain, const N: usize> Input for [T; N] {
    const IS_FROZEN: bool = true;
    /// The largest power of two that divides its size, for one load of up to 16 bytes.
    const ALIGN: usize = match size_of::<Self>() {
        0 => align_of::<T>(),
        bytes if bytes.trailing_zeros() >= 4 => 16,
        bytes => 1 << bytes.trailing_zeros(),
    };
}

/// Tells LLVM the alignment that a launch has checked.
///
/// # Safety
/// `pointer` has it.
#[inline(always)]
unsafe fn assume_aligned<T: Input>(pointer: *const T) {
    if T::ALIGN > align_of::<T>() {
        // SAFETY: guaranteed by the caller.
        unsafe { core::hint::assert_unchecked(pointer.addr().is_multiple_of(T::ALIGN)) }
    }
}
// SAFETY: its elements are.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// For `#[kernel]` alone: the slice of a launch's address and length.
///
/// # Safety
/// `len` elements are at `pointer`, aligned to `T::ALIGN`. They live as long as `'kernel`, and nothing writes them
/// meanwhile, unless `T` is an atomic. If `len` is 0, `pointer` is aligned and nothing more.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn slice<'kernel, T: Input>(pointer: *const T, len: usize) -> &'kernel [T] {
    // SAFETY: passed on to the caller.
    unsafe { assume_aligned(pointer) };
    // SAFETY: passed on to the caller.
    unsafe { crate::meta::slice(pointer, len) }
}

/// For `#[kernel]` alone: a number of a safe kernel.
#[doc(hidden)]
pub const fn is_a_number_or_a_kernel_param<Parameter: abi::KernelParam>() {}

/// For `#[kernel]` alone: the types that a launch knows by these names.
#[doc(hidden)]
pub mod numbers {
    pub use crate::atomic::{AtomicBf16, AtomicF16, AtomicF32, AtomicF64};
    pub use core::primitive::*;
    pub use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};
    pub use half::{bf16, f16};
}

/// For `#[kernel]` alone.
#[doc(hidden)]
pub trait Is<T> {}

impl<T> Is<T> for T {}

/// For `#[kernel]` alone: both are the same type.
///
/// ```compile_fail,E0277
/// # use cuda_std::prelude::*;
/// #[allow(non_camel_case_types)]
/// type f32 = f64;
/// #[kernel]
/// pub fn not_what_its_name_says(x: &[f32]) {}
/// ```
#[doc(hidden)]
pub const fn is<Parameter: Is<Number>, Number>() {}

/// Panics as a slice of that length does at that index.
#[inline(always)]
#[track_caller]
fn out_of_bounds(index: usize, len: usize) -> ! {
    let nothing: &[()] = &[(); usize::MAX][..len];
    let () = nothing[index];
    unreachable!()
}
