//! Which row of shared memory each lane addresses in `ldmatrix` and `stmatrix`, and what it gets.
//!
//! The instructions move 1, 2 or 4 matrices of 8 rows of 16 bytes. Lane `8 * i + r` provides the
//! address of row `r` of matrix `i`; register `i` of each lane holds 4 bytes of matrix `i`.

use super::fragment::Coord;

/// The matrix and the row whose address this lane provides (`row` is the row, `column` the matrix).
/// With x1, lanes 0..8 count; with x2, lanes 0..16.
#[inline(always)]
pub const fn address_of(lane: u32) -> Coord {
    Coord {
        row: lane % 8,
        column: lane / 8,
    }
}

/// The 16-bit element of a matrix that half `half` (0 low, 1 high) of a lane's register holds.
#[inline(always)]
pub const fn element(lane: u32, half: u32) -> Coord {
    Coord {
        row: lane / 4,
        column: lane % 4 * 2 + half,
    }
}

/// The same with `.trans`.
#[inline(always)]
pub const fn element_trans(lane: u32, half: u32) -> Coord {
    let Coord { row, column } = element(lane, half);
    Coord {
        row: column,
        column: row,
    }
}

/// Row and first column (of 16-bit elements) of the 16 bytes whose address this lane provides. An
/// x4 then loads a 16 × 16 tile as A of m16n8k16. From a tile of k × n, with `.trans`, or of n × k,
/// without it, an x4 loads two fragments of B. For `stmatrix`, it is the tile of 16 columns of an
/// accumulator.
///
/// Matrices go down 8 rows first, then 8 columns to the right.
#[inline(always)]
pub const fn tile_16x16(lane: u32) -> Coord {
    Coord {
        row: lane % 16,
        column: lane / 16 * 8,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fragment::{mma_m16n8_a, mma_m16n8_b};
    use super::*;

    /// What an x4 loads into half `half` of register `register` of `lane`, if lanes provide the
    /// addresses of `tile_16x16`.
    fn loaded(lane: u32, register: u32, half: u32, trans: bool) -> Coord {
        let inner = if trans {
            element_trans(lane, half)
        } else {
            element(lane, half)
        };
        let giver = (0..32).find(|giver| {
            let given = address_of(*giver);
            (given.column, given.row) == (register, inner.row)
        });
        let start = tile_16x16(giver.expect("every row is given by a lane"));
        Coord {
            row: start.row,
            column: start.column + inner.column,
        }
    }

    #[test]
    fn an_x4_of_a_tile_is_a_fragment_of_a() {
        for lane in 0..32 {
            for element in 0..8 {
                let got = loaded(lane, element / 2, element % 2, false);
                assert_eq!(got, mma_m16n8_a(lane, element, 2));
            }
        }
    }

    #[test]
    fn a_transposing_x4_of_a_tile_of_k_by_n_is_two_fragments_of_b() {
        for lane in 0..32 {
            for element in 0..8 {
                let got = loaded(lane, element / 2, element % 2, true);
                let want = mma_m16n8_b(lane, element % 4, 2);
                let n = want.column + element / 4 * 8;
                assert_eq!((got.row, got.column), (want.row, n));
            }
        }
    }

    #[test]
    fn a_plain_x4_of_a_tile_of_n_by_k_is_two_fragments_of_b() {
        // Registers 0 and 2 have n 0..8, and 1 and 3 have n 8..16.
        for lane in 0..32 {
            for element in 0..4 {
                for n_half in 0..2 {
                    let register = element / 2 * 2 + n_half;
                    let got = loaded(lane, register, element % 2, false);
                    let want = mma_m16n8_b(lane, element, 2);
                    assert_eq!((got.column, got.row), (want.row, want.column + n_half * 8));
                }
            }
        }
    }
}
