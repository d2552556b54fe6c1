//! Every kernel that spec names, and how a case is generated for it.

use std::collections::BTreeMap;
use std::fmt::Display;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::attention::backward::sink::SINK_ENTRY;
use spec::attention::backward::sm80::{self as backward_sm80, Part, Sm80Bwd};
use spec::attention::backward::sm90::{self as backward_sm90, BwdEntry};
use spec::attention::backward::sums::ROUND_ENTRY;
use spec::attention::backward::{BackwardEntry, DELTA_ENTRY};
use spec::attention::decode::DecodeEntry;
use spec::attention::merge::{MergeEntry, PartsEntry};
use spec::attention::sm75::{self, Sm75Entry};
use spec::attention::sm80::{self, Sm80Entry};
use spec::attention::sm90::{DTYPES, FwdEntry, PACKED, TILES};
use spec::attention::{self, SIMT_HEAD_DIMS};
use spec::elementwise::{CopyEntry, FusedEntry, TransposeEntry};
use spec::gather::{PutEntry, TakeEntry};
use spec::gemm::ragged::RaggedEntry;
use spec::gemm::{self, Transpose};
use spec::reduce::{
    self, Form, Reads, ReduceEntry, ReduceOp, ReduceParams, ReducePlan, ReduceView,
};
use spec::rotary::RotaryEntry;
use spec::scan::{self, ScanEntry, ScanOp, ScanParams, ScanPlan};
use spec::scatter::ScatterEntry;
use spec::topk::TopKEntry;
use warpsmith::{DType, LaunchConfig};

use crate::trial::{Arg, Trial};
use crate::{
    attending, backward, double, elementwise, gather, grouped, integer, products, rotary, rows,
    scatter, topk,
};

pub(crate) const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// A kernel, by its entry in spec.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Gemm(gemm::SimtEntry),
    Double(gemm::DoubleEntry),
    Integer(gemm::integer::IntegerEntry),
    Mma(gemm::MmaEntry),
    Hopper(gemm::sm90::Sm90Entry),
    Decode(gemm::decode::DecodeEntry),
    HopperDecode(gemm::decode::sm90::Sm90DecodeEntry),
    Finish(gemm::FinishEntry),
    Grouped,
    HopperGrouped(RaggedEntry),
    Attention(attention::SimtEntry),
    AttentionSm75(Sm75Entry),
    AttentionSm80(Sm80Entry),
    AttentionDecode(DecodeEntry),
    AttentionSm90(FwdEntry),
    Merge(MergeEntry),
    MergeParts(PartsEntry),
    Delta,
    Sink,
    Backward(BackwardEntry),
    BackwardSm80(Sm80Bwd),
    BackwardSm90(BwdEntry),
    Reduce(ReduceEntry),
    Row(rows::RowKernel),
    Scan(ScanEntry),
    TopK(TopKEntry),
    Fused(FusedEntry),
    Copy(CopyEntry),
    Transpose(TransposeEntry),
    Take(TakeEntry),
    Put(PutEntry),
    Scatter(ScatterEntry),
    Rotary(RotaryEntry),
}

/// All of them, by entry name.
pub(crate) fn catalogue() -> BTreeMap<String, Family> {
    let mut all = BTreeMap::new();
    add_products(&mut all);
    add_attention(&mut all);
    rows::insert(&mut all);
    add(&mut all, ReduceEntry::all(), Family::Reduce);
    add(&mut all, ScanEntry::all(), Family::Scan);
    add(&mut all, TopKEntry::all(), Family::TopK);
    add(&mut all, FusedEntry::all(), Family::Fused);
    let copies = [1, 2, 4, 8, 16].map(|size_bytes| CopyEntry { size_bytes });
    add(&mut all, copies, Family::Copy);
    let transposes = [1, 2, 4, 8].map(|size_bytes| TransposeEntry { size_bytes });
    add(&mut all, transposes, Family::Transpose);
    let takes = TakeEntry::SIZES.map(|size_bytes| TakeEntry { size_bytes });
    add(&mut all, takes, Family::Take);
    add(&mut all, PutEntry::all(), Family::Put);
    add(&mut all, ScatterEntry::all(), Family::Scatter);
    add(&mut all, RotaryEntry::all(), Family::Rotary);
    all
}

fn add<E: Copy + Display>(
    all: &mut BTreeMap<String, Family>,
    entries: impl IntoIterator<Item = E>,
    family: impl Fn(E) -> Family,
) {
    let named = |entry: E| (entry.to_string(), family(entry));
    all.extend(entries.into_iter().map(named));
}

fn add_products(all: &mut BTreeMap<String, Family>) {
    for trans_a in Transpose::ALL {
        for trans_b in Transpose::ALL {
            let entries = [gemm::SIMT_LARGE, gemm::SIMT_SMALL].map(|tile| gemm::SimtEntry {
                trans_a,
                trans_b,
                tile,
            });
            add(all, entries, Family::Gemm);
        }
    }
    add(all, gemm::DoubleEntry::ALL, Family::Double);
    add(all, gemm::integer::IntegerEntry::ALL, Family::Integer);
    add(all, gemm::MmaEntry::all(), Family::Mma);
    add(
        all,
        gemm::sm90::Sm90Entry::ALL.iter().copied(),
        Family::Hopper,
    );
    add(all, products::decodes(), Family::Decode);
    add(all, products::hopper_decodes(), Family::HopperDecode);
    let finishes = FLOATS.map(|output| gemm::FinishEntry { output });
    add(all, finishes, Family::Finish);
    add(all, [gemm::GROUPED_ENTRY], |_| Family::Grouped);
    add(all, RaggedEntry::ALL.iter().copied(), Family::HopperGrouped);
}

fn add_attention(all: &mut BTreeMap<String, Family>) {
    let portable = SIMT_HEAD_DIMS.map(|head_dim_cap| attention::SimtEntry { head_dim_cap });
    add(all, portable, Family::Attention);
    let turing = sm75::HEAD_DIMS.map(|head_dim_cap| Sm75Entry { head_dim_cap });
    add(all, turing, Family::AttentionSm75);
    for dtype in sm80::DTYPES {
        let entries = sm80::HEAD_DIMS.map(|head_dim_cap| Sm80Entry {
            dtype,
            head_dim_cap,
        });
        add(all, entries, Family::AttentionSm80);
    }
    add(all, DecodeEntry::all(), Family::AttentionDecode);
    for dtype in DTYPES {
        let is_packed = false;
        let entries = TILES.map(|tile| FwdEntry {
            dtype,
            tile,
            is_packed,
        });
        add(all, entries, Family::AttentionSm90);
    }
    add(all, PACKED, Family::AttentionSm90);
    add(all, [MergeEntry], Family::Merge);
    add(all, [PartsEntry], Family::MergeParts);
    add(all, [DELTA_ENTRY], |_| Family::Delta);
    add(all, [SINK_ENTRY], |_| Family::Sink);
    let backward = SIMT_HEAD_DIMS.map(|head_dim_cap| BackwardEntry { head_dim_cap });
    add(all, backward, Family::Backward);
    for dtype in backward_sm80::DTYPES {
        for head_dim_cap in backward_sm80::HEAD_DIMS {
            let kernels = Sm80Bwd {
                dtype,
                head_dim_cap,
            };
            let parts = [Part::Dq].iter().chain(kernels.parts_of_keys());
            // Every case launches all of them.
            let entries = parts.map(|&part| kernels.entry(part));
            add(all, entries, |_| Family::BackwardSm80(kernels));
        }
    }
    for tile in backward_sm90::TILES {
        let entries = backward_sm90::DTYPES.map(|dtype| BwdEntry { dtype, tile });
        add(all, entries, Family::BackwardSm90);
    }
    // Every case of these ends with it.
    let (dtype, tile) = (DType::Bf16, backward_sm90::TILE_D128);
    add(all, [ROUND_ENTRY], |_| {
        Family::BackwardSm90(BwdEntry { dtype, tile })
    });
}

impl Family {
    /// Whether it uses hardware approximations, whose last bits differ between devices. Its cases
    /// still run under all checks; its results are compared with a reference in other tests.
    pub(crate) fn approximates(self) -> bool {
        match self {
            Self::AttentionSm75(_)
            | Self::AttentionSm80(_)
            | Self::AttentionDecode(_)
            | Self::AttentionSm90(_)
            | Self::BackwardSm80(_)
            | Self::BackwardSm90(_) => true,
            Self::Row(kernel) => kernel.approximates(),
            _ => false,
        }
    }

    /// A random case.
    pub(crate) fn trial(self, rng: &mut ChaCha8Rng) -> Trial {
        match self {
            Self::Gemm(entry) => products::product(entry, rng),
            Self::Double(entry) => double::product(entry, rng),
            Self::Integer(entry) => integer::trial(entry, rng),
            Self::Mma(entry) => products::mma(entry, rng),
            Self::Hopper(entry) => products::hopper(entry, rng),
            Self::Decode(entry) => products::decode(entry, rng),
            Self::HopperDecode(entry) => products::decode_hopper(entry, rng),
            Self::Finish(entry) => products::finish(entry, rng),
            Self::Grouped => grouped::portable(rng),
            Self::HopperGrouped(entry) => grouped::hopper(entry, rng),
            Self::Attention(entry) => attending::simt(entry, rng),
            Self::AttentionSm75(entry) => attending::sm75(entry, rng),
            Self::AttentionDecode(entry) => attending::decode(entry, rng),
            Self::AttentionSm80(entry) => attending::sm80(entry, rng),
            Self::AttentionSm90(entry) => attending::sm90(entry, rng),
            Self::Merge(entry) => attending::merge(entry, rng),
            Self::MergeParts(entry) => attending::merge_parts(entry, rng),
            Self::Delta => backward::delta(rng),
            Self::Sink => backward::sink(rng),
            Self::Backward(entry) => backward::simt(entry, rng),
            Self::BackwardSm80(kernels) => backward::sm80(kernels, rng),
            Self::BackwardSm90(entry) => backward::sm90(entry, rng),
            Self::Reduce(entry) => reduction(entry, rng),
            Self::Row(kernel) => kernel.trial(rng),
            Self::Scan(entry) => running(entry, rng),
            Self::TopK(entry) => topk::topk(entry, rng),
            Self::Fused(entry) => elementwise::fused(entry, rng),
            Self::Copy(entry) => elementwise::copy(entry, rng),
            Self::Transpose(entry) => elementwise::transpose(entry, rng),
            Self::Take(entry) => gather::take(entry, rng),
            Self::Put(entry) => gather::put(entry, rng),
            Self::Scatter(entry) => scatter::scatter(entry, rng),
            Self::Rotary(entry) => rotary::rotary(entry, rng),
        }
    }
}

/// A reduction along the axis or across it, in one pass or with partial results.
fn reduction(entry: ReduceEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let dtype = match entry.reads {
        Reads::Of(dtype) => dtype,
        Reads::Bits(16) => DType::F16,
        Reads::Bits(32) => DType::F32,
        Reads::Bits(_) => DType::F64,
        Reads::Wide => [DType::F32, DType::F16, DType::Bf16, DType::I32][rng.random_range(0..4)],
    };
    let in_pairs = |op: ReduceOp| {
        let entry = ReduceEntry::of(op.family(), dtype, false)?.with(entry.form)?;
        Some(entry.in_pairs(op, (8, 0)))
    };
    let ops: Vec<ReduceOp> = ReduceOp::ALL
        .into_iter()
        .filter(|&op| op.family() == entry.family || in_pairs(op) == Some(entry))
        .filter(|op| op.is_of_integers() || entry.out() != DType::I64 || op.is_index())
        .collect();
    let op = ops[rng.random_range(0..ops.len())];
    let inner = if rng.random_bool(0.5) {
        1
    } else {
        rng.random_range(2..=70)
    };
    let n = match rng.random_range(0..3) {
        0 => rng.random_range(1..=200),
        _ => rng.random_range(1..=6000 / inner + 300),
    };
    let (outer, n, inner) = match entry.form {
        Form::General => (rng.random_range(1..=5), n, inner),
        Form::Short => (
            rng.random_range(1024..=1100),
            8 * rng.random_range(1..=8),
            1,
        ),
        Form::Small => (
            rng.random_range(1..=30),
            entry.lanes() * rng.random_range(1..=1024),
            1,
        ),
        Form::Long => {
            let some = match entry.family {
                reduce::Family::Value | reduce::Family::Extreme => 1025..=9000,
                _ => 1..=1024,
            };
            (1, 8 * rng.random_range(some), 1)
        }
        Form::Cluster => (1, 8 * rng.random_range(4200..=20_000), 1),
        Form::Columns => (
            rng.random_range(1..=2),
            rng.random_range(1..=700),
            8 * rng.random_range(32..=70),
        ),
    };
    let view = ReduceView::contiguous(outer, n, inner);
    let plan = ReducePlan::of(entry, &view, entry.form != Form::General);
    let mut config = LaunchConfig::linear(plan.blocks, plan.threads());
    if entry.form == Form::Cluster {
        let in_cluster = entry.in_cluster(&plan, (9, 0));
        assert_eq!(in_cluster, Some(entry), "{entry} of {view:?}");
        config = config.cluster([plan.blocks, 1, 1]);
    } else {
        assert_eq!(plan.form, entry.form, "{entry} of {view:?}");
    }
    let x = match dtype {
        DType::I32 | DType::I64 => trial.noise(outer * n * inner * dtype.size_bytes() as u64, rng),
        _ => trial.floats(dtype, outer * n * inner, rng),
    };
    let words = plan.partials() * entry.partial_words() as u64;
    let partials = trial.noise(4 * words, rng);
    let tickets = trial.buffer(vec![0; 4 * plan.tickets() as usize]);
    let out = trial.noise(outer * inner * entry.out().size_bytes() as u64, rng);
    let mut params = ReduceParams::new(op, view, &plan, dtype);
    params.is_rounded = u64::from(entry.rounds_to(dtype) && rng.random());
    trial.launch(
        entry,
        config,
        [x, partials, tickets, out, Arg::params(params)],
    );
    trial
}

/// A scan of rows shorter than a tile, of several tiles, or longer than a group of tiles.
fn running(entry: ScanEntry, rng: &mut ChaCha8Rng) -> Trial {
    let dtype = entry.dtype;
    let mut trial = Trial::default();
    let tile_len = ScanPlan::new(1, u64::MAX, dtype, true).tile_len;
    let (n, rows) = match rng.random_range(0..4) {
        0 => (rng.random_range(1..=tile_len / 8), rng.random_range(1..=40)),
        longer => {
            let tiles = [1, 5, 40][longer - 1];
            let n = rng.random_range(1..=tile_len * tiles);
            (n, rng.random_range(1..=3))
        }
    };
    let is_aligned = (n * dtype.size_bytes() as u64).is_multiple_of(16) || rows == 1;
    let plan = ScanPlan::new(rows, n, dtype, is_aligned);
    let bytes = rows * n * dtype.size_bytes() as u64;
    let x = match dtype {
        DType::I32 | DType::I64 => trial.noise(bytes, rng),
        _ => trial.floats(dtype, rows * n, rng),
    };
    let y = trial.noise(bytes, rng);
    let [ahead_rows, ahead_tiles] = plan.ahead(rng.random_range(0..200));
    let params = ScanParams {
        rows,
        n,
        x_row_stride: n as i64,
        y_row_stride: n as i64,
        tiles: plan.tiles,
        groups: plan.groups,
        ahead_rows,
        ahead_tiles,
        along_log2: plan.along.trailing_zeros(),
        kind: ScanOp::ALL[rng.random_range(0..3)].kind(),
        is_exclusive: rng.random_range(0..2),
        is_late: match plan.tiles {
            1 => 0,
            _ => rng.random_range(0..2),
        },
    };
    let config = LaunchConfig::linear(plan.blocks, scan::THREADS)
        .shared_bytes(ScanPlan::shared_bytes(params.is_late != 0));
    if plan.tiles == 1 {
        trial.launch(entry, config, [x, y, Arg::Null, Arg::params(params)]);
    } else {
        // The status begins with the counter of tiles; blocks that begin late find no tile left.
        // Which NaN an f64 total is depends on the device.
        let words = vec![0; 8 * plan.status_words(rows, dtype) as usize];
        let no_result = if dtype == DType::F64 { words.len() } else { 8 };
        let status = trial.scratch(words, no_result);
        trial.launch(entry, config, [x, y, status, Arg::params(params)]);
    }
    trial
}
