//! Which lane and register of a warp holds which element of an `mma` or `wgmma` operand.
//!
//! A fragment of A covers 8, 16 or 32 rows, one of B blocks of 8 columns. A register holds `per`
//! elements that are contiguous along k. Four lanes share a row (for B, a column): lane `l` has row
//! `l / 4` and, of each group of `4 * per` elements along k, those from `(l % 4) * per` on. With
//! 16 rows, the odd registers hold the lower eight (rows 8 to 15). The registers of B hold one block
//! of columns after another.
//!
//! Source: PTX ISA 9.0, "Matrix Fragments for mma" and "Register Fragments for wgmma".

/// Row and k of element `e` of register `reg` of A, in a tile of `rows` (8, 16 or 32).
#[inline(always)]
pub(crate) fn a(rows: usize, per: usize, lane: usize, reg: usize, e: usize) -> (usize, usize) {
    let (eighth, group) = (reg % (rows / 8), reg / (rows / 8));
    (8 * eighth + lane / 4, (4 * group + lane % 4) * per + e)
}

/// Column and k of element `e` of register `reg` of B, in a tile of `k` elements along k.
#[inline(always)]
pub(crate) fn b(k: usize, per: usize, lane: usize, reg: usize, e: usize) -> (usize, usize) {
    let each = k / (4 * per);
    let (block, group) = (reg / each, reg % each);
    (8 * block + lane / 4, (4 * group + lane % 4) * per + e)
}

/// What accumulator register `reg` holds: the block of 8 columns, the block of 8 of the `rows`, and
/// whether each lane has the odd column of its pair. For a packed f16 pair the last is that of the
/// low half.
#[inline(always)]
pub(crate) fn accumulator(reg: usize, rows: usize, packed: bool) -> (usize, usize, usize) {
    let halves = rows / 8;
    if packed {
        (reg / halves, reg % halves, 0)
    } else {
        (reg / (2 * halves), reg / 2 % halves, reg % 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of the PTX ISA, one for each table, apart from the ones above.
    #[test]
    fn a_follows_the_tables_of_the_isa() {
        for lane in 0..32 {
            let (group, thread) = (lane >> 2, lane % 4);
            for i in 0..8 {
                // m16n8k16, 16 bits: "row = groupID for ai where 0 <= i < 2 || 4 <= i < 6".
                let row = if i < 2 || (4..6).contains(&i) {
                    group
                } else {
                    group + 8
                };
                let col = thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 };
                assert_eq!(a(16, 2, lane, i / 2, i % 2), (row, col));
            }
            for i in 0..16 {
                // m16n8k32, 8 bits.
                let row = if i < 4 || (8..12).contains(&i) {
                    group
                } else {
                    group + 8
                };
                let col = thread * 4 + (i & 3) + if i >= 8 { 16 } else { 0 };
                assert_eq!(a(16, 4, lane, i / 4, i % 4), (row, col));
            }
            for i in 0..32 {
                // m16n8k64, 4 bits.
                let row = if i < 8 || (16..24).contains(&i) {
                    group
                } else {
                    group + 8
                };
                let col = thread * 8 + (i & 7) + if i >= 16 { 32 } else { 0 };
                assert_eq!(a(16, 8, lane, i / 8, i % 8), (row, col));
            }
            for i in 0..4 {
                // m16n8k8, tf32; m8n8k16, 8 bits.
                let row = if i == 0 || i == 2 { group } else { group + 8 };
                assert_eq!(
                    a(16, 1, lane, i, 0),
                    (row, thread + if i >= 2 { 4 } else { 0 })
                );
                assert_eq!(a(8, 4, lane, 0, i), (group, thread * 4 + i));
            }
        }
    }

    #[test]
    fn b_follows_the_tables_of_the_isa() {
        for lane in 0..32 {
            let (group, thread) = (lane >> 2, lane % 4);
            for i in 0..4 {
                // m16n8k16, 16 bits: "row = (threadID_in_group * 2) + (i & 1), + 8 where i >= 2".
                let k = thread * 2 + (i & 1) + if i >= 2 { 8 } else { 0 };
                assert_eq!(b(16, 2, lane, i / 2, i % 2), (group, k));
            }
            for i in 0..8 {
                // m16n8k32, 8 bits.
                let k = thread * 4 + (i & 3) + if i >= 4 { 16 } else { 0 };
                assert_eq!(b(32, 4, lane, i / 4, i % 4), (group, k));
            }
        }
    }

    #[test]
    fn accumulators_follow_the_tables_of_the_isa() {
        for i in 0..128 {
            // wgmma m64nNk*: column 8 * (i / 4) + (lane % 4) * 2 + (i & 1), row + 8 where i & 2.
            assert_eq!(accumulator(i, 16, false), (i / 4, i >> 1 & 1, i & 1));
        }
        for i in 0..64 {
            assert_eq!(accumulator(i, 16, true), (i / 2, i & 1, 0));
        }
        assert_eq!(accumulator(1, 8, false), (0, 0, 1));
    }
}
