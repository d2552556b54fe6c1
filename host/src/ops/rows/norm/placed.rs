//! The tensors of a norm, as its kernels take them.

use super::super::plan::Candidate;
use super::super::{Launch, Rows};
use super::{Norm, Normalized};
use crate::ops::axes::RowAxes;
use crate::ops::elementwise::Binary;
use crate::ops::float::Float;
use crate::tensor::Address;
use crate::{Result, Stream, Tensor};
use abi::elementwise::BinaryOp;
use abi::rows::RowParams;

/// The tensors as rows that the kernels can access.
pub(super) struct Placed<T: Float> {
    x: Rows<T>,
    residual: Option<Rows<T>>,
    pub(super) sum: Option<Rows<T>>,
    pub(super) y: Rows<T>,
}

impl<T: Float> Placed<T> {
    pub(super) fn new(
        norm: &Norm<'_, T>,
        by: &Candidate,
        (out, axes): (&Normalized<T>, &RowAxes),
        stream: &Stream,
    ) -> Result<Self> {
        let read = |x: &Tensor<T>| Rows::read_by(by, x, axes, stream);
        let (x, residual) = (read(norm.x)?, norm.residual.map(read).transpose()?);
        // A block whose vectors begin before its row also reads the end of the row before, which
        // another block may write.
        let written = |to: &Tensor<T>| {
            let inputs = [Some(&x), residual.as_ref()].into_iter().flatten();
            let mut starts = inputs.map(|rows| rows.tensor.device_ptr());
            match by.reads_beyond_rows() && starts.any(|start| start == to.device_ptr()) {
                true => Rows::made(axes.last(to)?.shape(), axes, stream),
                false => Rows::written_by(by, to, axes, stream),
            }
        };
        let sum = out.sum.as_ref().map(written).transpose()?;
        let y = written(&out.y)?;
        Ok(Self {
            x,
            residual,
            sum,
            y,
        })
    }

    /// The sum of `x` and the residual, by a separate launch, for the kernel that holds no rows.
    pub(super) fn added(&self, axes: &RowAxes, stream: &Stream) -> Result<Option<Rows<T>>> {
        let Some(residual) = &self.residual else {
            return Ok(None);
        };
        let made = match &self.sum {
            Some(sum) => Rows {
                tensor: sum.tensor.clone(),
                ..*sum
            },
            None => Rows::made(self.x.tensor.shape(), axes, stream)?,
        };
        let add = Binary::new(BinaryOp::Add, &self.x.tensor, &residual.tensor);
        add.run_into(&made.tensor, stream)?;
        Ok(Some(made))
    }

    /// Launches over `x` and the residual or, where they were added before, over that sum (`made`).
    pub(super) fn launch(
        &self,
        launch: &Launch<'_>,
        mut params: RowParams,
        (weight, bias): (Address<'_>, Address<'_>),
        out: &Normalized<T>,
        made: Option<&Rows<T>>,
        stream: &Stream,
    ) -> Result<()> {
        let (x, residual, sum) = match made {
            Some(made) => (made, None, None),
            None => (&self.x, self.residual.as_ref(), self.sum.as_ref()),
        };
        let stride = |rows: Option<&Rows<T>>| rows.map_or(0, |rows| rows.stride);
        params.strides[..4].copy_from_slice(&[
            x.stride,
            stride(residual),
            stride(sum),
            self.y.stride,
        ]);
        let memory = (
            &x.tensor,
            residual.map(|rows| &rows.tensor),
            weight,
            bias,
            sum.map(|rows| &rows.tensor),
            &self.y.tensor,
            out.mean.as_ref(),
            out.rstd.as_ref(),
        );
        // SAFETY: extents and strides are those of the tensors, whose elements lie inside of their
        // storage; outputs are injective, and are x or the residual or overlap nothing.
        unsafe { launch.run(stream, memory, &params) }
    }
}
