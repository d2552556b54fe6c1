//! The kernels that select, one for each size of elements.

use abi::gather::{THREADS, TakeEntry, TakeParams};
use cuda_std::param::ByValue;
use cuda_std::{kernel, thread};

use super::bits::Bits;
use super::walk::{offsets, wrapped};

/// Indices at these offsets, where `wrap` is added to negative ones.
///
/// # Safety
/// They are there, and of type `I`.
#[inline(always)]
unsafe fn selected<I: Copy + Into<i64>, const N: usize>(
    indices: *const I,
    offsets: &[[i64; 3]; N],
    wrap: i64,
) -> [i64; N] {
    let mut selected = [0; N];
    for j in 0..N {
        // SAFETY: passed on to the caller.
        let index = unsafe { indices.wrapping_offset(offsets[j][2] as isize).read() }.into();
        selected[j] = wrapped(index, wrap);
    }
    selected
}

/// # Safety
/// The tensors are those of `params`; y has an element.
#[inline(always)]
unsafe fn take<T: Bits, const N: usize>(
    x: *const u8,
    indices: *const u8,
    y: *mut u8,
    params: &TakeParams,
) {
    let size = size_of::<T>() as i64;
    let last = params.walk.len - 1;
    let first = thread::block_idx_x() * (THREADS * N as u32) + thread::thread_idx_x();
    let mut elements = [0; N];
    for j in 0..N {
        // Beyond the last one the last, which is not stored there: loads need no condition.
        elements[j] = (first + j as u32 * THREADS).min(last);
    }
    let offsets = offsets::<3, N>(&params.walk, elements);
    // SAFETY: indices of elements of y, as wide as the launch says.
    let selected = unsafe {
        match params.index_bytes {
            8 => selected::<i64, N>(indices.cast(), &offsets, params.wrap),
            _ => selected::<i32, N>(indices.cast(), &offsets, params.wrap),
        }
    };
    let mut values = [T::NONE; N];
    for j in 0..N {
        let of_x = offsets[j][1].wrapping_add(selected[j].wrapping_mul(params.stride));
        values[j] = T::of_pattern(params.fill);
        // A negative one is larger than any extent.
        if (selected[j] as u64) < params.count {
            let from = x.wrapping_offset(of_x.wrapping_mul(size) as isize);
            // SAFETY: the index is one of the axis, so this is an element of x.
            values[j] = unsafe { T::load(from) };
        }
    }
    for j in 0..N {
        if first + j as u32 * THREADS <= last {
            let to = y.wrapping_offset(offsets[j][0].wrapping_mul(size) as isize);
            // SAFETY: an element of y, which this thread alone has.
            unsafe { values[j].store(to) };
        }
    }
}

macro_rules! takes {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Selects elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::gather` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            x: *const u8,
            indices: *const u8,
            y: *mut u8,
            params: ByValue<TakeParams, 472>,
        ) {
            // SAFETY: the launch's promise.
            unsafe { take::<$ty, { TakeEntry::read(stringify!($name)).per_thread() as usize }>(x, indices, y, &params) }
        }
    )*};
}

abi::take_elements!(takes);
