//! The order in which tiles are computed: neighbours in time share operands in the L2 cache.

/// Row and column of tile `index` where the tiles of `group` rows are taken together, column by
/// column: those in flight then read the same few rows of A and columns of B.
///
/// All of `0..m_tiles * n_tiles` are covered, each once.
#[inline(always)]
pub const fn grouped(index: u32, m_tiles: u32, n_tiles: u32, group: u32) -> (u32, u32) {
    let (groups_before, within) = divided(index, group * n_tiles);
    let first_row = groups_before * group;
    let rows_left = m_tiles - first_row;
    let rows = if rows_left < group { rows_left } else { group };
    let (column, row) = divided(within, rows);
    (first_row + row, column)
}

/// Quotient and remainder; 0 and `x` by a zero. A division that may panic has a trap, and a kernel
/// with a trap in reach gets from ptxas no more registers than it starts with.
#[inline(always)]
pub const fn divided(x: u32, by: u32) -> (u32, u32) {
    match (x.checked_div(by), x.checked_rem(by)) {
        (Some(quotient), Some(remainder)) => (quotient, remainder),
        _ => (0, x),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_tile_has_one_place_in_the_order() {
        for (m_tiles, n_tiles) in [(1, 1), (3, 5), (16, 16), (17, 9), (1, 40), (40, 1)] {
            for group in [1, 2, 8, 100] {
                let tiles = m_tiles * n_tiles;
                let seen: HashSet<_> = (0..tiles)
                    .map(|index| grouped(index, m_tiles, n_tiles, group))
                    .collect();
                assert_eq!(seen.len() as u32, tiles, "{m_tiles} x {n_tiles} by {group}");
                assert!(seen.iter().all(|&(m, n)| m < m_tiles && n < n_tiles));
            }
        }
    }
}
