//! Which element of a matrix each thread holds in which register.
//!
//! A fragment is what one thread holds of a matrix: `elements` values in the order of its registers
//! (two 16-bit or four 8-bit values a register, the lowest first). Every function takes a lane (for
//! `wgmma`, a thread of the warpgroup) and an element's index.

/// Row and column of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coord {
    /// Row.
    pub row: u32,
    /// Column.
    pub column: u32,
}

const fn coord(row: u32, column: u32) -> Coord {
    Coord { row, column }
}

/// A and B of `mma.sync.m16n8k*` and A of `wgmma` consist of blocks of 8 rows by 16 bytes of k, one
/// register a thread. This is an element's row, and its column, within the block.
const fn block(lane: u32, element: u32, size_bytes: u32) -> Coord {
    let in_register = element % (4 / size_bytes);
    coord(lane / 4, lane % 4 * (4 / size_bytes) + in_register)
}

/// The accumulator (C and D) of `mma.sync.m16n8k*`: 4 elements a lane. A register holds one f32 or
/// s32, or two f16.
#[inline(always)]
pub const fn mma_m16n8_acc(lane: u32, element: u32) -> Coord {
    coord(lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2)
}

/// A of `mma.sync.m16n8k*`, row-major, with elements of `size_bytes` (4 for tf32, 2, 1). A register
/// holds 4 bytes of k; registers go down 8 rows first, then 16 bytes along k.
///
/// There are 4 registers for 32 bytes of k, 2 for 16 bytes.
#[inline(always)]
pub const fn mma_m16n8_a(lane: u32, element: u32, size_bytes: u32) -> Coord {
    let register = element / (4 / size_bytes);
    let inner = block(lane, element, size_bytes);
    coord(
        inner.row + register % 2 * 8,
        inner.column + register / 2 * (16 / size_bytes),
    )
}

/// B of `mma.sync.m16n8k*`, k × 8, column-major (`row` is k, `column` is n); registers go along k.
#[inline(always)]
pub const fn mma_m16n8_b(lane: u32, element: u32, size_bytes: u32) -> Coord {
    let register = element / (4 / size_bytes);
    let inner = block(lane, element, size_bytes);
    coord(inner.column + register * (16 / size_bytes), inner.row)
}

/// The accumulator of `wgmma` m64nN: N / 2 elements for each of the warpgroup's 128 threads.
#[inline(always)]
pub const fn wgmma_acc(thread: u32, element: u32) -> Coord {
    let inner = mma_m16n8_acc(thread % 32, element % 4);
    coord(thread / 32 * 16 + inner.row, element / 4 * 8 + inner.column)
}

/// A of `wgmma` in registers, m64 by 32 bytes of k: 4 registers a thread.
#[inline(always)]
pub const fn wgmma_a(thread: u32, element: u32, size_bytes: u32) -> Coord {
    let inner = mma_m16n8_a(thread % 32, element, size_bytes);
    coord(thread / 32 * 16 + inner.row, inner.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each element of the matrix is in exactly one fragment.
    fn is_one_to_one(
        (rows, columns): (u32, u32),
        (threads, elements): (u32, u32),
        coord: impl Fn(u32, u32) -> Coord,
    ) {
        let mut seen = [false; 64 * 256];
        for thread in 0..threads {
            for element in 0..elements {
                let Coord { row, column } = coord(thread, element);
                assert!(row < rows && column < columns, "{row}, {column}");
                let cell = &mut seen[(row * columns + column) as usize];
                assert!(!core::mem::replace(cell, true), "{row}, {column} twice");
            }
        }
        assert_eq!(threads * elements, rows * columns);
    }

    #[test]
    fn fragments_share_out_every_element_once() {
        is_one_to_one((16, 8), (32, 4), mma_m16n8_acc);
        for size in [1, 2, 4] {
            for k_bytes in [16, 32] {
                let k = k_bytes / size;
                is_one_to_one((16, k), (32, k / 2), |t, e| mma_m16n8_a(t, e, size));
                is_one_to_one((k, 8), (32, k / 4), |t, e| mma_m16n8_b(t, e, size));
            }
            is_one_to_one((64, 32 / size), (128, 16 / size), |t, e| {
                wgmma_a(t, e, size)
            });
        }
        for n in (8..=256).step_by(8) {
            is_one_to_one((64, n), (128, n / 2), wgmma_acc);
        }
    }

    #[test]
    fn coordinates_are_those_of_the_manual() {
        assert_eq!(mma_m16n8_acc(5, 3), coord(9, 3));
        assert_eq!(mma_m16n8_a(5, 2, 2), coord(9, 2));
        assert_eq!(mma_m16n8_a(5, 5, 2), coord(1, 11));
        assert_eq!(mma_m16n8_b(5, 3, 2), coord(11, 1));
        assert_eq!(mma_m16n8_a(6, 3, 4), coord(9, 6));
        assert_eq!(mma_m16n8_b(7, 5, 1), coord(29, 1));
        assert_eq!(wgmma_acc(37, 6), coord(25, 10));
        assert_eq!(wgmma_a(127, 7, 2), coord(63, 15));
    }

    #[test]
    fn sixteen_columns_of_an_accumulator_are_a_fragment_of_a() {
        // This is why attention's probabilities are the A of p @ v without a shuffle.
        for thread in 0..128 {
            for element in 0..8 {
                assert_eq!(wgmma_acc(thread, element), wgmma_a(thread, element, 2));
            }
        }
    }
}
