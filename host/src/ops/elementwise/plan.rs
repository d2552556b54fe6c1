//! How an elementwise launch walks its tensors: dimensions are merged where all tensors allow it,
//! and the walk is cut into launches whose indices fit 31 bits.

use abi::division::Division;
use abi::elementwise::{MAX_LEN, MAX_RANK, WalkParams};

/// Most tensors of a walk.
pub(crate) const TENSORS: usize = 5;

/// Strides and address of a tensor of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Strides in elements, one for each dimension of the walk's shape.
    pub(crate) strides: [i64; MAX_RANK],
    /// Address of the first element.
    pub(crate) address: u64,
    /// Size of an element.
    pub(crate) size_bytes: usize,
}

/// A shape, and the strides of up to five tensors over it, the output first. Dimensions are listed
/// innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MAX_RANK],
    pub(crate) strides: [[i64; MAX_RANK]; TENSORS],
    addresses: [u64; TENSORS],
    sizes: [usize; TENSORS],
    tensors: usize,
}

/// One launch of a walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) params: WalkParams,
    /// Address of each tensor's first element of the piece.
    pub(crate) addresses: [u64; TENSORS],
}

impl Walk {
    /// The walk over `shape` by `tensors`, the output first. Elements are independent, so
    /// dimensions may be visited in any order and direction; the walk follows the memory order of
    /// the output.
    ///
    /// The caller has refused outputs with strides of 0, which would write elements twice.
    pub(crate) fn new(shape: &[usize], tensors: &[Steps]) -> Self {
        let mut walk = Self {
            rank: 0,
            shape: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; TENSORS],
            addresses: [0; TENSORS],
            sizes: [1; TENSORS],
            tensors: tensors.len().min(TENSORS),
        };
        for (t, tensor) in tensors.iter().enumerate().take(TENSORS) {
            walk.addresses[t] = tensor.address;
            walk.sizes[t] = tensor.size_bytes;
        }
        for (axis, &extent) in shape.iter().enumerate().rev() {
            if extent != 1 {
                walk.shape[walk.rank] = extent;
                for (to, from) in walk.strides.iter_mut().zip(tensors) {
                    to[walk.rank] = from.strides[axis];
                }
                walk.rank += 1;
            }
        }
        walk.turn();
        walk.sort();
        walk.merge();
        walk
    }

    /// Reverses dimensions in which the output's stride is negative.
    fn turn(&mut self) {
        for axis in 0..self.rank {
            if self.strides[0][axis] >= 0 {
                continue;
            }
            let last = self.shape[axis].saturating_sub(1) as i64;
            for t in 0..self.tensors {
                let stride = self.strides[t][axis];
                let reach = last.wrapping_mul(stride).wrapping_mul(self.sizes[t] as i64);
                self.addresses[t] = self.addresses[t].wrapping_add_signed(reach);
                self.strides[t][axis] = -stride;
            }
        }
    }

    /// Sorts the dimensions by the output's strides, smallest first (insertion sort).
    fn sort(&mut self) {
        for end in 1..self.rank {
            let mut axis = end;
            while axis > 0 && self.strides[0][axis] < self.strides[0][axis - 1] {
                self.shape.swap(axis, axis - 1);
                for strides in &mut self.strides {
                    strides.swap(axis, axis - 1);
                }
                axis -= 1;
            }
        }
    }

    /// Merges adjacent dimensions whose elements are equally spaced in every tensor.
    fn merge(&mut self) {
        let mut last = 0;
        for axis in 1..self.rank {
            let extent = self.shape[last] as i128;
            let joins = self
                .strides
                .iter()
                .all(|s| i128::from(s[axis]) == i128::from(s[last]) * extent);
            if joins {
                self.shape[last] *= self.shape[axis];
                continue;
            }
            last += 1;
            self.shape[last] = self.shape[axis];
            for strides in &mut self.strides {
                strides[last] = strides[axis];
            }
        }
        if self.rank > 0 {
            self.rank = last + 1;
        }
        for axis in self.rank..MAX_RANK {
            self.shape[axis] = 1;
            for strides in &mut self.strides {
                strides[axis] = 0;
            }
        }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.shape[..self.rank]
            .iter()
            .map(|&extent| extent as u64)
            .product()
    }

    /// Address of the first element of tensor `t`.
    pub(crate) fn address(&self, t: usize) -> u64 {
        self.addresses[t]
    }

    /// The walk over the same bytes with elements `times` as large, if all tensors allow it. A
    /// dimension of which one element is left is removed.
    pub(crate) fn widened(&self, times: usize) -> Option<Self> {
        self.widened_in(times, self.tensors)
    }

    /// The same, where elements of the first `moved` tensors alone get larger: the others have one
    /// element for all that becomes one.
    pub(crate) fn widened_in(&self, times: usize, moved: usize) -> Option<Self> {
        let tensors = 0..moved;
        let fits = self.rank > 0
            && self.shape[0].is_multiple_of(times)
            && self.strides[moved..].iter().all(|strides| strides[0] == 0)
            && tensors.clone().all(|t| {
                let strides = &self.strides[t];
                let bytes = (times * self.sizes[t]) as u64;
                strides[0] == 1
                    && self.addresses[t].is_multiple_of(bytes)
                    && strides[1..self.rank].iter().all(|s| s % times as i64 == 0)
            });
        if !fits {
            return None;
        }
        let mut wide = *self;
        wide.shape[0] /= times;
        for t in tensors {
            wide.sizes[t] *= times;
            for stride in &mut wide.strides[t][1..self.rank] {
                *stride /= times as i64;
            }
        }
        if wide.shape[0] == 1 {
            wide.shape.copy_within(1.., 0);
            for strides in &mut wide.strides {
                strides.copy_within(1.., 0);
                strides[MAX_RANK - 1] = 0;
            }
            wide.shape[MAX_RANK - 1] = 1;
            wide.rank -= 1;
        }
        Some(wide)
    }

    /// Elements of a vector access (at most `largest`), and a mask of the tensors that are
    /// broadcast along it.
    fn chunk(&self, largest: u32) -> (u32, u32) {
        let mut splat = 0;
        for t in 1..self.tensors {
            if self.strides[t][0] == 0 && self.rank > 0 {
                splat |= 1 << t;
            }
        }
        let mut chunk = largest;
        while chunk >= 2 {
            let times = chunk as usize;
            let inner = self.rank <= 1 || self.shape[0].is_multiple_of(times);
            let fits = (0..self.tensors).all(|t| {
                let strides = &self.strides[t];
                let bytes = (times * self.sizes[t]) as u64;
                let is_dense = strides[0] == 1
                    && self.addresses[t].is_multiple_of(bytes)
                    && strides[1..].iter().all(|s| s % times as i64 == 0);
                is_dense || (splat >> t) & 1 == 1
            });
            if inner && fits {
                return (chunk, splat);
            }
            chunk /= 2;
        }
        (1, 0)
    }

    /// Calls `launch` for each piece of the walk, which must have at least one element. The
    /// kernels' vector accesses have up to `largest_chunk` elements.
    ///
    /// # Errors
    /// The first that `launch` returns.
    pub(crate) fn pieces<E>(
        &self,
        largest_chunk: u32,
        launch: impl FnMut(&Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pieces_up_to(MAX_LEN, largest_chunk, launch)
    }

    /// The first piece with at most `limit` elements.
    pub(crate) fn first_piece(&self, limit: u64) -> Option<Piece> {
        let mut first = None;
        let stop = self.pieces_up_to(limit.min(MAX_LEN), 1, |piece| {
            first = Some(*piece);
            Err(())
        });
        first.filter(|_| stop.is_err())
    }

    /// As [`pieces`](Self::pieces), with at most `limit` elements each, at least 1.
    pub(crate) fn pieces_up_to<E>(
        &self,
        limit: u64,
        largest_chunk: u32,
        mut launch: impl FnMut(&Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        // A piece covers the dimensions inside of `cut` in whole, and `steps` indices of `cut`.
        let (mut cut, mut inner) = (0, 1_u64);
        while cut < self.rank && inner * self.shape[cut] as u64 <= limit {
            inner *= self.shape[cut] as u64;
            cut += 1;
        }
        let mut walk = *self;
        if cut == self.rank {
            return launch(&walk.piece(largest_chunk));
        }
        let most = (limit / inner).max(1) as usize;
        let mut at = [0_usize; MAX_RANK];
        loop {
            let steps = most.min(self.shape[cut] - at[cut]);
            walk.shape = self.shape;
            walk.shape[cut] = steps;
            walk.rank = cut + 1;
            for t in 0..self.tensors {
                let reach: i64 = (cut..self.rank)
                    .map(|axis| (at[axis] as i64).wrapping_mul(self.strides[t][axis]))
                    .fold(0, i64::wrapping_add);
                let bytes = reach.wrapping_mul(self.sizes[t] as i64);
                walk.addresses[t] = self.addresses[t].wrapping_add_signed(bytes);
            }
            launch(&walk.piece(largest_chunk))?;
            at[cut] += steps;
            let mut axis = cut;
            while at[axis] == self.shape[axis] {
                at[axis] = 0;
                axis += 1;
                if axis == self.rank {
                    return Ok(());
                }
                at[axis] += 1;
            }
        }
    }

    /// The whole walk as one piece.
    fn piece(&self, largest_chunk: u32) -> Piece {
        let (chunk, splat) = self.chunk(largest_chunk);
        let mut params = WalkParams {
            len: self.len() as u32,
            rank: self.rank as u32,
            chunk,
            splat,
            extents: [Division::ONE; MAX_RANK],
            strides: [[0; MAX_RANK]; TENSORS],
        };
        for axis in 0..self.rank {
            params.extents[axis] = Division::new(self.shape[axis] as u32);
            for (to, from) in params.strides.iter_mut().zip(&self.strides) {
                to[axis] = from[axis];
            }
        }
        Piece {
            params,
            addresses: self.addresses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(shape: &[usize], strides: &[&[i64]], address: u64) -> Walk {
        let tensors: Vec<Steps> = strides
            .iter()
            .map(|strides| {
                let mut all = [0; MAX_RANK];
                all[..strides.len()].copy_from_slice(strides);
                Steps {
                    strides: all,
                    address,
                    size_bytes: 4,
                }
            })
            .collect();
        Walk::new(shape, &tensors)
    }

    fn dims(walk: &Walk) -> Vec<(usize, i64, i64)> {
        (0..walk.rank)
            .map(|i| (walk.shape[i], walk.strides[0][i], walk.strides[1][i]))
            .collect()
    }

    fn only_piece(walk: &Walk, chunk: u32) -> Piece {
        let mut pieces = Vec::new();
        let got: Result<(), ()> = walk.pieces(chunk, |piece| {
            pieces.push(*piece);
            Ok(())
        });
        assert_eq!((got, pieces.len()), (Ok(()), 1));
        pieces[0]
    }

    #[test]
    fn dense_tensors_are_one_dimension_in_chunks() {
        let walk = walk(&[2, 3, 4], &[&[12, 4, 1], &[12, 4, 1]], 32);
        assert_eq!(dims(&walk), [(24, 1, 1)]);
        let params = only_piece(&walk, 4).params;
        assert_eq!((params.len, params.chunk, params.splat), (24, 4, 0));
    }

    #[test]
    fn tensors_transposed_alike_are_dense_too() {
        assert_eq!(dims(&walk(&[3, 4], &[&[1, 3], &[1, 3]], 0)), [(12, 1, 1)]);
    }

    #[test]
    fn a_transposed_input_keeps_both_dimensions() {
        let walk = walk(&[3, 4], &[&[4, 1], &[1, 3]], 0);
        assert_eq!(dims(&walk), [(4, 1, 3), (3, 4, 1)]);
        assert_eq!(only_piece(&walk, 8).params.chunk, 1);
    }

    #[test]
    fn a_broadcast_row_keeps_its_zero_stride_and_a_column_is_the_same_for_a_chunk() {
        let row = walk(&[5, 3, 4], &[&[12, 4, 1], &[0, 0, 1]], 0);
        assert_eq!(dims(&row), [(4, 1, 1), (15, 4, 0)]);
        let column = walk(&[5, 8], &[&[8, 1], &[1, 0]], 0);
        let params = only_piece(&column, 8).params;
        assert_eq!((params.chunk, params.splat), (8, 0b10));
        let even = walk(&[5, 6], &[&[6, 1], &[1, 0]], 0);
        assert_eq!(only_piece(&even, 8).params.chunk, 2);
        let ragged = walk(&[5, 7], &[&[7, 1], &[1, 0]], 0);
        assert_eq!(only_piece(&ragged, 8).params.chunk, 1);
    }

    #[test]
    fn a_single_element_is_walked_whatever_its_strides() {
        let single = walk(&[1, 1], &[&[7, 9], &[0, -3]], 0);
        assert_eq!(only_piece(&single, 4).params.len, 1);
        assert_eq!(only_piece(&walk(&[], &[&[], &[]], 0), 4).params.len, 1);
    }

    #[test]
    fn what_runs_backwards_in_all_tensors_runs_forwards() {
        let both = walk(&[4, 5], &[&[-5, -1], &[-5, -1]], 1000);
        assert_eq!(dims(&both), [(20, 1, 1)]);
        assert_eq!(both.addresses[0], 1000 - 19 * 4);
        let one = walk(&[4, 5], &[&[5, 1], &[-5, -1]], 0);
        assert_eq!(dims(&one), [(20, 1, -1)]);
        assert_eq!(only_piece(&one, 4).params.chunk, 1);
    }

    #[test]
    fn what_is_misaligned_has_shorter_chunks_or_none() {
        let chunk = |address: u64, largest: u32| {
            let walk = walk(&[64], &[&[1], &[1]], address);
            only_piece(&walk, largest).params.chunk
        };
        assert_eq!(chunk(16, 8), 4);
        assert_eq!(chunk(8, 4), 2);
        assert_eq!(chunk(4, 4), 1);
    }

    #[test]
    fn pieces_cover_every_element_once() {
        for shape in [vec![100], vec![7, 9], vec![3, 4, 5], vec![50, 3]] {
            for limit in [1, 4, 10, 13, 60] {
                let len: usize = shape.iter().product();
                let mut strides = vec![0_i64; shape.len()];
                let mut stride = 1;
                for (to, &extent) in strides.iter_mut().zip(&shape).rev() {
                    *to = stride;
                    stride += stride * extent as i64; // with gaps
                }
                let walk = walk(&shape, &[&strides], 400);
                let mut seen = vec![0; stride as usize];
                let got: Result<(), ()> = walk.pieces_up_to(limit, 8, |piece| {
                    let params = &piece.params;
                    assert!(u64::from(params.len) <= limit);
                    for mut index in 0..params.len {
                        let mut at = (piece.addresses[0] as i64 - 400) / 4;
                        for axis in 0..params.rank as usize {
                            let (rest, i) = params.extents[axis].div_rem(index);
                            at += i64::from(i) * params.strides[0][axis];
                            index = rest;
                        }
                        seen[at as usize] += 1;
                    }
                    Ok(())
                });
                assert_eq!(got, Ok(()));
                assert_eq!(
                    seen.iter().filter(|&&n| n == 1).count(),
                    len,
                    "{shape:?} {limit}"
                );
                assert!(seen.iter().all(|&n| n <= 1));
            }
        }
    }

    #[test]
    fn dense_bytes_are_moved_in_wider_elements() {
        let dense = walk(&[3, 8], &[&[16, 1], &[8, 1]], 64);
        let wide = dense.widened(4).expect("rows of 32 bytes");
        assert_eq!(dims(&wide), [(2, 1, 1), (3, 4, 2)]);
        assert!(walk(&[3, 6], &[&[16, 1], &[8, 1]], 64).widened(4).is_none());
        assert!(walk(&[3, 8], &[&[10, 1], &[8, 1]], 64).widened(4).is_none());
        assert!(walk(&[8], &[&[1], &[1]], 8).widened(4).is_none());
    }
}
