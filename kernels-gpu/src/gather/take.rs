//! The kernels, one for each size of elements.

use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::{kernel, mem, thread};
use spec::elementwise::{MAX_RANK, WalkParams};
use spec::gather::{THREADS, TakeEntry, TakeParams};

/// An element: some bytes that are moved together.
trait Bits: Copy {
    /// What is held of an element that is not there.
    const NONE: Self;

    /// # Safety
    /// An element is readable there, and aligned.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// An element is writable there, and aligned.
    unsafe fn store(self, to: *mut u8);

    /// The first bytes of a pattern that repeats every 8 bytes.
    fn of_pattern(pattern: u64) -> Self;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            const NONE: Self = 0;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { from.cast::<Self>().read() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<Self>().write(self) }
            }

            #[inline(always)]
            fn of_pattern(pattern: u64) -> Self {
                pattern as Self
            }
        }
    )*};
}

bits! { u8 u16 u32 u64 }

impl Bits for [u32; 4] {
    const NONE: Self = [0; 4];

    /// Of tensors far larger than L2, by the policy of what elementwise kernels read.
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_once_v4_u32(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32(to.cast(), self) }
    }

    #[inline(always)]
    fn of_pattern(pattern: u64) -> Self {
        let (low, high) = (pattern as u32, (pattern >> 32) as u32);
        [low, high, low, high]
    }
}

/// Offsets of elements of the walk in y, in x and in the indices.
#[inline(always)]
fn offsets<const N: usize>(walk: &WalkParams, elements: [u32; N]) -> [[i64; 3]; N] {
    let (mut offsets, mut rest, mut dimension) = ([[0_i64; 3]; N], elements, 0);
    while dimension < walk.rank {
        let axis = dimension as usize % MAX_RANK;
        for j in 0..N {
            let (quotient, at) = walk.extents[axis].div_rem(rest[j]);
            for t in 0..3 {
                let step = i64::from(at).wrapping_mul(walk.strides[t][axis]);
                offsets[j][t] = offsets[j][t].wrapping_add(step);
            }
            rest[j] = quotient;
        }
        // Not unrolled: there are few dimensions, and all threads have the same number.
        dimension = opaque(dimension) + 1;
    }
    offsets
}

/// Indices at these offsets.
///
/// # Safety
/// They are there, and of type `I`.
#[inline(always)]
unsafe fn selected<I: Copy + Into<i64>, const N: usize>(
    indices: *const I,
    offsets: &[[i64; 3]; N],
) -> [i64; N] {
    let mut selected = [0; N];
    for j in 0..N {
        // SAFETY: passed on to the caller.
        selected[j] = unsafe { indices.wrapping_offset(offsets[j][2] as isize).read() }.into();
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
    let offsets = offsets(&params.walk, elements);
    // SAFETY: indices of elements of y, as wide as the launch says.
    let selected = unsafe {
        match params.index_bytes {
            8 => selected::<i64, N>(indices.cast(), &offsets),
            _ => selected::<i32, N>(indices.cast(), &offsets),
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

/// Elements a thread, as `spec` says.
const fn per_thread<T>() -> usize {
    let size_bytes = size_of::<T>();
    TakeEntry { size_bytes }.per_thread() as usize
}

macro_rules! takes {
    ($($name:ident: $ty:ty;)*) => {$(
        #[doc = concat!("Selects elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::gather` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            x: *const u8,
            indices: *const u8,
            y: *mut u8,
            params: ByValue<TakeParams, 464>,
        ) {
            // SAFETY: the launch's promise.
            unsafe { take::<$ty, { per_thread::<$ty>() }>(x, indices, y, &params) }
        }
    )*};
}

takes! {
    take_b8: u8;
    take_b16: u16;
    take_b32: u32;
    take_b64: u64;
    take_b128: [u32; 4];
}
