//! The portable SIMT kernels, which compute every attention on every device.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use crate::ops::model;
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionModel;
use crate::{Error, LaunchConfig, Result};
use abi::attention::{FlashFwdParams, OutputDType, SIMT_TILE, SOFTCAP_TANH_ERROR, SimtEntry};

/// Offers the kernel with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let Some(entry) = SimtEntry::of(desc.head_dim, desc.head_dim_v) else {
        return;
    };
    let Some(grid) =
        FlashFwdParams::grid(desc.batch, desc.seqlen_q, desc.heads_q, SIMT_TILE.tile_m)
    else {
        return;
    };
    let config = LaunchConfig {
        grid,
        block: [entry.tile().threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let tile = [SIMT_TILE.tile_m, SIMT_TILE.tile_n];
    let estimated_ns = estimate_ns(desc, machine, machine.model.attention.simt_flops);
    offer(Candidate::plain(
        Entry::Simt(entry),
        tile,
        config,
        estimated_ns,
    ));
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: SimtEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let dtype = OutputDType::new(call.desc.dtype)
        .ok_or(Error::Bug("an element type that attention does not have"))?;
    // SAFETY: extents, strides and lengths are those of the call's memory; the grid covers them.
    unsafe {
        call.launch(entry, candidate.config, |lengths, params| {
            (lengths, params, dtype.code(), call.pages())
        })
    }
}

/// Error model: sums start with the sink, add the keys one by one, and are rescaled once per tile.
pub(super) fn model(desc: &AttentionDesc) -> AttentionModel {
    AttentionModel {
        tanh_error: SOFTCAP_TANH_ERROR,
        ..model::attention(desc.seqlen_k as usize, SIMT_TILE.tile_n).into()
    }
}
