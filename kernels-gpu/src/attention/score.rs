//! The holes in which a host puts what a call does to scores: a bias, masks, functions of its own
//! (`warpsmith::fuse`). An unfilled kernel is that of plain attention, and its machine code too:
//! what holes read is computed for them alone.
//!
//! | hole | values | filled with |
//! |---|---|---|
//! | `is_scored` | a flag | 1 |
//! | `score_of_keys` | the scores of a query and two neighbouring keys | their new scores |
//!
//! Of the backward kernels:
//!
//! | hole | values | filled with |
//! |---|---|---|
//! | `slope`, `slope_of_keys`, `slope_of_queries` | one score, or two of neighbouring keys or queries; 1 for each | new scores, and their derivatives with respect to the old ones |
//! | `gradient`, `gradient_of_keys`, `gradient_of_queries` | `P * (dP - delta)`, with P and the derivative | that times the derivative; before, it may be stored |
//! | `weight` | probabilities of two neighbouring queries and a key, with the derivatives | their products |
//! | `product` | these times `dP - delta` | the same, which may be stored |
//!
//! A score of -1e18 or less is of a pair that the kernel hides, and stays as it is. Where P is 0,
//! so is the product, whatever the derivative.
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

/// The new score of `query` and `key`, and its derivative.
#[inline(always)]
pub(crate) fn with_slope(mut score: f32, at: Place, query: u32, key: u32) -> (f32, f32) {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    let mut slope = 1.0_f32;
    hole!(through "slope", [score, slope] <- [batch, head, query, key, seqlen_q, seqlen_k]);
    (score, slope)
}

/// The new scores of a query and two neighbouring keys, or, with `QUERIES`, of two neighbouring
/// queries and a key; and their derivatives.
#[inline(always)]
pub(crate) fn with_slopes<const QUERIES: bool>(
    [mut first, mut second]: [f32; 2],
    at: Place,
    query: u32,
    key: u32,
) -> ([f32; 2], [f32; 2]) {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    let (mut slope, mut other) = (1.0_f32, 1.0_f32);
    if QUERIES {
        hole!(through "slope_of_queries", [first, second, slope, other]
            <- [batch, head, query, key, seqlen_q, seqlen_k]);
    } else {
        hole!(through "slope_of_keys", [first, second, slope, other]
            <- [batch, head, query, key, seqlen_q, seqlen_k]);
    }
    ([first, second], [slope, other])
}

/// `P * (dP - delta)` times the derivative. It is stored if it `is_wanted`, and anybody wants it.
///
/// # Safety
/// No other thread calls it for this query and key where it is wanted.
#[inline(always)]
pub(crate) unsafe fn gradient(
    mut product: f32,
    (p, slope): (f32, f32),
    at: Place,
    (query, key): (u32, u32),
    is_wanted: bool,
) -> f32 {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    let is_wanted = u32::from(is_wanted);
    // SAFETY: what fills it stores to memory that nothing else of the kernel touches.
    unsafe {
        hole!(put "gradient", [product]
            <- [p, slope, batch, head, query, key, seqlen_q, seqlen_k, is_wanted]);
    }
    product
}

/// The same of two neighbouring keys, which is stored if anybody wants it; or, with `QUERIES`, of two
/// neighbouring queries, which is not.
///
/// # Safety
/// No other thread calls it without `QUERIES` for these.
#[inline(always)]
pub(crate) unsafe fn gradients<const QUERIES: bool>(
    [mut first, mut second]: [f32; 2],
    ([p, other_p], [slope, other_slope]): ([f32; 2], [f32; 2]),
    at: Place,
    (query, key): (u32, u32),
) -> [f32; 2] {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    if QUERIES {
        hole!(through "gradient_of_queries", [first, second] <- [p, other_p, slope, other_slope]);
    } else {
        // SAFETY: as in `gradient`.
        unsafe {
            hole!(put "gradient_of_keys", [first, second] <- [p, other_p, slope, other_slope,
                batch, head, query, key, seqlen_q, seqlen_k]);
        }
    }
    [first, second]
}

/// Probabilities times derivatives.
#[inline(always)]
pub(crate) fn weights([mut first, mut second]: [f32; 2], [slope, other]: [f32; 2]) -> [f32; 2] {
    hole!(through "weight", [first, second] <- [slope, other]);
    [first, second]
}

/// [`weights`] times `dP - delta`, of two neighbouring queries and a key. They are stored if
/// anybody wants them.
///
/// # Safety
/// No other thread calls it for these.
#[inline(always)]
pub(crate) unsafe fn products(
    [mut first, mut second]: [f32; 2],
    at: Place,
    (query, key): (u32, u32),
) -> [f32; 2] {
    let Place {
        batch,
        head,
        seqlen_q,
        seqlen_k,
    } = at;
    // SAFETY: as in `gradient`.
    unsafe {
        hole!(put "product", [first, second] <- [batch, head, query, key, seqlen_q, seqlen_k]);
    }
    [first, second]
}
