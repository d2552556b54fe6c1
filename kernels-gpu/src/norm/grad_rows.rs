//! What the gradients of norms do with a row in shared memory, wherever it lies there.

use super::backward::Tensors;
use super::columns::Columns;
use super::gradient::{Factors, Kept, Pair, taken};
use crate::row::held::row_of;
use crate::row::packed::{Packed, Raw, Weights, forgotten, pack, unpack};
use crate::row::ring::{Ring, Stage};
use crate::row::short::Short;
use abi::rows::RowParams;
use cuda_std::hint::settle;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// Shared memory through which rows come, as a thread sees it.
pub(super) trait RowSource {
    /// Whether sums of columns must be computed where they stand. Otherwise the compiler computes
    /// them after the exchange of a row's sums, and keeps their inputs until then.
    const SETTLES: bool;

    /// Vector `j` of the thread, of an input's row; zeros if the row does not have it.
    ///
    /// # Safety
    /// The row is in the stage.
    unsafe fn read(&self, stage: Stage, input: u32, j: usize) -> Raw;

    /// Stores vector `j` of the thread to the row `to`, if the row has it and `to` is not null.
    ///
    /// # Safety
    /// The row is writable and aligned to vectors. It is null only in a source whose lanes have
    /// rows of their own.
    unsafe fn store<T: Packed>(&self, to: *mut T, j: usize, raw: Raw);

    /// Index in the row of the thread's vector `j`.
    fn number(&self, j: usize) -> u32;

    /// Whether the row has a vector `j` for this thread.
    fn has(&self, j: usize) -> bool;
}

macro_rules! row_source {
    ([$($generics:tt)*] $source:ty, settles = $settles:literal) => {
        impl $($generics)* RowSource for $source {
            const SETTLES: bool = $settles;

            #[inline(always)]
            unsafe fn read(&self, stage: Stage, input: u32, j: usize) -> Raw {
                // SAFETY: the caller's promise.
                unsafe { self.read(stage, input, j) }
            }

            #[inline(always)]
            unsafe fn store<T: Packed>(&self, to: *mut T, j: usize, raw: Raw) {
                // SAFETY: the caller's promise.
                unsafe { self.store(to, j, raw) }
            }

            #[inline(always)]
            fn number(&self, j: usize) -> u32 {
                self.number(j)
            }

            #[inline(always)]
            fn has(&self, j: usize) -> bool {
                self.has(j)
            }
        }
    };
}

row_source! { [<const R: usize>] Ring<R>, settles = false }
row_source! { [] Short, settles = true }

/// Where a row of each input begins.
#[inline(always)]
pub(super) fn rows_of<T: Packed>(
    tensors: &Tensors<T>,
    params: &RowParams,
) -> impl Fn(u32, u64) -> *const T {
    move |input, row| match input {
        0 => row_of(tensors.x, row, params.strides[0]),
        1 => row_of(tensors.dy, row, params.strides[1]),
        _ => row_of(tensors.dsum, row, params.strides[2]),
    }
}

/// The thread's columns before the first row: with weights of type `W`, and no sums.
///
/// # Safety
/// `tensors` are aligned ones of the launch.
#[inline(always)]
pub(super) unsafe fn columns_of<T: Packed, W: Packed, const V: usize, const R: usize>(
    source: &impl RowSource,
    tensors: &Tensors<T>,
) -> Columns<V, R> {
    let mut columns = Columns {
        weight: [[[0; 4]; 2]; R],
        dweight: [[0.0; V]; R],
        dbias: [[0.0; V]; R],
    };
    let mut j = 0;
    while j < R {
        let at = source.number(j) as usize * V;
        // SAFETY: the caller's promise; vectors that the row has.
        columns.weight[j] = unsafe { tensors.weight.vector::<W, V>(at, source.has(j)) };
        j += 1;
    }
    columns
}

/// The thread's contribution to the sums of a row; also adds the row to the sums of its columns.
/// Unless `WHOLE`, as an RMS norm's, without the bias's gradient.
///
/// # Safety
/// The row has landed.
#[inline(always)]
pub(super) unsafe fn sum<
    T: Packed,
    W: Packed,
    const V: usize,
    const R: usize,
    const WHOLE: bool,
    S: RowSource,
>(
    source: &S,
    stage: Stage,
    kept: Kept,
    columns: &mut Columns<V, R>,
) -> Pair {
    let mut sums = Pair::ZERO;
    let weight = forgotten::<W, V, R>(&columns.weight);
    let mut j = 0;
    while j < R {
        // SAFETY: the caller's promise.
        let (x, dy) = unsafe { (source.read(stage, 0, j), source.read(stage, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let of_columns = [&mut columns.dweight[j], &mut columns.dbias[j]];
        sums = taken::<V, WHOLE>(sums, [&x, &dy, &weight], kept, of_columns);
        if S::SETTLES {
            settle(&columns.dweight[j]);
            settle(&columns.dbias[j]);
        }
        j += 1;
    }
    sums
}

/// Stores the thread's vectors of a row of dx to `to`.
///
/// # Safety
/// The warp calls it, converged. The row is in its stage; `to` is as for [`RowSource::store`].
#[inline(always)]
pub(super) unsafe fn write<
    T: Packed,
    W: Packed,
    const V: usize,
    const R: usize,
    const WHOLE: bool,
>(
    source: &impl RowSource,
    stage: Stage,
    kept: Kept,
    tensors: &Tensors<T>,
    weight: &[[Raw; 2]; R],
    means: Pair,
    to: *mut T,
) {
    let weight = forgotten::<W, V, R>(weight);
    let factors = Factors::new(kept, means);
    let mut j = 0;
    while j < R {
        // SAFETY: the caller's promise.
        let (x, dy) = unsafe { (source.read(stage, 0, j), source.read(stage, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let mut out = factors.of::<V, WHOLE>([&x, &dy, &weight]);
        if !tensors.dsum.is_null() {
            // SAFETY: as above.
            let dsum = unpack::<T, V>(&unsafe { source.read(stage, 2, j) });
            let mut i = 0;
            while i < V {
                out[i] += dsum[i];
                i += 1;
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            source.store(to, j, pack::<T, V>(&out));
            // Else ptxas begins with several vectors at once, and spills.
            bar_warp_sync(FULL_MASK);
        }
        j += 1;
    }
}
