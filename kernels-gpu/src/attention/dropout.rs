//! The holes of dropout, which zeros probabilities after their sum. As those of [`score`], they cost
//! nothing unfilled.
//!
//! | hole | values | filled with |
//! |---|---|---|
//! | `is_dropped` | a flag | 1 |
//! | `keep_of_keys` | probabilities of eight pairs | 0 for those that are dropped |
//! | `kept_factor` | a number | 1 / (1 - p) |
//! | `keeps`, `keeps_of_keys`, `keeps_of_queries` | bits | 1 for each of one or eight pairs that is kept |
//! | `kept` | two numbers; two bits | each times 1 / (1 - p), or 0 if its bit is |
//!
//! Each whose name begins with `keep` is told batch, head, query and key. Of eight pairs
//! these are the first: `query` and 8 behind it, with `key`, the next, and 8 behind them, in the order
//! that accumulators of 16 rows have. In holes that end in `_of_queries` rows are keys. `query` and
//! `key` are then those of a fragment that begins at multiples of 16.
//!
//! [`score`]: super::score

use cuda_std::hint::opaque;
use cuda_std::hole;

use super::score::Place;

/// Whether there is dropout: see [`is_scored`](super::score::is_scored).
#[inline(always)]
pub(crate) fn is_dropped() -> bool {
    let flag: u32;
    hole!("is_dropped", [flag] <- []);
    opaque(flag) != 0
}

/// Zeros those of eight probabilities that are dropped.
#[inline(always)]
pub(crate) fn keep_of_keys(p: [f32; 8], at: Place, query: u32, key: u32) -> [f32; 8] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = p;
    let Place { batch, head, .. } = at;
    hole!(through "keep_of_keys", [a, b, c, d, e, f, g, h] <- [batch, head, query, key]);
    [a, b, c, d, e, f, g, h]
}

/// Multiplies sums of kept values, or what they are multiplied by, by 1 / (1 - p).
#[inline(always)]
pub(crate) fn scale(sums: &mut [f32]) {
    if is_dropped() {
        let factor: u32;
        hole!("kept_factor", [factor] <- []);
        let mut idx = 0;
        while idx < sums.len() {
            sums[idx] *= f32::from_bits(factor);
            idx += 1;
        }
    }
}

/// 1 if the pair is kept.
#[inline(always)]
pub(crate) fn keeps(at: Place, query: u32, key: u32) -> u32 {
    let Place { batch, head, .. } = at;
    let bit: u32;
    hole!("keeps", [bit] <- [batch, head, query, key]);
    bit
}

/// Two numbers for backward passes, of which bits 0 and 1 say that they are kept.
#[inline(always)]
pub(crate) fn kept([mut first, mut second]: [f32; 2], bits: u32) -> [f32; 2] {
    hole!(through "kept", [first, second] <- [bits]);
    [first, second]
}

/// The bits of up to 128 elements of a thread's accumulators, in their order.
#[derive(Clone, Copy)]
pub(crate) struct Kept([u32; 4]);

impl Kept {
    /// Those of `count` elements, a multiple of 8. `first` has the query and the key of the first of
    /// the `idx`th eight. Rows are queries, or keys with `KEYS`.
    #[inline(always)]
    pub(crate) fn of<const KEYS: bool>(
        count: usize,
        at: Place,
        first: impl Fn(usize) -> (u32, u32),
    ) -> Self {
        let Place { batch, head, .. } = at;
        let mut words = [0; 4];
        let mut idx = 0;
        while idx < count / 8 {
            let (query, key) = first(idx);
            let bits: u32;
            if KEYS {
                hole!("keeps_of_queries", [bits] <- [batch, head, query, key]);
            } else {
                hole!("keeps_of_keys", [bits] <- [batch, head, query, key]);
            }
            words[idx / 4] |= bits << (8 * (idx % 4));
            idx += 1;
        }
        Self(words)
    }

    /// [`kept`] of elements `idx` and `idx + 1`.
    #[inline(always)]
    pub(crate) fn apply(&self, idx: usize, pair: [f32; 2]) -> [f32; 2] {
        kept(pair, self.0[idx / 32] >> (idx % 32))
    }
}
