//! Every kernel that spec names, and how a case is made for it.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::attention::merge::MergeEntry;
use spec::attention::sm75::{self, Sm75Entry};
use spec::attention::sm80::{self, Sm80Entry};
use spec::attention::sm90::{DTYPES, FwdEntry, TILES};
use spec::attention::{self, SIMT_HEAD_DIMS};
use spec::elementwise::{
    self, BinaryEntry, BinaryOp, CastEntry, CopyEntry, ElementwiseParams, MAX_RANK, UnaryEntry,
    UnaryOp,
};
use spec::gemm::{self, Transpose};
use spec::reduce::{self, Reads, ReduceEntry, ReduceOp, ReduceParams, ReducePlan, ReduceView};
use spec::scan::{self, ScanEntry, ScanOp, ScanParams, ScanPlan};
use warpsmith::{DType, LaunchConfig};

use crate::trial::{Arg, Trial};
use crate::{attending, products, rows};

pub(crate) const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];
const EIGHT_BITS: [DType; 2] = [DType::E4m3, DType::E5m2];

/// A kernel, by what spec calls it.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Gemm(gemm::SimtEntry),
    Mma(gemm::MmaEntry),
    Hopper(gemm::sm90::Sm90Entry),
    Decode(gemm::decode::DecodeEntry),
    HopperDecode(gemm::decode::sm90::Sm90DecodeEntry),
    Finish(gemm::FinishEntry),
    Attention(attention::SimtEntry),
    AttentionSm75(Sm75Entry),
    AttentionSm80(Sm80Entry),
    AttentionSm90(FwdEntry),
    Merge(MergeEntry),
    Reduce(ReduceEntry),
    Row(rows::RowKernel),
    Scan(ScanEntry),
    Unary(UnaryEntry),
    Binary(BinaryEntry),
    Cast(CastEntry),
    Copy(CopyEntry),
}

/// All of them, by entry name.
pub(crate) fn catalogue() -> BTreeMap<String, Family> {
    let mut all = BTreeMap::new();
    for trans_a in Transpose::ALL {
        for trans_b in Transpose::ALL {
            for tile in [gemm::SIMT_LARGE, gemm::SIMT_SMALL] {
                let entry = gemm::SimtEntry {
                    trans_a,
                    trans_b,
                    tile,
                };
                all.insert(entry.to_string(), Family::Gemm(entry));
            }
        }
    }
    for entry in gemm::MmaEntry::all() {
        all.insert(entry.to_string(), Family::Mma(entry));
    }
    for entry in products::hoppers() {
        all.insert(entry.to_string(), Family::Hopper(entry));
    }
    for entry in products::decodes() {
        all.insert(entry.to_string(), Family::Decode(entry));
    }
    for entry in products::hopper_decodes() {
        all.insert(entry.to_string(), Family::HopperDecode(entry));
    }
    for head_dim_cap in sm75::HEAD_DIMS {
        let entry = Sm75Entry { head_dim_cap };
        all.insert(entry.to_string(), Family::AttentionSm75(entry));
    }
    for dtype in sm80::DTYPES {
        for head_dim_cap in sm80::HEAD_DIMS {
            let entry = Sm80Entry {
                dtype,
                head_dim_cap,
            };
            all.insert(entry.to_string(), Family::AttentionSm80(entry));
        }
    }
    for dtype in DTYPES {
        for tile in TILES {
            let entry = FwdEntry { dtype, tile };
            all.insert(entry.to_string(), Family::AttentionSm90(entry));
        }
    }
    for head_dim_cap in SIMT_HEAD_DIMS {
        let entry = attention::SimtEntry { head_dim_cap };
        all.insert(entry.to_string(), Family::Attention(entry));
    }
    all.insert(MergeEntry.to_string(), Family::Merge(MergeEntry));
    rows::insert(&mut all);
    for entry in ReduceEntry::all() {
        all.insert(entry.to_string(), Family::Reduce(entry));
    }
    for dtype in ScanEntry::DTYPES {
        let entry = ScanEntry { dtype };
        all.insert(entry.to_string(), Family::Scan(entry));
    }
    for output in FLOATS {
        let entry = gemm::FinishEntry { output };
        all.insert(entry.to_string(), Family::Finish(entry));
    }
    for dtype in FLOATS {
        for op in UnaryOp::ALL {
            all.insert(op.entry(dtype).to_string(), Family::Unary(op.entry(dtype)));
        }
        for op in BinaryOp::ALL {
            all.insert(op.entry(dtype).to_string(), Family::Binary(op.entry(dtype)));
        }
    }
    for from in FLOATS.into_iter().chain(EIGHT_BITS) {
        for to in FLOATS.into_iter().chain(EIGHT_BITS) {
            let entry = CastEntry { from, to };
            all.insert(entry.to_string(), Family::Cast(entry));
        }
    }
    for size_bytes in [1, 2, 4, 8] {
        all.insert(
            CopyEntry { size_bytes }.to_string(),
            Family::Copy(CopyEntry { size_bytes }),
        );
    }
    all
}

impl Family {
    /// Whether it uses the hardware's approximations, whose last bits only one device gives. Its cases
    /// run under all checks; what it computes is held against a reference elsewhere.
    pub(crate) fn approximates(self) -> bool {
        match self {
            Self::AttentionSm75(_) | Self::AttentionSm80(_) | Self::AttentionSm90(_) => true,
            Self::Row(kernel) => kernel.approximates(),
            _ => false,
        }
    }

    /// A random case.
    pub(crate) fn trial(self, rng: &mut ChaCha8Rng) -> Trial {
        match self {
            Self::Gemm(entry) => products::product(entry, rng),
            Self::Mma(entry) => products::mma(entry, rng),
            Self::Hopper(entry) => products::hopper(entry, rng),
            Self::Decode(entry) => products::decode(entry, rng),
            Self::HopperDecode(entry) => products::decode_hopper(entry, rng),
            Self::Finish(entry) => products::finish(entry, rng),
            Self::Attention(entry) => attending::simt(entry, rng),
            Self::AttentionSm75(entry) => attending::sm75(entry, rng),
            Self::AttentionSm80(entry) => attending::sm80(entry, rng),
            Self::AttentionSm90(entry) => attending::sm90(entry, rng),
            Self::Merge(entry) => attending::merge(entry, rng),
            Self::Reduce(entry) => reduction(entry, rng),
            Self::Row(kernel) => kernel.trial(rng),
            Self::Scan(entry) => running(entry, rng),
            Self::Unary(UnaryEntry { op, dtype }) => elementwise(
                op.entry(dtype),
                Some(dtype),
                [dtype.size_bytes(); 2],
                1,
                rng,
            ),
            Self::Binary(BinaryEntry { op, dtype }) => elementwise(
                op.entry(dtype),
                Some(dtype),
                [dtype.size_bytes(); 2],
                2,
                rng,
            ),
            Self::Cast(entry) => {
                let sizes = [entry.from.size_bytes(), entry.to.size_bytes()];
                elementwise(entry, Some(entry.from), sizes, 1, rng)
            }
            Self::Copy(entry) => elementwise(entry, None, [entry.size_bytes; 2], 1, rng),
        }
    }
}

/// A reduction along the axis or across, whole or in parts.
fn reduction(entry: ReduceEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let dtype = match entry.reads {
        Reads::Of(dtype) => dtype,
        Reads::Bits(16) => DType::F16,
        Reads::Bits(32) => DType::F32,
        Reads::Bits(_) => DType::F64,
        Reads::Wide => [DType::F32, DType::F16, DType::Bf16, DType::I32][rng.random_range(0..4)],
    };
    let ops: Vec<ReduceOp> = ReduceOp::ALL
        .into_iter()
        .filter(|op| op.family() == entry.family)
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
    let outer = rng.random_range(1..=5);
    let view = ReduceView::contiguous(outer, n, inner);
    let plan = ReducePlan::new(&view, entry.lanes());
    let x = match dtype {
        DType::I32 | DType::I64 => trial.noise(outer * n * inner * dtype.size_bytes() as u64, rng),
        _ => trial.floats(dtype, outer * n * inner, rng),
    };
    let words = plan.partials() * entry.partial_words() as u64;
    let partials = trial.noise(4 * words, rng);
    let tickets = trial.buffer(vec![0; 4 * plan.groups as usize]);
    let out = trial.noise(outer * inner * entry.out().size_bytes() as u64, rng);
    let params = ReduceParams::new(op, view, &plan, dtype);
    let config = LaunchConfig::linear(plan.blocks, reduce::THREADS);
    trial.launch(
        entry,
        config,
        [x, partials, tickets, out, Arg::params(params)],
    );
    trial
}

/// A scan of rows of one tile, of several, or of more than a group.
fn running(ScanEntry { dtype }: ScanEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let tile_len = ScanPlan::new(1, 1, dtype).tile_len;
    let tiles = [1, 5, 40][rng.random_range(0..3)];
    let n = rng.random_range(1..=tile_len * tiles);
    let rows = rng.random_range(1..=3);
    let plan = ScanPlan::new(rows, n, dtype);
    let bytes = rows * n * dtype.size_bytes() as u64;
    let x = match dtype {
        DType::I32 | DType::I64 => trial.noise(bytes, rng),
        _ => trial.floats(dtype, rows * n, rng),
    };
    let y = trial.noise(bytes, rng);
    let params = ScanParams {
        rows,
        n,
        x_row_stride: n as i64,
        y_row_stride: n as i64,
        tiles: plan.tiles,
        groups: plan.groups,
        kind: ScanOp::ALL[rng.random_range(0..3)].kind(),
        is_exclusive: rng.random_range(0..2),
    };
    let config = LaunchConfig::linear(plan.blocks, scan::THREADS);
    if plan.tiles == 1 {
        trial.launch(
            ScanEntry { dtype },
            config,
            [x, y, Arg::Null, Arg::params(params)],
        );
    } else {
        let status = trial.buffer(vec![0; 8 * plan.status_words(rows, dtype) as usize]);
        trial.launch(
            ScanEntry { dtype },
            config,
            [x, y, status, Arg::params(params)],
        );
    }
    trial
}

/// A launch over two dimensions, or one without gaps; inputs of a float dtype, or bytes.
fn elementwise(
    entry: impl ToString,
    dtype: Option<DType>,
    [in_bytes, out_bytes]: [usize; 2],
    inputs: usize,
    rng: &mut ChaCha8Rng,
) -> Trial {
    let mut trial = Trial::default();
    let [rows, columns] = [40, 60].map(|largest| rng.random_range(1..=largest));
    let is_dense = rng.random_bool(0.5);
    let mut params = ElementwiseParams {
        len: rows * columns,
        contiguous: u32::from(is_dense),
        rank: 2,
        shape: [1; MAX_RANK],
        strides: [[0; MAX_RANK]; 3],
        scalar: rng.random_range(-2.0..2.0),
        reserved: 0,
    };
    params.shape[MAX_RANK - 2..].copy_from_slice(&[rows, columns]);
    let mut lens = [rows * columns; 3];
    for (tensor, strides) in params.strides.iter_mut().enumerate().take(1 + inputs) {
        let (row, column) = match rng.random_range(0..3) {
            _ if is_dense => (columns, 1),
            0 => (1, rows),
            1 if tensor > 0 => (0, 1),
            _ => (2 * columns + 1, 2),
        };
        strides[MAX_RANK - 2..].copy_from_slice(&[row as i64, column as i64]);
        lens[tensor] = (rows - 1) * row + (columns - 1) * column + 1;
    }
    let mut args: Vec<Arg> = (0..inputs)
        .map(|input| match dtype {
            Some(dtype) => trial.floats(dtype, lens[1 + input], rng),
            None => trial.noise(lens[1 + input] * in_bytes as u64, rng),
        })
        .collect();
    args.push(trial.noise(lens[0] * out_bytes as u64, rng));
    args.push(Arg::params(params));
    let blocks = elementwise::grid_blocks(rows * columns);
    trial.launch(
        entry,
        LaunchConfig::linear(blocks, elementwise::THREADS),
        args,
    );
    trial
}
