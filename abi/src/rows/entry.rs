//! Entries that work on rows: operations and names.

use super::{RowParams, Variant};
use crate::DType;
use crate::entry::{Parts, entries};

/// Operations on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOp {
    /// Softmax or log-softmax.
    Softmax,
    /// Gradient of softmax or log-softmax.
    SoftmaxGrad,
    /// Cross-entropy with its gradient.
    CrossEntropy,
    /// The same, of targets that are probabilities.
    SoftCrossEntropy,
    /// Layer norm or RMS norm.
    Norm,
    /// The same, for bf16 with weights in f32.
    NormF32,
    /// Gradient of layer norm or RMS norm.
    NormGrad,
    /// The same, for bf16 with weights in f32.
    NormGradF32,
}

impl RowOp {
    /// All operations.
    pub const ALL: [Self; 8] = [
        Self::Softmax,
        Self::SoftmaxGrad,
        Self::CrossEntropy,
        Self::SoftCrossEntropy,
        Self::Norm,
        Self::NormF32,
        Self::NormGrad,
        Self::NormGradF32,
    ];

    /// Reads the operation at the start of a name. The kind of the weights comes behind the dtype.
    const fn of_name(parts: &mut Parts) -> Self {
        if parts.take("softmax") {
            return match parts.take("grad") {
                true => Self::SoftmaxGrad,
                false => Self::Softmax,
            };
        }
        if parts.take("cross_entropy") {
            return match parts.take("soft") {
                true => Self::SoftCrossEntropy,
                false => Self::CrossEntropy,
            };
        }
        parts.expect("norm");
        match parts.take("grad") {
            true => Self::NormGrad,
            false => Self::Norm,
        }
    }

    /// The operation with weights in f32.
    const fn with_f32_weights(self) -> Self {
        match self {
            Self::Norm => Self::NormF32,
            Self::NormGrad => Self::NormGradF32,
            _ => panic!("an operation without weights"),
        }
    }

    /// The operation whose kernels of this variant do it too. Those that go element by element read
    /// weights of either type and targets of either kind. Rings of rows that begin anywhere read
    /// weights of either type.
    pub const fn by(self, variant: Variant) -> Self {
        match (self, variant) {
            (
                Self::NormF32,
                Variant::Streaming | Variant::SmemRingAny | Variant::SmemRingShortAny,
            ) => Self::Norm,
            (
                Self::NormGradF32,
                Variant::Streaming | Variant::SmemRingAny | Variant::SmemRingShortAny,
            ) => Self::NormGrad,
            (Self::SoftCrossEntropy, Variant::Streaming) => Self::CrossEntropy,
            _ => self,
        }
    }
}

/// One kernel; displays as its entry name: `softmax_bf16_registers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowEntry {
    name: &'static str,
    /// The operation.
    pub op: RowOp,
    /// Element type of the rows.
    pub dtype: DType,
    /// How it holds rows.
    pub variant: Variant,
}

impl RowEntry {
    /// The entry of a name `<op>_<dtype>[_wf32]_<variant>`; `wf32` means weights in f32.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        let mut op = RowOp::of_name(&mut parts);
        let dtype = parts.expect_dtype();
        if parts.take("wf32") {
            op = op.with_f32_weights();
        }
        let variant = Variant::of_name(&mut parts);
        parts.end();
        Self {
            name,
            op,
            dtype,
            variant,
        }
    }

    /// The entry of an operation for rows of `dtype` that are held so, if there is one.
    pub fn of(op: RowOp, dtype: DType, variant: Variant) -> Option<Self> {
        Self::find(|entry| (entry.op, entry.dtype, entry.variant) == (op, dtype, variant))
    }
}

entries! { $ RowEntry(RowParams) {
    /// Softmax, in registers. The element type of rows.
    softmax_registers {
        softmax_f32_registers(f32);
        softmax_f16_registers(f16);
        softmax_bf16_registers(bf16);
        softmax_f32_registers_any(f32);
        softmax_f16_registers_any(f16);
        softmax_bf16_registers_any(bf16);
        softmax_bf16_registers_more(bf16);
    }
    /// Softmax, in slices.
    softmax_cluster {
        softmax_f32_cluster(f32);
        softmax_f16_cluster(f16);
        softmax_bf16_cluster(bf16);
        softmax_f32_cluster_any(f32);
        softmax_f16_cluster_any(f16);
        softmax_bf16_cluster_any(bf16);
    }
    /// Softmax, element by element.
    softmax_streaming {
        softmax_f32_streaming(f32);
        softmax_f16_streaming(f16);
        softmax_bf16_streaming(bf16);
    }
    /// Gradients of softmax, in registers.
    softmax_grad_registers {
        softmax_grad_f32_registers(f32);
        softmax_grad_f16_registers(f16);
        softmax_grad_bf16_registers(bf16);
        softmax_grad_bf16_registers_more(bf16);
    }
    /// Gradients of softmax, in slices.
    softmax_grad_cluster {
        softmax_grad_f32_cluster(f32);
        softmax_grad_f16_cluster(f16);
        softmax_grad_bf16_cluster(bf16);
        softmax_grad_f32_cluster_any(f32);
        softmax_grad_f16_cluster_any(f16);
        softmax_grad_bf16_cluster_any(bf16);
    }
    /// Gradients of softmax, element by element.
    softmax_grad_streaming {
        softmax_grad_f32_streaming(f32);
        softmax_grad_f16_streaming(f16);
        softmax_grad_bf16_streaming(bf16);
    }
    /// Cross-entropy, in registers.
    cross_entropy_registers {
        cross_entropy_f32_registers(f32);
        cross_entropy_f16_registers(f16);
        cross_entropy_bf16_registers(bf16);
    }
    /// Cross-entropy, in slices.
    cross_entropy_cluster {
        cross_entropy_f32_cluster(f32);
        cross_entropy_f32_cluster_any(f32);
        cross_entropy_f16_cluster(f16);
        cross_entropy_bf16_cluster(bf16);
        cross_entropy_f16_cluster_any(f16);
        cross_entropy_bf16_cluster_any(bf16);
    }
    /// Cross-entropy of probabilities, in slices.
    cross_entropy_soft_cluster {
        cross_entropy_soft_f32_cluster_any(f32);
        cross_entropy_soft_f16_cluster_any(f16);
        cross_entropy_soft_bf16_cluster_any(bf16);
    }
    /// Cross-entropy, element by element.
    cross_entropy_streaming {
        cross_entropy_f32_streaming(f32);
        cross_entropy_f16_streaming(f16);
        cross_entropy_bf16_streaming(bf16);
    }
    /// Norms, in registers. The element types of rows and weights.
    norm_registers {
        norm_f32_registers(f32, f32);
        norm_f16_registers(f16, f16);
        norm_bf16_registers(bf16, bf16);
        norm_f32_registers_any(f32, f32);
        norm_f16_registers_any(f16, f16);
        norm_bf16_registers_any(bf16, bf16);
        norm_f16_wf32_registers(f16, f32);
        norm_bf16_wf32_registers(bf16, f32);
        norm_bf16_registers_more(bf16, bf16);
    }
    /// Norms, in registers, with weights in registers too.
    norm_registers_weights {
        norm_f16_registers_weights(f16);
        norm_bf16_registers_weights(bf16);
    }
    /// Norms, in slices.
    norm_cluster {
        norm_f32_cluster(f32, f32);
        norm_f16_cluster(f16, f16);
        norm_bf16_cluster(bf16, bf16);
        norm_f32_cluster_any(f32, f32);
        norm_f16_cluster_any(f16, f16);
        norm_bf16_cluster_any(bf16, bf16);
        norm_f16_wf32_cluster(f16, f32);
        norm_bf16_wf32_cluster(bf16, f32);
    }
    /// Norms, in slices, with weights loaded ahead.
    norm_cluster_ahead {
        norm_f32_cluster_ahead(f32);
        norm_f16_cluster_ahead(f16);
        norm_bf16_cluster_ahead(bf16);
    }
    /// The same, two rows at a time.
    norm_cluster_pairs {
        norm_f32_cluster_pairs(f32);
        norm_f16_cluster_pairs(f16);
        norm_bf16_cluster_pairs(bf16);
    }
    /// Norms, in persistent blocks.
    norm_smem_ring {
        norm_f32_smem_ring(f32, f32);
        norm_f16_smem_ring(f16, f16);
        norm_bf16_smem_ring(bf16, bf16);
        norm_f16_wf32_smem_ring(f16, f32);
        norm_bf16_wf32_smem_ring(bf16, f32);
    }
    /// The same, with more of a row in each thread.
    norm_smem_ring_wide {
        norm_bf16_smem_ring_wide(bf16);
    }
    /// Norms, in persistent blocks, of rows that begin anywhere.
    norm_smem_ring_any {
        norm_f32_smem_ring_any(f32);
        norm_f16_smem_ring_any(f16);
        norm_bf16_smem_ring_any(bf16);
    }
    /// Norms, in persistent blocks whose warps have several rows that begin anywhere.
    norm_smem_ring_short_any {
        norm_f32_smem_ring_short_any(f32);
        norm_f16_smem_ring_short_any(f16);
        norm_bf16_smem_ring_short_any(bf16);
    }
    /// Norms, element by element.
    norm_streaming {
        norm_f32_streaming(f32);
        norm_f16_streaming(f16);
        norm_bf16_streaming(bf16);
    }
    /// Gradients of norms, in registers. The element types of rows and weights.
    norm_grad_registers {
        norm_grad_f32_registers(f32, f32);
        norm_grad_f16_registers(f16, f16);
        norm_grad_f16_wf32_registers(f16, f32);
        norm_grad_bf16_wf32_registers(bf16, f32);
    }
    /// Gradients of norms, in persistent blocks whose warps have several rows.
    norm_grad_smem_ring_short {
        norm_grad_bf16_smem_ring_short(bf16, bf16);
    }
    /// Gradients of norms, in persistent blocks.
    norm_grad_smem_ring {
        norm_grad_f32_smem_ring(f32, f32);
        norm_grad_f16_smem_ring(f16, f16);
        norm_grad_bf16_smem_ring(bf16, bf16);
        norm_grad_f16_wf32_smem_ring(f16, f32);
        norm_grad_bf16_wf32_smem_ring(bf16, f32);
    }
    /// Gradients of norms, in persistent blocks, of rows that begin anywhere.
    norm_grad_smem_ring_any {
        norm_grad_f32_smem_ring_any(f32);
        norm_grad_f16_smem_ring_any(f16);
        norm_grad_bf16_smem_ring_any(bf16);
    }
    /// Gradients of norms, in persistent blocks whose warps have several rows that begin anywhere.
    norm_grad_smem_ring_short_any {
        norm_grad_f32_smem_ring_short_any(f32);
        norm_grad_f16_smem_ring_short_any(f16);
        norm_grad_bf16_smem_ring_short_any(bf16);
    }
    /// Gradients of norms, element by element.
    norm_grad_streaming {
        norm_grad_f32_streaming(f32);
        norm_grad_f16_streaming(f16);
        norm_grad_bf16_streaming(bf16);
    }
    /// Sums of the columns of these.
    norm_grad_columns {
        norm_grad_f32_columns(f32);
        norm_grad_f16_columns(f16);
        norm_grad_bf16_columns(bf16);
    }
} }
