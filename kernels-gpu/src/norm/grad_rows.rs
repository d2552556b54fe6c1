//! What the gradients of norms do with a row in shared memory, wherever it lies there.

use super::backward::Tensors;
use super::columns::Columns;
use super::gradient::{Factors, Kept, Pair, taken};
use super::source::RowSource;
use crate::row::held::row_of;
use crate::row::packed::{Packed, Raw, Weights, forgotten};
use crate::row::ring::Stage;
use abi::rows::RowParams;
use cuda_std::hint::settle;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

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
    source: &impl RowSource<T, V>,
    tensors: &Tensors<T>,
) -> Columns<V, R> {
    let mut columns = Columns {
        weight: [[[0; 4]; 2]; R],
        dweight: [[0.0; V]; R],
        dbias: [[0.0; V]; R],
    };
    let mut j = 0;
    while j < R {
        // SAFETY: the caller's promise.
        columns.weight[j] = unsafe { source.weight::<W>(&tensors.weight, j) };
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
    S: RowSource<T, V>,
>(
    source: &S,
    stage: Stage,
    row_of: &impl Fn(u32) -> *const T,
    kept: Kept,
    columns: &mut Columns<V, R>,
) -> Pair {
    let mut sums = Pair::ZERO;
    let weight = forgotten::<W, V, R>(&columns.weight);
    let mut j = 0;
    while j < R {
        if !source.reaches(j) {
            j += 1;
            continue;
        }
        // SAFETY: the caller's promise.
        let (x, dy) = unsafe {
            (
                source.read(stage, 0, row_of(0), j),
                source.read(stage, 1, row_of(1), j),
            )
        };
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
    S: RowSource<T, V>,
>(
    source: &S,
    stage: Stage,
    row_of: &impl Fn(u32) -> *const T,
    factors: Factors,
    tensors: &Tensors<T>,
    weight: &[[Raw; 2]; R],
    to: *mut T,
) {
    let weight = forgotten::<W, V, R>(weight);
    let mut j = 0;
    while j < R {
        if !source.reaches(j) {
            j += 1;
            continue;
        }
        // SAFETY: the caller's promise.
        let (x, dy) = unsafe {
            (
                source.read(stage, 0, row_of(0), j),
                source.read(stage, 1, row_of(1), j),
            )
        };
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let mut out = factors.of::<V, WHOLE>([&x, &dy, &weight]);
        if !tensors.dsum.is_null() {
            // SAFETY: as above.
            let dsum = unsafe { source.read(stage, 2, row_of(2), j) };
            let mut i = 0;
            while i < V {
                out[i] += dsum[i];
                i += 1;
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            source.store(to, j, out);
            // Else ptxas begins with several vectors at once, and spills.
            bar_warp_sync(FULL_MASK);
        }
        j += 1;
    }
}
