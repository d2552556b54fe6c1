//! The holes in which a host puts what a call does to scores: a bias, masks, functions of its own
//! (`warpsmith::fuse`). An unfilled kernel is that of plain attention, and its machine code too:
//! what holes read is computed for them alone.
//!
//! | hole | values | filled with |
//! |---|---|---|
//! | `is_scored` | a flag | 1 |
//! | `score_of_keys` | the scores of a query and two neighbouring keys | their new scores |
//!
//! Each is told batch, head, query, (first) key, and the sequence's number of queries and of keys.
//! Scores come as `q @ k^T`, without scale or softcap, which the filling applies; a kernel's own
//! scale is then log2(e), and it has no softcap. Queries and keys may be beyond the sequence: the
//! filling takes the last one in their place, and the kernel drops the result.

use cuda_std::hint::opaque;
use cuda_std::hole;

/// Where a thread's scores are, but for the query and the key.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) batch: u32,
    pub(crate) head: u32,
    pub(crate) seqlen_q: u32,
    pub(crate) seqlen_k: u32,
}

/// Whether the holes are filled. ptxas knows; LLVM does not, and neither moves it nor makes two
/// loops of one around it.
#[inline(always)]
pub(crate) fn is_scored() -> bool {
    let flag: u32;
    hole!("is_scored", [flag] <- []);
    opaque(flag) != 0
}

/// The new scores of `query` and the keys `key` and `key + 1`.
#[inline(always)]
pub(crate) fn of_keys(
    [mut first, mut second]: [f32; 2],
    at: Place,
    query: u32,
    key: u32,
) -> [f32; 2] {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    hole!(through "score_of_keys", [first, second]
        <- [batch, head, query, key, seqlen_q, seqlen_k]);
    [first, second]
}
