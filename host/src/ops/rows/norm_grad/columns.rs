//! The sums over rows: gradients of weight and bias, in partial sums that are then added up.

use super::{NormGrad, NormGradients};
use crate::load::{self, LoadVariant};
use crate::ops::check;
use crate::ops::float::Float;
use crate::ops::rows::Rows;
use crate::tensor::Address;
use crate::{LaunchConfig, Result, Stream, Tensor};
use abi::rows::{NORM_GRAD_FINISH, RowEntry, RowOp, RowParams, Variant, column_block};

/// Most partial sums of a column in the kernel that does not hold rows on chip.
const COLUMN_PARTS: usize = 256;

/// Fewest rows of a partial sum of a column.
const COLUMN_LENGTH: usize = 16;

/// Threads of a block that adds up columns.
const COLUMN_THREADS: u32 = 256;

/// Partial sums of a column in the kernel that does not hold rows on chip.
pub(super) fn parts(rows: usize) -> usize {
    rows.div_ceil(COLUMN_LENGTH).min(COLUMN_PARTS)
}

impl<T: Float> NormGrad<'_, T> {
    /// Partial sums of columns, by a separate launch.
    pub(super) fn columns(
        &self,
        placed: &Placed<T>,
        sums: &[Option<Tensor<f32>>; 2],
        parts: usize,
        params: RowParams,
        stream: &Stream,
    ) -> Result<()> {
        let entry = check::entry(RowEntry::of(RowOp::NormGrad, T::DTYPE, Variant::Columns))?;
        let kernel = load::kernel(stream, entry)?;
        let blocks = params.n.div_ceil(u64::from(COLUMN_THREADS));
        let mut config = LaunchConfig::linear(blocks as u32, COLUMN_THREADS);
        config.grid[1] = parts as u32;
        let sums = [sums[0].as_ref(), sums[1].as_ref()];
        let memory = placed.memory(self, Address::NULL, sums);
        // SAFETY: as for the launch that computes dx; there is a row of partial sums for each block
        // in y.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }
}

/// Adds up the partial sums of columns.
pub(super) fn finish<T: Float>(
    sums: &[Option<Tensor<f32>>; 2],
    out: &NormGradients<T>,
    (parts, mut params): (usize, RowParams),
    stream: &Stream,
) -> Result<()> {
    if sums.iter().all(Option::is_none) {
        return Ok(());
    }
    let bytes = 8 * parts as u64 * params.n;
    let variant = LoadVariant::of(stream.device(), bytes);
    let kernel = load::kernel_for(variant, stream, NORM_GRAD_FINISH)?;
    params.rows = parts as u64;
    let (columns, threads) = column_block(params.rows);
    params.threads = columns;
    let blocks = params.n.div_ceil(u64::from(columns)) as u32;
    let mut config = LaunchConfig::linear(blocks, threads);
    config.grid[1] = 2;
    let memory = (
        sums[0].as_ref(),
        sums[1].as_ref(),
        out.dweight.as_ref(),
        out.dbias.as_ref(),
    );
    // SAFETY: extents are those of the sums; outputs have as many elements as they have columns.
    unsafe { kernel.launch(stream, config, memory, &params) }
}

/// The tensors as rows that the kernels can access.
pub(super) struct Placed<T: Float> {
    pub(super) x: Rows<T>,
    pub(super) dy: Rows<T>,
    pub(super) dsum: Option<Rows<T>>,
    pub(super) dx: Rows<T>,
}

impl<T: Float> Placed<T> {
    pub(super) fn strides(&self) -> [i64; 4] {
        let dsum = self.dsum.as_ref().map_or(0, |rows| rows.stride);
        [self.x.stride, self.dy.stride, dsum, self.dx.stride]
    }

    /// The memory that every kernel of gradients takes.
    pub(super) fn memory<'a>(
        &'a self,
        gradient: &'a NormGrad<'_, T>,
        weight: Address<'a>,
        sums: [Option<&'a Tensor<f32>>; 2],
    ) -> impl crate::KernelArgs + 'a {
        (
            &self.x.tensor,
            &self.dy.tensor,
            weight,
            gradient.mean,
            gradient.rstd,
            self.dsum.as_ref().map(|rows| &rows.tensor),
            &self.dx.tensor,
            sums[0],
            sums[1],
        )
    }
}
