//! Adds the rows of sorted pairs: segments of one part to y, parts of longer ones to `parts`.

use core::marker::PhantomData;

use abi::scatter_add::{ADD_THREADS, AddParams, CHUNK, PAD, PART};
use cuda_std::param::ByValue;
use cuda_std::{kernel, mem, thread};
use half::{bf16, f16};

use super::any_vector::AnyVector;
use super::lanes::Lanes;
use super::pairs::{index, offsets};
use super::segments::Sorted;
use super::single;
use crate::rank::{lane_idx, warp_idx};

/// What a thread adds: the elements of one column.
trait Elements: Copy {
    /// Sums of them.
    type Sums: Copy;
    /// Some, as they are in memory.
    type Raw: Copy;

    /// Sums of nothing.
    fn nothing(self) -> Self::Sums;

    /// What is added to sums.
    fn plus(self, sums: Self::Sums, raw: Self::Raw) -> Self::Sums;

    /// Loads memory that nobody writes. Where it is not there, gives a value that changes no sum.
    ///
    /// # Safety
    /// Where it is there, it is readable.
    unsafe fn row(self, at: *const u8, is_there: bool) -> Self::Raw;

    /// Adds sums to what is there.
    ///
    /// # Safety
    /// It is this thread's to write.
    unsafe fn add_to(self, at: *mut u8, old: Self::Raw, sums: Self::Sums);

    /// Loads what this thread may write; anything, where it is not there.
    ///
    /// # Safety
    /// Where it is there, it is readable.
    unsafe fn old(self, at: *const u8, is_there: bool) -> Self::Raw;

    /// Writes sums to numbers from `slot` on.
    ///
    /// # Safety
    /// They are this thread's to write.
    unsafe fn put(self, numbers: *mut u8, slot: u64, sums: Self::Sums);
}

/// A vector of 16 bytes.
#[derive(Clone, Copy)]
struct Vector<T, const V: usize>(PhantomData<T>);

impl<T: Lanes<V>, const V: usize> Elements for Vector<T, V> {
    type Sums = [f32; V];
    type Raw = crate::reduce::load::Raw;

    #[inline(always)]
    fn nothing(self) -> [f32; V] {
        [-0.0; V]
    }

    #[inline(always)]
    fn plus(self, sums: [f32; V], raw: Self::Raw) -> [f32; V] {
        T::plus(sums, raw)
    }

    #[inline(always)]
    unsafe fn row(self, at: *const u8, is_there: bool) -> Self::Raw {
        // SAFETY: passed on to the caller.
        unsafe { T::row(at, is_there) }
    }

    #[inline(always)]
    unsafe fn old(self, at: *const u8, is_there: bool) -> Self::Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_v4_u32_if(at.cast(), is_there) }
    }

    #[inline(always)]
    unsafe fn add_to(self, at: *mut u8, old: Self::Raw, sums: [f32; V]) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32(at.cast(), T::packed(T::plus(sums, old))) }
    }

    #[inline(always)]
    unsafe fn put(self, numbers: *mut u8, slot: u64, sums: [f32; V]) {
        // SAFETY: passed on to the caller.
        unsafe { put(numbers, slot, sums) }
    }
}

/// Writes a vector's numbers from `slot` on.
///
/// # Safety
/// They are this thread's to write.
#[inline(always)]
unsafe fn put<const V: usize>(numbers: *mut u8, slot: u64, sums: [f32; V]) {
    let at = numbers.cast::<f32>().wrapping_add(slot as usize);
    // SAFETY: passed on to the caller; V numbers are a multiple of 16 bytes.
    unsafe {
        for v in (0..V).step_by(4) {
            mem::st_v4_f32(at.add(v), [sums[v], sums[v + 1], sums[v + 2], sums[v + 3]]);
        }
    }
}

/// A vector of the launch's dtype, whose elements are combined by its operation.
impl Elements for AnyVector<'_> {
    type Sums = [f32; 8];
    type Raw = crate::reduce::load::Raw;

    #[inline(always)]
    fn nothing(self) -> [f32; 8] {
        [f32::from_bits(self.0.nothing as u32); 8]
    }

    #[inline(always)]
    fn plus(self, sums: [f32; 8], raw: Self::Raw) -> [f32; 8] {
        single::merged_each(sums, self.numbers(raw), self.0.kind)
    }

    #[inline(always)]
    unsafe fn row(self, at: *const u8, is_there: bool) -> Self::Raw {
        let nothing = self.packed(Elements::nothing(self));
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_nc_v4_u32_or(at.cast(), is_there, nothing[0]) }
    }

    #[inline(always)]
    unsafe fn old(self, at: *const u8, is_there: bool) -> Self::Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_v4_u32_if(at.cast(), is_there) }
    }

    #[inline(always)]
    unsafe fn add_to(self, at: *mut u8, old: Self::Raw, sums: [f32; 8]) {
        let sums = Elements::plus(self, sums, old);
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32(at.cast(), self.packed(sums)) }
    }

    #[inline(always)]
    unsafe fn put(self, numbers: *mut u8, slot: u64, [a, b, c, d, rest @ ..]: [f32; 8]) {
        // SAFETY: passed on to the caller.
        unsafe {
            put(numbers, slot, [a, b, c, d]);
            if self.0.lanes_log2 > 2 {
                put(numbers, slot + 4, rest);
            }
        }
    }
}

/// An element of the launch's dtype, which is added if `IS_SUM`.
#[derive(Clone, Copy)]
struct Single<'a, const IS_SUM: bool>(&'a AddParams);

impl<const IS_SUM: bool> Elements for Single<'_, IS_SUM> {
    type Sums = u64;
    type Raw = u64;

    #[inline(always)]
    fn nothing(self) -> u64 {
        self.0.nothing
    }

    #[inline(always)]
    fn plus(self, sums: u64, raw: u64) -> u64 {
        single::combined::<IS_SUM>(sums, raw, self.0)
    }

    #[inline(always)]
    unsafe fn row(self, at: *const u8, is_there: bool) -> u64 {
        match is_there {
            // SAFETY: passed on to the caller.
            true => unsafe { single::load(at, self.0) },
            false => self.nothing(),
        }
    }

    #[inline(always)]
    unsafe fn old(self, at: *const u8, is_there: bool) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { self.row(at, is_there) }
    }

    #[inline(always)]
    unsafe fn add_to(self, at: *mut u8, old: u64, sums: u64) {
        // SAFETY: passed on to the caller.
        unsafe { single::store(at, self.plus(sums, old), self.0) }
    }

    #[inline(always)]
    unsafe fn put(self, numbers: *mut u8, slot: u64, sums: u64) {
        // SAFETY: passed on to the caller.
        unsafe { single::put(numbers, slot, sums, self.0.code) }
    }
}

/// A thread's column.
#[derive(Clone, Copy)]
struct Column {
    /// Its first number in a part.
    number: u64,
    is_there: bool,
    /// Where it is in row 0 of y, and in the first row of src.
    y: *mut u8,
    src: *const u8,
}

/// The number in `parts` with which the part begins that begins at rank `begin`.
#[inline(always)]
pub(super) fn slot(begin: u32, is_first: bool, params: &AddParams) -> u64 {
    (u64::from(begin / PART) * 2 + u64::from(!is_first)) * params.numbers
}

/// The sums of the part that begins at rank `begin`, and the rank behind it.
///
/// # Safety
/// The tensors are those of `params`, and the pairs are sorted; the pair there has an index in
/// range.
#[inline(always)]
unsafe fn part<E: Elements, const N: usize>(
    elements: E,
    sorted: Sorted,
    (begin, own): (u32, u32),
    column: &Column,
    params: &AddParams,
) -> (E::Sums, u32) {
    let end = begin + PART;
    const { assert!((PART as usize).is_multiple_of(N) && N <= PAD as usize) };
    let (mut sums, mut rank) = (elements.nothing(), begin);
    loop {
        let (mut positions, mut are_there) = ([0; N], [false; N]);
        for j in 0..N {
            // SAFETY: the last pair has as many behind it.
            let pair = unsafe { sorted.next(rank + j as u32) };
            are_there[j] = index(pair) == own;
            positions[j] = pair as u32;
        }
        let rows = offsets::<0, 1, N>(&params.positions, positions);
        // SAFETY: a pair with this index has a row in src.
        let raws: [E::Raw; N] = unsafe {
            core::array::from_fn(|j| {
                let at = column.src.wrapping_offset(rows[j][1] as isize);
                elements.row(at, are_there[j] & column.is_there)
            })
        };
        for j in 0..N {
            sums = elements.plus(sums, raws[j]);
            rank += u32::from(are_there[j]);
        }
        // Parts are whole multiples of what is loaded at once.
        if !are_there[N - 1] | (rank == end) {
            return (sums, rank);
        }
    }
}

/// # Safety
/// The tensors are those of `params`, and the pairs are sorted.
#[inline(always)]
unsafe fn add<E: Elements, const N: usize>(
    elements: E,
    (pairs, begins): (*const u64, *const u32),
    (src, y): (*const u8, *mut u8),
    parts: *mut u8,
    params: &AddParams,
) {
    let len = params.positions.len;
    let sorted = Sorted { pairs, len };
    let (lane, warp) = (lane_idx(), warp_idx());
    let warp = thread::block_idx_x() * (ADD_THREADS / thread::WARP_THREADS) + warp;
    let (chunk, warp) = params.warps.div_rem(warp);
    let first = chunk * params.chunk;
    if first >= len {
        return;
    }
    let own = warp * thread::WARP_THREADS + lane;
    let is_there = own < params.columns.len;
    // Beyond the last one the last, which is not used there.
    let own = own.min(params.columns.len - 1);
    let [[of_y, of_src]] = offsets::<0, 1, 1>(&params.columns, [own]);
    let column = Column {
        number: u64::from(own) << params.lanes_log2,
        is_there,
        y: y.wrapping_offset(of_y as isize),
        src: src.wrapping_offset(of_src as isize),
    };
    // SAFETY: a part is one warp's, and so is a segment of one part.
    unsafe {
        let word = begins.add((first / CHUNK) as usize).read();
        let mut begins = word >> (first % CHUNK) & (u32::MAX >> (CHUNK - params.chunk));
        while begins != 0 {
            let begin = first + begins.trailing_zeros();
            begins &= begins - 1;
            let own = index(sorted.next(begin));
            if own >= params.extent {
                return;
            }
            let row = i64::from(own).wrapping_mul(params.y_stride);
            let at = column.y.wrapping_offset(row as isize);
            let is_first = begin == 0 || index(sorted.next(begin - 1)) != own;
            let old = elements.old(at, is_first & is_there);
            let (sums, end) = part::<E, N>(elements, sorted, (begin, own), &column, params);
            if is_there & is_first & (index(sorted.next(end)) != own) {
                elements.add_to(at, old, sums);
            } else if is_there {
                let slot = slot(begin, is_first, params) + column.number;
                elements.put(parts, slot, sums);
            }
        }
    }
}

macro_rules! entry {
    ($name:ident: |$params:ident| $elements:expr, $at_once:literal, $doc:expr) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// Launched as `abi::scatter_add` says, with tensors of these extents and strides.
        #[kernel(max_threads = ADD_THREADS)]
        pub unsafe fn $name(
            pairs: *const u64,
            begins: *const u32,
            src: *const u8,
            y: *mut u8,
            parts: *mut u8,
            params: ByValue<AddParams, 928>,
        ) {
            let $params = &*params;
            // SAFETY: the launch's promise.
            unsafe { add::<_, $at_once>($elements, (pairs, begins), (src, y), parts, $params) }
        }
    };
}

macro_rules! by_vectors {
    ($($name:ident($ty:ident);)*) => {$(
        // Two vectors are on their way at a time, as many as registers for many warps allow.
        entry!($name: |params| Vector::<$ty, { 16 / size_of::<$ty>() }>(PhantomData), 2,
            concat!("Adds rows of ", stringify!($ty), "."));
    )*};
}

macro_rules! reduced_by_vectors {
    ($($name:ident;)*) => {$(
        entry!($name: |params| AnyVector(params), 2,
            "Combines rows of vectors by the launch's operation.");
    )*};
}

macro_rules! by_elements {
    ($($name:ident;)*) => {$(
        entry!($name: |params| Single::<true>(params), 1, "Adds rows of any dtype.");
    )*};
}

macro_rules! reduced_by_elements {
    ($($name:ident;)*) => {$(
        entry!($name: |params| Single::<false>(params), 1,
            "Combines rows of any dtype by the launch's operation.");
    )*};
}

abi::scatter_add_vectors!(by_vectors);
abi::scatter_add_elements!(by_elements);
abi::scatter_reduce_vectors!(reduced_by_vectors);
abi::scatter_reduce_elements!(reduced_by_elements);
