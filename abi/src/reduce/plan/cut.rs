//! How many chunks and blocks, in whole units.

/// Fewest units of an axis that is split: one block alone is done sooner than several whose results
/// the last one merges.
const LEAST_UNITS: u64 = 6;

/// Parts that each of `items` items should be split into, for `all` parts in all.
pub(super) const fn wanted(all: u64, items: u64) -> u64 {
    match all.checked_div(items) {
        Some(parts) => parts,
        None => 1,
    }
}

/// Splits `n` into at most `wanted` chunks of whole units; returns their number and their length.
pub(super) const fn cut(n: u64, unit: u64, wanted: u64) -> (u64, u64) {
    let units = at_least_one(n.div_ceil(unit));
    let wanted = if units < LEAST_UNITS { 1 } else { wanted };
    let most = at_least_one(if units < wanted { units } else { wanted });
    let len = units.div_ceil(most) * unit;
    (at_least_one(n.div_ceil(len)), len)
}

/// `x`, or 1 if it is 0.
pub(super) const fn at_least_one(x: u64) -> u64 {
    if x == 0 { 1 } else { x }
}

/// A number of blocks from 1 to `most`.
pub(super) const fn capped(blocks: u64, most: u32) -> u32 {
    if blocks > most as u64 {
        most
    } else if blocks == 0 {
        1
    } else {
        blocks as u32
    }
}
