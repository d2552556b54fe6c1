//! Builds the tables of block masks.

use super::{BlockMask, BlockMaskShape, Level};
use crate::launch::KernelArg as _;
use crate::ops::attention::extents::Extents;
use crate::ops::attention::score::{ScoreFunction, ScoreOptions, scored};
use crate::ops::check;
use crate::ops::indices::Indices;
use crate::{AttentionMask, Error, LaunchConfig, Result, Stream, Tensor, load};
use abi::attention::blocks::{
    BLOCKS_LINES, BLOCKS_MARK, BLOCKS_SHOW, BlockMarkParams, CELL, FULL, LineParams, ShowParams,
    THREADS, WARPS,
};

/// A launch of so many warps.
fn warps(count: usize) -> LaunchConfig {
    LaunchConfig::linear((count as u64).div_ceil(u64::from(WARPS)) as u32, THREADS)
}

/// Cells of lists of blocks, each with its name and the value of its cells.
pub(super) fn lists(
    shape: &BlockMaskShape,
    all: &[(&'static str, &[Vec<u32>], u32)],
) -> Result<Vec<u8>> {
    let count = shape.matrices() * shape.q_blocks();
    let mut cells = vec![0; shape.matrices() * shape.rows() * shape.pitch()];
    let [q_cells, k_cells] = shape.block.map(|extent| extent / CELL as usize);
    for &(name, lists, value) in all {
        if lists.len() != count {
            return Err(Error::length(name, lists.len(), count));
        }
        for (line, list) in lists.iter().enumerate() {
            let (matrix, q_block) = (line / shape.q_blocks(), line % shape.q_blocks());
            for &block in list {
                if block as usize >= shape.k_blocks() {
                    let limit = shape.k_blocks() as u64;
                    return Err(Error::out_of_bounds(name, u64::from(block), limit));
                }
                let first = block as usize * k_cells;
                let end = shape.columns().min(first + k_cells);
                for row in q_block * q_cells..shape.rows().min((q_block + 1) * q_cells) {
                    let row = (matrix * shape.rows() + row) * shape.pitch();
                    let cells = &mut cells[row + first..row + end];
                    if cells.iter().any(|&cell| cell != 0) {
                        let got =
                            format!("block {block} of keys twice, for block {q_block} of queries");
                        return Err(Error::value(name, got, "each block once"));
                    }
                    cells.fill(value as u8);
                }
            }
        }
    }
    Ok(cells)
}

/// Steps of building a mask.
pub(super) trait Build: Sized {
    /// A mask that shows nothing, without lines.
    fn new(
        shape: &BlockMaskShape,
        function: Option<&ScoreFunction>,
        stream: &Stream,
    ) -> Result<Self>;

    /// The mask of these cells.
    fn of_cells(
        shape: &BlockMaskShape,
        of: (Option<&ScoreFunction>, &[u8]),
        stream: &Stream,
    ) -> Result<Self>;

    /// Sets all cells by what the function shows.
    fn show(&self, function: &ScoreFunction, stream: &Stream) -> Result<()>;

    /// Marks blocks by their indices, in cells that are 0, and builds lines.
    fn mark(&self, indices: Indices<'_>, stream: &Stream) -> Result<()>;

    /// Builds the lines of the cells.
    fn build_lines(&self, stream: &Stream) -> Result<()>;
}

fn shape_of_cells(shape: &BlockMaskShape) -> [usize; 4] {
    [shape.batch, shape.heads, shape.rows(), shape.pitch()]
}

/// Lines and blocks of a level, by query and by key.
fn extents(shape: &BlockMaskShape, log2: [u32; 2]) -> [[usize; 2]; 2] {
    let of = |seqlen: usize, log2: u32| seqlen.div_ceil(1 << log2).max(1);
    let (q, k) = (of(shape.seqlen_q, log2[0]), of(shape.seqlen_k, log2[1]));
    [[q, k], [k, q]]
}

impl Build for BlockMask {
    fn new(
        shape: &BlockMaskShape,
        function: Option<&ScoreFunction>,
        stream: &Stream,
    ) -> Result<Self> {
        shape.check()?;
        if let Some(function) = function {
            function.check("mask", true)?;
        }
        let cells = Tensor::zeros(stream, &shape_of_cells(shape))?;
        Self::without_lines(shape, (function, cells), stream)
    }

    fn of_cells(
        shape: &BlockMaskShape,
        (function, cells): (Option<&ScoreFunction>, &[u8]),
        stream: &Stream,
    ) -> Result<Self> {
        let cells = Tensor::from_slice(stream.device(), &shape_of_cells(shape), cells)?;
        let mask = Self::without_lines(shape, (function, cells), stream)?;
        mask.build_lines(stream)?;
        Ok(mask)
    }

    fn show(&self, function: &ScoreFunction, stream: &Stream) -> Result<()> {
        let shape = &self.shape;
        if self.cells.is_empty() {
            return Ok(());
        }
        let options = ScoreOptions {
            mask: Some(AttentionMask::Function(function)),
            ..ScoreOptions::default()
        };
        let call = options.call(&Extents::of_scores(shape), 1.0, None, false)?;
        let params = ShowParams {
            batch: shape.batch as u32,
            heads: shape.heads as u32,
            seqlen_q: shape.seqlen_q as u32,
            seqlen_k: shape.seqlen_k as u32,
            rows: shape.rows() as u32,
            columns: shape.columns() as u32,
            pitch: shape.pitch() as u32,
        };
        let config = warps(shape.matrices() * shape.rows() * shape.columns());
        let memory = call.iter().flat_map(|call| &call.memory);
        for memory in memory {
            memory.use_on(stream)?;
        }
        // SAFETY: the cells have these extents, and the launch a warp for each.
        unsafe {
            scored(
                call.as_ref(),
                (BLOCKS_SHOW, stream),
                config,
                (&self.cells,),
                &params,
            )
        }
    }

    fn mark(&self, indices: Indices<'_>, stream: &Stream) -> Result<()> {
        let shape = &self.shape;
        let lines = [shape.batch, shape.heads, shape.q_blocks()];
        let got = indices.shape();
        let [batch, heads, q_blocks, count] = *got else {
            let want = "[batch, heads, q_blocks, n]";
            return Err(Error::shape("indices", got, want));
        };
        if [batch, heads, q_blocks] != lines {
            let want = format!(
                "[{batch}, {heads}, {q_blocks}, n], by the mask's shape",
                batch = lines[0],
                heads = lines[1],
                q_blocks = lines[2]
            );
            return Err(Error::shape("indices", got, want));
        }
        indices.check_device("indices", stream)?;
        let lines = lines.iter().product::<usize>();
        if lines * count > 0 {
            let indices = indices.to_i32(stream)?.contiguous(stream)?;
            let [q_cells, k_cells] = shape.block.map(|extent| extent as u32 / CELL);
            let params = BlockMarkParams {
                lines: lines as u32,
                q_blocks: q_blocks as u32,
                count: check::extent("indices", count)?,
                k_blocks: shape.k_blocks() as u32,
                q_cells,
                k_cells,
                rows: shape.rows() as u32,
                columns: shape.columns() as u32,
                pitch: shape.pitch() as u32,
                value: FULL,
            };
            let kernel = load::kernel(stream, BLOCKS_MARK)?;
            // SAFETY: indices and cells have these extents, and the launch a warp for each line.
            unsafe { kernel.launch(stream, warps(lines), (&indices, &self.cells), &params) }?;
        }
        self.build_lines(stream)
    }

    fn build_lines(&self, stream: &Stream) -> Result<()> {
        let shape = &self.shape;
        if self.cells.is_empty() {
            return Ok(());
        }
        let kernel = load::kernel(stream, BLOCKS_LINES)?;
        for level in &self.levels {
            let own = [
                (shape.rows() as u32, shape.pitch() as u32),
                (shape.columns() as u32, 1),
            ];
            for (idx, [lines, blocks]) in extents(shape, level.log2).into_iter().enumerate() {
                let ((rows, row_bytes), (columns, column_bytes)) = (own[idx], own[1 - idx]);
                let cells = |of: usize| (1 << level.log2[of]) / CELL;
                let params = LineParams {
                    matrices: shape.matrices() as u32,
                    lines: lines as u32,
                    blocks: blocks as u32,
                    line_cells: cells(idx),
                    block_cells: cells(1 - idx),
                    rows,
                    columns,
                    row_bytes,
                    column_bytes,
                    matrix_bytes: (shape.rows() * shape.pitch()) as u32,
                };
                let config = warps(shape.matrices() * lines);
                // SAFETY: cells and planes have these extents, and the launch a warp for each line.
                unsafe {
                    kernel.launch(stream, config, (&self.cells, &level.lines[idx]), &params)
                }?;
            }
        }
        Ok(())
    }
}

impl BlockMask {
    /// A mask of these cells whose lines are not built.
    fn without_lines(
        shape: &BlockMaskShape,
        (function, cells): (Option<&ScoreFunction>, Tensor<u8>),
        stream: &Stream,
    ) -> Result<Self> {
        let levels = shape.levels().into_iter().map(|log2| {
            let planes = |[lines, blocks]: [usize; 2]| {
                Tensor::empty(stream, &[3, shape.batch, shape.heads, lines, blocks])
            };
            let [by_query, by_key] = extents(shape, log2);
            Ok(Level {
                log2,
                lines: [planes(by_query)?, planes(by_key)?],
            })
        });
        Ok(Self {
            shape: *shape,
            function: function.cloned(),
            is_by_function: false,
            levels: levels.collect::<Result<_>>()?,
            cells,
        })
    }
}
