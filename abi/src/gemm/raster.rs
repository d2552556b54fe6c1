//! The order in which tiles are computed. Tiles near each other in time share operands in L2.

/// Row and column of tile `index`. Tiles are taken by bands of `group` rows, column by column
/// within a band. So tiles that are computed at the same time read the same few rows of A and
/// columns of B.
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

/// The order of a kernel's tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raster {
    /// [`grouped`], by bands of as many rows as the launch states. Every other band runs from the
    /// last column back to the first. So it begins with the columns of B that the band before it
    /// read last, which are still in L2.
    Grouped,
    /// [`hilbert`]: good for caches of any size, at the cost of a short loop for each tile.
    Hilbert,
}

/// Row and column of tile `index` along a Hilbert curve through a rectangle of any extents. Tiles
/// near in time are near in both directions, for any size of the cache. Each step goes to a
/// neighbour; where extents are odd, one step goes along a diagonal.
///
/// All of `0..m_tiles * n_tiles` are covered, each once.
///
/// Červený, Generalized Hilbert space-filling curve for rectangular domains of arbitrary sizes.
#[inline(always)]
pub const fn hilbert(index: u32, m_tiles: u32, n_tiles: u32) -> (u32, u32) {
    let (rows, columns) = (m_tiles as i32, n_tiles as i32);
    // A rectangle of the curve: its entry, the direction along it, and the direction to its side.
    let mut at = (0, 0);
    let (mut along, mut beside) = if rows >= columns {
        ((rows, 0), (0, columns))
    } else {
        ((0, columns), (rows, 0))
    };
    let mut rest = index as i32;
    loop {
        let (length, width) = (extent(along), extent(beside));
        let (step, side) = (unit(along), unit(beside));
        if width == 1 {
            return ((at.0 + step.0 * rest) as u32, (at.1 + step.1 * rest) as u32);
        }
        if length == 1 {
            return ((at.0 + side.0 * rest) as u32, (at.1 + side.1 * rest) as u32);
        }
        if 2 * length > 3 * width {
            // Long: two rectangles, one after the other.
            let half = halved(along, step, length);
            let first = extent(half) * width;
            if rest < first {
                along = half;
            } else {
                rest -= first;
                at = plus(at, half);
                along = minus(along, half);
            }
            continue;
        }
        // Three parts: to the side, along the whole length, and back.
        let aside = halved(beside, side, width);
        let half = halve(along);
        let first = extent(aside) * extent(half);
        let middle = length * extent(minus(beside, aside));
        if rest < first {
            (along, beside) = (aside, half);
        } else if rest < first + middle {
            rest -= first;
            at = plus(at, aside);
            beside = minus(beside, aside);
        } else {
            rest -= first + middle;
            at = plus(at, plus(minus(along, step), minus(aside, side)));
            (along, beside) = (minus((0, 0), aside), minus(half, along));
        }
    }
}

/// Length of a vector along an axis.
const fn extent(vector: (i32, i32)) -> i32 {
    (vector.0 + vector.1).abs()
}

/// The direction of a vector along an axis.
const fn unit(vector: (i32, i32)) -> (i32, i32) {
    (vector.0.signum(), vector.1.signum())
}

const fn plus(a: (i32, i32), b: (i32, i32)) -> (i32, i32) {
    (a.0 + b.0, a.1 + b.1)
}

const fn minus(a: (i32, i32), b: (i32, i32)) -> (i32, i32) {
    (a.0 - b.0, a.1 - b.1)
}

const fn halve(vector: (i32, i32)) -> (i32, i32) {
    (vector.0 >> 1, vector.1 >> 1)
}

/// Half of a vector, of even length if possible: then the curve leaves where the next part begins.
const fn halved(vector: (i32, i32), step: (i32, i32), length: i32) -> (i32, i32) {
    let half = halve(vector);
    if extent(half) % 2 == 1 && length > 2 {
        plus(half, step)
    } else {
        half
    }
}

/// Quotient and remainder; 0 and `x` if `by` is zero. A division that may panic contains a trap,
/// and ptxas gives a kernel with a reachable trap no more registers than it starts with, despite
/// `setmaxnreg`.
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
    fn the_order_has_every_tile_once() {
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

    #[test]
    fn the_curve_goes_through_every_tile_by_steps_to_neighbours() {
        for m_tiles in 1..=40 {
            for n_tiles in 1..=40 {
                let at = |index| hilbert(index, m_tiles, n_tiles);
                let seen: HashSet<_> = (0..m_tiles * n_tiles).map(at).collect();
                assert_eq!(seen.len() as u32, m_tiles * n_tiles);
                assert!(seen.iter().all(|&(m, n)| m < m_tiles && n < n_tiles));
                let is_jump = |index: &u32| {
                    let ((m, n), (next_m, next_n)) = (at(*index), at(index + 1));
                    m.abs_diff(next_m).max(n.abs_diff(next_n)) > 1
                };
                let jumps = (0..m_tiles * n_tiles - 1).filter(is_jump).count();
                assert_eq!(jumps, 0, "{m_tiles} x {n_tiles}");
            }
        }
    }

    #[test]
    fn a_stretch_of_the_curve_reads_less_than_one_of_rows() {
        let (m_tiles, n_tiles, in_flight) = (64, 64, 132);
        let operands = |at: &dyn Fn(u32) -> (u32, u32)| {
            let stretches = (0..m_tiles * n_tiles).step_by(in_flight as usize);
            let read = |first: u32| {
                let tiles = (first..(first + in_flight).min(m_tiles * n_tiles)).map(at);
                let (rows, columns): (HashSet<_>, HashSet<_>) = tiles.unzip();
                rows.len() + columns.len()
            };
            stretches.map(read).sum::<usize>()
        };
        let curve = operands(&|index| hilbert(index, m_tiles, n_tiles));
        let rows = operands(&|index| grouped(index, m_tiles, n_tiles, 1));
        assert!(2 * curve < rows, "{curve} beside {rows}");
    }
}
