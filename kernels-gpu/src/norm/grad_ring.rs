//! Gradients of layer norm and RMS norm of rows that come through a ring (`row::ring`).
//!
//! The weights of a thread's columns, and their gradients' sums, stay in registers. In iteration
//! `i`, a warp computes its sums of row `i` and posts them, then stores dx of row `i - 1`, whose
//! sums have come meanwhile.

use super::backward::Tensors;
use super::columns::{Columns, ThreadGroup};
use super::grad_rows::{columns_of, rows_of, sum, write};
use super::gradient::{Factors, Kept, Pair, means};
use super::source::RowSource;
use crate::row::group::of_lanes;
use crate::row::held::row_of_mut;
use crate::row::packed::Packed;
use crate::row::ring::{Ring, Stage};
use abi::rows::RowParams;
use cuda_std::thread;

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// Loads what the forward pass kept of row `i` of the block, if there is one.
#[inline(always)]
unsafe fn kept_of<T: Packed, const R: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    ring: &Ring<R, ANY>,
    i: u32,
) -> Kept {
    // SAFETY: passed on to the caller.
    unsafe { tensors.kept(ring.row(i), i < ring.rows) }
}

/// Computes all rows of this block or cluster.
///
/// # Safety
/// `tensors` are those of `params`, aligned ones unless `ANY`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn ring<T: Packed, W: Packed, const V: usize, const R: usize, const ANY: bool>(
    tensors: &Tensors<T>,
    params: &RowParams,
) where
    Ring<R, ANY>: RowSource<T, V>,
{
    // SAFETY: the launch's promise; all threads come here.
    unsafe {
        let inputs = 2 + u32::from(!tensors.dsum.is_null());
        let ring = Ring::<R, ANY>::new::<T>(params, inputs);
        ring.begin();
        let columns = rows::<T, W, V, R, ANY>(&ring, tensors, params);
        ring.end(params);
        // Nobody reads a row any more.
        thread::sync_threads();
        ThreadGroup::new(params.threads).keep(
            ring.first_stage(),
            [&columns.dweight, &columns.dbias],
            [tensors.dweight, tensors.dbias],
            ring.cluster() * params.n,
            |row, j, lane, sums| RowSource::<T, V>::keep(&ring, row, j, lane, sums),
        );
    }
}

/// Computes the warp's part of all rows, and returns its columns' sums.
#[inline(always)]
unsafe fn rows<T: Packed, W: Packed, const V: usize, const R: usize, const ANY: bool>(
    ring: &Ring<R, ANY>,
    tensors: &Tensors<T>,
    params: &RowParams,
) -> Columns<V, R>
where
    Ring<R, ANY>: RowSource<T, V>,
{
    let row_of = rows_of(tensors, params);
    let mut columns;
    // SAFETY: the launch's promise; all lanes of a warp take the same branches.
    unsafe {
        ring.fill(&row_of);
        columns = columns_of::<T, W, V, R>(ring, tensors);
        let whole = |sums: Pair, width| of_lanes(sums, width, &Pair::add);
        // What is loaded of row `i` before it is computed.
        let ahead = |i: u32| {
            let ends = ring.ends(i, &|input| row_of(input, ring.row(i)));
            (kept_of(tensors, ring, i), ends)
        };
        let (mut before, mut this) = (Kept::NONE, ahead(0));
        let mut stage = Stage::FIRST;
        let mut sender = 0;
        let mut i = 0;
        while i <= ring.rows {
            let next = ahead(i + 1);
            let (kept, ends) = this;
            if i < ring.rows {
                ring.wait(stage);
                let row = |input| row_of(input, ring.row(i));
                ring.complete((i, stage), &row, ends);
                let sums = sum::<T, W, V, R, true, _>(ring, stage, &row, kept, &mut columns);
                ring.post(i, whole(sums, LANES), Pair::ZERO, &whole);
            }
            if i > 0 {
                let i = i - 1;
                let sums = ring.collect(i, Pair::ZERO, &whole);
                let factors = Factors::new(before, means(sums, params.scale, params));
                let to = row_of_mut(tensors.dx, ring.row(i), params.strides[3]);
                let (last, weight) = (ring.before(stage), &columns.weight);
                let row = |input| row_of(input, ring.row(i));
                write::<T, W, V, R, true, _>(ring, last, &row, factors, tensors, weight, to);
                ring.refill(i, last, &row_of);
            }
            if i < ring.rows {
                ring.send_round(i, sender, Pair::ZERO, &whole);
                sender = ring.next_sender(sender);
            }
            ring.meet(i);
            (before, this) = (kept, next);
            stage = ring.after(stage);
            i += 1;
        }
    }
    columns
}
