//! Gradients of layer norm and RMS norm of short rows (`row::short`).
//!
//! As a row is in a warp, or in a part of one, nobody has to wait for anybody's sums. The weights of
//! a lane's columns, and their gradients' sums, stay in registers.

use super::backward::Tensors;
use super::columns::{Columns, ThreadGroup};
use super::grad_rows::{columns_of, rows_of, sum, write};
use super::gradient::{Factors, Kept, Pair, means};
use super::source::RowSource;
use crate::row::group::of_lanes;
use crate::row::held::row_of_mut;
use crate::row::pace::Pace;
use crate::row::packed::Packed;
use crate::row::ring::Stage;
use crate::row::short::Short;
use abi::rows::{RowParams, flags};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;

/// Loads what the forward pass kept of the lane's row in iteration `i`, if there is one.
#[inline(always)]
unsafe fn kept_of<T: Packed, const R: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    short: &Short<R, ANY>,
    i: u32,
) -> Kept {
    // SAFETY: passed on to the caller.
    unsafe { tensors.kept(short.row(i), short.has_row(i)) }
}

/// Computes all rows of this block.
///
/// # Safety
/// `tensors` are those of `params`, aligned ones unless `ANY`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn short<T: Packed, W: Packed, const V: usize, const R: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
) where
    Short<R, ANY>: RowSource<T, V>,
{
    // SAFETY: the launch's promise; all threads come here.
    unsafe {
        let inputs = 2 + u32::from(!tensors.dsum.is_null());
        let short = Short::<R, ANY>::new::<T>(params, inputs);
        let pace = Pace::new(params, short.iterations);
        short.begin();
        // One kind of code is enough where bandwidth is not reached.
        let is_whole = ANY || params.flags & flags::CENTER != 0 || !tensors.dbias.is_null();
        let columns = match is_whole {
            true => rows::<T, W, V, R, true, ANY>(&short, &pace, tensors, params),
            false => rows::<T, W, V, R, false, ANY>(&short, &pace, tensors, params),
        };
        pace.leave();
        // Nobody reads a row any more.
        thread::sync_threads();
        ThreadGroup::new(params.threads).keep(
            SharedAddr::of(dynamic_base().cast_const()),
            [&columns.dweight, &columns.dbias],
            [tensors.dweight, tensors.dbias],
            u64::from(thread::block_idx_x()) * params.n,
            |row, j, lane, sums| RowSource::<T, V>::keep(&short, row, j, lane, sums),
        );
    }
}

/// Computes the warp's rows, and returns its columns' sums; unless `WHOLE`, as an RMS norm's, without
/// the bias's gradient.
#[inline(always)]
unsafe fn rows<
    T: Packed,
    W: Packed,
    const V: usize,
    const R: usize,
    const WHOLE: bool,
    const ANY: bool,
>(
    short: &Short<R, ANY>,
    pace: &Pace,
    tensors: &Tensors<T>,
    params: &RowParams,
) -> Columns<V, R>
where
    Short<R, ANY>: RowSource<T, V>,
{
    let row_of = rows_of(tensors, params);
    let mut columns;
    // SAFETY: the launch's promise; lanes of a warp come to the same exchanges.
    unsafe {
        short.fill(&row_of, params);
        columns = columns_of::<T, W, V, R>(short, tensors);
        let ahead = |i: u32| {
            let ends = short.ends(i, &|input| row_of(input, short.first(i)));
            (kept_of(tensors, short, i), ends)
        };
        let mut this = ahead(0);
        let mut stage = Stage::FIRST;
        let mut i = 0;
        while i < short.iterations {
            let next = ahead(i + 1);
            let (kept, ends) = this;
            short.wait(i, stage);
            let row = |input| row_of(input, short.first(i));
            short.complete((i, stage), &row, ends);
            pace.count();
            let sums = match short.has_row(i) {
                true => sum::<T, W, V, R, WHOLE, _>(short, stage, &row, kept, &mut columns),
                false => Pair::ZERO,
            };
            let sums = of_lanes(sums, short.lanes, &Pair::add);
            let seen = pace.look(i);
            let factors = Factors::new(kept, means(sums, params.scale, params));
            let to = match short.has_row(i) {
                true => row_of_mut(tensors.dx, short.row(i), params.strides[3]),
                false => core::ptr::null_mut(),
            };
            let weight = &columns.weight;
            let again = stage.again();
            write::<T, W, V, R, WHOLE, _>(short, again, &row, factors, tensors, weight, to);
            pace.keep(i, seen);
            short.refill(i, stage, &row_of, params);
            this = next;
            stage = short.after(stage);
            i += 1;
        }
    }
    columns
}
