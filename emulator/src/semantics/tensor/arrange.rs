//! Operands rearranged into vectors of eight lanes, in the order in which the lanes of an
//! accumulator register need them.
//!
//! Eight neighbouring lanes hold two rows by four columns of an accumulator register: all even
//! columns of a block of eight, or all odd ones. So a vector of A has an element of the first row
//! four times, then one of the second row four times. A vector of B has the elements of four
//! columns, twice.

/// Lanes that are computed together, as one vector.
pub(crate) const WIDTH: usize = 8;
/// Groups of [`WIDTH`] lanes in a warp.
pub(crate) const GROUPS: usize = 32 / WIDTH;

/// Vectors of A, `[half of the rows][group of lanes][k]`, from `[row][k]`.
#[inline(always)]
pub(crate) fn rows<T: Copy + Default>(from: &[T], k: usize, out: &mut Vec<[T; WIDTH]>) {
    let pairs = from.len() / k / 2;
    out.clear();
    out.reserve(pairs * k);
    for pair in 0..pairs {
        let (first, second) = from[pair * 2 * k..][..2 * k].split_at(k);
        for (a, b) in first.iter().zip(second) {
            out.push([*a, *a, *a, *a, *b, *b, *b, *b]);
        }
    }
}

/// Vectors of B, `[block of 8 columns][even or odd][k]`, from `[column][k]`.
#[inline(always)]
pub(crate) fn columns<T: Copy + Default>(from: &[T], k: usize, out: &mut Vec<[T; WIDTH]>) {
    out.clear();
    out.reserve(from.len() / 4);
    for block in from.chunks_exact(8 * k) {
        for odd in 0..2 {
            let column = |i: usize| &block[(2 * i + odd) * k..][..k];
            let (c0, c1, c2, c3) = (column(0), column(1), column(2), column(3));
            for i in 0..k {
                let four = [c0[i], c1[i], c2[i], c3[i]];
                out.push([
                    four[0], four[1], four[2], four[3], four[0], four[1], four[2], four[3],
                ]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::tensor::fragment;

    /// Checks each lane against the positions of the accumulator's elements.
    #[test]
    fn each_lane_finds_its_row_and_column() {
        const K: usize = 3;
        let a: Vec<usize> = (0..16 * K).collect();
        let b: Vec<usize> = (0..24 * K).collect();
        let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
        rows(&a, K, &mut of_a);
        columns(&b, K, &mut of_b);
        let (a, b) = (of_a, of_b);
        for reg in 0..12 {
            let (block, half, odd) = fragment::accumulator(reg, 16, false);
            for lane in 0..32 {
                let (row, column) = (lane / 4 + 8 * half, 8 * block + lane % 4 * 2 + odd);
                for k in 0..K {
                    let from_a = a[(half * GROUPS + lane / WIDTH) * K + k][lane % WIDTH];
                    let from_b = b[(2 * block + odd) * K + k][lane % WIDTH];
                    assert_eq!((from_a, from_b), (row * K + k, column * K + k));
                }
            }
        }
    }
}
