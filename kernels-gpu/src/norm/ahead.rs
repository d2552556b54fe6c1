//! Layer norm and RMS norm of rows in slices (`row::slices`), with the weights loaded ahead.
//!
//! Each row, or pair of rows, needs all weights, from L2. If their latency came after the exchange
//! of sums, SMs would be idle for that long. So a thread issues the loads of the weights of all its
//! columns when it has posted its sums. It has the weights by the time that the sums of all warps
//! have come.
//!
//! There are no registers for a bias as well. It is loaded with the rows, as one more slice. To pay
//! for that, a thread group with a bias takes two rows together. Rows and bias take half as much
//! shared memory again as the rows alone, and one byte is read from L2 for every byte of rows.
//!
//! If a thread group has one row, each block of a cluster merges the sums of its warps and sends
//! one message. If it has two, each warp sends its own.

use super::forward::{rstd_of, squares_about, sum_of};
use super::tensors::Tensors;
use crate::row::group::of_lanes;
use crate::row::held::{row_of, row_of_mut};
use crate::row::packed::{Packed, Raw, Weights, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::{AHEAD_THREADS, MAX_CLUSTER, RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::math::{fma, mul_rn, rcp};
use cuda_std::warp::Words;
use cuda_std::{mem, thread, warp};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// Most warps of a block.
const MAX_WARPS: u32 = AHEAD_THREADS / LANES;

/// Most slots that a lane reads, if each warp of the cluster posts.
const SLOTS: usize = (MAX_CLUSTER * MAX_WARPS / LANES) as usize;

const _: () = assert!(MAX_WARPS.is_power_of_two() && MAX_CLUSTER.is_power_of_two());

/// Mean (0 in RMS norm) and sum of squared deviations from it, of each of `K` rows.
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

/// Normalises the `K` rows of this thread group, with `R` vectors of each a thread; `HAS_BIAS` says
/// whether there is a bias.
///
/// # Safety
/// `tensors` are those of `params`, aligned, without a residual, with weights of the rows' type;
/// launched as `abi::rows` says.
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
    // A pair that has only one row left computes it twice and stores it once.
    let row =
        |thread_group: u64, k: usize| (thread_group * K as u64 + k as u64).min(params.rows - 1);
    // Only layer norm has a bias.
    let is_centered = HAS_BIAS || params.flags & flags::CENTER != 0;
    // With pairs, two exchanges in a row would take longer than many messages (docs/decisions/0044).
    let is_by_block = !HAS_BIAS;
    // SAFETY: the launch's promise; a row of each tensor; all threads come here.
    unsafe {
        let rows = K as u32;
        let inputs = rows + u32::from(HAS_BIAS);
        let thread_group = ThreadGroup::fetch_padded(
            params,
            inputs,
            rows,
            R,
            is_by_block,
            |thread_group, input| {
                if input < rows {
                    row_of(
                        tensors.x,
                        row(thread_group, input as usize),
                        params.strides[0],
                    )
                } else {
                    tensors.bias.row::<T>()
                }
            },
        );
        let warp_idx = thread_group.group.own / LANES;
        let of_count = one_over(of_one_warp::<V, R>(&thread_group, params, warp_idx));
        thread_group.land();
        let parts = of_warp::<T, V, R, K>(&thread_group, of_count, is_centered);
        match is_by_block {
            true => thread_group.keep(warp_idx, parts),
            false => thread_group.post(
                warp_idx * thread_group.group.blocks + thread_group.group.rank,
                parts,
            ),
        }
        // From one address, so that the vectors are at constant distances.
        let first = thread_group.number(thread_group.vector_at(0, R)) as usize * V;
        let at = |j: usize| first + j * LANES as usize * V;
        let mut weight: [[Raw; 2]; R] = [[[0; 4]; 2]; R];
        let mut j = 0;
        while j < R {
            weight[j] = tensors
                .weight
                .vector_again::<T, V>(at(j), thread_group.has(j, R));
            j += 1;
        }
        let whole = match is_by_block {
            true => of_blocks::<V, R, K>(&thread_group, params, is_centered),
            false => {
                thread_group.posted();
                of_warps::<V, R, K>(&thread_group, params, is_centered)
            }
        };
        let mut rstd = [0.0; K];
        let mut k = 0;
        while k < K {
            rstd[k] = rstd_of(mul_rn(whole.squares[k], params.scale), params);
            let row = thread_group.row * K as u64 + k as u64;
            tensors.keep(
                &thread_group.group,
                row,
                params.rows,
                whole.mean[k],
                rstd[k],
            );
            k += 1;
        }
        let to = |k| row_of_mut(tensors.y, row(thread_group.row, k), params.strides[3]);
        let is_there = |k: usize| k == 0 || thread_group.row * K as u64 + (k as u64) < params.rows;
        let mut j = 0;
        while j < R {
            let weight: [f32; V] = Weights::unpack::<T, V>(&weight[j]);
            let bias: [f32; V] = if HAS_BIAS {
                unpack::<T, V>(
                    &thread_group
                        .slice(K as u32)
                        .read(thread_group.vector_at(j, R)),
                )
            } else {
                [0.0; V]
            };
            let mut k = 0;
            while k < K {
                let mut out = unpack::<T, V>(
                    &thread_group
                        .slice(k as u32)
                        .read(thread_group.vector_at(j, R)),
                );
                let mut i = 0;
                while i < V {
                    out[i] = fma(mul_rn(out[i] - whole.mean[k], rstd[k]), weight[i], bias[i]);
                    i += 1;
                }
                let has = thread_group.has(j, R) && is_there(k);
                let to = to(k).wrapping_add(at(j));
                mem::st_global_v4_u32_if(to.cast(), pack::<T, V>(&out), has);
                k += 1;
            }
            // Keeps the next vectors from being unpacked earlier: there are no registers for them.
            warp::bar_warp_sync(u32::MAX);
            j += 1;
        }
    }
}

/// The moments of the warp's elements of each row; there are `1 / of_count` elements.
///
/// # Safety
/// The rows have landed; the warp calls it, converged.
#[inline(always)]
unsafe fn of_warp<T: Packed, const V: usize, const R: usize, const K: usize>(
    thread_group: &ThreadGroup,
    of_count: f32,
    is_centered: bool,
) -> Parts<K> {
    let mut parts = Parts::<K>::EMPTY;
    // SAFETY: vectors of the slices, zeros where the row has none; all lanes come here.
    unsafe {
        let read = |j, k| {
            unpack::<T, V>(
                &thread_group
                    .slice(k as u32)
                    .read(thread_group.vector_at(j, R)),
            )
        };
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
            parts.mean = of_neighbours::<K, LANES>(parts.mean, |sum| mul_rn(sum, of_count));
        }
        let mut j = 0;
        while j < R {
            let mut k = 0;
            while k < K {
                let of_vector = squares_about(&read(j, k), parts.mean[k]);
                parts.squares[k] += if thread_group.has(j, R) {
                    of_vector
                } else {
                    0.0
                };
                k += 1;
            }
            j += 1;
        }
        parts.squares = of_neighbours::<K, LANES>(parts.squares, |sum| sum);
    }
    parts
}

/// Number of elements that a warp of this block has of a row.
#[inline(always)]
fn of_one_warp<const V: usize, const R: usize>(
    thread_group: &ThreadGroup,
    params: &RowParams,
    warp_idx: u32,
) -> u32 {
    thread_group.vectors_of(params, thread_group.group.rank, warp_idx, R) * V as u32
}

/// 1 / count (1 if it is 0). Opaque, so that it is computed while the row is loaded, not when it is
/// used.
#[inline(always)]
fn one_over(count: u32) -> f32 {
    f32::from_bits(opaque(rcp((count as f32).max(1.0)).to_bits()))
}

/// The moments of whole rows from those of the warps: first the means, then squared deviations from
/// them.
///
/// # Safety
/// All warps have posted; the warp calls it, converged.
#[inline(always)]
unsafe fn of_warps<const V: usize, const R: usize, const K: usize>(
    thread_group: &ThreadGroup,
    params: &RowParams,
    is_centered: bool,
) -> Parts<K> {
    // Slots are ordered by warp, then by block: a lane reads slots of one block.
    let (lane, blocks) = (thread_group.group.own % LANES, thread_group.group.blocks);
    let rank = lane & (blocks - 1);
    // Read twice rather than kept, as registers are full of weights. Lanes without a slot read the
    // last one and count it as nothing, to avoid a branch.
    let part = |i: usize| {
        let slot = lane + i as u32 * LANES;
        let (is_there, slot) = (
            slot < thread_group.slots(),
            slot.min(thread_group.slots() - 1),
        );
        let warp_idx = slot >> blocks.trailing_zeros();
        let count = thread_group.vectors_of(params, rank, warp_idx, R) * V as u32;
        // SAFETY: a slot that has been written.
        let part = unsafe { thread_group.slot(slot, Parts::<K>::EMPTY) };
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
            whole.mean = of_neighbours::<K, LANES>(whole.mean, |sum| mul_rn(sum, params.scale));
        }
        let mut i = 0;
        while i < SLOTS {
            let (part, count) = part(i);
            let mut k = 0;
            while k < K {
                let delta = part.mean[k] - whole.mean[k];
                let moved = fma(mul_rn(delta, delta), count, part.squares[k]);
                // The mean of an empty part is meaningless, and its square may be infinite.
                whole.squares[k] += if count > 0.0 { moved } else { 0.0 };
                k += 1;
            }
            i += 1;
        }
        whole.squares = of_neighbours::<K, LANES>(whole.squares, |sum| sum);
    }
    whole
}

/// The moments of whole rows from those of the blocks. Each block adds up those of its warps; the
/// cluster exchanges one message a block, and a lane reads one of them.
///
/// # Safety
/// All warps of the block have kept theirs, or are about to; all of them call it, converged.
#[inline(always)]
unsafe fn of_blocks<const V: usize, const R: usize, const K: usize>(
    thread_group: &ThreadGroup,
    params: &RowParams,
    is_centered: bool,
) -> Parts<K> {
    // SAFETY: the slots of the block's warps are read after its barrier, those of the cluster's
    // blocks, which come after them, after the cluster's.
    unsafe {
        thread::sync_threads();
        // Opaque, so that nothing of this is computed earlier, when registers are full of rows.
        let (own, blocks) = (
            opaque(thread_group.group.own),
            opaque(thread_group.group.blocks),
        );
        let of_block = |rank: u32| {
            let left = (params.n / V as u64) as u32;
            left.saturating_sub(rank * params.vectors)
                .min(params.vectors)
                * V as u32
        };
        let mut parts = Parts::EMPTY;
        if blocks == 1 || own < LANES {
            let warp_idx = own % MAX_WARPS;
            let of_count = match blocks {
                1 => params.scale,
                _ => rcp((of_block(thread_group.group.rank) as f32).max(1.0)),
            };
            let slots = Slots {
                own: warp_idx.min(thread_group.warps() - 1),
                count: match warp_idx < thread_group.warps() {
                    true => of_one_warp::<V, R>(thread_group, params, warp_idx) as f32,
                    false => 0.0,
                },
                of_count,
            };
            parts = slots.merged::<K, MAX_WARPS>(thread_group, is_centered);
        }
        if blocks > 1 {
            let first = thread_group.warps();
            if own < LANES {
                thread_group.send(first + thread_group.group.rank, parts);
            }
            thread_group.posted();
            let rank = own % MAX_CLUSTER;
            let slots = Slots {
                own: first + rank.min(blocks - 1),
                // Lanes beyond the last block count nothing of the row.
                count: of_block(rank) as f32,
                of_count: params.scale,
            };
            parts = slots.merged::<K, MAX_CLUSTER>(thread_group, is_centered);
        }
        parts
    }
}

/// The slots, one each, that a number of neighbouring lanes merge.
struct Slots {
    /// The lane's slot; any slot if it has none.
    own: u32,
    /// Number of elements of the slot; 0 if the lane has none.
    count: f32,
    /// 1 / the number of elements of all slots.
    of_count: f32,
}

impl Slots {
    /// Merges the slots: first the means, then squared deviations from them.
    ///
    /// # Safety
    /// They have been written; the warp calls it, converged.
    #[inline(always)]
    unsafe fn merged<const K: usize, const WIDTH: u32>(
        &self,
        thread_group: &ThreadGroup,
        is_centered: bool,
    ) -> Parts<K> {
        let mut whole = Parts::<K>::EMPTY;
        // SAFETY: passed on to the caller.
        unsafe {
            let part = thread_group.slot(self.own, whole);
            if is_centered {
                let sums = part.mean.map(|mean| mul_rn(mean, self.count));
                whole.mean = of_neighbours::<K, WIDTH>(sums, |sum| mul_rn(sum, self.of_count));
            }
            let mut k = 0;
            while k < K {
                let delta = part.mean[k] - whole.mean[k];
                let moved = fma(mul_rn(delta, delta), self.count, part.squares[k]);
                // The mean of an empty part is meaningless, and its square may be infinite.
                whole.squares[k] = if self.count > 0.0 { moved } else { 0.0 };
                k += 1;
            }
            whole.squares = of_neighbours::<K, WIDTH>(whole.squares, |sum| sum);
        }
        whole
    }
}

/// Sums each row's value over `WIDTH` neighbouring lanes, and applies `of` to the sum.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn of_neighbours<const K: usize, const WIDTH: u32>(
    values: [f32; K],
    of: impl Fn(f32) -> f32,
) -> [f32; K] {
    // SAFETY: passed on to the caller.
    values.map(|value| of(unsafe { of_lanes(value, WIDTH, &|a, b| a + b) }))
}
