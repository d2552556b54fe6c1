//! Masks a consumer's scores: 64 keys, a thread's two rows of them, by a tile of queries.

use core::hint::cold_path;

use abi::attention::Mask;
use abi::gemm::sm90::{MMA_M, WARPGROUP};
use cuda_std::hint::opaque;
use cuda_std::thread;

use crate::attention::sm90::below;

/// Rows of an accumulator that a thread has elements of; element i is in row `i / 2 % 2`.
const ROWS: usize = 2;

/// A score whose exponential is 0, and whose square is finite.
const MASKED: f32 = -1e18;

/// The mask as the keys from `first_key` on see it.
#[derive(Clone, Copy)]
pub(super) struct KeyMask {
    pub(super) mask: Mask,
    pub(super) first_key: u32,
}

impl KeyMask {
    /// Whether all keys are there and all of the `queries` from `first` on, as far as there are any,
    /// see all of them.
    #[inline(always)]
    fn is_whole(&self, first: u32, queries: u32) -> bool {
        let Mask {
            seqlen_q, seqlen_k, ..
        } = self.mask;
        let end = first + queries;
        let last = if end < seqlen_q { end } else { seqlen_q } - 1;
        let last_key = self.first_key + MMA_M - 1;
        // Query i sees key j if `mask.first <= j - i < mask.end`.
        last_key < seqlen_k
            && (last_key as i32 - first as i32) < self.mask.end
            && self.first_key as i32 - last as i32 >= self.mask.first
    }

    /// Sets the masked scores of a tile of `queries` from `first` on to [`MASKED`].
    #[inline(always)]
    pub(super) fn apply(&self, s: &mut [f32], first: u32, queries: u32) {
        if self.is_whole(first, queries) {
            return;
        }
        cold_path();
        // Opaque, so that what depends only on the thread is not kept in registers across tiles.
        let thread = opaque(thread::thread_idx_x());
        let (warp, lane) = (thread % WARPGROUP / 32, thread % 32);
        let column = (first + lane % 4 * 2) as i32;
        let mut row = 0;
        while row < ROWS {
            let key = self.first_key + 16 * warp + lane / 4 + 8 * row as u32;
            let begin = key as i32 - self.mask.end + 1 - column;
            let end = key as i32 - self.mask.first + 1 - column;
            let mut seen = below(end) & !below(begin);
            if key >= self.mask.seqlen_k {
                seen = 0;
            }
            let mut i = 0;
            while i < s.len() / ROWS {
                if seen & (1 << i) == 0 {
                    s[i / 2 * 4 + 2 * row + i % 2] = MASKED;
                }
                i += 1;
            }
            row += 1;
        }
    }
}
