//! The Hopper kernels with TMA and wgmma (`kernels-gpu/src/attention_grad/sm90`).
//!
//! They take 16-bit tensors that a tensor map can describe, with any mask and any lengths.

use super::call::GradCall;
use super::candidates::{Candidate, Entry, Together, estimate_ns};
use super::desc::GradDesc;
use super::sm80::rounding;
use crate::ops::attention::call::Memory;
use crate::ops::attention::sm90::{
    ALIGN_BYTES, ARCH, EXP_ULPS, HEAD_DIM_MULTIPLE, Lying, positions, span,
};
use crate::ops::maps::{MapKey, MapValue};
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionGradModel;
use crate::reference::gemm::Arithmetic;
use crate::{Error, L2Promotion, LaunchConfig, Result, Tensor, TensorMapType};
use abi::attention::{BshStrides, SOFTCAP_TANH_ERROR};
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm90::{Heads, Sm90GradEntry, Sm90GradTile, THREADS};
use abi::attention_grad::sums::{ROUND_ENTRY, Rounding};
use abi::gemm::sm90::WARPGROUP;

/// Most queries, and most keys.
const MOST_POSITIONS: u32 = 1 << 30;
/// Most blocks of a grid in y and z.
const MOST_YZ: u32 = 65_535;

/// Offers the kernel that has room for the head dimensions.
pub(super) fn offer(desc: &GradDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let forward = &desc.forward;
    let head_dims = [forward.head_dim, forward.head_dim_v];
    let entry = Sm90GradEntry::of(forward.dtype, head_dims, forward.lengths.any());
    let Some(entry) = entry else {
        return;
    };
    let tile = entry.tile;
    let fits = tile.smem_bytes() <= machine.shared_bytes;
    if machine.arch != ARCH || !fits || !suits(desc) {
        return;
    }
    if let Some((heads, grid)) = blocks(tile, desc, machine) {
        let adders = forward.heads_q / forward.heads_kv / heads;
        offer(Candidate {
            entry: Entry::Sm90(entry, Together { heads, adders }),
            tile: [tile.tile_m, tile.tile_n()],
            config: LaunchConfig {
                grid,
                block: [THREADS, 1, 1],
                shared_bytes: tile.smem_bytes(),
                cluster: (tile.ctas() > 1).then_some([tile.ctas(), 1, 1]),
            },
            estimated_ns: estimate_ns(desc, machine, machine.model.attention_grad.sm90_flops),
        });
    }
}

/// Query heads of a block, and the grid.
fn blocks(tile: Sm90GradTile, desc: &GradDesc, machine: &Machine) -> Option<(u32, [u32; 3])> {
    let forward = &desc.forward;
    let heads = Heads {
        batch: forward.batch,
        heads_q: forward.heads_q,
        heads_kv: forward.heads_kv,
        seqlen_k: forward.seqlen_k,
        key_slots: tile.key_slots(forward.batch, forward.seqlen_k, forward.total_k),
        has_lengths: forward.lengths.any(),
        is_masked: Heads::masked_by((forward.window_left, forward.window_right)),
    };
    // A block's heads have one line of a block mask.
    let differ = (forward.score).and_then(|score| score.blocks);
    let together = match differ.is_some_and(|blocks| blocks.has_heads) {
        true => 1,
        false => tile.heads_together(&heads, machine.multiprocessors),
    };
    let grid = tile.grid(&heads, together, machine.multiprocessors)?;
    Some((together, grid))
}

/// Whether tensor maps can describe what is read, and the kernels can write the gradients.
fn suits(desc: &GradDesc) -> bool {
    let forward = &desc.forward;
    let written = [&desc.dq, &desc.dk, &desc.dv];
    // A bias's gradient is that with respect to new scores, which these kernels do not have.
    let has_d_bias = (forward.score).is_none_or(|score| !score.d_bias || score.is_affine());
    forward.positive_scale
        && has_d_bias
        && [forward.head_dim, forward.head_dim_v]
            .iter()
            .all(|&d| d > 0 && d.is_multiple_of(HEAD_DIM_MULTIPLE))
        && [forward.seqlen_q, forward.seqlen_k]
            .iter()
            .all(|seqlen| (1..=MOST_POSITIONS).contains(seqlen))
        && [forward.heads_q, forward.heads_kv, forward.batch]
            .iter()
            .all(|count| (1..=MOST_YZ).contains(count))
        && written
            .iter()
            .all(|operand| operand.row_align_bytes(forward.dtype) >= ALIGN_BYTES)
        && lying(desc).is_some()
}

/// Layouts of q, k, v and d_o; `None` if no tensor map can describe them.
fn lying(desc: &GradDesc) -> Option<[Lying<3>; 4]> {
    let forward = &desc.forward;
    let [q, k, v] = positions(forward)?;
    let BshStrides { batch, seq, head } = desc.d_o.strides;
    let batches = match forward.lengths.cu_seqlens_q {
        true => 1,
        false => forward.batch,
    };
    let dims = [
        (forward.positions_q(), seq),
        (forward.heads_q, head),
        (batches, batch),
    ];
    let d_o = Lying::new(&desc.d_o, dims, forward.head_dim_v, forward.dtype)?;
    Some([q, k, v, d_o])
}

/// The tensor map of a matrix, in boxes of `rows` rows. For sequences of different lengths it has
/// one dimension more: see [`abi::attention_grad::sm90`].
fn map(
    call: &GradCall<'_>,
    memory: &Memory,
    lying: &Lying<3>,
    [head_dim, rows]: [u32; 2],
) -> Result<MapValue> {
    let dtype = call.desc.forward.dtype;
    let ([positions, heads, batch], head_dim) = (lying.dims, u64::from(head_dim));
    let [of_position, of_head, of_batch] = lying.strides_bytes;
    let (address, data_type) = (memory.address(), TensorMapType::from(dtype));
    let key = match call.desc.forward.lengths.any() {
        false => MapKey::new(
            (address, data_type),
            [head_dim, positions, heads, batch],
            lying.strides_bytes,
            [span(dtype), rows, 1, 1],
            L2Promotion::B256,
        ),
        true => MapKey::new(
            (
                address.wrapping_sub(u64::from(rows) * of_position),
                data_type,
            ),
            [head_dim, u64::from(rows), heads, positions + 1, batch],
            [of_position, of_head, of_position, of_batch],
            [span(dtype), rows, 1, 1, 1],
            L2Promotion::B256,
        ),
    };
    let device = call.forward.stream.device();
    device.maps().get(&key, device)
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(
    (entry, together): (Sm90GradEntry, Together),
    config: LaunchConfig,
    call: &GradCall<'_>,
) -> Result<()> {
    const OFFERED: Error = Error::Bug("gradients were offered that no tensor map describes");
    let (tile, forward, stream) = (entry.tile, &call.desc.forward, call.forward.stream);
    let [q, k, v, d_o] = lying(&call.desc).ok_or(OFFERED)?;
    let (of_q, of_k) = (tile.tile_m, tile.keys());
    let (d, d_v) = (forward.head_dim, forward.head_dim_v);
    let memory = &call.forward;
    let map_q = map(call, &memory.q, &q, [d, of_q])?;
    let map_k = map(call, &memory.k, &k, [d, of_k])?;
    let map_v = map(call, &memory.v, &v, [d_v, of_k])?;
    let map_d_o = map(call, &call.d_o, &d_o, [d_v, of_q])?;
    let params = AttentionGradParams {
        heads_together: together.heads,
        ..call.params()?
    };
    let sums_of = |elements| Tensor::<f32>::empty(stream, &[elements as usize]);
    let (sums, key_sums) = (
        sums_of(tile.sums(&params))?,
        sums_of(tile.key_sums(&params))?,
    );
    let counters = Tensor::<u32>::zeros(stream, &[tile.counters(&params) as usize])?;
    call.uses()?;
    call.launch_delta()?;
    let (q, k, v, d_o) = (&map_q, &map_k, &map_v, &map_d_o);
    let (lse, delta, counters) = (&call.lse, &call.delta, &counters);
    let (dq, dk, dv) = (&call.dq, &call.dk, &call.dv);
    // SAFETY: the maps are of the call's memory, as it lies, with the boxes of the tile. Delta is
    // written before, on the same stream. The sums have room, the counters are 0, and all are this
    // call's alone. gradients are aligned as rows are written. Grids and threads are the tile's.
    unsafe {
        let memory = (q, k, v, d_o, lse, delta, &sums, &key_sums, counters, dk, dv);
        let lengths = call.forward.lengths();
        call.launch_scored(entry, config, memory, &(lengths, params))?;
        round(call, (&sums, dq), &params, tile.rounding_of_dq(&params))?;
        if params.adders() > 1 {
            let [of_dk, of_dv] = tile.roundings_of_keys(&params);
            round(call, (&key_sums, dk), &params, of_dk)?;
            round(call, (&key_sums, dv), &params, of_dv)?;
        }
    }
    Ok(())
}

/// Enqueues the kernel that makes a gradient of sums.
///
/// # Safety
/// The sums are written before, on the same stream; the gradient is aligned as rows are written.
unsafe fn round(
    call: &GradCall<'_>,
    (sums, gradient): (&Tensor<f32>, &Memory),
    params: &AttentionGradParams,
    rounding: Rounding,
) -> Result<()> {
    let config = LaunchConfig {
        grid: rounding.grid(),
        block: [WARPGROUP, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let memory = (sums, gradient);
    let params = (call.forward.lengths(), *params, rounding);
    // SAFETY: the caller's promise; the grid covers the gradient.
    unsafe {
        match call.desc.forward.has_blocks() {
            true => call.launch_scored(ROUND_ENTRY, config, memory, &params),
            false => call.launch(ROUND_ENTRY, config, memory, &params),
        }
    }
}

/// Error model: P and dS are rounded to the element type. Sums of dq add a part for every block of
/// keys, sums of dk and dv one for every turn.
pub(super) fn model((entry, adders): (Sm90GradEntry, u32), seqlen_k: u32) -> AttentionGradModel {
    let (p_roundoff, p_lost) = rounding(entry.dtype);
    AttentionGradModel {
        exp_ulps: EXP_ULPS,
        scores: Arithmetic::TensorCore,
        products: Arithmetic::TensorCore,
        p_roundoff,
        p_lost,
        tanh_error: SOFTCAP_TANH_ERROR,
        more_additions: entry.tile.key_blocks(seqlen_k).max(adders) as usize,
        sink_additions: usize::MAX,
    }
}
