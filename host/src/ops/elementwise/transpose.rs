//! Batched matrix transpositions: copies whose source and destination have stride 1 along different
//! dimensions.

use super::costs::ElementwiseCosts;
use super::plan::Walk;
use abi::division::Division;
use abi::elementwise::{MAX_RANK, TransposeEntry, TransposeParams};

/// A copy that is done as a transposition of tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transposition {
    pub(crate) params: TransposeParams,
    pub(crate) blocks: u32,
}

impl Transposition {
    /// The transposition for a walk over an output and an input with elements of `size_bytes`.
    /// `None` if the copy is not a transposition, or needs more blocks than a grid can have.
    pub(crate) fn of(walk: &Walk, size_bytes: usize, costs: &ElementwiseCosts) -> Option<Self> {
        let [y, x] = [&walk.strides[0], &walk.strides[1]];
        let inner = (1..walk.rank).find(|&axis| x[axis] == 1)?;
        let (rows, columns) = (walk.shape[0], walk.shape[inner]);
        if y[0] != 1 || x[0] == 1 || rows.min(columns) < costs.transposed as usize {
            return None;
        }
        let tile = TransposeEntry::of(size_bytes)?.tile();
        let extent = |extent: usize| u32::try_from(extent).ok().filter(|&x| x <= 1 << 30);
        let mut params = TransposeParams {
            rows: extent(rows)?,
            columns: extent(columns)?,
            batch_rank: 0,
            aligned: 0,
            x_stride: x[0],
            y_stride: y[inner],
            tiles: [
                Division::new(extent(rows)?.div_ceil(tile)),
                Division::new(extent(columns)?.div_ceil(tile)),
            ],
            batch: [Division::ONE; MAX_RANK - 2],
            x_batch: [0; MAX_RANK - 2],
            y_batch: [0; MAX_RANK - 2],
        };
        let mut blocks = 1_u64;
        for tiles in params.tiles {
            blocks *= u64::from(tiles.divisor);
        }
        let batch = (1..walk.rank).filter(|&axis| axis != inner);
        for (to, axis) in batch.enumerate() {
            params.batch[to] = Division::new(extent(walk.shape[axis])?);
            params.x_batch[to] = x[axis];
            params.y_batch[to] = y[axis];
            params.batch_rank += 1;
            blocks = blocks.checked_mul(walk.shape[axis] as u64)?;
        }
        for (t, (strides, along)) in [(y, 0), (x, inner)].into_iter().enumerate() {
            let each = (16 / size_bytes) as i64;
            // Of an x whose windows overlap, other dimensions may step by 1, too.
            let fits = walk.address(t).is_multiple_of(16)
                && (0..walk.rank).all(|axis| axis == along || strides[axis] % each == 0);
            // Bit 0 is x, which is tensor 1.
            params.aligned |= u32::from(fits) << (1 - t);
        }
        let blocks = u32::try_from(blocks).ok().filter(|&x| x < 1 << 31)?;
        count_near_matrices_first(&mut params, tile);
        Some(Self { params, blocks })
    }
}

/// This matters where the batch stride is smaller than the row stride of both tensors. Consecutive
/// blocks then take consecutive matrices of the batch before the next tile, so that concurrent
/// blocks access neighbouring memory. Each whole tile then becomes a matrix of its own, and the
/// tile indices become batch dimensions.
fn count_near_matrices_first(params: &mut TransposeParams, tile: u32) {
    let rank = params.batch_rank as usize;
    let is_near = |axis: &usize| {
        params.x_batch[*axis].unsigned_abs() < params.x_stride.unsigned_abs()
            && params.y_batch[*axis].unsigned_abs() < params.y_stride.unsigned_abs()
    };
    let near = (0..rank).take_while(is_near).count();
    let is_whole = params.rows.is_multiple_of(tile) && params.columns.is_multiple_of(tile);
    if near == 0 || !is_whole || rank + params.tiles.len() > params.batch.len() {
        return;
    }
    let step = i64::from(tile);
    let along = [
        (params.tiles[0], step.wrapping_mul(params.x_stride), step),
        (params.tiles[1], step, step.wrapping_mul(params.y_stride)),
    ];
    params.batch.copy_within(near..rank, near + along.len());
    params.x_batch.copy_within(near..rank, near + along.len());
    params.y_batch.copy_within(near..rank, near + along.len());
    for (axis, (tiles, x, y)) in along.into_iter().enumerate() {
        params.batch[near + axis] = tiles;
        params.x_batch[near + axis] = x;
        params.y_batch[near + axis] = y;
    }
    params.batch_rank += along.len() as u32;
    params.tiles = [Division::ONE; 2];
    (params.rows, params.columns) = (tile, tile);
}

#[cfg(test)]
mod tests {
    use super::super::plan::Steps;
    use super::*;

    fn of(shape: &[usize], y: &[i64], x: &[i64]) -> Option<Transposition> {
        let steps = |strides: &[i64]| {
            let mut all = [0; MAX_RANK];
            all[..strides.len()].copy_from_slice(strides);
            Steps {
                strides: all,
                address: 256,
                size_bytes: 4,
            }
        };
        let walk = Walk::new(shape, &[steps(y), steps(x)]);
        Transposition::of(&walk, 4, &ElementwiseCosts::H200)
    }

    #[test]
    fn a_transposed_matrix_is_one() {
        let got = of(&[100, 64], &[64, 1], &[1, 100]).expect("a transposition");
        let params = got.params;
        assert_eq!((params.rows, params.columns), (64, 100));
        assert_eq!((params.x_stride, params.y_stride), (100, 64));
        assert_eq!((got.blocks, params.batch_rank, params.aligned), (2, 0, 3));
    }

    #[test]
    fn what_lies_between_is_a_batch() {
        // [a, b, c] to [c, b, a]
        let got = of(&[40, 5, 50], &[250, 50, 1], &[1, 40, 200]).expect("a transposition");
        assert_eq!((got.params.rows, got.params.columns), (50, 40));
        assert_eq!((got.params.batch_rank, got.blocks), (1, 5));
        assert_eq!((got.params.x_batch[0], got.params.y_batch[0]), (40, 50));
        // Rows of 50 elements of 4 bytes do not begin at multiples of 16 in y; in x they do.
        assert_eq!(got.params.aligned, 1);
    }

    #[test]
    fn windows_that_begin_at_every_element_are_not_aligned() {
        // [window, a, b] of x[window + a], for each b.
        let got = of(&[2, 64, 32], &[2048, 32, 1], &[1, 1, 0]).expect("a transposition");
        assert_eq!(got.params.aligned, 2);
        let got = of(&[2, 64, 32], &[2048, 32, 1], &[4, 1, 0]).expect("a transposition");
        assert_eq!(got.params.aligned, 3);
    }

    #[test]
    fn matrices_side_by_side_come_before_tiles() {
        // [a, b, c, d] to [a, d, c, b], in whole tiles of 64
        let got = of(
            &[3, 128, 5, 64],
            &[40960, 320, 64, 1],
            &[40960, 1, 128, 640],
        )
        .expect("a transposition");
        let params = got.params;
        let batch = params.batch[..4].iter().map(|axis| axis.divisor);
        assert_eq!((got.blocks, params.batch_rank), (30, 4));
        assert_eq!(batch.collect::<Vec<_>>(), [5, 1, 2, 3]);
        assert_eq!(params.x_batch[..4], [128, 64 * 640, 64, 40960]);
        assert_eq!(params.y_batch[..4], [64, 64, 64 * 320, 40960]);
        assert_eq!((params.rows, params.columns), (64, 64));
        assert_eq!(params.tiles, [Division::ONE; 2]);
    }

    #[test]
    fn copies_and_slivers_are_none() {
        assert_eq!(of(&[100, 64], &[64, 1], &[64, 1]), None);
        assert_eq!(of(&[100, 64], &[64, 1], &[128, 2]), None);
        assert_eq!(of(&[100, 4], &[4, 1], &[1, 100]), None);
        assert_eq!(of(&[10, 10], &[20, 2], &[1, 10]), None);
    }
}
