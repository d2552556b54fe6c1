//! The portable SIMT kernels, which compute every gradient on every device.

use super::call::GradCall;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::GradDesc;
use crate::ops::attention::call::Memory;
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionGradModel;
use crate::{LaunchConfig, Result};
use abi::attention::{BshStrides, FlashFwdParams, SIMT_WIDE_TILE, SOFTCAP_TANH_ERROR};
use abi::attention_grad::{AttentionGradParams, SimtGradEntry, SimtGradLaunch};

/// Offers the kernels with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &GradDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let forward = &desc.forward;
    let Some(entry) = SimtGradEntry::of(forward.head_dim, forward.head_dim_v) else {
        return;
    };
    let has_queries = forward.seqlen_q != 0 && forward.heads_q != 0;
    let fits = |is_there: bool, grid: Option<[u32; 3]>| !is_there || grid.is_some();
    if fits(has_queries, queries_grid(desc)) && fits(forward.seqlen_k != 0, keys_grid(desc)) {
        offer(Candidate {
            entry: Entry::Simt(entry),
            tile: [SIMT_WIDE_TILE.tile_m, SIMT_WIDE_TILE.tile_n],
            config: config(queries_grid(desc).or(keys_grid(desc)).unwrap_or([0; 3])),
            estimated_ns: estimate_ns(desc, machine, machine.model.attention_grad.simt_flops),
        });
    }
}

fn config(grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [SIMT_WIDE_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

fn queries_grid(desc: &GradDesc) -> Option<[u32; 3]> {
    let forward = &desc.forward;
    let (batch, seqlen_q, heads_q) = (forward.batch, forward.seqlen_q, forward.heads_q);
    FlashFwdParams::grid(batch, seqlen_q, heads_q, SIMT_WIDE_TILE.tile_m)
}

fn keys_grid(desc: &GradDesc) -> Option<[u32; 3]> {
    let forward = &desc.forward;
    let (batch, seqlen_k, heads_kv) = (forward.batch, forward.seqlen_k, forward.heads_kv);
    AttentionGradParams::grid_of_keys(batch, seqlen_k, heads_kv, SIMT_WIDE_TILE.tile_n)
}

/// Enqueues a candidate of [`offer`]. Without queries nothing but dk and dv is written, without
/// keys nothing but dq.
pub(super) fn launch(entry: SimtGradEntry, call: &GradCall<'_>) -> Result<()> {
    call.uses()?;
    let (lengths, params) = (call.forward.lengths(), call.params()?);
    let (q, k, v) = (&call.forward.q, &call.forward.k, &call.forward.v);
    let (d_o, lse, delta) = (&call.d_o, &call.lse, &call.delta);
    let own = |strides: BshStrides, owns_keys: u32| SimtGradLaunch {
        strides,
        owns_keys,
        reserved: 0,
    };
    let run = |grid: [u32; 3], [first, second]: [&Memory; 2], own: SimtGradLaunch| {
        // SAFETY: extents, strides and lengths are those of the call's memory; the grid covers what
        // the blocks own, whose gradients these are. delta is written before, on the same stream,
        // where there are queries to read it for.
        unsafe {
            call.launch_scored(
                entry,
                config(grid),
                (q, k, v, d_o, lse, delta, first, second),
                &(lengths, params, own),
            )
        }
    };
    if let Some(grid) = queries_grid(&call.desc) {
        call.launch_delta()?;
        run(grid, [&call.dq, &call.dq], own(call.desc.dq.strides, 0))?;
    }
    match keys_grid(&call.desc) {
        Some(grid) => run(grid, [&call.dk, &call.dv], own(call.desc.dk.strides, 1)),
        None => Ok(()),
    }
}

/// Error model: everything in f32, one addition a term.
pub(super) fn model() -> AttentionGradModel {
    AttentionGradModel {
        tanh_error: SOFTCAP_TANH_ERROR,
        ..AttentionGradModel::in_f32(crate::ops::model::EXP_ULPS)
    }
}
