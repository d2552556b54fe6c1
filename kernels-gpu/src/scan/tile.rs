//! What a thread has of a tile: vectors, each a block's width from the next.

use cuda_std::{convert, mem};
use half::{bf16, f16};
use spec::reduce::{KIND_LARGEST, KIND_PRODUCT};
use spec::scan::{THREADS, VECTORS};

use crate::reduce::load::{Load, Raw};
use crate::reduce::number::Number;

/// `[vector][lane]`.
pub(super) type Elements<N, const V: usize> = [[N; V]; VECTORS];

/// An element type that is read and written `V` at once.
pub(super) trait Stored<const V: usize>: Load<V> {
    /// Writes one.
    ///
    /// # Safety
    /// It is writable.
    unsafe fn write(at: *mut u8, x: Self::Number);

    /// `V` neighbours as they lie in memory.
    fn packed(xs: [Self::Number; V]) -> Raw;
}

macro_rules! stored_32 {
    ($($ty:ty: |$x:ident| $narrow:expr;)*) => {$(
        impl Stored<4> for $ty {
            #[inline(always)]
            unsafe fn write(at: *mut u8, $x: Self::Number) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u32>().write($narrow) }
            }
            #[inline(always)]
            fn packed(xs: [Self::Number; 4]) -> Raw {
                let narrow = |$x: Self::Number| -> u32 { $narrow };
                [narrow(xs[0]), narrow(xs[1]), narrow(xs[2]), narrow(xs[3])]
            }
        }
    )*};
}

macro_rules! stored_16 {
    ($($ty:ty: $narrow:path;)*) => {$(
        impl Stored<8> for $ty {
            #[inline(always)]
            unsafe fn write(at: *mut u8, x: f32) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u16>().write($narrow(x)) }
            }
            #[inline(always)]
            fn packed(xs: [f32; 8]) -> Raw {
                let pair = |low, high| u32::from($narrow(low)) | u32::from($narrow(high)) << 16;
                [
                    pair(xs[0], xs[1]),
                    pair(xs[2], xs[3]),
                    pair(xs[4], xs[5]),
                    pair(xs[6], xs[7]),
                ]
            }
        }
    )*};
}

macro_rules! stored_64 {
    ($($ty:ty: |$x:ident| $bits:expr;)*) => {$(
        impl Stored<2> for $ty {
            #[inline(always)]
            unsafe fn write(at: *mut u8, $x: $ty) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<u64>().write($bits) }
            }
            #[inline(always)]
            fn packed(xs: [$ty; 2]) -> Raw {
                let bits = |$x: $ty| -> u64 { $bits };
                let (a, b) = (bits(xs[0]), bits(xs[1]));
                [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
            }
        }
    )*};
}

stored_32! {
    f32: |x| x.to_bits();
    i32: |x| x as u32;
}
stored_16! {
    f16: convert::f32_to_f16;
    bf16: convert::f32_to_bf16;
}
stored_64! {
    f64: |x| x.to_bits();
    i64: |x| x as u64;
}

/// What combining with does not change.
#[inline(always)]
pub(super) fn neutral<N: Number>(kind: u32) -> N {
    match kind {
        KIND_PRODUCT => N::ONE,
        KIND_LARGEST => N::LEAST,
        _ => N::ZERO,
    }
}

#[inline(always)]
fn larger<N: Number>(a: N, b: N) -> N {
    if a.is_nan() | b.is_nan() {
        N::not_a_number(a)
    } else {
        a.larger(b)
    }
}

/// The first, then the second.
#[inline(always)]
pub(super) fn combined<N: Number>(a: N, b: N, kind: u32) -> N {
    match kind {
        KIND_PRODUCT => a.times(b),
        KIND_LARGEST => larger(a, b),
        _ => a.plus(b),
    }
}

/// As [`combined`] for several; one branch for all.
#[inline(always)]
pub(super) fn all_combined<N: Number, const K: usize>(a: [N; K], b: [N; K], kind: u32) -> [N; K] {
    match kind {
        KIND_PRODUCT => core::array::from_fn(|i| a[i].times(b[i])),
        KIND_LARGEST => core::array::from_fn(|i| larger(a[i], b[i])),
        _ => core::array::from_fn(|i| a[i].plus(b[i])),
    }
}

/// Each vector's elements, accumulated from its first.
#[inline(always)]
pub(super) fn accumulated<N: Number, const V: usize>(
    xs: Elements<N, V>,
    kind: u32,
) -> Elements<N, V> {
    #[inline(always)]
    fn by<N: Copy, const V: usize>(
        mut xs: Elements<N, V>,
        op: impl Fn(N, N) -> N,
    ) -> Elements<N, V> {
        for u in 0..VECTORS {
            for v in 1..V {
                xs[u][v] = op(xs[u][v - 1], xs[u][v]);
            }
        }
        xs
    }
    match kind {
        KIND_PRODUCT => by(xs, N::times),
        KIND_LARGEST => by(xs, larger),
        _ => by(xs, N::plus),
    }
}

/// The thread's first element of vector `u`, counted from the tile's first.
#[inline(always)]
pub(super) fn place<const V: usize>(thread: u32, u: usize) -> u64 {
    u64::from(thread + u as u32 * THREADS) * V as u64
}

/// The thread's elements of a tile with `len` elements; what is not there is `instead`.
///
/// # Safety
/// The tile is readable.
#[inline(always)]
pub(super) unsafe fn load<T: Stored<V>, const V: usize>(
    tile: *const u8,
    len: u64,
    thread: u32,
    instead: T::Number,
) -> Elements<T::Number, V> {
    let size = T::bytes(0);
    let is_whole = len >= u64::from(THREADS) * (VECTORS * V) as u64;
    if is_whole && tile.addr().is_multiple_of(16) {
        let mut raw: [Raw; VECTORS] = [[0; 4]; VECTORS];
        for u in 0..VECTORS {
            let at = tile.wrapping_add(place::<V>(thread, u) as usize * size as usize);
            // SAFETY: a whole tile, and aligned.
            raw[u] = unsafe { T::vector(at, 0) };
        }
        return core::array::from_fn(|u| core::array::from_fn(|v| T::number(raw[u], v)));
    }
    let mut xs = [[instead; V]; VECTORS];
    for u in 0..VECTORS {
        for v in 0..V {
            let element = place::<V>(thread, u) + v as u64;
            if element < len {
                // SAFETY: an element of the tile.
                xs[u][v] =
                    unsafe { T::one(tile.wrapping_add(element as usize * size as usize), 0) };
            }
        }
    }
    xs
}

/// Writes the thread's elements of a tile.
///
/// # Safety
/// The tile is writable.
#[inline(always)]
pub(super) unsafe fn store<T: Stored<V>, const V: usize>(
    tile: *mut u8,
    len: u64,
    thread: u32,
    xs: Elements<T::Number, V>,
) {
    let size = T::bytes(0) as usize;
    let is_whole = len >= u64::from(THREADS) * (VECTORS * V) as u64;
    if is_whole && tile.addr().is_multiple_of(16) {
        for u in 0..VECTORS {
            let at = tile.wrapping_add(place::<V>(thread, u) as usize * size);
            // SAFETY: a whole tile, and aligned.
            unsafe { mem::st_v4_u32(at.cast(), T::packed(xs[u])) };
        }
        return;
    }
    for u in 0..VECTORS {
        for v in 0..V {
            let element = place::<V>(thread, u) + v as u64;
            if element < len {
                // SAFETY: an element of the tile.
                unsafe { T::write(tile.wrapping_add(element as usize * size), xs[u][v]) };
            }
        }
    }
}
