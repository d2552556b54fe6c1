//! Gradients of layer norm and RMS norm of rows that come through a ring (`row::ring`).
//!
//! The weights of a thread's columns, and their gradients' sums, stay in registers. In iteration
//! `i`, a warp computes its sums of row `i` and posts them, then stores dx of row `i - 1`, whose
//! sums have come meanwhile.

use super::backward::Tensors;
use super::columns::{Columns, Team};
use super::gradient::{Factors, Kept, Pair, means, taken};
use crate::row::group::of_lanes;
use crate::row::held::{row_of, row_of_mut};
use crate::row::packed::{Packed, Raw, Weights, forgotten, pack, unpack};
use crate::row::ring::{Ring, Turn};
use abi::rows::RowParams;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// Loads what the forward pass kept of row `i` of the block, if there is one.
#[inline(always)]
unsafe fn kept_of<T: Packed, const R: usize>(tensors: &Tensors<T>, ring: &Ring<R>, i: u32) -> Kept {
    // SAFETY: passed on to the caller.
    unsafe { tensors.kept(ring.row(i), i < ring.rows) }
}

/// Computes all rows of this block or cluster.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn ring<T: Packed, W: Packed, const V: usize, const R: usize>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    // SAFETY: the launch's promise; all threads come here.
    unsafe {
        let inputs = 2 + u32::from(!tensors.dsum.is_null());
        let ring = Ring::<R>::new::<T>(params, inputs);
        ring.begin();
        let columns = rows::<T, W, V, R>(&ring, tensors, params);
        ring.end(params);
        // Nobody reads a row any more.
        thread::sync_threads();
        Team::new(params.threads).keep(
            ring.first_stage(),
            [&columns.dweight, &columns.dbias],
            [tensors.dweight, tensors.dbias],
            ring.cluster() * params.n,
            |j| (ring.number(j as usize) as usize * V, ring.has(j as usize)),
        );
    }
}

/// Computes the warp's part of all rows, and returns its columns' sums.
#[inline(always)]
unsafe fn rows<T: Packed, W: Packed, const V: usize, const R: usize>(
    ring: &Ring<R>,
    tensors: &Tensors<T>,
    params: &RowParams,
) -> Columns<V, R> {
    let row_of = |input, row| match input {
        0 => row_of(tensors.x, row, params.strides[0]),
        1 => row_of(tensors.dy, row, params.strides[1]),
        _ => row_of(tensors.dsum, row, params.strides[2]),
    };
    let mut columns = Columns {
        weight: [[[0; 4]; 2]; R],
        dweight: [[0.0; V]; R],
        dbias: [[0.0; V]; R],
    };
    // SAFETY: the launch's promise; all lanes of a warp take the same branches.
    unsafe {
        ring.fill(&row_of);
        let mut j = 0;
        while j < R {
            let at = ring.number(j) as usize * V;
            columns.weight[j] = tensors.weight.vector::<W, V>(at, ring.has(j));
            j += 1;
        }
        let whole = |sums: Pair, width| of_lanes(sums, width, &Pair::add);
        let (mut before, mut this) = (Kept::NONE, kept_of(tensors, ring, 0));
        let mut turn = Turn::FIRST;
        let mut sender = 0;
        let mut i = 0;
        while i <= ring.rows {
            let next = kept_of(tensors, ring, i + 1);
            if i < ring.rows {
                ring.wait(turn);
                let sums = sum::<T, W, V, R>(ring, turn, this, &mut columns);
                ring.post(i, whole(sums, LANES), Pair::ZERO, &whole);
            }
            if i > 0 {
                let i = i - 1;
                let sums = ring.collect(i, Pair::ZERO, &whole);
                let means = means(sums, params.scale, params);
                let to = row_of_mut(tensors.dx, ring.row(i), params.strides[3]);
                let (last, weight) = (ring.before(turn), &columns.weight);
                write::<T, W, V, R>(ring, last, before, tensors, weight, means, to);
                ring.refill(i, last, &row_of);
            }
            if i < ring.rows {
                ring.send_in_turn(i, sender, Pair::ZERO, &whole);
                sender = ring.next_sender(sender);
            }
            ring.meet(i);
            (before, this) = (this, next);
            turn = ring.after(turn);
            i += 1;
        }
    }
    columns
}

/// The thread's contribution to the sums of a row; also adds the row to the sums of its columns.
#[inline(always)]
unsafe fn sum<T: Packed, W: Packed, const V: usize, const R: usize>(
    ring: &Ring<R>,
    turn: Turn,
    kept: Kept,
    columns: &mut Columns<V, R>,
) -> Pair {
    let mut sums = Pair::ZERO;
    let weight = forgotten::<W, V, R>(&columns.weight);
    let mut j = 0;
    while j < R {
        // SAFETY: the row has landed.
        let (x, dy) = unsafe { (ring.read(turn, 0, j), ring.read(turn, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let of_columns = [&mut columns.dweight[j], &mut columns.dbias[j]];
        sums = taken::<V, true>(sums, [&x, &dy, &weight], kept, of_columns);
        j += 1;
    }
    sums
}

/// Stores the thread's vectors of a row of dx.
#[inline(always)]
unsafe fn write<T: Packed, W: Packed, const V: usize, const R: usize>(
    ring: &Ring<R>,
    turn: Turn,
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
        // SAFETY: the row is still in its stage.
        let (x, dy) = unsafe { (ring.read(turn, 0, j), ring.read(turn, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let mut out = factors.of::<V, true>([&x, &dy, &weight]);
        if !tensors.dsum.is_null() {
            // SAFETY: as above.
            let dsum = unpack::<T, V>(&unsafe { ring.read(turn, 2, j) });
            let mut i = 0;
            while i < V {
                out[i] += dsum[i];
                i += 1;
            }
        }
        // SAFETY: a vector of the row of dx, or nothing; the warp is converged.
        unsafe {
            ring.store(to, j, pack::<T, V>(&out));
            // Else ptxas begins with several vectors at once, and spills.
            bar_warp_sync(FULL_MASK);
        }
        j += 1;
    }
}
