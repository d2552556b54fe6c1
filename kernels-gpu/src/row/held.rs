//! A row in registers: each thread loads up to `R` vectors of it, which are as many vectors apart
//! as the group has threads. All loads are issued before the first vector is used.

use super::ends::Ends;
use super::group::Group;
use super::packed::{Packed, Raw};
use super::policy::of_rows;
use crate::realign::{Place, is_whole, store_apart};
use abi::rows::RowParams;
use cuda_std::hint::{constant, opaque, rotate};
use cuda_std::warp::{FULL_MASK, vote_any};
use cuda_std::{mem, thread};

/// Which vectors of a row this thread has.
#[derive(Clone, Copy)]
pub(crate) struct RowFragment {
    first: u32,
    step: u32,
    /// Vectors of the row; 0 if there is no row.
    vectors: u32,
}

impl RowFragment {
    /// This thread's vectors of a row of `n` elements; none unless the row `is_there`.
    #[inline(always)]
    pub(crate) fn new<T: Packed>(group: &Group, n: u64, is_there: bool) -> Self {
        let vectors = (n / T::LANES as u64) as u32;
        Self::of_vectors(group, vectors, is_there)
    }

    /// The same, of a row of so many vectors.
    #[inline(always)]
    fn of_vectors(group: &Group, vectors: u32, is_there: bool) -> Self {
        Self {
            first: group.rank * group.threads + group.own,
            step: group.threads * group.blocks,
            vectors: if is_there { vectors } else { 0 },
        }
    }

    /// Index in the row of the thread's vector `j`.
    #[inline(always)]
    pub(crate) fn vector(&self, j: usize) -> u32 {
        self.first + j as u32 * self.step
    }

    /// Whether the row has a vector `j` for this thread.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize) -> bool {
        self.vector(j) < self.vectors
    }

    /// Index in the row of the thread's vector `j`, or of the row's last vector if it has no such
    /// one.
    #[inline(always)]
    pub(crate) fn nearest(&self, j: usize) -> u32 {
        self.vector(j).min(self.vectors.saturating_sub(1))
    }

    /// Vectors of the thread's warp, of which a lane has up to `R`, in a row that whole warps
    /// share.
    #[inline(always)]
    pub(crate) fn vectors_of_warp<const R: usize>(&self) -> u32 {
        let ahead = self.first & !(thread::WARP_THREADS - 1);
        let mut of_warp = 0;
        let mut j = 0;
        while j < R {
            let rest = self.vectors.saturating_sub(ahead + j as u32 * self.step);
            of_warp += rest.min(thread::WARP_THREADS);
            j += 1;
        }
        of_warp
    }

    /// Where the thread's vector `j` is among its warp's, in rows of one block.
    #[inline(always)]
    fn place(&self, j: usize) -> Place {
        let last = self.step.min(thread::WARP_THREADS) - 1;
        let (lane, vector) = (self.first & last, self.vector(j));
        Place {
            is_there: vector < self.vectors,
            is_first: lane == 0,
            is_last: lane == last || vector + 1 >= self.vectors,
        }
    }

    /// Index in the row of the first element of vector `j`.
    #[inline(always)]
    pub(crate) fn element<T: Packed>(&self, j: usize) -> usize {
        self.vector(j) as usize * T::LANES
    }
}

/// This thread's group and its row, in launches where every row has its own group; of the tensor's
/// row, which begins at `start` for row 0 and has the first stride, the whole vectors and the element of
/// the ends that the thread has.
///
/// # Safety
/// As for [`Group::of_vectors`].
#[inline(always)]
pub(crate) unsafe fn fragment_of<T: Packed, const ANY: bool>(
    start: *const T,
    params: &RowParams,
    scratch: *mut u32,
) -> (Group, u64, RowFragment, Ends<ANY>) {
    // SAFETY: passed on to the caller.
    let group = unsafe { Group::of_vectors(params, scratch) };
    let row = group.row();
    let is_there = row < params.rows;
    let own = if is_there { Some(group.own) } else { None };
    let ends = Ends::new(row_of(start, row, params.strides[0]), params.n, own);
    let fragment = RowFragment::of_vectors(&group, ends.vectors, is_there);
    (group, row, fragment, ends)
}

/// Loads the thread's vectors of a row; those beyond its end are 0.
///
/// # Safety
/// The row at `row` is readable, and aligned to vectors.
#[inline(always)]
pub(crate) unsafe fn load<T: Packed, const R: usize>(
    row: *const T,
    fragment: &RowFragment,
    params: &RowParams,
) -> [Raw; R] {
    let mut raw = [[0; 4]; R];
    let policy = of_rows(params);
    let mut j = 0;
    while j < R {
        let at = row.wrapping_add(fragment.element::<T>(j));
        // SAFETY: a vector of the row, or nothing is read.
        raw[j] =
            unsafe { mem::ld_global_l2_cache_hint_v4_u32_if(at.cast(), fragment.has(j), policy) };
        j += 1;
    }
    raw
}

/// Calls `f` with the index of each of a thread's vectors, and with what it has of it: in a loop
/// that is once in PTX, and that ptxas unrolls if it is short enough.
#[inline(always)]
pub(crate) fn each<X: Copy, const R: usize>(of: &mut [X; R], mut f: impl FnMut(usize, &mut X)) {
    let mut j = 0;
    while j < constant::<R>() {
        f(j, &mut of[0]);
        rotate(of);
        j += 1;
    }
}

/// Makes the vectors opaque to the compiler: values computed from them are recomputed after this,
/// and so do not occupy registers across it.
#[inline(always)]
pub(crate) fn forget<const R: usize>(raw: &mut [Raw; R]) {
    let mut j = 0;
    while j < R {
        let mut i = 0;
        while i < 4 {
            raw[j][i] = opaque(raw[j][i]);
            i += 1;
        }
        j += 1;
    }
}

/// Stores vector `j` of a row, if the row has it. It is the first to be evicted from L2, so that
/// stores make room for loads.
///
/// # Safety
/// The row at `row` is writable, and aligned to vectors.
#[inline(always)]
pub(crate) unsafe fn store<T: Packed>(row: *mut T, fragment: &RowFragment, j: usize, raw: Raw) {
    let at = row.wrapping_add(fragment.element::<T>(j));
    // SAFETY: a vector of the row, or nothing is written.
    unsafe { mem::st_global_cs_v4_u32_if(at.cast(), raw, fragment.has(j)) };
}

/// Stores all vectors of the thread to a row whose vectors may be anywhere.
///
/// # Safety
/// The warp calls it, converged. The row at `row` is writable.
#[inline(always)]
pub(crate) unsafe fn store_all<T: Packed, const R: usize>(
    row: *mut T,
    fragment: &RowFragment,
    raw: &mut [Raw; R],
) {
    // SAFETY: passed on to the caller; a vector of the row, or nothing is written.
    unsafe {
        if vote_any(FULL_MASK, !is_whole(row)) {
            each(raw, |j, raw| {
                let at = row.wrapping_add(fragment.element::<T>(j));
                store_apart(at, *raw, fragment.place(j));
            });
        } else {
            each(raw, |j, raw| store(row, fragment, j, *raw));
        }
    }
}

/// The address of row `row` of a tensor whose rows are `stride` elements apart.
#[inline(always)]
pub(crate) fn row_of<T>(start: *const T, row: u64, stride: i64) -> *const T {
    start.wrapping_offset((row as i64).wrapping_mul(stride) as isize)
}

/// The same, of a tensor that is written.
#[inline(always)]
pub(crate) fn row_of_mut<T>(start: *mut T, row: u64, stride: i64) -> *mut T {
    start.wrapping_offset((row as i64).wrapping_mul(stride) as isize)
}
