//! The `mma.sync` kernels for f16 and bf16, on sm_80 and newer (`kernels-gpu/src/attention_backward/sm80`).

use super::call::GradCall;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::GradDesc;
use crate::ops::attention::sm80::{EXP_ULPS, TANH_ERROR};
use crate::reference::attention::AttentionGradModel;
use crate::reference::gemm::Arithmetic;
use crate::{DType, DeviceInfo, LaunchConfig, Result};
use spec::attention::FlashFwdParams;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::sm80::{ALIGN_BYTES, Part, Sm80Bwd, THREADS};

/// Flops per cycle of an SM, a multiply-add counted as two: half of the tensor cores' peak on sm_80,
/// of which two in seven go to products that are computed twice.
const FLOPS_PER_CYCLE: f64 = 700.0;

/// Offers the kernels with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &GradDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let forward = &desc.forward;
    let Some(kernels) = Sm80Bwd::of(forward.dtype, forward.head_dim, forward.head_dim_v) else {
        return;
    };
    if device.arch >= (8, 0) && suits(desc, kernels, device) {
        let tile = kernels.tile(kernels.parts_of_keys()[0]);
        offer(Candidate {
            entry: Entry::Sm80(kernels),
            tile: [tile.columns, tile.rows],
            estimated_ns: estimate_ns(desc, device, FLOPS_PER_CYCLE),
        });
    }
}

/// The launches after delta's.
pub(super) fn parts(kernels: Sm80Bwd) -> impl Iterator<Item = Part> {
    [Part::Dq]
        .into_iter()
        .chain(kernels.parts_of_keys().iter().copied())
}

/// Whether the kernels support alignment and scale, and every launch fits the device.
fn suits(desc: &GradDesc, kernels: Sm80Bwd, device: &DeviceInfo) -> bool {
    let forward = &desc.forward;
    let has_queries = forward.seqlen_q != 0 && forward.heads_q != 0;
    let has_keys = forward.seqlen_k != 0;
    let operands = [
        &forward.q, &forward.k, &forward.v, &desc.d_o, &desc.dq, &desc.dk, &desc.dv,
    ];
    let fits = |part: Part| {
        let is_there = if part.owns_keys() {
            has_keys
        } else {
            has_queries
        };
        (!is_there || grid(desc, kernels, part).is_some())
            && kernels.tile(part).smem_bytes() <= device.max_shared_bytes_per_block
    };
    forward.positive_scale
        && operands
            .iter()
            .all(|operand| operand.row_align_bytes(forward.dtype) >= ALIGN_BYTES)
        && parts(kernels).all(fits)
}

/// The grid of a part; `None` if there is nothing to own, or too much.
fn grid(desc: &GradDesc, kernels: Sm80Bwd, part: Part) -> Option<[u32; 3]> {
    let (forward, rows) = (&desc.forward, kernels.tile(part).rows);
    if part.owns_keys() {
        FlashBwdParams::grid_of_keys(forward.batch, forward.seqlen_k, forward.heads_kv, rows)
    } else {
        FlashFwdParams::grid(forward.batch, forward.seqlen_q, forward.heads_q, rows)
    }
}

/// Enqueues a candidate of [`offer`]. Without queries nothing but dk and dv is written, without keys
/// nothing but dq.
pub(super) fn launch(kernels: Sm80Bwd, call: &GradCall<'_>) -> Result<()> {
    call.uses()?;
    let (lengths, params) = (call.forward.lengths(), call.params()?);
    let (q, k, v) = (&call.forward.q, &call.forward.k, &call.forward.v);
    let (d_o, lse, delta) = (&call.d_o, &call.lse, &call.delta);
    for part in parts(kernels) {
        let Some(grid) = grid(&call.desc, kernels, part) else {
            continue;
        };
        if part == Part::Dq {
            call.launch_delta()?;
        }
        let config = LaunchConfig {
            grid,
            block: [THREADS, 1, 1],
            shared_bytes: kernels.tile(part).smem_bytes(),
            cluster: None,
        };
        let of_ds = if part.owns_keys() { &call.dk } else { &call.dq };
        let of_p = &call.dv;
        // SAFETY: extents, strides and lengths are those of the call's memory, whose alignment `offer`
        // checked; the grid covers what the blocks own, whose gradients these are. delta is written
        // before, on the same stream, where there are queries to read it for.
        unsafe {
            call.launch(
                kernels.entry(part),
                config,
                &[
                    &q, &k, &v, &d_o, &lse, &delta, &of_ds, &of_p, &lengths, &params,
                ],
            )?;
        }
    }
    Ok(())
}

/// Error model: P and dS are rounded to the element type.
pub(super) fn model(dtype: DType) -> AttentionGradModel {
    let (p_roundoff, p_lost) = rounding(dtype);
    AttentionGradModel {
        exp_ulps: EXP_ULPS,
        scores: Arithmetic::TensorCore,
        products: Arithmetic::TensorCore,
        p_roundoff,
        p_lost,
        tanh_error: TANH_ERROR,
        more_additions: 0,
    }
}

/// Unit roundoff of P and dS in an element type of 16 bits, and the largest error of a small one.
pub(super) fn rounding(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2.0_f64.powi(-11), 2.0_f64.powi(-25)),
        _ => (2.0_f64.powi(-8), 2.0_f64.powi(-126)),
    }
}
