//! Operands of plain gradients of f32.

use warpsmith::{AttentionGrad, Stream, Tensor};

/// Tensors of ones.
#[derive(Clone)]
pub(crate) struct Operands {
    pub(crate) q: Tensor<f32>,
    pub(crate) k: Tensor<f32>,
    pub(crate) v: Tensor<f32>,
    pub(crate) o: Tensor<f32>,
    pub(crate) lse: Tensor<f32>,
    pub(crate) d_o: Tensor<f32>,
}

impl Operands {
    pub(crate) fn ones(
        stream: &Stream,
        [batch, seqlen_q, seqlen_k]: [usize; 3],
        [heads_q, heads_kv]: [usize; 2],
        [head_dim, head_dim_v]: [usize; 2],
    ) -> Self {
        let of = |shape: &[usize]| Tensor::full(stream, shape, 1.0_f32).expect("a tensor");
        Self {
            q: of(&[batch, seqlen_q, heads_q, head_dim]),
            k: of(&[batch, seqlen_k, heads_kv, head_dim]),
            v: of(&[batch, seqlen_k, heads_kv, head_dim_v]),
            o: of(&[batch, seqlen_q, heads_q, head_dim_v]),
            lse: of(&[batch, heads_q, seqlen_q]),
            d_o: of(&[batch, seqlen_q, heads_q, head_dim_v]),
        }
    }

    pub(crate) fn grad(&self) -> AttentionGrad<'static, f32> {
        AttentionGrad::new(&self.q, &self.k, &self.v, &self.o, &self.lse, &self.d_o)
    }

    /// New tensors for dq, dk and dv.
    pub(crate) fn gradients(&self, stream: &Stream) -> [Tensor<f32>; 3] {
        [&self.q, &self.k, &self.v].map(|x| Tensor::zeros(stream, x.shape()).expect("a tensor"))
    }
}
