//! Layer norm and RMS norm of rows that begin anywhere and come through a ring (`row::ring::any`,
//! `row::short::any`).
//!
//! A thread keeps the weights of its columns in registers. A lane or warp with a whole row reads its
//! elements once, so that the row's stage is free at once.

use super::forward::rstd_of;
use super::ring::whole;
use super::source::RowSource;
use super::tensors::Tensors;
use crate::row::group::of_lanes;
use crate::row::held::{row_of, row_of_mut};
use crate::row::moments::{Count, Moments};
use crate::row::pace::Pace;
use crate::row::packed::{Packed, Raw, Weights};
use crate::row::ring::{Ring, Stage};
use crate::row::short::Short;
use abi::rows::{RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::math::{fma, mul_rn};
use cuda_std::thread;

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// What a thread keeps of its columns: weights and bias, in f32.
struct Columns<const R: usize> {
    weight: [[Raw; 2]; R],
    bias: [[Raw; 2]; R],
}

impl<const R: usize> Columns<R> {
    #[inline(always)]
    unsafe fn of<T: Packed, const V: usize>(
        source: &impl RowSource<T, V>,
        tensors: &Tensors<T>,
    ) -> Self {
        let mut columns = Self {
            weight: [[[0; 4]; 2]; R],
            bias: [[[0; 4]; 2]; R],
        };
        let mut j = 0;
        while j < R {
            // SAFETY: passed on to the caller: a weight for each column.
            unsafe {
                columns.weight[j] = source.weight::<f32>(&tensors.weight, j);
                columns.bias[j] = source.weight::<f32>(&tensors.bias, j);
            }
            j += 1;
        }
        columns
    }
}

/// Where a row of each input begins.
#[inline(always)]
fn rows_of<T: Packed>(tensors: &Tensors<T>, params: &RowParams) -> impl Fn(u32, u64) -> *const T {
    move |input, row| match input {
        0 => row_of(tensors.x, row, params.strides[0]),
        _ => row_of(tensors.residual, row, params.strides[1]),
    }
}

/// A thread's elements of a row.
type Part<const V: usize, const R: usize> = [[f32; V]; R];

/// The thread's elements, after the residual has been added and the sum rounded; zeros beyond the row.
///
/// # Safety
/// The row has landed, and is complete.
#[inline(always)]
unsafe fn read<T: Packed, const V: usize, const R: usize>(
    source: &impl RowSource<T, V>,
    stage: Stage,
    row_of: &impl Fn(u32) -> *const T,
    tensors: &Tensors<T>,
) -> Part<V, R> {
    let mut x = [[0.0; V]; R];
    let mut j = 0;
    while j < R {
        if source.reaches(j) {
            // SAFETY: the caller's promise.
            x[j] = unsafe { source.read(stage, 0, row_of(0), j) };
            if !tensors.residual.is_null() {
                // SAFETY: as above.
                let residual = unsafe { source.read(stage, 1, row_of(1), j) };
                let mut i = 0;
                while i < V {
                    x[j][i] = T::lane(&[T::word(x[j][i] + residual[i], 0.0); 4], 0);
                    i += 1;
                }
            }
        }
        j += 1;
    }
    x
}

/// Stores the sum with the residual to a row, if the launch wants it.
///
/// # Safety
/// As for [`RowSource::store`].
#[inline(always)]
unsafe fn store_sum<T: Packed, const V: usize, const R: usize>(
    source: &impl RowSource<T, V>,
    x: &Part<V, R>,
    to: *mut T,
) {
    let mut j = 0;
    while j < R && !to.is_null() {
        if source.reaches(j) {
            // SAFETY: the caller's promise.
            unsafe { source.store(to, j, x[j]) };
        }
        j += 1;
    }
}

/// Mean (0 in RMS norm) and squared deviations of what `lanes` lanes have of a row: `count` elements.
///
/// # Safety
/// The warp's lanes come here together.
#[inline(always)]
unsafe fn moments<T: Packed, const V: usize, const R: usize>(
    source: &impl RowSource<T, V>,
    x: &Part<V, R>,
    (lanes, count): (u32, Count),
    is_centered: bool,
) -> Moments {
    let mut mean = 0.0;
    if is_centered {
        let mut sum = 0.0;
        let mut k = 0;
        while k < R * V {
            sum += x[k / V][k % V];
            k += 1;
        }
        // SAFETY: passed on to the caller.
        mean = mul_rn(unsafe { of_lanes(sum, lanes, &|a, b| a + b) }, count.share);
    }
    let mut squares = 0.0;
    let mut k = 0;
    while k < R * V {
        let (j, i) = (k / V, k % V);
        let deviation = match source.has(j, i) {
            true => x[j][i] - mean,
            false => 0.0,
        };
        squares = fma(deviation, deviation, squares);
        k += 1;
    }
    // SAFETY: as above.
    let squares = unsafe { of_lanes(squares, lanes, &|a, b| a + b) };
    Moments::new(count.count, mean, squares)
}

/// Stores the thread's elements of a row of y.
///
/// # Safety
/// As for [`RowSource::store`].
#[inline(always)]
unsafe fn write<T: Packed, const V: usize, const R: usize>(
    source: &impl RowSource<T, V>,
    x: &Part<V, R>,
    columns: &Columns<R>,
    (mean, rstd): (f32, f32),
    to: *mut T,
) {
    let mut j = 0;
    while j < R {
        if source.reaches(j) {
            let weight: [f32; V] = Weights::unpack::<f32, V>(&columns.weight[j]);
            let bias: [f32; V] = Weights::unpack::<f32, V>(&columns.bias[j]);
            let mut out = x[j];
            let mut i = 0;
            while i < V {
                out[i] = fma(mul_rn(out[i] - mean, rstd), weight[i], bias[i]);
                i += 1;
            }
            // SAFETY: the caller's promise.
            unsafe { source.store(to, j, out) };
        }
        j += 1;
    }
}

/// Elements of a row.
#[inline(always)]
fn count_of_row(params: &RowParams) -> Count {
    Count {
        count: params.n as f32,
        share: params.scale,
    }
}

/// Normalises all rows of this block or cluster. In iteration `i`, a warp posts the moments of its part
/// of row `i`, then stores row `i - 1`, whose moments have come meanwhile.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn ring<T: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    let row_of = rows_of(tensors, params);
    let is_centered = params.flags & flags::CENTER != 0;
    // SAFETY: the launch's promise; all threads come here, and a warp's take the same branches.
    unsafe {
        let inputs = 1 + u32::from(!tensors.residual.is_null());
        let ring = Ring::<R, true>::new::<T>(params, inputs);
        ring.begin();
        ring.fill(&row_of);
        let columns = Columns::<R>::of::<T, V>(&ring, tensors);
        let of_warp = Count::new(ring.elements() as f32);
        let of_row = count_of_row(params);
        let of_block = |part, width| {
            // Opaque: recomputed by the sender, so that no register is kept for it.
            let of_block = Count::new(opaque(ring.elements_of_block::<T>(params)) as f32);
            whole(part, width, of_block, is_centered)
        };
        let ahead = |i: u32| RowSource::<T, V>::ends(&ring, i, &|input| row_of(input, ring.row(i)));
        let mut ends = ahead(0);
        let mut stage = Stage::FIRST;
        let mut sender = 0;
        let mut i = 0;
        while i <= ring.rows {
            let next = ahead(i + 1);
            if i < ring.rows {
                ring.wait(stage);
                let row = |input| row_of(input, ring.row(i));
                RowSource::<T, V>::complete(&ring, (i, stage), &row, ends);
                let x = read::<T, V, R>(&ring, stage, &row, tensors);
                let part = moments::<T, V, R>(&ring, &x, (LANES, of_warp), is_centered);
                ring.post(i, part, Moments::EMPTY, &of_block);
                if !tensors.sum.is_null() {
                    let to = row_of_mut(tensors.sum, ring.row(i), params.strides[2]);
                    store_sum::<T, V, R>(&ring, &x, to);
                }
            }
            if i > 0 {
                let all = ring.collect(i - 1, Moments::EMPTY, &|part, width| {
                    whole(part, width, of_row, is_centered)
                });
                let rstd = rstd_of(mul_rn(all.squares, params.scale), params);
                let row = ring.row(i - 1);
                if ring.is_first() {
                    tensors.keep_row(row, all.mean, rstd);
                }
                // Read anew: there are no registers for it.
                let last = ring.before(stage);
                let from = |input| row_of(input, row);
                let x = read::<T, V, R>(&ring, last, &from, tensors);
                let to = row_of_mut(tensors.y, row, params.strides[3]);
                write::<T, V, R>(&ring, &x, &columns, (all.mean, rstd), to);
                ring.refill(i - 1, last, &row_of);
            }
            if i < ring.rows {
                ring.send_round(i, sender, Moments::EMPTY, &of_block);
                sender = ring.next_sender(sender);
            }
            ring.meet(i);
            ends = next;
            stage = ring.after(stage);
            i += 1;
        }
        ring.end(params);
    }
}

/// Normalises all rows of this block; each is in a warp, or in a part of one.
///
/// # Safety
/// `tensors` are those of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn short<T: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    let row_of = rows_of(tensors, params);
    let is_centered = params.flags & flags::CENTER != 0;
    // SAFETY: the launch's promise; lanes of a warp come to the same exchanges.
    unsafe {
        let inputs = 1 + u32::from(!tensors.residual.is_null());
        let short = Short::<R, true>::new::<T>(params, inputs);
        let pace = Pace::new(params, short.iterations);
        short.begin();
        short.fill(&row_of, params);
        let columns = Columns::<R>::of::<T, V>(&short, tensors);
        let of_row = count_of_row(params);
        let ahead =
            |i: u32| RowSource::<T, V>::ends(&short, i, &|input| row_of(input, short.first(i)));
        let mut ends = ahead(0);
        let mut stage = Stage::FIRST;
        let mut i = 0;
        while i < short.iterations {
            let next = ahead(i + 1);
            short.wait(i, stage);
            let row = |input| row_of(input, short.first(i));
            RowSource::<T, V>::complete(&short, (i, stage), &row, ends);
            pace.count();
            let x = match short.has_row(i) {
                true => read::<T, V, R>(&short, stage, &row, tensors),
                false => [[0.0; V]; R],
            };
            let seen = pace.look(i);
            short.refill(i, stage, &row_of, params);
            let all = moments::<T, V, R>(&short, &x, (short.lanes, of_row), is_centered);
            let rstd = rstd_of(mul_rn(all.squares, params.scale), params);
            if short.has_row(i) {
                let row = short.row(i);
                if short.is_first() {
                    tensors.keep_row(row, all.mean, rstd);
                }
                if !tensors.sum.is_null() {
                    let to = row_of_mut(tensors.sum, row, params.strides[2]);
                    store_sum::<T, V, R>(&short, &x, to);
                }
                let to = row_of_mut(tensors.y, row, params.strides[3]);
                write::<T, V, R>(&short, &x, &columns, (all.mean, rstd), to);
            }
            pace.keep(i, seen);
            ends = next;
            stage = short.after(stage);
            i += 1;
        }
        pace.leave();
    }
}
