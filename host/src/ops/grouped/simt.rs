//! The portable kernel, which exists for f32: operands of other dtypes are converted first, which is
//! exact, and results after.

use super::{Extents, GroupedGemm, GroupedPlan, MatrixLayout};
use crate::load;
use crate::ops::copy::{cast_into, contiguous, strided_copy};
use crate::ops::gemm::Memory;
use crate::{DType, Error, Float, LaunchConfig, Result, Stream, Tensor};
use abi::gemm::{
    GROUPED_ENTRY, GROUPED_TILE, GroupedParams, Transpose, grouped_grid, grouped_row_tiles,
};

/// The kernel of these extents, none of m and n 0.
pub(super) fn plan(extents: &Extents) -> Result<GroupedPlan> {
    let &Extents { m, n, groups, .. } = extents;
    let grid = grouped_grid(m, n, groups).ok_or_else(|| {
        Error::unsupported(
            format!("a product of {m} rows in {groups} groups and {n} columns"),
            "fewer than 2^31 tiles of 64 x 64 results, as many as any `ends` may need",
        )
    })?;
    Ok(GroupedPlan {
        entry: GROUPED_ENTRY.to_string(),
        tile: [
            GROUPED_TILE.tile_m,
            GROUPED_TILE.tile_n,
            GROUPED_TILE.tile_k,
        ],
        grid,
        threads: GROUPED_TILE.threads,
    })
}

/// Enqueues the product into `d`, which has elements.
pub(super) fn launch<T: Float>(
    product: &GroupedGemm<'_, T>,
    extents: &Extents,
    d: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    let plan = plan(extents)?; // before anything is copied
    let own = MatrixLayout::of(d.shape(), d.strides());
    if T::DTYPE != DType::F32 {
        let results = Tensor::<f32>::empty(stream, d.shape())?;
        let to = Operand::of(&results, MatrixLayout::contiguous(d.shape()));
        to_rows(product, extents, &plan, &to, stream)?;
        return cast_into(&results, d, stream);
    }
    match own.filter(|own| own.transpose == Transpose::N) {
        Some(own) => to_rows(product, extents, &plan, &Operand::of(d, own), stream),
        None => {
            let rows = Tensor::<T>::empty(stream, d.shape())?;
            let to = Operand::of(&rows, MatrixLayout::contiguous(d.shape()));
            to_rows(product, extents, &plan, &to, stream)?;
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
    extents: &Extents,
    plan: &GroupedPlan,
    d: &Operand,
    stream: &Stream,
) -> Result<()> {
    let a = Operand::read(product.a, stream)?;
    let b = Operand::read(product.b, stream)?;
    let ends = product.ends.contiguous(stream)?;
    let &Extents { m, n, k, groups } = extents;
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
    let config = LaunchConfig {
        grid: plan.grid,
        block: [plan.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let kernel = load::kernel(stream, GROUPED_ENTRY)?;
    // SAFETY: extents and strides are those of the operands, which lie inside of their storage; d is
    // injective and overlaps nothing that is read; `ends` has an element for each group.
    unsafe {
        kernel.launch(
            stream,
            config,
            (&a.memory, &b.memory, &ends, &d.memory, params),
        )
    }
}
