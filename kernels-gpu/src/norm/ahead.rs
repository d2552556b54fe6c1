//! Layer norm and RMS norm of rows in slices (`row::slices`) whose weights come ahead.
//!
//! Weights come out of L2 a row, or two, as the rows themselves do: with their latency behind an
//! exchange, multiprocessors are idle. So a thread asks for the weights of all its columns when it has
//! posted its sums, and has them when those of all warps have come. There are no registers for a bias
//! besides: that comes with the rows, as another slice, and is of use to two rows, which a team takes
//! together: rows and bias then are half as much again of shared memory, and L2 is read once for every
//! byte of rows.

use super::forward::{Tensors, rstd_of, squares_about, sum_of};
use crate::row::held::{row_of, row_of_mut};
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use crate::row::ring::of_lanes;
use crate::row::slices::Team;
use cuda_std::hint::opaque;
use cuda_std::math::{fma, mul_rn};
use cuda_std::warp::Words;
use cuda_std::{mem, thread, warp};
use spec::rows::{AHEAD_THREADS, MAX_CLUSTER, RowParams, flags};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// Most slots of a lane, in which warps of the cluster post.
const SLOTS: usize = (MAX_CLUSTER * AHEAD_THREADS / LANES / LANES) as usize;

/// Mean (0 of RMS norm) and sum of squared deviations from it, of each of `K` rows.
#[derive(Clone, Copy)]
struct Parts<const K: usize> {
    mean: [f32; K],
    squares: [f32; K],
}

impl<const K: usize> Parts<K> {
    const EMPTY: Self = Self {
        mean: [0.0; K],
        squares: [0.0; K],
    };
}

impl<const K: usize> Words for Parts<K> {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        let mut mapped = self;
        let mut k = 0;
        while k < K {
            mapped.mean[k] = self.mean[k].map_words(&mut f);
            mapped.squares[k] = self.squares[k].map_words(&mut f);
            k += 1;
        }
        mapped
    }
}

/// The `K` rows of this team, `R` vectors of each a thread; `HAS_BIAS` says whether there is one.
///
/// # Safety
/// `tensors` are aligned ones of `params`, without a residual, with weights of the rows' type, launched
/// as `spec::rows` says.
#[inline(always)]
pub(super) unsafe fn ahead<
    T: Packed,
    const V: usize,
    const R: usize,
    const K: usize,
    const HAS_BIAS: bool,
>(
    tensors: &Tensors<T>,
    params: &RowParams,
) {
    // Where there is one row left, it is taken twice, and written once.
    let row = |team: u64, k: usize| (team * K as u64 + k as u64).min(params.rows - 1);
    // Nothing but layer norm adds a bias.
    let is_centered = HAS_BIAS || params.flags & flags::CENTER != 0;
    // SAFETY: the launch's promise; a row of each tensor; all threads come here.
    unsafe {
        let inputs = K as u32 + u32::from(HAS_BIAS);
        let team = Team::fetch_padded(params, inputs, R, |team, input| {
            if input < K as u32 {
                row_of(tensors.x, row(team, input as usize), params.strides[0])
            } else {
                tensors.bias.row::<T>()
            }
        });
        let (warp_idx, rank) = (team.group.own / LANES, team.group.rank);
        let count = (team.vectors_of(params, rank, warp_idx, R) * V as u32) as f32;
        // While rows come.
        let of_count = f32::from_bits(opaque((1.0 / count.max(1.0)).to_bits()));
        team.land();
        let parts = of_warp::<T, V, R, K>(&team, of_count, is_centered);
        team.post(warp_idx * team.group.blocks + rank, parts);
        // All from one address.
        let first = team.number(team.place(0, R)) as usize * V;
        let at = |j: usize| first + j * LANES as usize * V;
        let mut weight: [[Raw; 2]; R] = [[[0; 4]; 2]; R];
        let mut j = 0;
        while j < R {
            weight[j] = tensors.weight.vector::<T, V>(at(j), team.has(j, R));
            j += 1;
        }
        team.posted();
        let whole = of_rows::<V, R, K>(&team, params, is_centered);
        let mut rstd = [0.0; K];
        let mut k = 0;
        while k < K {
            rstd[k] = rstd_of(mul_rn(whole.squares[k], params.scale), params);
            let row = team.row * K as u64 + k as u64;
            tensors.keep(&team.group, row, params.rows, whole.mean[k], rstd[k]);
            k += 1;
        }
        let to = |k| row_of_mut(tensors.y, row(team.row, k), params.strides[3]);
        let is_there = |k: usize| k == 0 || team.row * K as u64 + (k as u64) < params.rows;
        let mut j = 0;
        while j < R {
            let weight: [f32; V] = Weights::unpack::<T, V>(&weight[j]);
            let bias: [f32; V] = if HAS_BIAS {
                unpack::<T, V>(&team.slice(K as u32).read(team.place(j, R)))
            } else {
                [0.0; V]
            };
            let mut k = 0;
            while k < K {
                let mut out = unpack::<T, V>(&team.slice(k as u32).read(team.place(j, R)));
                let mut i = 0;
                while i < V {
                    out[i] = fma(mul_rn(out[i] - whole.mean[k], rstd[k]), weight[i], bias[i]);
                    i += 1;
                }
                let has = team.has(j, R) && is_there(k);
                let to = to(k).wrapping_add(at(j));
                mem::st_global_v4_u32_if(to.cast(), pack::<T, V>(&out), has);
                k += 1;
            }
            // Nothing of the next vectors is unpacked before: there are no registers for it.
            warp::bar_warp_sync(u32::MAX);
            j += 1;
        }
    }
}

/// Of what the warp has of each row, `1 / of_count` elements.
///
/// # Safety
/// The rows have landed; the warp calls it, converged.
#[inline(always)]
unsafe fn of_warp<T: Packed, const V: usize, const R: usize, const K: usize>(
    team: &Team,
    of_count: f32,
    is_centered: bool,
) -> Parts<K> {
    let mut parts = Parts::<K>::EMPTY;
    // SAFETY: vectors of the slices, zeros where the row has none; all lanes come here.
    unsafe {
        let read = |j, k| unpack::<T, V>(&team.slice(k as u32).read(team.place(j, R)));
        if is_centered {
            let mut j = 0;
            while j < R {
                let mut k = 0;
                while k < K {
                    parts.mean[k] += sum_of(&read(j, k));
                    k += 1;
                }
                j += 1;
            }
            parts.mean = of_all_lanes(parts.mean, |sum| mul_rn(sum, of_count));
        }
        let mut j = 0;
        while j < R {
            let mut k = 0;
            while k < K {
                let of_vector = squares_about(&read(j, k), parts.mean[k]);
                parts.squares[k] += if team.has(j, R) { of_vector } else { 0.0 };
                k += 1;
            }
            j += 1;
        }
        parts.squares = of_all_lanes(parts.squares, |sum| sum);
    }
    parts
}

/// Of whole rows: their means first, then squared deviations from those.
///
/// # Safety
/// All warps have posted; the warp calls it, converged.
#[inline(always)]
unsafe fn of_rows<const V: usize, const R: usize, const K: usize>(
    team: &Team,
    params: &RowParams,
    is_centered: bool,
) -> Parts<K> {
    // A lane has slots of one block, whose warps follow each other in them.
    let (lane, blocks) = (team.group.own % LANES, team.group.blocks);
    let rank = lane & (blocks - 1);
    // Read twice, rather than kept: registers are full of weights. Where there is none, the last one,
    // of which nothing counts: without a branch.
    let part = |i: usize| {
        let slot = lane + i as u32 * LANES;
        let (is_there, slot) = (slot < team.slots(), slot.min(team.slots() - 1));
        let warp_idx = slot >> blocks.trailing_zeros();
        let count = team.vectors_of(params, rank, warp_idx, R) * V as u32;
        // SAFETY: a slot that has been written.
        let part = unsafe { team.slot(slot, Parts::<K>::EMPTY) };
        (part, if is_there { count as f32 } else { 0.0 })
    };
    let mut whole = Parts::<K>::EMPTY;
    // SAFETY: all lanes come here.
    unsafe {
        if is_centered {
            let mut i = 0;
            while i < SLOTS {
                let (part, count) = part(i);
                let mut k = 0;
                while k < K {
                    whole.mean[k] = fma(part.mean[k], count, whole.mean[k]);
                    k += 1;
                }
                i += 1;
            }
            whole.mean = of_all_lanes(whole.mean, |sum| mul_rn(sum, params.scale));
        }
        let mut i = 0;
        while i < SLOTS {
            let (part, count) = part(i);
            let mut k = 0;
            while k < K {
                let delta = part.mean[k] - whole.mean[k];
                let moved = fma(mul_rn(delta, delta), count, part.squares[k]);
                // The square of a distance from nothing may be infinite.
                whole.squares[k] += if count > 0.0 { moved } else { 0.0 };
                k += 1;
            }
            i += 1;
        }
        whole.squares = of_all_lanes(whole.squares, |sum| sum);
    }
    whole
}

/// What becomes of the sums of what all lanes have, row by row.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn of_all_lanes<const K: usize>(values: [f32; K], of: impl Fn(f32) -> f32) -> [f32; K] {
    // SAFETY: passed on to the caller.
    values.map(|value| of(unsafe { of_lanes(value, LANES, &|a, b| a + b) }))
}
