//! Cases of the attention kernels.

use std::f64::consts::LOG2_E;
use std::fmt::Display;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::attention::decode::{self, DecodeEntry, DecodeTile};
use spec::attention::merge::{self, MergeEntry, MergeParams, PartsEntry};
use spec::attention::sm75::{self, Sm75Entry};
use spec::attention::sm80::{self, Sm80Entry};
use spec::attention::sm90::{FwdEntry, FwdLaunch};
use spec::attention::{
    BshStrides, FlashFwdPages, FlashFwdParams, FwdPacking, MOST_PACKED_HEADS, OutputDType,
    SimtEntry, UNLIMITED, packed_heads,
};
use spec::division::Division;
use spec::gemm::sm90::SPAN_BYTES;
use warpsmith::{DType, LaunchConfig, TensorMapDesc, TensorMapSwizzle, TensorMapType};

use super::catalogue::FLOATS;
use super::trial::{Arg, Trial};

/// The properties in which kernels differ.
pub(crate) struct Kernel {
    pub(crate) dtype: DType,
    /// The dtypes that o may have.
    pub(crate) o_dtypes: &'static [DType],
    pub(crate) head_dim_cap: u32,
    /// Extents and row strides must be multiples of this.
    pub(crate) unit: u32,
    pub(crate) tile_m: u32,
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u32,
    /// If the kernel takes keys in pages: what their sizes are multiples of.
    pub(crate) page_unit: Option<u32>,
}

pub(crate) fn simt(entry: SimtEntry, rng: &mut ChaCha8Rng) -> Trial {
    let dtype = FLOATS[rng.random_range(0..FLOATS.len())];
    let kernel = Kernel {
        dtype,
        o_dtypes: &FLOATS,
        head_dim_cap: entry.head_dim_cap,
        unit: 1,
        tile_m: entry.tile().tile_m,
        threads: entry.tile().threads,
        shared_bytes: 0,
        page_unit: Some(1),
    };
    attend(entry, &kernel, vec![Arg::params(code(dtype))], rng)
}

pub(crate) fn sm80(entry: Sm80Entry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        dtype: entry.dtype,
        o_dtypes: &FLOATS,
        head_dim_cap: entry.head_dim_cap,
        unit: 8,
        tile_m: entry.tile().tile_m,
        threads: sm80::THREADS,
        shared_bytes: entry.tile().smem_bytes(),
        page_unit: None,
    };
    attend(entry, &kernel, vec![], rng)
}

pub(crate) fn sm75(entry: Sm75Entry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        dtype: DType::F16,
        o_dtypes: &sm75::O_DTYPES,
        head_dim_cap: entry.head_dim_cap,
        unit: 8,
        tile_m: entry.tile().tile_m,
        threads: sm80::THREADS,
        shared_bytes: entry.tile().smem_bytes(),
        page_unit: None,
    };
    attend(entry, &kernel, vec![], rng)
}

pub(crate) fn decode(entry: DecodeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let tile = entry.tile;
    let kernel = Kernel {
        dtype: entry.dtype,
        o_dtypes: &FLOATS,
        head_dim_cap: tile.head_dim_cap,
        unit: 8,
        tile_m: tile.rows,
        threads: decode::THREADS,
        shared_bytes: tile.smem_bytes(),
        page_unit: Some(decode::WARP_KEYS),
    };
    let Forward {
        mut trial,
        mut args,
        params,
        pages,
    } = drawn(&kernel, rng);
    let heads = match rng.random() {
        true => packed_heads(params.heads_per_kv()),
        false => 1,
    };
    let packing = FwdPacking::new(heads, tile.rows).expect("a few heads");
    let grid = DecodeTile::grid(params.batch, params.seqlen_q, params.heads_q, &packing);
    args.push(Arg::params(packing));
    args.extend(pages);
    let config = LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        cluster: None,
    };
    trial.launch(entry, config, args);
    trial
}

fn code(dtype: DType) -> u32 {
    OutputDType::new(dtype).expect("a float").code()
}

fn attend(entry: impl Display, kernel: &Kernel, more: Vec<Arg>, rng: &mut ChaCha8Rng) -> Trial {
    let Forward {
        mut trial,
        mut args,
        params,
        pages,
    } = drawn(kernel, rng);
    let (batch, seqlen_q, heads_q) = (params.batch, params.seqlen_q, params.heads_q);
    let grid = FlashFwdParams::grid(batch, seqlen_q, heads_q, kernel.tile_m);
    let config = LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        cluster: None,
    };
    args.extend(more);
    args.extend(pages);
    trial.launch(entry, config, args);
    trial
}

/// Hopper's kernels take q, k and v by tensor maps.
pub(crate) fn sm90(entry: FwdEntry, rng: &mut ChaCha8Rng) -> Trial {
    let tile = entry.tile;
    let kernel = Kernel {
        dtype: entry.dtype,
        o_dtypes: match entry.dtype {
            DType::F16 => &[DType::F16, DType::F32],
            _ => &[DType::Bf16, DType::F32],
        },
        head_dim_cap: tile.head_dim.min(tile.head_dim_v),
        unit: 8,
        tile_m: tile.tile_m,
        threads: tile.threads(),
        shared_bytes: tile.smem_bytes(),
        page_unit: None,
    };
    let Forward {
        mut trial,
        args,
        params,
        ..
    } = drawn(&kernel, rng);
    let heads = match (entry.is_packed, rng.random()) {
        (true, true) => packed_heads(params.heads_per_kv()),
        _ => 1,
    };
    let packing = FwdPacking::new(heads, MOST_PACKED_HEADS).expect("a few heads");
    let of_q = entry.is_packed.then_some(&packing);
    let mut args: Vec<Arg> = args
        .into_iter()
        .enumerate()
        .map(|(at, arg)| match arg {
            Arg::Buffer(number) if at < 3 => {
                let map = map(entry, &params, at, of_q.filter(|_| at == 0));
                Arg::MapValue(number, map.swizzle(TensorMapSwizzle::B128))
            }
            arg => arg,
        })
        .collect();
    let queries = match entry.is_packed {
        true => tile.consumers() * packing.queries,
        false => tile.tile_m,
    };
    let tiles = params.batch * params.heads_q / heads * params.seqlen_q.div_ceil(queries);
    args.push(Arg::params(FwdLaunch {
        counter: std::ptr::null_mut(),
        section: rng.random_range(1..=3),
        has_neighbours: rng.random_range(0..2),
    }));
    if entry.is_packed {
        args.push(Arg::params(packing));
    }
    let config = LaunchConfig {
        grid: [rng.random_range(1..=tiles), 1, 1],
        block: [kernel.threads, 1, 1],
        shared_bytes: kernel.shared_bytes,
        cluster: None,
    };
    trial.launch(entry, config, args);
    trial
}

/// The tensor map of q, k or v; with GQA packing, q has heads side by side.
fn map(
    entry: FwdEntry,
    params: &FlashFwdParams,
    at: usize,
    packing: Option<&FwdPacking>,
) -> TensorMapDesc {
    let size = entry.dtype.size_bytes() as u64;
    let (strides, [seqlen, heads, head_dim], rows) = match at {
        0 => (
            params.q,
            [params.seqlen_q, params.heads_q, params.head_dim],
            entry.tile.box_rows_q(),
        ),
        1 => (
            params.k,
            [params.seqlen_k, params.heads_kv, params.head_dim],
            entry.tile.tile_n,
        ),
        _ => (
            params.v,
            [params.seqlen_k, params.heads_kv, params.head_dim_v],
            entry.tile.tile_n,
        ),
    };
    let BshStrides { batch, seq, head } = strides;
    let span = SPAN_BYTES / size as u32;
    let dtype = TensorMapType::from(entry.dtype);
    let bytes = |strides: &[i64]| {
        strides
            .iter()
            .map(|&x| x as u64 * size)
            .collect::<Vec<u64>>()
    };
    match packing {
        None => {
            let dims = [head_dim, seqlen, heads, params.batch].map(u64::from);
            TensorMapDesc::new(
                dtype,
                &dims,
                &bytes(&[seq, head, batch]),
                &[span, rows, 1, 1],
            )
        }
        Some(&FwdPacking {
            heads: side,
            queries,
            ..
        }) => {
            let dims = [head_dim, side, seqlen, heads / side, params.batch].map(u64::from);
            let strides = bytes(&[head, seq, head * i64::from(side), batch]);
            TensorMapDesc::new(dtype, &dims, &strides, &[span, side, queries, 1, 1])
        }
    }
}

/// A launch of a forward entry.
pub(crate) struct Forward {
    pub(crate) trial: Trial,
    /// q, k, v, o, lse, sink, lengths and parameters.
    pub(crate) args: Vec<Arg>,
    pub(crate) params: FlashFwdParams,
    /// The last argument, of kernels that take keys in pages.
    pub(crate) pages: Option<Arg>,
}

/// Random extents, options and tensors that every forward entry accepts.
pub(crate) fn drawn(kernel: &Kernel, rng: &mut ChaCha8Rng) -> Forward {
    let mut trial = Trial::default();
    let unit = kernel.unit;
    let [seqlen_q, seqlen_k] = [100, 150].map(|largest| rng.random_range(1..=largest));
    let [batch, heads_kv, group] = [2, 2, 2].map(|largest: u32| rng.random_range(1..=largest));
    let [head_dim, head_dim_v] =
        [(); 2].map(|()| unit * rng.random_range(1..=kernel.head_dim_cap / unit));
    let o_dtype = kernel.o_dtypes[rng.random_range(0..kernel.o_dtypes.len())];
    let heads_q = heads_kv * group;
    let in_pages = kernel.page_unit.map(|page_unit| match rng.random() {
        true => in_pages(&mut trial, page_unit, [batch, seqlen_k], rng),
        false => (Arg::params(FlashFwdPages::NONE), [batch, seqlen_k]),
    });
    let (pages, of_keys) = in_pages.unzip();
    let of_keys = of_keys.unwrap_or([batch, seqlen_k]);
    let mut operand = |dtype: DType, [batch, seqlen]: [u32; 2], heads: u32, head_dim: u32| {
        let mut gap = || i64::from(unit) * rng.random_range(0..3);
        let head = i64::from(head_dim) + gap();
        let seq = head * i64::from(heads) + gap();
        let batch_stride = seq * i64::from(seqlen) + gap();
        let buffer = trial.floats(dtype, batch_stride as u64 * u64::from(batch), rng);
        let strides = BshStrides {
            batch: batch_stride,
            seq,
            head,
        };
        (buffer, strides)
    };
    let of_queries = [batch, seqlen_q];
    let (q, q_strides) = operand(kernel.dtype, of_queries, heads_q, head_dim);
    let (k, k_strides) = operand(kernel.dtype, of_keys, heads_kv, head_dim);
    let (v, v_strides) = operand(kernel.dtype, of_keys, heads_kv, head_dim_v);
    let (o, o_strides) = operand(o_dtype, of_queries, heads_q, head_dim_v);
    let lse = trial.noise(4 * u64::from(batch * heads_q * seqlen_q), rng);
    let sink = trial.floats(DType::F32, u64::from(heads_q), rng);
    let mut window = || [UNLIMITED, 0, 40][rng.random_range(0..3)];
    let params = FlashFwdParams {
        q: q_strides,
        k: k_strides,
        v: v_strides,
        o: o_strides,
        batch,
        seqlen_q,
        seqlen_k,
        total_q: 0,
        total_k: 0,
        heads_q,
        heads_kv,
        head_dim,
        head_dim_v,
        window_left: window(),
        window_right: window(),
        top_left: rng.random_range(0..2),
        softmax_scale_log2: (LOG2_E / f64::from(head_dim).sqrt()) as f32,
        softcap_scale: [0.0, 0.05][rng.random_range(0..2)],
        o_dtype: code(o_dtype),
        write_lse: 1,
    };
    let lengths = Arg::params([0_u64; 5]);
    let args = vec![q, k, v, o, lse, sink, lengths, Arg::params(params)];
    Forward {
        trial,
        args,
        params,
        pages,
    }
}

/// A table of pages whose sizes are multiples of `unit`, for all keys of a batch, and the pool's extents.
/// Some entries name no page.
fn in_pages(
    trial: &mut Trial,
    unit: u32,
    [batch, seqlen_k]: [u32; 2],
    rng: &mut ChaCha8Rng,
) -> (Arg, [u32; 2]) {
    let page_size = unit * rng.random_range(1..=40_u32.div_ceil(unit));
    let columns = seqlen_k.div_ceil(page_size);
    let pages = rng.random_range(1..=batch * columns);
    let row = columns + rng.random_range(0..3);
    let entries = (0..batch * row).map(|_| match rng.random_range(0..20) {
        0 => -1,
        1 => i32::MAX,
        _ => rng.random_range(0..pages) as i32,
    });
    let bytes = entries.flat_map(i32::to_le_bytes).collect();
    let arg = Arg::around(trial.numbered(bytes), move |address| FlashFwdPages {
        table: address as *const i32,
        row: row.into(),
        pages,
        page_size: Division::new(page_size),
    });
    (arg, [pages, page_size])
}

pub(crate) fn merge_parts(entry: PartsEntry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        dtype: DType::F32,
        o_dtypes: &FLOATS,
        head_dim_cap: 256,
        unit: 8,
        tile_m: 1,
        threads: merge::THREADS,
        shared_bytes: 0,
        page_unit: None,
    };
    let Forward {
        mut trial,
        args,
        params,
        ..
    } = drawn(&kernel, rng);
    let rows = params.batch * params.heads_q * params.seqlen_q;
    let mut packing = FwdPacking::new(1, MOST_PACKED_HEADS).expect("a head");
    packing.splits = rng.random_range(1..=40);
    packing.lse_split = u64::from(rows);
    packing.o_split = u64::from(rows * params.head_dim_v);
    let parts = u64::from(packing.splits);
    let o_parts = trial.floats(DType::F32, packing.o_split * parts, rng);
    let lse_parts = trial.floats(DType::F32, packing.lse_split * parts, rng);
    let config = LaunchConfig::linear(merge::blocks(u64::from(rows)), merge::THREADS);
    // The arguments after q, k and v: o, lse, sink, lengths, parameters.
    let outputs = args.into_iter().skip(3);
    let args = [o_parts, lse_parts].into_iter().chain(outputs);
    let args: Vec<Arg> = args.chain([Arg::params(packing)]).collect();
    trial.launch(entry, config, args);
    trial
}

pub(crate) fn merge(entry: MergeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let dtype = FLOATS[rng.random_range(0..FLOATS.len())];
    let params = MergeParams {
        batch: rng.random_range(1..=3),
        seqlen_q: rng.random_range(1..=40),
        heads_q: rng.random_range(1..=5),
        head_dim_v: rng.random_range(0..=70),
        dtype: OutputDType::new(dtype).expect("a float").code(),
        reserved: 0,
    };
    let elements = params.rows() * u64::from(params.head_dim_v);
    let [o_a, o_b, o] = [(); 3].map(|()| trial.floats(dtype, elements, rng));
    let [lse_a, lse_b, lse] = [(); 3].map(|()| trial.floats(DType::F32, params.rows(), rng));
    let config = LaunchConfig::linear(params.blocks(), merge::THREADS);
    let params = Arg::params(params);
    trial.launch(entry, config, [o_a, lse_a, o_b, lse_b, o, lse, params]);
    trial
}
