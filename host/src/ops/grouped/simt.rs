//! The portable kernel, which exists for f32: operands of other dtypes are converted first, which is
//! exact, and results after.

use super::choice::GroupedDesc;
use super::{GroupedGemm, MatrixLayout};
use crate::load;
use crate::ops::copy::{cast_into, contiguous, strided_copy};
use crate::ops::gemm::Memory;
use crate::ops::plan::{Machine, Work};
use crate::{DType, Error, Float, LaunchConfig, Result, Stream, Tensor};
use abi::gemm::{GROUPED_ENTRY, GROUPED_TILE, GroupedParams, Transpose, grouped_row_tiles};

/// Resident blocks per SM.
const BLOCKS: u32 = 3;

pub(super) fn config(grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [GROUPED_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

/// Estimated time on this grid, with the copies in f32.
pub(super) fn estimate_ns(desc: &GroupedDesc, machine: &Machine, grid: [u32; 3]) -> f64 {
    let costs = &machine.model.gemm.simt;
    let tile = [
        GROUPED_TILE.tile_m,
        GROUPED_TILE.tile_n,
        GROUPED_TILE.tile_k,
    ];
    let copies_ns = match desc.dtype {
        DType::F32 => 0.0,
        // Elements of two bytes are read, then written and read again as f32; results likewise.
        _ => 3.0 * machine.model.launch_ns + 5.0 * desc.bytes() / machine.bytes_per_ns,
    };
    let blocks = grid.into_iter().map(f64::from).product();
    machine.estimate_ns(&Work {
        blocks_per_multiprocessor: BLOCKS,
        flops_per_cycle: costs.small_flops,
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        extra_ns: copies_ns,
        ..Work::of_tiles(blocks, tile, desc.k, desc.bytes())
    })
}

/// Enqueues the product into `d`, which has elements.
pub(super) fn launch<T: Float>(
    product: &GroupedGemm<'_, T>,
    (desc, config): (&GroupedDesc, LaunchConfig),
    d: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    let to_rows = |to: &Operand| to_rows(product, (desc, config), to, stream);
    let own = MatrixLayout::of(d.shape(), d.strides());
    if T::DTYPE != DType::F32 {
        let results = Tensor::<f32>::empty(stream, d.shape())?;
        let to = Operand::of(&results, MatrixLayout::contiguous(d.shape()));
        to_rows(&to)?;
        return cast_into(&results, d, stream);
    }
    match own.filter(|own| own.transpose == Transpose::N) {
        Some(own) => to_rows(&Operand::of(d, own)),
        None => {
            let rows = Tensor::<T>::empty(stream, d.shape())?;
            let to = Operand::of(&rows, MatrixLayout::contiguous(d.shape()));
            to_rows(&to)?;
            strided_copy(&rows, d, stream)
        }
    }
}

/// A matrix in f32, or one for each group.
pub(super) struct Operand {
    pub(super) memory: Memory,
    pub(super) layout: MatrixLayout,
}

impl Operand {
    pub(super) fn of<T: Float>(tensor: &Tensor<T>, layout: MatrixLayout) -> Self {
        Self {
            memory: Memory::of(tensor),
            layout,
        }
    }

    /// `tensor` itself, or a copy in f32 with contiguous rows or columns.
    fn read<T: Float>(tensor: &Tensor<T>, stream: &Stream) -> Result<Self> {
        let own = MatrixLayout::of(tensor.shape(), tensor.strides());
        if T::DTYPE == DType::F32 {
            return match own {
                Some(own) => Ok(Self::of(tensor, own)),
                None => {
                    let copy = contiguous(tensor, stream)?;
                    Ok(Self::of(&copy, MatrixLayout::contiguous(copy.shape())))
                }
            };
        }
        // Lines that are contiguous stay so: the copy is read and written in their order.
        let is_transposed = own.is_some_and(|own| own.transpose == Transpose::T);
        let copy = match is_transposed {
            true => tensor.t().cast::<f32>(stream)?.t(),
            false => tensor.cast::<f32>(stream)?,
        };
        let layout = MatrixLayout::of(copy.shape(), copy.strides());
        let layout = layout.ok_or(Error::Bug("a copy has no contiguous lines"))?;
        Ok(Self::of(&copy, layout))
    }
}

/// Enqueues the product into rows of f32.
fn to_rows<T: Float>(
    product: &GroupedGemm<'_, T>,
    (desc, config): (&GroupedDesc, LaunchConfig),
    d: &Operand,
    stream: &Stream,
) -> Result<()> {
    let a = Operand::read(product.a, stream)?;
    let b = Operand::read(product.b, stream)?;
    let ends = product.ends.to_i32(stream)?.contiguous(stream)?;
    let &GroupedDesc {
        m, n, k, groups, ..
    } = desc;
    let params = GroupedParams {
        m,
        n,
        k,
        groups,
        row_tiles: grouped_row_tiles(m, groups, GROUPED_TILE.tile_m),
        a_by_k: u32::from(a.layout.transpose == Transpose::N),
        b_by_k: u32::from(b.layout.transpose == Transpose::T),
        alpha: product.alpha,
        lda: a.layout.ld,
        ldb: b.layout.ld,
        group_stride_b: b.layout.batch_stride,
        ldd: d.layout.ld,
    };
    let kernel = load::kernel(stream, GROUPED_ENTRY)?;
    let memory = (&a.memory, &b.memory, &ends, &d.memory);
    // SAFETY: extents and strides are those of the operands, which lie inside of their storage. d
    // is injective and overlaps nothing that is read. `ends` has an element for each group.
    unsafe { kernel.launch(stream, config, memory, &params) }
}
