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
use spec::reduce::{self, FinalEntry, ReduceEntry, ReduceOp, ReduceParams, ReducePlan, Strategy};
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
    Final(FinalEntry),
    Row(rows::RowKernel),
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
    for op in ReduceOp::ALL {
        for dtype in FLOATS {
            for strategy in [Strategy::Row, Strategy::Col] {
                let entry = ReduceEntry {
                    op,
                    dtype,
                    strategy,
                };
                all.insert(entry.to_string(), Family::Reduce(entry));
            }
        }
        all.insert(
            FinalEntry { op }.to_string(),
            Family::Final(FinalEntry { op }),
        );
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
            Self::Reduce(entry) => reduction(entry, rng, false),
            Self::Final(FinalEntry { op }) => {
                let entry = ReduceEntry {
                    op,
                    dtype: DType::F32,
                    strategy: Strategy::Col,
                };
                reduction(entry, rng, true)
            }
            Self::Row(kernel) => kernel.trial(rng),
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

/// A reduction; a long one takes two passes.
fn reduction(entry: ReduceEntry, rng: &mut ChaCha8Rng, is_long: bool) -> Trial {
    let mut trial = Trial::default();
    let (n, inner) = match (entry.strategy, is_long) {
        (Strategy::Row, _) => (rng.random_range(1..=2000), 1),
        (Strategy::Col, false) => (rng.random_range(1..=200), rng.random_range(32..=70)),
        (Strategy::Col, true) => (rng.random_range(300..=900), rng.random_range(32..=40)),
    };
    let outer = rng.random_range(1..=5);
    let (axis_stride, inner_stride) = match entry.strategy {
        Strategy::Row => (1, 0),
        Strategy::Col => (inner as i64, 1),
    };
    let plan = ReducePlan::new(outer, n, inner, axis_stride, inner_stride);
    assert_eq!(
        plan.strategy, entry.strategy,
        "extents of the other strategy"
    );
    let x = trial.floats(entry.dtype, outer * n * inner, rng);
    let out_bytes = if entry.op.is_index() { 8 } else { 4 };
    let out = trial.noise(outer * inner * out_bytes, rng);
    let params = ReduceParams {
        outer,
        n,
        inner,
        outer_stride: (n * inner) as i64,
        axis_stride,
        inner_stride,
        chunks: plan.chunks,
        chunk_len: plan.chunk_len,
    };
    let config = LaunchConfig::linear(plan.blocks, reduce::THREADS);
    let Arg::Buffer(out_number) = out else {
        unreachable!("noise is a buffer")
    };
    if plan.chunks == 1 {
        trial.launch(entry, config, [x, Arg::Null, out, Arg::params(params)]);
        return trial;
    }
    let bytes = outer * inner * plan.chunks * entry.op.partial_bytes() as u64;
    let partials = trial.noise(bytes.next_multiple_of(8), rng);
    let Arg::Buffer(partials_number) = partials else {
        unreachable!("noise is a buffer")
    };
    trial.launch(entry, config, [x, partials, out, Arg::params(params)]);
    let config = LaunchConfig::linear(plan.final_blocks, reduce::THREADS);
    let args = [
        Arg::Buffer(partials_number),
        Arg::Buffer(out_number),
        Arg::params(params),
    ];
    trial.launch(FinalEntry { op: entry.op }, config, args);
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
