//! The `mma.sync` kernels for f16 and bf16, on sm_80 and newer.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use crate::ops::model;
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionModel;
use crate::reference::gemm::Arithmetic;
use crate::{DType, LaunchConfig, Result};
use abi::attention::FlashFwdParams;
use abi::attention::sm80::{O_ALIGN_BYTES, Sm80Entry, Sm80Tile, THREADS, takes_block_masks};

/// Size of a copy to shared memory (`cp.async`).
const CHUNK_BYTES: u32 = 16;

/// Largest error of `ex2.approx`, in ulp.
pub(in crate::ops) const EXP_ULPS: f64 = 2.1;

/// Largest error of `tanh.approx`: 2^-11 of a value up to 1, and its argument's rounding.
pub(in crate::ops) const TANH_ERROR: f64 = 5e-4;

/// Offers the kernel with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let Some(entry) = Sm80Entry::of(desc.dtype, desc.head_dim, desc.head_dim_v) else {
        return;
    };
    if machine.arch >= (8, 0)
        && let Some(config) = config(entry.tile(), desc, machine)
    {
        let tile = [entry.tile().tile_m, entry.tile().tile_n];
        let estimated_ns = estimate_ns(desc, machine, machine.model.attention.sm80_flops);
        offer(Candidate::plain(
            Entry::Sm80(entry),
            tile,
            config,
            estimated_ns,
        ));
    }
}

/// Launch configuration of a kernel with this tile, for sm_75 too. `None` if the device has too
/// little shared memory, or if the kernels do not support the alignment of the rows or the scale, or
/// keys are paged.
pub(super) fn config(
    tile: Sm80Tile,
    desc: &AttentionDesc,
    machine: &Machine,
) -> Option<LaunchConfig> {
    let inputs = [&desc.q, &desc.k, &desc.v];
    let are_aligned = inputs
        .iter()
        .all(|input| input.row_align_bytes(desc.dtype) >= CHUNK_BYTES);
    let fits = tile.smem_bytes() <= machine.shared_bytes
        && are_aligned
        && desc.o.row_align_bytes(desc.o_dtype) >= O_ALIGN_BYTES
        && desc.pages.is_none()
        && (!desc.has_blocks() || takes_block_masks(tile.head_dim_cap))
        && desc.positive_scale;
    let grid = FlashFwdParams::grid(desc.batch, desc.seqlen_q, desc.heads_q, tile.tile_m);
    Some(LaunchConfig {
        grid: grid.filter(|_| fits)?,
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    })
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: Sm80Entry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    // SAFETY: extents, strides and lengths describe the call's memory, whose alignment `offer`
    // checked. Grid and shared memory are the tile's.
    unsafe { call.launch(entry, candidate.config, |lengths, params| (lengths, params)) }
}

/// Error model of products of this dtype. Tensor cores truncate sums, so each addition counts twice.
/// Probabilities are rounded to the inputs' dtype, small ones of f16 to a multiple of 2^-24.
pub(super) fn model(tile_n: u32, desc: &AttentionDesc, products: DType) -> AttentionModel {
    let mut softmax = model::attention(desc.seqlen_k as usize, tile_n);
    softmax.additions *= 2;
    softmax.exp_ulps = EXP_ULPS;
    let is_f16 = products == DType::F16;
    softmax.p_roundoff = 2f64.powi(if is_f16 { -11 } else { -8 });
    AttentionModel {
        softmax,
        scores: Arithmetic::TensorCore,
        p_lost: if is_f16 { 2f64.powi(-24) } else { 0.0 },
        q_lost: 0.0,
        tanh_error: TANH_ERROR,
    }
}
