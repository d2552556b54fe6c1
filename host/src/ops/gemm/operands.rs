//! Turns tensors into a description and its memory: views, copies of tensors that no kernel can
//! read in place, and the transposed GEMM for a column-major D.

use super::call::{Call, Memory};
use super::desc::{BiasAxis, GemmDesc, MatrixDesc, ScaleExtent};
use super::options::GemmOutput;
use super::shape::{Extents, MatrixLayout};
use crate::ops::check;
use crate::ops::copy::contiguous;
use crate::ops::plan;
use crate::tensor::Layout;
use crate::{DType, Element, Result, Stream, Tensor};
use abi::gemm::Transpose;

/// All that a GEMM reads; `c` and `residual` are broadcast to the shape of D.
#[derive(Clone)]
pub(super) struct Operands<A: Element, B: Element, Out: GemmOutput> {
    pub(super) a: Tensor<A>,
    pub(super) b: Tensor<B>,
    pub(super) c: Option<Tensor<Out>>,
    pub(super) residual: Option<Tensor<Out>>,
    pub(super) bias: Option<(BiasAxis, Tensor<Out>)>,
    pub(super) row_scale: Option<(ScaleExtent, Tensor<Out::Factor>)>,
    pub(super) column_scale: Option<(ScaleExtent, Tensor<Out::Factor>)>,
    /// alpha and beta that the kernel reads from device memory; the values below hold without them.
    pub(super) device_alpha: Option<Tensor<Out::Factor>>,
    pub(super) device_beta: Option<Tensor<Out::Factor>>,
    pub(super) alpha: f64,
    pub(super) beta: f64,
}

impl<A: Element, B: Element, Out: GemmOutput> Operands<A, B, Out> {
    /// The operands of the transposed GEMM, `d.t() = b.t() @ a.t()`.
    pub(super) fn transposed(self) -> Operands<B, A, Out> {
        Operands {
            a: self.b.t(),
            b: self.a.t(),
            c: self.c.map(|c| c.t()),
            residual: self.residual.map(|residual| residual.t()),
            bias: self.bias.map(|(axis, bias)| (axis.transposed(), bias)),
            row_scale: self.column_scale,
            column_scale: self.row_scale,
            device_alpha: self.device_alpha,
            device_beta: self.device_beta,
            alpha: self.alpha,
            beta: self.beta,
        }
    }

    /// Copies of the matrices, with their strides and alignment; what overlaps is shared.
    pub(super) fn copied(&self, stream: &Stream) -> Result<Self> {
        let copied = |matrix: &Option<Tensor<Out>>| match matrix {
            Some(matrix) => plan::copied(matrix, stream).map(Some),
            None => Ok(None),
        };
        Ok(Self {
            a: plan::copied(&self.a, stream)?,
            b: plan::copied(&self.b, stream)?,
            c: copied(&self.c)?,
            residual: copied(&self.residual)?,
            ..self.clone()
        })
    }

    /// The description with these options, and a D with the layout `d`.
    pub(super) fn describe(
        &self,
        extents: &Extents,
        d: MatrixDesc,
        options: &GemmDesc,
    ) -> Result<GemmDesc> {
        let by_rows = |tensor: &Option<Tensor<Out>>| {
            let tensor = tensor.as_ref()?;
            Some(matrix_desc(tensor, is_by_rows))
        };
        Ok(GemmDesc {
            m: check::extent("m", extents.m)?,
            n: check::extent("n", extents.n)?,
            k: check::extent("k", extents.k)?,
            batch: check::extent("batch", extents.batch.unwrap_or(1))?,
            a: matrix_desc(&self.a, |_| true),
            b: matrix_desc(&self.b, |_| true),
            d,
            c: by_rows(&self.c),
            residual: by_rows(&self.residual),
            bias: self.bias.as_ref().map(|&(axis, _)| axis),
            row_scale: self.row_scale.as_ref().map(|&(extent, _)| extent),
            column_scale: self.column_scale.as_ref().map(|&(extent, _)| extent),
            device_scalars: self.device_alpha.is_some() || self.device_beta.is_some(),
            ..*options
        })
    }

    /// The call for a description of [`describe`](Self::describe). Tensors that cannot be read in
    /// place are copied, on `stream`.
    pub(super) fn call<'s>(
        &self,
        desc: GemmDesc,
        d: Memory,
        stream: &'s Stream,
    ) -> Result<Call<'s>> {
        let by_rows = |tensor: &Option<Tensor<Out>>| match tensor {
            Some(tensor) => matrix_memory(tensor, is_by_rows, stream).map(Some),
            None => Ok(None),
        };
        let scale = |scale: &Option<(ScaleExtent, Tensor<Out::Factor>)>| match scale {
            Some((_, factors)) => vector_memory(factors, stream).map(Some),
            None => Ok(None),
        };
        let (bias, batch_stride_bias) = match &self.bias {
            None => (None, 0),
            Some((_, bias)) => {
                let batch_stride = match *bias.shape() {
                    [batch, len] if batch > 1 => len as i64,
                    _ => 0,
                };
                (Some(vector_memory(bias, stream)?), batch_stride)
            }
        };
        Ok(Call {
            stream,
            desc,
            a: matrix_memory(&self.a, |_| true, stream)?,
            b: matrix_memory(&self.b, |_| true, stream)?,
            d,
            c: by_rows(&self.c)?,
            residual: by_rows(&self.residual)?,
            bias,
            batch_stride_bias,
            row_scale: scale(&self.row_scale)?,
            column_scale: scale(&self.column_scale)?,
            device_alpha: self.device_alpha.as_ref().map(Memory::of),
            device_beta: self.device_beta.as_ref().map(Memory::of),
            alpha: self.alpha,
            beta: self.beta,
        })
    }
}

/// The layout of `tensor`, if `accept` accepts it, or that of a row-major copy.
pub(super) fn matrix_desc<T: Element>(
    tensor: &Tensor<T>,
    accept: impl Fn(&MatrixLayout) -> bool,
) -> MatrixDesc {
    layout_desc(T::DTYPE, tensor.layout(), tensor.alignment_bytes(), accept)
}

/// The same of a tensor with this layout at an address of this alignment.
pub(super) fn layout_desc(
    dtype: DType,
    layout: &Layout,
    align_bytes: u64,
    accept: impl Fn(&MatrixLayout) -> bool,
) -> MatrixDesc {
    let most = MatrixDesc::MOST_ALIGN_BYTES;
    match MatrixLayout::of(&layout.shape, &layout.strides).filter(accept) {
        Some(own) => MatrixDesc::new(dtype, own, align_bytes.min(most.into()) as u32),
        None => MatrixDesc::new(dtype, MatrixLayout::contiguous(&layout.shape), most),
    }
}

/// The memory that [`matrix_desc`] describes.
fn matrix_memory<T: Element>(
    tensor: &Tensor<T>,
    accept: impl Fn(&MatrixLayout) -> bool,
    stream: &Stream,
) -> Result<Memory> {
    match MatrixLayout::of(tensor.shape(), tensor.strides()).filter(accept) {
        Some(_) => Ok(Memory::of(tensor)),
        None => contiguous(tensor, stream).map(|copy| Memory::of(&copy)),
    }
}

pub(super) fn is_by_rows(layout: &MatrixLayout) -> bool {
    layout.transpose == Transpose::N
}

/// The memory of `tensor`, or of a contiguous copy.
fn vector_memory<T: Element>(tensor: &Tensor<T>, stream: &Stream) -> Result<Memory> {
    tensor.contiguous(stream).map(|tensor| Memory::of(&tensor))
}
