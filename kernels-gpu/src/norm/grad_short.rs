//! Gradients of layer norm and RMS norm of short rows (`row::short`).
//!
//! As a row is in a warp, or in a part of one, nobody has to wait for anybody's sums. The weights of
//! a lane's columns, and their gradients' sums, stay in registers.

use super::backward::Tensors;
use super::columns::{Columns, Team};
use super::gradient::{Factors, Kept, Pair, means, taken};
use crate::row::group::of_lanes;
use crate::row::held::{row_of, row_of_mut};
use crate::row::pace::Pace;
use crate::row::packed::{Packed, Raw, Weights, forgotten, pack, unpack};
use crate::row::ring::Turn;
use crate::row::short::Short;
use abi::rows::{RowParams, SHORT_VECTORS, flags};
use cuda_std::hint::settle;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::{mem, thread};

/// Vectors that a lane has of a row.
const R: usize = SHORT_VECTORS;

/// Loads what the forward pass kept of the lane's row in turn `i`, if there is one.
#[inline(always)]
unsafe fn kept_of<T: Packed>(tensors: &Tensors<T>, short: &Short, i: u32) -> Kept {
    // SAFETY: passed on to the caller.
    unsafe { tensors.kept(short.row(i), short.has_row(i)) }
}

/// Computes all rows of this block.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `abi::rows` says.
#[inline(always)]
pub(super) unsafe fn short<T: Packed, const V: usize>(tensors: &Tensors<T>, params: &RowParams) {
    // SAFETY: the launch's promise; all threads come here.
    unsafe {
        let inputs = 2 + u32::from(!tensors.dsum.is_null());
        let short = Short::new::<T>(params, inputs);
        let pace = Pace::new(params, short.turns);
        short.begin();
        let is_whole = params.flags & flags::CENTER != 0 || !tensors.dbias.is_null();
        let columns = match is_whole {
            true => rows::<T, V, true>(&short, &pace, tensors, params),
            false => rows::<T, V, false>(&short, &pace, tensors, params),
        };
        pace.leave();
        // Nobody reads a row any more.
        thread::sync_threads();
        Team::new(params.threads).keep(
            SharedAddr::of(dynamic_base().cast_const()),
            [&columns.dweight, &columns.dbias],
            [tensors.dweight, tensors.dbias],
            u64::from(thread::block_idx_x()) * params.n,
            |j| (short.number(j as usize) as usize * V, short.has(j as usize)),
        );
    }
}

/// Computes the warp's rows, and returns its columns' sums; unless `WHOLE`, as an RMS norm's, without
/// the bias's gradient.
#[inline(always)]
unsafe fn rows<T: Packed, const V: usize, const WHOLE: bool>(
    short: &Short,
    pace: &Pace,
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
    // SAFETY: the launch's promise; lanes of a warp come to the same exchanges.
    unsafe {
        short.fill(&row_of, params);
        let mut j = 0;
        while j < R {
            let at = short.number(j) as usize * V;
            columns.weight[j] = tensors.weight.vector::<T, V>(at, short.has(j));
            j += 1;
        }
        let mut kept = kept_of(tensors, short, 0);
        let mut turn = Turn::FIRST;
        let mut i = 0;
        while i < short.turns {
            let next = kept_of(tensors, short, i + 1);
            short.wait(i, turn);
            pace.count();
            let sums = match short.has_row(i) {
                true => sum::<T, V, WHOLE>(short, turn, kept, &mut columns),
                false => Pair::ZERO,
            };
            let sums = of_lanes(sums, short.lanes, &Pair::add);
            let seen = pace.look(i);
            let means = means(sums, params.scale, params);
            let to = match short.has_row(i) {
                true => row_of_mut(tensors.dx, short.row(i), params.strides[3]),
                false => core::ptr::null_mut(),
            };
            let weight = &columns.weight;
            write::<T, V, WHOLE>(short, turn.again(), kept, tensors, weight, means, to);
            pace.keep(i, seen);
            short.refill(i, turn, &row_of, params);
            kept = next;
            turn = short.after(turn);
            i += 1;
        }
    }
    columns
}

/// The lane's contribution to the sums of its row; also adds the row to the sums of its columns.
#[inline(always)]
unsafe fn sum<T: Packed, const V: usize, const WHOLE: bool>(
    short: &Short,
    turn: Turn,
    kept: Kept,
    columns: &mut Columns<V, R>,
) -> Pair {
    let mut sums = Pair::ZERO;
    let weight = forgotten::<T, V, R>(&columns.weight);
    let mut j = 0;
    while j < R {
        // SAFETY: the row has landed.
        let (x, dy) = unsafe { (short.read(turn, 0, j), short.read(turn, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<T, V>(&weight[j]);
        let of_columns = [&mut columns.dweight[j], &mut columns.dbias[j]];
        sums = taken::<V, WHOLE>(sums, [&x, &dy, &weight], kept, of_columns);
        // Else they are computed after the exchange, and what they need is kept until then.
        settle(&columns.dweight[j]);
        settle(&columns.dbias[j]);
        j += 1;
    }
    sums
}

/// Stores the lane's vectors of a row of dx, if `to` is not null.
#[inline(always)]
unsafe fn write<T: Packed, const V: usize, const WHOLE: bool>(
    short: &Short,
    turn: Turn,
    kept: Kept,
    tensors: &Tensors<T>,
    weight: &[[Raw; 2]; R],
    means: Pair,
    to: *mut T,
) {
    let weight = forgotten::<T, V, R>(weight);
    let factors = Factors::new(kept, means);
    let mut j = 0;
    while j < R {
        // SAFETY: the row is still in its stage.
        let (x, dy) = unsafe { (short.read(turn, 0, j), short.read(turn, 1, j)) };
        let (x, dy) = (unpack::<T, V>(&x), unpack::<T, V>(&dy));
        let weight: [f32; V] = Weights::unpack::<T, V>(&weight[j]);
        let mut out = factors.of::<V, WHOLE>([&x, &dy, &weight]);
        if !tensors.dsum.is_null() {
            // SAFETY: as above.
            let dsum = unpack::<T, V>(&unsafe { short.read(turn, 2, j) });
            let mut i = 0;
            while i < V {
                out[i] += dsum[i];
                i += 1;
            }
        }
        let at = to.wrapping_add(short.number(j) as usize * T::LANES);
        // SAFETY: a vector of the row of dx, or nothing; the warp is converged.
        unsafe {
            let is_there = short.has(j) && !to.is_null();
            mem::st_global_v4_u32_if(at.cast(), pack::<T, V>(&out), is_there);
            // Else ptxas begins with several vectors at once, and spills.
            bar_warp_sync(FULL_MASK);
        }
        j += 1;
    }
}
