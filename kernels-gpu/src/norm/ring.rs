//! Layer norm and RMS norm of rows that come through a ring (`row::ring`).
//!
//! The weights of a thread's columns stay in registers and are not read again for each row. In
//! iteration `i`, a warp computes the moments of its part of row `i` and posts them, then stores
//! row `i - 1`, whose moments have come meanwhile.

use super::forward::{rstd_of, squares_about, sum_of};
use super::tensors::Tensors;
use crate::row::group::of_lanes;
use crate::row::held::{row_of, row_of_mut};
use crate::row::moments::{Count, Moments};
use crate::row::packed::{Packed, Raw, Weights, forgotten, pack, unpack};
use crate::row::ring::{Ring, Stage};
use abi::rows::{RING_VECTORS, RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::math::{fma, mul_rn};
use cuda_std::thread;

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// What a thread keeps of its columns in registers.
struct Columns<const R: usize> {
    weight: [[Raw; 2]; R],
    bias: [[Raw; 2]; R],
}

impl<const R: usize> Columns<R> {
    /// Weights of the rows' type, with one branch instead of a predicate a vector; what a thread
    /// has of them beyond the row is not used.
    #[inline(always)]
    unsafe fn near<T: Packed, const V: usize>(
        ring: &Ring<R>,
        tensors: &Tensors<T>,
        params: &RowParams,
    ) -> Self {
        let last = (params.n / V as u64) as u32 - 1;
        let number = |j: usize| ring.number(j).min(last);
        // SAFETY: vectors of each.
        let (weight, bias) = unsafe {
            let weight = tensors.weight.vectors::<T, R>(number);
            (weight, tensors.bias.vectors::<T, R>(number))
        };
        Self {
            weight: weight.map(|raw| [raw, [0; 4]]),
            bias: bias.map(|raw| [raw, [0; 4]]),
        }
    }

    #[inline(always)]
    unsafe fn new<T: Packed, W: Packed, const V: usize>(
        ring: &Ring<R>,
        tensors: &Tensors<T>,
    ) -> Self {
        let mut columns = Self {
            weight: [[[0; 4]; 2]; R],
            bias: [[[0; 4]; 2]; R],
        };
        let mut j = 0;
        while j < R {
            let (at, has) = (ring.number(j) as usize * V, ring.has(j));
            // SAFETY: a vector of each, or nothing.
            unsafe {
                columns.weight[j] = tensors.weight.vector::<W, V>(at, has);
                columns.bias[j] = tensors.bias.vector::<W, V>(at, has);
            }
            j += 1;
        }
        columns
    }
}

/// Merges the moments that lanes have of sets, which have `count` elements together; means are 0 in
/// RMS norm.
#[inline(always)]
pub(super) unsafe fn whole(part: Moments, width: u32, count: Count, is_centered: bool) -> Moments {
    // SAFETY: the warp's lanes come here together.
    unsafe {
        if is_centered {
            return part.of_lanes::<true>(width, count);
        }
        let squares = of_lanes(part.squares, width, &|a, b| a + b);
        Moments::new(0.0, 0.0, squares)
    }
}

/// Normalises all rows of this block or cluster; `JOINED` says whether there may be a residual.
///
/// # Safety
/// `tensors` are aligned ones of `params`, launched as `abi::rows` says; without a residual unless
/// `JOINED`; with weights of the rows' type if `R` is more than [`RING_VECTORS`].
#[inline(always)]
pub(super) unsafe fn ring<
    T: Packed,
    W: Packed,
    const V: usize,
    const R: usize,
    const JOINED: bool,
>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    let row_of = |input, row| match input {
        0 => row_of(tensors.x, row, params.strides[0]),
        _ => row_of(tensors.residual, row, params.strides[1]),
    };
    // SAFETY: the launch's promise; all threads come here, and a warp's take the same branches.
    unsafe {
        let ring = Ring::<R>::new::<T>(params, 1 + u32::from(has_residual::<T, JOINED>(tensors)));
        ring.begin();
        ring.fill(&row_of);
        let columns = match R > RING_VECTORS {
            true => Columns::near::<T, V>(&ring, tensors, params),
            false => Columns::new::<T, W, V>(&ring, tensors),
        };
        let elements = |vectors: u32| Count::new((vectors * V as u32) as f32);
        let of_warp = elements(ring.vectors());
        let of_row = Count {
            count: params.n as f32,
            share: params.scale,
        };
        let is_centered = params.flags & flags::CENTER != 0;
        let of_block = |part, width| {
            // Opaque: recomputed by the sender, so that no register is kept for it.
            let of_block = elements(opaque(ring.vectors_of_block::<T>(params)));
            whole(part, width, of_block, is_centered)
        };
        let (mut last, mut stage) = (Stage::FIRST, Stage::FIRST);
        let mut sender = 0;
        let mut i = 0;
        while i <= ring.rows {
            if i < ring.rows {
                ring.wait(stage);
                let row = ring.row(i);
                let part = moments::<T, V, R, JOINED>(&ring, stage, tensors, row, of_warp, params);
                ring.post(i, part, Moments::EMPTY, &of_block);
            }
            if i > 0 {
                let i = i - 1;
                let all = ring.collect(i, Moments::EMPTY, &|part, width| {
                    whole(part, width, of_row, is_centered)
                });
                let rstd = rstd_of(mul_rn(all.squares, params.scale), params);
                let row = ring.row(i);
                if ring.is_first() {
                    tensors.keep_row(row, all.mean, rstd);
                }
                let to = row_of_mut(tensors.y, row, params.strides[3]);
                write::<T, W, V, R, JOINED>(&ring, last, tensors, &columns, (all.mean, rstd), to);
                ring.refill(i, last, &row_of);
            }
            if i < ring.rows {
                ring.send_round(i, sender, Moments::EMPTY, &of_block);
                sender = ring.next_sender(sender);
            }
            ring.meet(i);
            last = stage;
            stage = ring.after(stage);
            i += 1;
        }
        ring.end(params);
    }
}

/// Whether rows come with a residual.
#[inline(always)]
fn has_residual<T, const JOINED: bool>(tensors: &Tensors<T>) -> bool {
    JOINED && !tensors.residual.is_null()
}

/// Mean (0 in RMS norm) and squared deviations of the warp's part of a row, which has `count`
/// elements. Stores the sum with the residual, if the launch wants it.
///
/// # Safety
/// The row is in its stage.
#[inline(always)]
unsafe fn moments<T: Packed, const V: usize, const R: usize, const JOINED: bool>(
    ring: &Ring<R>,
    stage: Stage,
    tensors: &Tensors<T>,
    row: u64,
    count: Count,
    params: &RowParams,
) -> Moments {
    let is_centered = params.flags & flags::CENTER != 0;
    // Vectors of one iteration; of wider rings, loops have more than one.
    let step = RING_VECTORS.min(R);
    let mut mean = 0.0;
    if is_centered {
        let mut sum = 0.0;
        let mut first = 0;
        while first < R {
            let mut j = first;
            while j < first + step {
                // SAFETY: the row has landed. Vectors that the row does not have are 0.
                let raw = unsafe { summed::<T, V, R, JOINED>(ring, stage, j, tensors) };
                sum += sum_of(&unpack::<T, V>(&raw));
                j += 1;
            }
            first = Ring::<R>::rolled(first + step);
        }
        // SAFETY: the warp's lanes come here together.
        mean = mul_rn(unsafe { of_lanes(sum, LANES, &|a, b| a + b) }, count.share);
    }
    let to = row_of_mut(tensors.sum, row, params.strides[2]);
    let mut squares = 0.0;
    let mut first = 0;
    while first < R {
        let mut j = first;
        while j < first + step {
            // SAFETY: as above; a vector of the sum's row, or nothing.
            unsafe {
                let raw = summed::<T, V, R, JOINED>(ring, stage, j, tensors);
                if JOINED && !tensors.sum.is_null() {
                    ring.store(to, j, raw);
                }
                let of_vector = squares_about(&unpack::<T, V>(&raw), mean);
                squares += if ring.has(j) { of_vector } else { 0.0 };
            }
            j += 1;
        }
        first = Ring::<R>::rolled(first + step);
    }
    // SAFETY: as above.
    let squares = unsafe { of_lanes(squares, LANES, &|a, b| a + b) };
    Moments::new(count.count, mean, squares)
}

/// Vector `j` of a row after the residual has been added and the sum rounded.
///
/// # Safety
/// The row is in its stage.
#[inline(always)]
unsafe fn summed<T: Packed, const V: usize, const R: usize, const JOINED: bool>(
    ring: &Ring<R>,
    stage: Stage,
    j: usize,
    tensors: &Tensors<T>,
) -> Raw {
    // SAFETY: passed on to the caller.
    let raw = unsafe { ring.read(stage, 0, j) };
    if !has_residual::<T, JOINED>(tensors) {
        return raw;
    }
    let mut x = unpack::<T, V>(&raw);
    // SAFETY: as above.
    let residual = unpack::<T, V>(&unsafe { ring.read(stage, 1, j) });
    let mut i = 0;
    while i < V {
        x[i] += residual[i];
        i += 1;
    }
    pack::<T, V>(&x)
}

/// Stores the thread's vectors of a row of y.
///
/// # Safety
/// The row of x is still in its stage; `to` is a row of y.
#[inline(always)]
unsafe fn write<T: Packed, W: Packed, const V: usize, const R: usize, const JOINED: bool>(
    ring: &Ring<R>,
    stage: Stage,
    tensors: &Tensors<T>,
    columns: &Columns<R>,
    (mean, rstd): (f32, f32),
    to: *mut T,
) {
    let weight = forgotten::<W, V, R>(&columns.weight);
    let bias = forgotten::<W, V, R>(&columns.bias);
    let mut j = 0;
    while j < R {
        let weight: [f32; V] = Weights::unpack::<W, V>(&weight[j]);
        let bias: [f32; V] = Weights::unpack::<W, V>(&bias[j]);
        // SAFETY: passed on to the caller.
        let raw = unsafe { summed::<T, V, R, JOINED>(ring, stage, j, tensors) };
        let mut out = unpack::<T, V>(&raw);
        let mut i = 0;
        while i < V {
            out[i] = fma(mul_rn(out[i] - mean, rstd), weight[i], bias[i]);
            i += 1;
        }
        // SAFETY: a vector of the row of y, or nothing.
        unsafe { ring.store(to, j, pack::<T, V>(&out)) };
        j += 1;
    }
}
