//! Description of the gradients of an attention: everything that the choice of kernels may depend on,
//! without addresses and values.

use crate::ops::attention::desc::{AttentionDesc, OperandDesc};
use abi::attention::BshStrides;
use std::fmt;

/// Validated gradients. Strides are in the order batch, position, head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GradDesc {
    /// The forward pass, with o in the dtype of q. Unlike there, there may be no query.
    pub(super) forward: AttentionDesc,
    pub(super) d_o: OperandDesc,
    pub(super) dq: OperandDesc,
    pub(super) dk: OperandDesc,
    pub(super) dv: OperandDesc,
}

impl GradDesc {
    /// Flops without a mask, of which there are 5 products to the forward's 2; a multiply-add counts
    /// as two.
    pub(super) fn flops(&self) -> f64 {
        let forward = &self.forward;
        let (d, d_v) = (f64::from(forward.head_dim), f64::from(forward.head_dim_v));
        let pairs = f64::from(forward.seqlen_q) * f64::from(forward.seqlen_k);
        let heads = f64::from(forward.batch) * f64::from(forward.heads_q);
        2.0 * pairs * heads * (3.0 * d + 2.0 * d_v)
    }
}

impl fmt::Display for GradDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.forward.fmt(f)?;
        for (name, operand) in [
            ("d_o", &self.d_o),
            ("dq", &self.dq),
            ("dk", &self.dk),
            ("dv", &self.dv),
        ] {
            let BshStrides { batch, seq, head } = operand.strides;
            let align_bytes = operand.row_align_bytes(self.forward.dtype);
            write!(f, " {name}={batch}.{seq}.{head}@{align_bytes}")?;
        }
        Ok(())
    }
}
