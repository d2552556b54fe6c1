//! The end of a consumer's dk and dv. They become rows of the tensors where the block has all heads
//! that share the keys. Else they become sums in device memory, to which blocks add in turns.

use abi::attention::BshStrides;
use abi::gemm::sm90::{MMA_M, WARPGROUP};
use cuda_std::barrier::bar_sync;
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_commit_group;
use cuda_std::warp::uniform;

use super::kernel::{Backward, Call, Config, KEYS_WRITTEN};
use super::ordered_add::{add, pass_order, wait_for_order};
use super::schedule::TileScheduler;
use super::store::{OutputRows, VIA_BYTES};

/// A consumer's sums of 64 keys.
pub(super) struct KeySums<'a> {
    /// The 64 keys, of the block's [`TILE_N`](abi::attention_grad::sm90::TILE_N).
    pub(super) rows: u32,
    pub(super) of: Held<'a>,
}

/// Which sums they are.
pub(super) enum Held<'a> {
    /// dk and dv.
    Both { dk: &'a [f32], dv: &'a [f32] },
    /// dv in the first consumer, dk in the second.
    One(&'a [f32]),
}

impl<C: Config> Backward<'_, C> {
    /// Hands out dk and dv.
    ///
    /// # Safety
    /// The warpgroup calls it, converged, when no consumer reads shared memory any more.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, sums: &KeySums<'_>) {
        let params = self.call.params;
        // SAFETY: passed on to the caller; a warp is in one warpgroup.
        unsafe {
            let scheduler = self.scheduler();
            // Computed anew, as the walk is: a register to keep it would be spilled.
            let consumer_idx = uniform(opaque(thread::thread_idx_x()) / WARPGROUP) - 1;
            if params.adders() == 1 {
                self.store_keys(consumer_idx, &scheduler, sums);
            } else {
                self.add_keys(consumer_idx, &scheduler, sums);
            }
        }
    }

    /// Stores dk and dv, rounded.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish); no other block has these keys.
    #[inline(always)]
    unsafe fn store_keys(&self, consumer_idx: u32, scheduler: &TileScheduler, sums: &KeySums<'_>) {
        let Call { params, dk, dv, .. } = self.call;
        let first = scheduler.first_key() + sums.rows * MMA_M;
        let via = self.kv.at_index(1, 0).add_bytes(consumer_idx * VIA_BYTES);
        let sequence = &scheduler.sequence;
        let (batch, position) = (sequence.batch_idx, sequence.k.first + first);
        let rows = |to: *mut u16, strides: BshStrides, columns| OutputRows {
            to: to.wrapping_offset(strides.offset(batch, position, scheduler.head_kv) as isize),
            stride: strides.seq,
            rows: sequence.k.len.saturating_sub(first),
            columns,
        };
        let rows_of_dv = || rows(dv, params.dv, params.fwd.head_dim_v);
        let rows_of_dk = || rows(dk, params.dk, params.fwd.head_dim);
        // SAFETY: keys that there are, of a head of the launch; the memory is this warpgroup's.
        unsafe {
            match sums.of {
                Held::Both { dk, dv } => {
                    rows_of_dv().store(via, dv, 1.0, C::pair);
                    rows_of_dk().store(via, dk, params.softmax_scale, C::pair);
                }
                Held::One(sums) => {
                    let (rows, factor) = match consumer_idx {
                        0 => (rows_of_dv(), 1.0),
                        _ => (rows_of_dk(), params.softmax_scale),
                    };
                    rows.store(via, sums, factor, C::pair);
                }
            }
        }
    }

    /// Adds dk and dv to the sums of their keys, when it is the block's turn.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn add_keys(&self, consumer_idx: u32, scheduler: &TileScheduler, sums: &KeySums<'_>) {
        let bytes = 4 * C::TILE.consumer_sums();
        const {
            let map = C::TILE.smem();
            assert!(4 * 4 * C::TILE.consumer_sums() / C::TILE.ctas() <= map.ds);
        }
        let params = self.call.params;
        // In place of k, v, q and d_o.
        let matrices = 2 / Self::CTAS;
        let from = (self.kv.at_index(0, 0)).add_bytes(matrices * bytes * consumer_idx);
        // SAFETY: each consumer has a piece of the memory, which is written before its first thread
        // copies from it. Those before in turn are blocks with lower numbers.
        unsafe {
            match sums.of {
                Held::Both { dk, dv } => {
                    put_sums(from, dk);
                    put_sums(from.add_bytes(bytes), dv);
                }
                Held::One(sums) => put_sums(from, sums),
            }
            bar_sync(KEYS_WRITTEN + consumer_idx, WARPGROUP);
            if opaque(thread::thread_idx_x()).is_multiple_of(WARPGROUP) {
                let of_block = (scheduler.head_kv, scheduler.slots.key_block);
                let at = 2 * C::TILE.key_tile_idx(&params.fwd, of_block) + u64::from(sums.rows);
                let of_keys = at * u64::from(Self::CTAS) + u64::from(consumer_idx % Self::CTAS);
                let counter = C::TILE.counters_of_queries(&params.fwd) + of_keys;
                let counter = self.call.counters.wrapping_add(counter as usize);
                let to = at * u64::from(C::TILE.consumer_sums());
                let to_dk = self.call.key_sums.wrapping_add(to as usize);
                let of_dk = C::TILE.key_sums(params) / 2;
                let to_dv = to_dk.wrapping_add(of_dk as usize);
                wait_for_order(counter, scheduler.add_order);
                match sums.of {
                    Held::Both { .. } => {
                        add(to_dk, from, bytes, scheduler.add_order);
                        add(to_dv, from.add_bytes(bytes), bytes, scheduler.add_order);
                    }
                    Held::One(_) => {
                        let to = if consumer_idx == 0 { to_dv } else { to_dk };
                        add(to, from, bytes, scheduler.add_order);
                    }
                }
                cp_async_bulk_commit_group();
                pass_order(counter, scheduler.add_order);
            }
        }
    }
}

/// Writes a warpgroup's accumulators to shared memory in the order of their registers, for a bulk
/// copy.
///
/// # Safety
/// The warpgroup calls it; the memory from `to` on has room, and nobody reads it.
#[inline(always)]
pub(super) unsafe fn put_sums(to: SharedAddr, sums: &[f32]) {
    let thread = opaque(thread::thread_idx_x()) % WARPGROUP;
    let to = to.add_bytes(4 * 4 * thread);
    let mut i = 0;
    while i < sums.len() / 4 {
        let four = [
            sums[4 * i],
            sums[4 * i + 1],
            sums[4 * i + 2],
            sums[4 * i + 3],
        ];
        let to = to.add_bytes(4 * (4 * WARPGROUP * i as u32));
        // SAFETY: the caller's promise.
        unsafe { st_shared_v4_u32(to, four.map(f32::to_bits)) };
        i += 1;
    }
    fence_proxy_async_shared_cta();
}
