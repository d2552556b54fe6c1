//! The portable SIMT kernels, which compute every gradient on every device.

use super::call::GradCall;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::GradDesc;
use crate::reference::attention::AttentionGradModel;
use crate::{DeviceInfo, LaunchConfig, Result};
use spec::attention::backward::{FlashBwdParams, KeysEntry, QueriesEntry};
use spec::attention::{
    FlashFwdParams, SIMT_TILE, SOFTCAP_TANH_ERROR, TileConfig, simt_head_dim_cap,
};

/// Flops per cycle of an SM, a multiply-add counted as two: half the peak of its 128 lanes, of which
/// two in seven go to products that are computed twice.
const FLOPS_PER_CYCLE: f64 = 90.0;

/// Offers the kernels with the smallest head dimension that covers both head dimensions.
pub(super) fn offer(desc: &GradDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let forward = &desc.forward;
    let Some(head_dim_cap) = simt_head_dim_cap(forward.head_dim, forward.head_dim_v) else {
        return;
    };
    let fits = |positions: u32, grid: Option<[u32; 3]>| positions == 0 || grid.is_some();
    if fits(forward.seqlen_q, queries_grid(desc)) && fits(forward.seqlen_k, keys_grid(desc)) {
        offer(Candidate {
            entry: Entry::Simt { head_dim_cap },
            tile: [SIMT_TILE.tile_m, SIMT_TILE.tile_n],
            estimated_ns: estimate_ns(desc, device, FLOPS_PER_CYCLE),
        });
    }
}

fn queries_grid(desc: &GradDesc) -> Option<[u32; 3]> {
    let forward = &desc.forward;
    let (batch, seqlen_q, heads_q) = (forward.batch, forward.seqlen_q, forward.heads_q);
    FlashFwdParams::grid(batch, seqlen_q, heads_q, SIMT_TILE.tile_m)
}

fn keys_grid(desc: &GradDesc) -> Option<[u32; 3]> {
    let forward = &desc.forward;
    let (batch, seqlen_k, heads_kv) = (forward.batch, forward.seqlen_k, forward.heads_kv);
    FlashBwdParams::grid_of_keys(batch, seqlen_k, heads_kv, SIMT_TILE.tile_n)
}

/// The entries of a candidate.
pub(super) fn entries(head_dim_cap: u32) -> (QueriesEntry, KeysEntry) {
    (QueriesEntry { head_dim_cap }, KeysEntry { head_dim_cap })
}

/// Enqueues a candidate of [`offer`]. Without queries nothing but dk and dv is written, without keys
/// nothing but dq.
pub(super) fn launch(head_dim_cap: u32, call: &GradCall<'_>) -> Result<()> {
    call.uses()?;
    let (of_queries, of_keys) = entries(head_dim_cap);
    let (lengths, params) = (call.forward.lengths(), call.params()?);
    let (q, k, v) = (&call.forward.q, &call.forward.k, &call.forward.v);
    let (d_o, lse, delta) = (&call.d_o, &call.lse, &call.delta);
    let (dq, dk, dv) = (&call.dq, &call.dk, &call.dv);
    let config = |grid: [u32; 3], tile: TileConfig| LaunchConfig {
        grid,
        block: [tile.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    if let Some(grid) = queries_grid(&call.desc) {
        call.launch_delta()?;
        let config = config(grid, of_queries.tile());
        // SAFETY: extents, strides and lengths are those of the call's memory; the grid covers them,
        // and delta is written before it is read, on the same stream.
        unsafe {
            call.launch(
                of_queries,
                config,
                &[&q, &k, &v, &d_o, &lse, &delta, &dq, &lengths, &params],
            )?;
        }
    }
    if let Some(grid) = keys_grid(&call.desc) {
        let config = config(grid, of_keys.tile());
        // SAFETY: as above; without queries delta is not read.
        unsafe {
            call.launch(
                of_keys,
                config,
                &[&q, &k, &v, &d_o, &lse, &delta, &dk, &dv, &lengths, &params],
            )?;
        }
    }
    Ok(())
}

/// Error model: everything in f32, one addition a term.
pub(super) fn model() -> AttentionGradModel {
    AttentionGradModel {
        tanh_error: SOFTCAP_TANH_ERROR,
        ..AttentionGradModel::in_f32(crate::ops::model::EXP_ULPS)
    }
}
