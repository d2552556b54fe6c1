//! Block masks: which blocks of keys a block of queries sees. The tables that kernels read
//! ([`abi::attention::blocks`]) are built here, on the device.

mod build;
mod shape;

use super::score::ScoreFunction;
use crate::error::named;
use crate::ops::indices::Indices;
use crate::{Error, Result, Stream, Tensor};
use abi::attention::blocks::{FULL, PARTIAL};
use build::{Build, lists};
pub use shape::BlockMaskShape;

const OPERATION: &str = "block_mask";

/// A mask of whole blocks of queries and keys, for [`Attention::block_mask`](crate::Attention::block_mask).
/// Blocks that it hides are neither loaded nor computed, forward and backward.
///
/// A block of queries sees a block of keys *fully*, *partially* (a mask function says which pairs) or
/// not at all. There is a mask for each batch and each query head, or one for all of them
/// ([`BlockMaskShape`]). Positions count within a sequence, from its first used query and key.
///
/// | made from | by | on |
/// |---|---|---|
/// | a mask function | [`from_mask`](Self::from_mask): each block is evaluated | the device |
/// | lists of blocks | [`from_lists`](Self::from_lists), [`from_partial_lists`](Self::from_partial_lists) | the host |
/// | indices, as top-k gives them | [`from_indices`](Self::from_indices), [`set_indices`](Self::set_indices) | the device |
///
/// A clone is another handle to the same mask. A mask may be used on several streams at a time, and in
/// captured CUDA graphs, once the stream that builds it is done.
///
/// # Memory
/// For each batch and head of the mask, a byte for each 64 queries and 64 keys, and 24 bytes for each
/// pair of blocks. If blocks are not multiples of 128, 24 bytes more for each 128 queries and 128 keys.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, BlockMask, BlockMaskShape, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let q = Tensor::full(&stream, &[1, 128, 1, 8], 0.5_f32)?;
/// let v = Tensor::full(&stream, &[1, 192, 1, 8], 0.25_f32)?;
/// // The first 64 queries see the last 64 keys; the others see nothing.
/// let shape = BlockMaskShape::new(128, 192).blocks(64, 64);
/// let mask = BlockMask::from_lists(&shape, &[vec![2], vec![]], &stream)?;
/// let o = Attention::new(&q, &v, &v).block_mask(&mask).run(&stream)?.to_vec()?;
/// assert!(o[..64 * 8].iter().all(|x| (x - 0.25).abs() < 1e-6) && o[64 * 8..] == [0.0; 64 * 8]);
///
/// // The same from indices on the device, as top-k gives them; out of range means none.
/// let indices = Tensor::from_slice(&device, &[1, 1, 2, 1], &[2, -1])?;
/// let same = BlockMask::from_indices(&shape, &indices, &stream)?;
/// assert_eq!(same.density()?, mask.density()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlockMask {
    pub(super) shape: BlockMaskShape,
    pub(super) function: Option<ScoreFunction>,
    /// Whether the cells are what the function says, so that full ones are so by it too.
    pub(super) is_by_function: bool,
    /// `[batch, heads, rows, pitch]`
    pub(super) cells: Tensor<u8>,
    pub(super) levels: Vec<Level>,
}

/// Lines of blocks of one extent.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Log2 of the queries and keys of a block.
    pub(super) log2: [u32; 2],
    /// Planes of the lines of queries, and of keys: `[3, batch, heads, lines, blocks]`.
    pub(super) lines: [Tensor<u32>; 2],
}

impl BlockMask {
    /// The mask of a function ([`ScoreFunction`] of one fragment), which is evaluated for every pair
    /// once, on the device, and again in blocks that it shows in part.
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for another function or a shape that there
    /// is not, [`Error::Device`]. The first mask of a function composes a kernel, which takes some
    /// milliseconds.
    pub fn from_mask(
        shape: &BlockMaskShape,
        function: &ScoreFunction,
        stream: &Stream,
    ) -> Result<Self> {
        named(OPERATION, || {
            let mask = Self::new(shape, Some(function), stream)?;
            mask.show(function, stream)?;
            mask.build_lines(stream)?;
            Ok(Self {
                is_by_function: true,
                ..mask
            })
        })
    }

    /// The mask that shows the blocks of keys in these lists, one list for each block of queries, of
    /// each head of each batch of the shape. The order within a list has no effect.
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) if a list names a block twice, and for a
    /// shape that there is not; [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for a block
    /// that there is not; [`ShapeError::Length`](crate::ShapeError::Length) for another number of
    /// lists.
    pub fn from_lists(shape: &BlockMaskShape, full: &[Vec<u32>], stream: &Stream) -> Result<Self> {
        named(OPERATION, || {
            shape.check()?;
            let cells = lists(shape, &[("full", full, FULL)])?;
            Self::of_cells(shape, (None, &cells), stream)
        })
    }

    /// The same with blocks that are shown in part: those that `function` shows of the blocks in
    /// `partial`. Blocks in `full` are shown whatever it says.
    ///
    /// # Errors
    /// As [`from_lists`](Self::from_lists), also for a block in both lists; and as
    /// [`from_mask`](Self::from_mask).
    pub fn from_partial_lists(
        shape: &BlockMaskShape,
        full: &[Vec<u32>],
        partial: &[Vec<u32>],
        function: &ScoreFunction,
        stream: &Stream,
    ) -> Result<Self> {
        named(OPERATION, || {
            shape.check()?;
            function.check("mask", true)?;
            let all = [("full", full, FULL), ("partial", partial, PARTIAL)];
            let cells = lists(shape, &all)?;
            Self::of_cells(shape, (Some(function), &cells), stream)
        })
    }

    /// The mask that shows the blocks of keys with these indices, `[batch, heads, q_blocks, n]`, i32
    /// or i64, of any strides. They may be in any order, and repeated. Negative ones and those beyond
    /// the last block are left out. The device reads them; the host does not.
    ///
    /// # Errors
    /// [`Error::Shape`], [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for a shape that there is not,
    /// [`Error::Device`].
    pub fn from_indices<'i>(
        shape: &BlockMaskShape,
        indices: impl Into<Indices<'i>>,
        stream: &Stream,
    ) -> Result<Self> {
        named(OPERATION, || {
            let mask = Self::new(shape, None, stream)?;
            mask.mark(indices.into(), stream)?;
            Ok(mask)
        })
    }

    /// Replaces the mask by that of these indices, in the same memory, as
    /// [`from_indices`](Self::from_indices) makes it. So a captured graph may do it. Work on other
    /// streams that uses the mask must be done.
    ///
    /// # Errors
    /// As [`from_indices`](Self::from_indices), and
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for a mask with a function.
    pub fn set_indices<'i>(&self, indices: impl Into<Indices<'i>>, stream: &Stream) -> Result<()> {
        named(OPERATION, || {
            if self.function.is_some() {
                let supported = "masks that `from_lists` or `from_indices` made";
                return Err(Error::unsupported("indices for a mask function", supported));
            }
            self.cells.fill(0, stream)?;
            self.mark(indices.into(), stream)
        })
    }

    /// Its shape.
    pub fn shape(&self) -> &BlockMaskShape {
        &self.shape
    }

    /// The share of pairs of a query and a key, of all batches and heads, in blocks that are visited.
    /// Waits for the device.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn density(&self) -> Result<f64> {
        let cells = self.cells.to_vec()?;
        let shape = &self.shape;
        let mut pairs = 0;
        for (idx, &cell) in cells.iter().enumerate() {
            let (row, column) = (idx / shape.pitch() % shape.rows(), idx % shape.pitch());
            if cell != 0 {
                pairs += shape.queries_of(row) as u64 * shape.keys_of(column) as u64;
            }
        }
        let all = shape.matrices() as u64 * shape.seqlen_q as u64 * shape.seqlen_k as u64;
        Ok(pairs as f64 / all.max(1) as f64)
    }
}
