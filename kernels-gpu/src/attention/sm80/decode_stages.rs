//! The stages of a warp's keys and values in shared memory, and the copies into them.

use abi::attention::BshStrides;
use abi::attention::decode::{DecodeTile, WARP_KEYS};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;

use super::copies::Copies;
use super::decode::{Decode, uniform_warp_idx};
use super::stored::Stored;

/// The stages of a warp.
pub(super) struct Stages<'a, S, const W: usize, const M: usize> {
    k: Copies<W, { WARP_KEYS as usize }, { thread::WARP_THREADS }>,
    v: Copies<W, { WARP_KEYS as usize }, { thread::WARP_THREADS }>,
    base: SharedAddr,
    decode: &'a Decode<'a, S, W, M>,
    /// The warp's first key of a block.
    pub(super) first_key: u32,
}

impl<S: Stored, const W: usize, const M: usize> Stages<'_, S, W, M> {
    /// Keys and values of stage `slot`.
    #[inline(always)]
    pub(super) fn at(&self, slot: u32) -> (SharedAddr, SharedAddr) {
        let k = self
            .base
            .add_bytes(slot * Decode::<S, W, M>::TILE.stage_bytes());
        (k, k.add_bytes(Decode::<S, W, M>::TILE.stage_bytes() / 2))
    }

    /// The table's entry for the warp's part of a block of keys; anything if there is none.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    pub(super) unsafe fn entry(&self, n_block_idx: u32) -> i32 {
        let first = n_block_idx * DecodeTile::TILE_N + self.first_key;
        if !self.decode.pages.are_there() || first >= self.decode.sequence.k.len {
            return 0;
        }
        // SAFETY: the caller's promise; the sequence has this key.
        unsafe { self.decode.pages.entry(first) }
    }

    /// Starts the copies of the warp's part of a block of keys, whose entry is `entry`.
    ///
    /// # Safety
    /// The launch's; no lane reads the stage.
    #[inline(always)]
    pub(super) unsafe fn start(&self, n_block_idx: u32, entry: i32, slot: u32) {
        let Decode { params, pages, .. } = self.decode;
        let first = n_block_idx * DecodeTile::TILE_N + self.first_key;
        let rows = self.decode.seen().from(first);
        let (k, v) = self.at(slot);
        let offset = |strides: &BshStrides| match pages.are_there() {
            true => halves::<S>(pages.locate(entry, first).offset(strides)),
            false => halves::<S>(i64::from(first) * strides.seq),
        };
        // What no query of the tile sees becomes 0: probabilities are 0, but 0 times NaN is NaN.
        // SAFETY: the caller's promise; only rows of the sequence are read. A page has all of a
        // warp's keys or none, as its size is a multiple of their number.
        unsafe {
            self.k.start_at::<S::Product>(offset(&params.k), rows, k);
            self.v.start_at::<S::Product>(offset(&params.v), rows, v);
        }
    }
}

impl<S: Stored, const W: usize, const M: usize> Decode<'_, S, W, M> {
    #[inline(always)]
    pub(super) fn stages(&self) -> Stages<'_, S, W, M> {
        let (params, sequence) = (self.params, &self.sequence);
        let warp_idx = uniform_warp_idx();
        let head_kv_idx = params.head_kv_idx(self.first_head);
        let at = |base: *const u8, offset: i64| {
            base.wrapping_offset((i64::from(S::BYTES) * offset) as isize)
        };
        let offset = |strides: &BshStrides| match self.pages.are_there() {
            true => strides.offset(0, 0, head_kv_idx),
            false => sequence.offset_k(strides, head_kv_idx),
        };
        let k = at(self.arguments.k, offset(&params.k));
        let v = at(self.arguments.v, offset(&params.v));
        // SAFETY: dynamic shared memory, the block's own.
        let base = unsafe { SharedAddr::of(dynamic_base()) };
        Stages {
            k: Copies::new(k, halves::<S>(params.k.seq), params.head_dim * S::BYTES / 2),
            v: Copies::new(
                v,
                halves::<S>(params.v.seq),
                params.head_dim_v * S::BYTES / 2,
            ),
            base: base.add_bytes(warp_idx * Self::STAGES * Self::TILE.stage_bytes()),
            decode: self,
            first_key: warp_idx * WARP_KEYS,
        }
    }
}

/// So many elements, in units of two bytes.
#[inline(always)]
const fn halves<S: Stored>(elements: i64) -> i64 {
    match S::BYTES {
        2 => elements,
        _ => elements >> 1,
    }
}
