//! Hopper's kernels: tensor copies and wgmma (`kernels-gpu/src/attention/sm90`).
//!
//! They take 16-bit queries, keys and values that a tensor map can describe, any mask, any lengths.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::{AttentionDesc, OperandDesc};
use crate::launch::KernelArg;
use crate::ops::gemm::Memory;
use crate::ops::maps::{MapKey, MapValue};
use crate::ops::{kernels, model};
use crate::reference::Model;
use crate::reference::attention::AttentionModel;
use crate::reference::gemm::Arithmetic;
use crate::{DType, DeviceInfo, Error, L2Promotion, LaunchConfig, Result, TensorMapType};
use spec::attention::sm90::{DTYPES, FwdEntry, FwdLaunch, FwdTile, section, tiles_for};
use spec::attention::{SOFTCAP_TANH_ERROR, UNLIMITED};
use spec::gemm::sm90::SPAN_BYTES;

/// The only architecture that runs code for sm_90a.
const ARCH: (u32, u32) = (9, 0);
/// Multiply-adds, counted as two, that the tensor cores of a multiprocessor do in a cycle.
const FLOPS_PER_CYCLE: f64 = 2800.0;
/// What a query and a key take in a tile of fewer queries, where both are visited.
const SHORT_TILE_TIME: f64 = 1.16;
/// Alignment of every row, for tensor maps and stores.
const ALIGN_BYTES: u32 = 16;
/// Head dimensions are multiples of it, as rows are written 16 bytes at a time.
const HEAD_DIM_MULTIPLE: u32 = 8;
/// Most tiles of a launch: places in line are 32 bits.
const MOST_TILES: u64 = 1 << 31;
/// Strides of tensor maps are below that.
const STRIDE_BYTES_END: u64 = 1 << 40;
/// Errors of `ex2.approx` and `lg2.approx`, in ulp.
const EXP_ULPS: f64 = 4.0;
const LOG_ULPS: f64 = 4.0;

/// Adds the kernel that has room for the head dimensions.
pub(super) fn offer(desc: &AttentionDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let suits = device.arch == ARCH
        && DTYPES.contains(&desc.dtype)
        && [desc.dtype, DType::F32].contains(&desc.o_dtype)
        && desc.positive_scale
        && [desc.head_dim, desc.head_dim_v]
            .iter()
            .all(|&d| d > 0 && d.is_multiple_of(HEAD_DIM_MULTIPLE))
        && keys(desc) > 0
        && positions(desc).is_some()
        && desc.o.row_align_bytes(desc.o_dtype) >= ALIGN_BYTES;
    let Some((tile, short)) = tiles_for(desc.head_dim, desc.head_dim_v).filter(|_| suits) else {
        return;
    };
    let mut offer_tile = |tile: FwdTile, estimated_ns: f64| {
        let fits = tile.smem_bytes() <= device.max_shared_bytes_per_block;
        if fits && tiles(desc, &tile) <= MOST_TILES {
            offer(Candidate {
                entry: Entry::Sm90(FwdEntry {
                    dtype: desc.dtype,
                    tile,
                }),
                tile: [tile.tile_m, tile.tile_n],
                config: config(desc, &tile, device.multiprocessors),
                estimated_ns,
            });
        }
    };
    let estimated_ns = estimate_ns(desc, device, FLOPS_PER_CYCLE);
    offer_tile(tile, estimated_ns);
    if let Some(short) = short {
        let longer = SHORT_TILE_TIME * pairs(desc, &short) / pairs(desc, &tile);
        offer_tile(short, estimated_ns * longer);
    }
}

/// Queries times keys that the tiles of a head visit, about.
fn pairs(desc: &AttentionDesc, tile: &FwdTile) -> f64 {
    let queries = f64::from(desc.seqlen_q.div_ceil(tile.tile_m)) * f64::from(tile.tile_m);
    let keys = f64::from(desc.seqlen_k);
    let keys = if is_masked(desc) {
        // Half of them, and about as many as a tile is long at its ends.
        keys / 2.0 + f64::from(tile.tile_m + tile.tile_n) / 2.0
    } else {
        keys
    };
    queries * keys
}

/// Positions of keys that there are in the tensor.
fn keys(desc: &AttentionDesc) -> u32 {
    if desc.lengths.cu_seqlens_k {
        desc.total_k
    } else {
        desc.seqlen_k
    }
}

/// Tiles of queries.
fn tiles(desc: &AttentionDesc, tile: &FwdTile) -> u64 {
    let of_head = u64::from(desc.seqlen_q.div_ceil(tile.tile_m));
    u64::from(desc.batch)
        .saturating_mul(u64::from(desc.heads_q))
        .saturating_mul(of_head)
}

fn config(desc: &AttentionDesc, tile: &FwdTile, multiprocessors: u32) -> LaunchConfig {
    let blocks = tiles(desc, tile).min(u64::from(multiprocessors.max(1)));
    LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [tile.threads(), 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    }
}

/// One tensor as a map describes it: dimensions without the first, and their strides in bytes.
struct Lying {
    dims: [u64; 3],
    strides_bytes: [u64; 3],
}

/// How q, k and v lie; `None` where no tensor map can say so.
fn positions(desc: &AttentionDesc) -> Option<[Lying; 3]> {
    let lengths = &desc.lengths;
    let (is_packed_q, is_packed_k) = (lengths.cu_seqlens_q, lengths.cu_seqlens_k);
    let queries = if is_packed_q {
        desc.total_q
    } else {
        desc.seqlen_q
    };
    let lying = |operand: &OperandDesc, positions, heads, is_packed, head_dim| {
        let batch = if is_packed { 1 } else { desc.batch };
        lying(operand, [positions, heads, batch], head_dim, desc.dtype)
    };
    Some([
        lying(&desc.q, queries, desc.heads_q, is_packed_q, desc.head_dim)?,
        lying(
            &desc.k,
            keys(desc),
            desc.heads_kv,
            is_packed_k,
            desc.head_dim,
        )?,
        lying(
            &desc.v,
            keys(desc),
            desc.heads_kv,
            is_packed_k,
            desc.head_dim_v,
        )?,
    ])
}

fn lying(operand: &OperandDesc, dims: [u32; 3], head_dim: u32, dtype: DType) -> Option<Lying> {
    if operand.row_align_bytes(dtype) < ALIGN_BYTES {
        return None;
    }
    let strides = [
        operand.strides.seq,
        operand.strides.head,
        operand.strides.batch,
    ];
    let row_bytes = u64::from(head_dim) * dtype.size_bytes() as u64;
    let mut strides_bytes = [0; 3];
    for ((bytes, stride), dim) in strides_bytes.iter_mut().zip(strides).zip(dims) {
        // The stride of a single one is never taken.
        *bytes = if dim <= 1 {
            row_bytes.next_multiple_of(u64::from(ALIGN_BYTES))
        } else {
            u64::try_from(stride).ok()? * dtype.size_bytes() as u64
        };
        if *bytes == 0 || *bytes >= STRIDE_BYTES_END {
            return None;
        }
    }
    Some(Lying {
        dims: dims.map(u64::from),
        strides_bytes,
    })
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: FwdEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    const OFFERED: Error = Error::Bug("an attention was offered that no tensor map describes");
    let (desc, tile) = (&call.desc, &entry.tile);
    let [q, k, v] = positions(desc).ok_or(OFFERED)?;
    let device = call.stream.device();
    let map = |memory: &Memory, lying: &Lying, head_dim, rows| -> Result<MapValue> {
        let [positions, heads, batch] = lying.dims;
        let span = SPAN_BYTES / desc.dtype.size_bytes() as u32;
        let key = MapKey::new(
            (memory.address(), TensorMapType::from(desc.dtype)),
            [u64::from(head_dim), positions, heads, batch],
            lying.strides_bytes,
            [span, rows, 1, 1],
            L2Promotion::B256,
        );
        device.maps().get(&key, device)
    };
    let map_q = map(&call.q, &q, desc.head_dim, tile.box_rows_q())?;
    let map_k = map(&call.k, &k, desc.head_dim, tile.tile_n)?;
    let map_v = map(&call.v, &v, desc.head_dim_v, tile.tile_n)?;
    let counter = match are_alike(desc) {
        true => None,
        false => Some(device.attention().counters.get(call.stream, 4, 1)?),
    };
    let address = counter.as_ref().map_or(0, |counter| counter.address);
    let lengths = &desc.lengths;
    let launch = FwdLaunch {
        counter: std::ptr::with_exposed_provenance_mut(address as usize),
        section: section(
            desc.heads_q / desc.heads_kv,
            desc.seqlen_q.div_ceil(tile.tile_m),
            !are_alike(desc),
        ),
        has_neighbours: u32::from(lengths.cu_seqlens_k || lengths.seqused_k || lengths.leftpad_k),
    };
    call.uses()?;
    let (params, lengths, o) = (call.params()?, call.lengths(), &call.o);
    let (lse, sink) = (call.lse.as_ref(), call.sink.as_ref());
    let (q, k, v) = (&map_q, &map_k, &map_v);
    let arguments: [&dyn KernelArg; 9] = [&q, &k, &v, &o, &lse, &sink, &lengths, &params, &launch];
    let kernel = kernels::kernel(call.stream, entry)?;
    // SAFETY: the maps are of the call's memory, as it lies, with the boxes of the tile; the counter is
    // 0 and nobody else's; o is aligned as rows are written; grid and threads are the tile's.
    unsafe { kernel.launch(call.stream, candidate.config, &arguments[..]) }
}

/// True where every tile of queries visits as many keys.
fn are_alike(desc: &AttentionDesc) -> bool {
    let lengths = &desc.lengths;
    let varies = lengths.cu_seqlens_q
        || lengths.cu_seqlens_k
        || lengths.seqused_q
        || lengths.seqused_k
        || lengths.leftpad_k;
    !varies && !is_masked(desc)
}

/// True where some queries do not see all keys.
fn is_masked(desc: &AttentionDesc) -> bool {
    desc.window_left != UNLIMITED || desc.window_right != UNLIMITED
}

/// Sums go through the keys one by one, rescaled once a tile at most; probabilities are rounded to the
/// type of v.
pub(super) fn model(entry: FwdEntry, desc: &AttentionDesc) -> AttentionModel {
    let (p_roundoff, p_lost) = match desc.dtype {
        DType::F16 => (2.0_f64.powi(-11), 2.0_f64.powi(-25)),
        _ => (2.0_f64.powi(-8), 2.0_f64.powi(-126)),
    };
    AttentionModel {
        softmax: Model {
            exp_ulps: EXP_ULPS,
            log_ulps: LOG_ULPS,
            p_roundoff,
            ..model::attention(desc.seqlen_k as usize, entry.tile.tile_n)
        },
        scores: Arithmetic::TensorCore,
        p_lost,
        tanh_error: SOFTCAP_TANH_ERROR,
    }
}
