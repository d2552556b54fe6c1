//! The Hopper kernels with TMA and wgmma (`kernels-gpu/src/attention/sm90`).
//!
//! They take 16-bit queries, keys and values that a tensor map can describe, with any mask and any
//! lengths.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::{AttentionDesc, OperandDesc};
use super::packing::{self, Sharing};
use super::score::scored;
use super::splits;
use crate::ops::gemm::Memory;
use crate::ops::maps::{MapKey, MapValue};
use crate::ops::model;
use crate::ops::plan::Machine;
use crate::ops::workspaces::{Purpose, Workspace};
use crate::reference::Model;
use crate::reference::attention::AttentionModel;
use crate::reference::gemm::Arithmetic;
use crate::{DType, Error, L2Promotion, LaunchConfig, Result, TensorMapType};
use abi::attention::sm90::{FwdEntry, FwdLaunch, FwdTile, launch_flags, section};
use abi::attention::{BshStrides, FwdPacking, MOST_SPLITS, SOFTCAP_TANH_ERROR, UNLIMITED};
use abi::gemm::sm90::{MMA_M, SPAN_BYTES};

/// The only architecture that runs code for sm_90a.
pub(in crate::ops) const ARCH: (u32, u32) = (9, 0);
/// Alignment of every row, for tensor maps and stores.
pub(in crate::ops) const ALIGN_BYTES: u32 = 16;
/// Head dimensions must be multiples of this, since rows are written 16 bytes at a time.
pub(in crate::ops) const HEAD_DIM_MULTIPLE: u32 = 8;
/// Most tiles of a launch: the tile counter has 32 bits.
const MOST_TILES: u64 = 1 << 31;
/// Strides of tensor maps must be less than this.
const STRIDE_BYTES_END: u64 = 1 << 40;
/// Errors of `ex2.approx` and `lg2.approx`, in ulp.
pub(in crate::ops) const EXP_ULPS: f64 = 4.0;
const LOG_ULPS: f64 = 4.0;

/// Offers the kernels that have room for the head dimensions.
pub(super) fn offer(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    // Lines of a block mask have a power of two of queries.
    let has_blocks = desc.has_blocks();
    let has_lines = |entry: &FwdEntry| !has_blocks || entry.tile.tile_m.is_power_of_two();
    let mut entries = entries(desc, false).filter(has_lines);
    let Some(plain) = entries.next().filter(|_| suits(desc, machine)) else {
        return;
    };
    let mut offer_entry = |entry: FwdEntry, estimated_ns: f64| {
        let tile = entry.tile;
        let fits = tile.smem_bytes() <= machine.shared_bytes;
        if fits && tiles(desc, &tile, Sharing::NONE) <= MOST_TILES {
            let config = config(desc, &tile, Sharing::NONE, machine.multiprocessors);
            let tile = [tile.tile_m, tile.tile_n];
            offer(Candidate::plain(
                Entry::Sm90(entry),
                tile,
                config,
                estimated_ns,
            ));
        }
    };
    let costs = &machine.model.attention;
    let estimated_ns = |longer: f64| estimate_ns(desc, machine, costs.sm90_flops / longer);
    offer_entry(plain, estimated_ns(1.0));
    if let Some(short) = entries.next() {
        let pairs = |entry: &FwdEntry| pairs(desc, &entry.tile);
        offer_entry(
            short,
            estimated_ns(costs.short_tile_time * pairs(&short) / pairs(&plain)),
        );
    }
}

/// The entries that have room for the head dimensions, packed or not.
fn entries(desc: &AttentionDesc, is_packed: bool) -> impl Iterator<Item = FwdEntry> {
    FwdEntry::of(desc.dtype, [desc.head_dim, desc.head_dim_v], is_packed)
}

/// Whether tensor maps can describe q, k and v, and the kernels can write o.
fn suits(desc: &AttentionDesc, machine: &Machine) -> bool {
    machine.arch == ARCH
        && [desc.dtype, DType::F32].contains(&desc.o_dtype)
        && desc.positive_scale
        && desc.pages.is_none()
        && [desc.head_dim, desc.head_dim_v]
            .iter()
            .all(|&d| d > 0 && d.is_multiple_of(HEAD_DIM_MULTIPLE))
        && keys(desc) > 0
        && positions(desc).is_some()
        && desc.o.row_align_bytes(desc.o_dtype) >= ALIGN_BYTES
}

/// Offers the packed kernel that has room for the head dimensions.
pub(super) fn offer_packed(
    desc: &AttentionDesc,
    machine: &Machine,
    offer: &mut dyn FnMut(Candidate),
) {
    let Some(entry) = entries(desc, true).next().filter(|_| suits(desc, machine)) else {
        return;
    };
    let Some(plain) = entries(desc, false).next() else {
        return;
    };
    let tile = entry.tile;
    let best = packing::best(desc, &tile, &plain.tile, machine);
    let Some((sharing, ratio)) = best else {
        return;
    };
    let fits = tile.smem_bytes() <= machine.shared_bytes;
    let can_be = (1..=MOST_SPLITS).contains(&sharing.splits)
        && packed_queries(desc, sharing.heads).is_some();
    let packing = FwdPacking::new(sharing.heads, MMA_M);
    if fits && can_be && packing.is_some() && tiles(desc, &tile, sharing) <= MOST_TILES {
        let costs = &machine.model.attention;
        let flops_per_cycle = costs.sm90_flops / (ratio / costs.packing_pays);
        let estimated_ns = estimate_ns(desc, machine, flops_per_cycle);
        let config = config(desc, &tile, sharing, machine.multiprocessors);
        let tile = [tile.tile_m, tile.tile_n];
        offer(Candidate {
            sharing,
            packing,
            ..Candidate::plain(Entry::Sm90(entry), tile, config, estimated_ns)
        });
    }
}

/// Estimate of the pairs of a query and a key that the tiles of a head visit.
fn pairs(desc: &AttentionDesc, tile: &FwdTile) -> f64 {
    let queries = f64::from(desc.seqlen_q.div_ceil(tile.tile_m)) * f64::from(tile.tile_m);
    let keys = f64::from(desc.seqlen_k);
    let keys = if is_masked(desc) {
        // Half of the keys, and the parts of tiles at the edge of the mask.
        keys / 2.0 + f64::from(tile.tile_m + tile.tile_n) / 2.0
    } else {
        keys
    };
    queries * keys
}

/// Number of key positions in the tensor.
fn keys(desc: &AttentionDesc) -> u32 {
    if desc.lengths.cu_seqlens_k {
        desc.total_k
    } else {
        desc.seqlen_k
    }
}

/// Number of tiles: tiles of queries times key splits.
fn tiles(desc: &AttentionDesc, tile: &FwdTile, sharing: Sharing) -> u64 {
    let Sharing { heads, splits } = sharing;
    let of_head = u64::from(desc.seqlen_q.div_ceil(packing::queries(tile, heads)));
    u64::from(desc.batch)
        .saturating_mul(u64::from(desc.heads_q / heads))
        .saturating_mul(of_head)
        .saturating_mul(u64::from(splits))
}

fn config(
    desc: &AttentionDesc,
    tile: &FwdTile,
    sharing: Sharing,
    multiprocessors: u32,
) -> LaunchConfig {
    let blocks = tiles(desc, tile, sharing).min(u64::from(multiprocessors.max(1)));
    LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [tile.threads(), 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    }
}

/// Layout of one tensor as a tensor map describes it: dimensions without the innermost, and their
/// strides in bytes.
pub(in crate::ops) struct Lying<const N: usize> {
    pub(in crate::ops) dims: [u64; N],
    pub(in crate::ops) strides_bytes: [u64; N],
}

impl<const N: usize> Lying<N> {
    /// Rows of `head_dim` with these outer dimensions and strides; `None` if no tensor map can
    /// describe them.
    pub(in crate::ops) fn new(
        operand: &OperandDesc,
        dims: [(u32, i64); N],
        head_dim: u32,
        dtype: DType,
    ) -> Option<Self> {
        if operand.row_align_bytes(dtype) < ALIGN_BYTES {
            return None;
        }
        let row_bytes = u64::from(head_dim) * dtype.size_bytes() as u64;
        let mut strides_bytes = [0; N];
        for (bytes, (dim, stride)) in strides_bytes.iter_mut().zip(dims) {
            // The stride of an extent of 1 is never used.
            *bytes = if dim <= 1 {
                row_bytes.next_multiple_of(u64::from(ALIGN_BYTES))
            } else {
                u64::try_from(stride).ok()? * dtype.size_bytes() as u64
            };
            if *bytes == 0 || *bytes >= STRIDE_BYTES_END {
                return None;
            }
        }
        Some(Self {
            dims: dims.map(|(dim, _)| u64::from(dim)),
            strides_bytes,
        })
    }
}

/// Layouts of q, k and v; `None` if no tensor map can describe them.
pub(in crate::ops) fn positions(desc: &AttentionDesc) -> Option<[Lying<3>; 3]> {
    let lengths = &desc.lengths;
    let (is_packed_q, is_packed_k) = (lengths.cu_seqlens_q, lengths.cu_seqlens_k);
    let lying = |operand: &OperandDesc, positions, heads, is_packed, head_dim| {
        let batch = if is_packed { 1 } else { desc.batch };
        let BshStrides {
            batch: of_batch,
            seq,
            head,
        } = operand.strides;
        let dims = [(positions, seq), (heads, head), (batch, of_batch)];
        Lying::new(operand, dims, head_dim, desc.dtype)
    };
    let (of_q, of_k) = (desc.head_dim, keys(desc));
    Some([
        lying(&desc.q, desc.positions_q(), desc.heads_q, is_packed_q, of_q)?,
        lying(&desc.k, of_k, desc.heads_kv, is_packed_k, desc.head_dim)?,
        lying(&desc.v, of_k, desc.heads_kv, is_packed_k, desc.head_dim_v)?,
    ])
}

/// Layout of q with `heads` packed heads; its dimensions are packed heads, positions, groups of
/// heads, batch.
fn packed_queries(desc: &AttentionDesc, heads: u32) -> Option<Lying<4>> {
    let BshStrides { batch, seq, head } = desc.q.strides;
    let batches = if desc.lengths.cu_seqlens_q {
        1
    } else {
        desc.batch
    };
    let dims = [
        (heads, head),
        (desc.positions_q(), seq),
        (desc.heads_q / heads, head.checked_mul(i64::from(heads))?),
        (batches, batch),
    ];
    Lying::new(&desc.q, dims, desc.head_dim, desc.dtype)
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: FwdEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let Some(packing) = candidate.packing else {
        return launch_one(entry, candidate, call, None);
    };
    splits::launch(call, packing, candidate.sharing.splits, |call, packing| {
        launch_one(entry, candidate, call, Some(packing))
    })
}

const OFFERED: Error = Error::Bug("an attention was offered that no tensor map describes");

/// The counter by which blocks take tiles that are not alike.
const COUNTER: Workspace = Workspace {
    purpose: Purpose::AttentionTiles,
    bytes: 4,
    words: 1,
};

/// Enqueues one kernel.
fn launch_one(
    entry: FwdEntry,
    candidate: &Candidate,
    call: &Call<'_>,
    packing: Option<FwdPacking>,
) -> Result<()> {
    let (desc, tile) = (&call.desc, &entry.tile);
    let device = call.stream.device();
    let [q, k, v] = positions(desc).ok_or(OFFERED)?;
    // Packed, a key is read once. Promoted to 256 bytes, it makes the halves of L2 exchange more,
    // and tiles of 128 rows take an eighth more time. Keys that other tiles read again gain by it.
    let l2_promotion = match packing {
        None => L2Promotion::B256,
        Some(_) => L2Promotion::B128,
    };
    let map = |memory: &Memory, lying: &Lying<3>, head_dim, rows| -> Result<MapValue> {
        let [positions, heads, batch] = lying.dims;
        let key = MapKey::new(
            (memory.address(), TensorMapType::from(desc.dtype)),
            [u64::from(head_dim), positions, heads, batch],
            lying.strides_bytes,
            [span(desc.dtype), rows, 1, 1],
            l2_promotion,
        );
        device.maps().get(&key, device)
    };
    let map_q = match &packing {
        None => map(&call.q, &q, desc.head_dim, tile.box_rows_q())?,
        Some(packing) => packed_map(call, packing)?,
    };
    let map_k = map(&call.k, &k, desc.head_dim, tile.tile_n)?;
    let map_v = map(&call.v, &v, desc.head_dim_v, tile.tile_n)?;
    let Sharing { heads, .. } = candidate.sharing;
    let launch = FwdLaunch {
        counter: std::ptr::null_mut(),
        section: section(
            desc.heads_q / desc.heads_kv / heads,
            desc.seqlen_q.div_ceil(packing::queries(tile, heads)),
            !are_alike(desc),
        ),
        flags: flags(desc),
    };
    call.uses()?;
    let (params, lengths, o) = (call.params()?, call.lengths(), &call.o);
    let (lse, sink) = (call.lse.as_ref(), call.sink.as_ref());
    let (q, k, v) = (&map_q, &map_k, &map_v);
    let score = call.score.as_ref();
    let enqueue = |counter: u64| {
        let counter = std::ptr::with_exposed_provenance_mut(counter as usize);
        let launch = FwdLaunch { counter, ..launch };
        let memory = (q, k, v, o, lse, sink);
        let params = (lengths, params, launch, packing);
        // SAFETY: the maps are of the call's memory, as it lies, with the boxes of the tile. The
        // counter is 0 and of this call alone. o is aligned as rows are written. Grid and threads
        // are the tile's.
        unsafe {
            scored(
                score,
                (entry, call.stream),
                candidate.config,
                memory,
                &params,
            )
        }
    };
    let counter = (!are_alike(desc)).then_some(COUNTER);
    device.workspaces().lend(counter, call.stream, enqueue)
}

/// The launch's flags.
fn flags(desc: &AttentionDesc) -> u32 {
    let unseen = u32::from(desc.lengths.any()) * launch_flags::HAS_UNSEEN;
    let alone = u32::from(desc.batch_invariant) * launch_flags::ROWS_ALONE;
    unseen | alone
}

/// Innermost box extent, in elements.
pub(in crate::ops) fn span(dtype: DType) -> u32 {
    SPAN_BYTES / dtype.size_bytes() as u32
}

/// The tensor map of q for a packed kernel.
fn packed_map(call: &Call<'_>, packing: &FwdPacking) -> Result<MapValue> {
    let desc = &call.desc;
    let Lying {
        dims: [heads, positions, groups, batch],
        strides_bytes,
    } = packed_queries(desc, packing.heads).ok_or(OFFERED)?;
    let key = MapKey::new(
        (call.q.address(), TensorMapType::from(desc.dtype)),
        [u64::from(desc.head_dim), heads, positions, groups, batch],
        strides_bytes,
        [span(desc.dtype), packing.heads, packing.queries, 1, 1],
        L2Promotion::B256,
    );
    let device = call.stream.device();
    device.maps().get(&key, device)
}

/// Whether all tiles of queries visit the same number of keys.
fn are_alike(desc: &AttentionDesc) -> bool {
    !desc.lengths.any() && !is_masked(desc) && !desc.has_blocks()
}

/// Whether some queries do not see all keys.
fn is_masked(desc: &AttentionDesc) -> bool {
    desc.window_left != UNLIMITED || desc.window_right != UNLIMITED
}

/// Error model: sums add the keys one by one, and are rescaled at most once per tile; probabilities
/// are rounded to the dtype of v.
pub(super) fn model(entry: FwdEntry, sharing: Sharing, desc: &AttentionDesc) -> AttentionModel {
    let (p_roundoff, p_lost) = match desc.dtype {
        DType::F16 => (2.0_f64.powi(-11), 2.0_f64.powi(-25)),
        _ => (2.0_f64.powi(-8), 2.0_f64.powi(-126)),
    };
    let model = model::attention(desc.seqlen_k as usize, entry.tile.tile_n);
    let roundings = splits::roundings(sharing.splits);
    AttentionModel {
        softmax: Model {
            exp_ulps: EXP_ULPS,
            log_ulps: LOG_ULPS,
            p_roundoff,
            rescales: model.rescales + roundings,
            additions: model.additions + roundings,
        },
        scores: Arithmetic::TensorCore,
        p_lost,
        q_lost: 0.0,
        tanh_error: SOFTCAP_TANH_ERROR,
    }
}
