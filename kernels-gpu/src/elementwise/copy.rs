//! Copies between tensors of any strides, by bits.

use abi::elementwise::{CopyEntry, THREADS, WalkParams};
use cuda_std::param::ByValue;
use cuda_std::{kernel, thread, walk};

/// y = x for every element; each thread has `N` loads in flight.
///
/// # Safety
/// The tensors are those of `params`.
#[inline(always)]
unsafe fn copy<T: Copy + Default, const N: usize>(x: *const T, y: *mut T, params: &WalkParams) {
    let first = thread::block_idx_x() * (THREADS * N as u32) + thread::thread_idx_x();
    let at = |j: u32| first + j * THREADS;
    let mut values = [T::default(); N];
    for j in 0..N as u32 {
        if at(j) < params.len {
            let offset = walk::offset(params, 1, at(j));
            // SAFETY: an element of x.
            values[j as usize] = unsafe { x.wrapping_offset(offset).read() };
        }
    }
    for j in 0..N as u32 {
        if at(j) < params.len {
            let offset = walk::offset(params, 0, at(j));
            // SAFETY: an element of y.
            unsafe { y.wrapping_offset(offset).write(values[j as usize]) };
        }
    }
}

/// An element of 16 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
pub struct Wide([u32; 4]);

macro_rules! copies {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Copies elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::elementwise` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: ByValue<WalkParams, 432>) {
            // SAFETY: the launch's promise.
            unsafe { copy::<$ty, { CopyEntry::read(stringify!($name)).per_thread() as usize }>(x, y, &params) }
        }
    )*};
}

abi::copy_elements!(copies);
