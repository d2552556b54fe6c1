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

use super::consume::Sums;
use super::kernel::{Backward, Call, Config, KEYS_WRITTEN};
use super::ordered_add::{add, pass_order, wait_for_order};
use super::schedule::TileScheduler;
use super::store::{OutputRows, VIA_BYTES};

impl<C: Config> Backward<'_, C> {
    /// Hands out dk and dv.
    ///
    /// # Safety
    /// The warpgroup calls it, converged, when no consumer reads shared memory any more.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, sums: &Sums<C>) {
        let params = self.call.params;
        let scheduler = TileScheduler::new(params, &C::TILE);
        // SAFETY: passed on to the caller; a warp is in one warpgroup.
        unsafe {
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
    unsafe fn store_keys(&self, consumer_idx: u32, scheduler: &TileScheduler, (dk, dv): &Sums<C>) {
        let Call {
            params,
            dk: to_dk,
            dv: to_dv,
            ..
        } = self.call;
        let first = scheduler.first_key() + consumer_idx * MMA_M;
        let via = self.kv.at_index(1, 0).add_bytes(consumer_idx * VIA_BYTES);
        let rows = |to: *mut u16, strides: BshStrides, columns| OutputRows {
            to:
                to.wrapping_offset(
                    strides.offset(scheduler.batch, first, scheduler.head_kv) as isize
                ),
            stride: strides.seq,
            rows: params.fwd.seqlen_k.saturating_sub(first),
            columns,
        };
        let (dk, dv) = (dk.registers()[0].as_ref(), dv.registers()[0].as_ref());
        // SAFETY: keys that there are, of a head of the launch; the memory is this warpgroup's.
        unsafe {
            rows(to_dv, params.dv, params.fwd.head_dim_v).store(via, dv, 1.0, C::pair);
            rows(to_dk, params.dk, params.fwd.head_dim).store(
                via,
                dk,
                params.softmax_scale,
                C::pair,
            );
        }
    }

    /// Adds dk and dv to the sums of their keys, when it is the block's turn.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn add_keys(&self, consumer_idx: u32, scheduler: &TileScheduler, (dk, dv): &Sums<C>) {
        let bytes = 4 * C::TILE.consumer_sums();
        const {
            let map = C::TILE.smem();
            assert!(4 * 4 * C::TILE.consumer_sums() <= map.ds);
        }
        let params = self.call.params;
        // In place of k, v, q and d_o.
        let from = self.kv.at_index(0, 0).add_bytes(2 * bytes * consumer_idx);
        let (dk, dv) = (dk.registers()[0].as_ref(), dv.registers()[0].as_ref());
        // SAFETY: each consumer has a piece of the memory, which is written before its first thread
        // copies from it. Those before in turn are blocks with lower numbers.
        unsafe {
            put_sums(from, dk);
            put_sums(from.add_bytes(bytes), dv);
            bar_sync(KEYS_WRITTEN + consumer_idx, WARPGROUP);
            if opaque(thread::thread_idx_x()).is_multiple_of(WARPGROUP) {
                let coord = [scheduler.batch, scheduler.head_kv, scheduler.key_block];
                let at = 2 * C::TILE.key_tile_idx(&params.fwd, coord) + u64::from(consumer_idx);
                let counter = C::TILE.tiles_of_queries(&params.fwd) + at;
                let counter = self.call.counters.wrapping_add(counter as usize);
                let to = at * u64::from(C::TILE.consumer_sums());
                let to_dk = self.call.key_sums.wrapping_add(to as usize);
                let of_dk = C::TILE.key_sums(params) / 2;
                let to_dv = to_dk.wrapping_add(of_dk as usize);
                wait_for_order(counter, scheduler.add_order);
                add(to_dk, from, bytes, scheduler.add_order);
                add(to_dv, from.add_bytes(bytes), bytes, scheduler.add_order);
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
