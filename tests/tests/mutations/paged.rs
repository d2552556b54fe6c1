//! Launches of attention whose keys and values are in pages.

use std::f64::consts::LOG2_E;

use ndarray::{Array2, ArrayD, Ix3, Ix4};
use spec::DType;
use spec::attention::decode::{DecodeTile, THREADS};
use spec::attention::{FlashFwdParams, FwdPacking, OutputDType, SIMT_TILE};
use warpsmith_emulator::LaunchConfig;
use warpsmith_reference::attention::{
    AttentionModel, AttentionOptions, SequencePositions, gathered, packed,
};
use warpsmith_reference::gemm::Arithmetic;
use warpsmith_reference::{Expected, Model};
use warpsmith_tests::values::Values;

use super::portable::Fields;
use super::problem::{Arg, Problem};
use super::values::{Operand, hold, poison};

/// Two sequences of two query heads on one. Of four tiles of 64 keys the last one ends early.
const BATCH: usize = 2;
const QUERIES: usize = 3;
const KEYS: usize = 230;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const PAGES: usize = 13;

/// A launch, but for its shape and the arguments behind the parameters.
struct Paged {
    buffers: Vec<Vec<u8>>,
    /// q, k, v, o, lse, sink, lengths and parameters.
    args: Vec<Arg>,
    pages: Arg,
    expected: Expected,
}

impl Paged {
    /// The table lies at the end of its allocation, so that no entry behind its last row is there.
    fn new(dtype: DType, page_size: usize, model: impl Into<AttentionModel>) -> Self {
        let draw = |shape: &[usize], seed| Operand::draw(dtype, Values::Uniform, shape, seed);
        let q = draw(&[BATCH * QUERIES, HEADS, HEAD_DIM], 1);
        let [k, v] = [2, 3].map(|seed| draw(&[PAGES, page_size, 1, HEAD_DIM], seed));
        let table = table(KEYS.div_ceil(page_size));
        let options = AttentionOptions::new(dtype, model);
        let expected = expected([&q, &k, &v], &table, &options);
        let entries = table.iter().flat_map(|entry| entry.to_le_bytes());
        let pages = Fields::default()
            .u64(&[table.ncols()])
            .u32(&[PAGES as u32])
            .divisions(&[page_size as u32]);
        let mut args: Vec<Arg> = (0..5).map(Arg::Buffer).collect();
        args.extend([Arg::Value(vec![0; 8]), Arg::Value(vec![0; 40])]);
        args.push(params(dtype, page_size));
        let rows = BATCH * QUERIES * HEADS;
        Self {
            buffers: vec![
                q.bytes,
                k.bytes,
                v.bytes,
                poison(dtype, rows * HEAD_DIM),
                poison(DType::F32, rows),
                entries.collect(),
            ],
            args,
            pages: pages.behind(5),
            expected,
        }
    }

    fn problem(self, shape: LaunchConfig, more: Arg) -> Problem {
        let Self {
            buffers,
            mut args,
            pages,
            expected,
        } = self;
        args.extend([more, pages]);
        Problem {
            shape,
            buffers,
            args,
            judge: Box::new(move |after| hold(&after[3], &expected)),
        }
    }
}

/// By the portable kernel, in f32 and in pages of 5.
pub(crate) fn portable() -> Problem {
    let tiles = KEYS.div_ceil(SIMT_TILE.tile_n as usize);
    let paged = Paged::new(DType::F32, 5, Model::any_order(KEYS, tiles, 1.1));
    let [batch, queries, heads] = [BATCH, QUERIES, HEADS].map(|extent| extent as u32);
    let grid = FlashFwdParams::grid(batch, queries, heads, SIMT_TILE.tile_m);
    let shape = LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [SIMT_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    paged.problem(shape, Arg::u32(code(DType::F32)))
}

/// By the kernel of few queries, in bf16 and in pages of 16.
pub(crate) fn decoding() -> Problem {
    let tile = DecodeTile {
        rows: 16,
        head_dim_cap: HEAD_DIM as u32,
    };
    let rescales = KEYS.div_ceil(DecodeTile::TILE_N as usize) + 6;
    let model = Model {
        p_roundoff: 2f64.powi(-8),
        ..Model::any_order(2 * KEYS, rescales, 4.0)
    };
    let model = AttentionModel {
        scores: Arithmetic::TensorCore,
        ..model.into()
    };
    let paged = Paged::new(DType::Bf16, 16, model);
    let [batch, queries, heads] = [BATCH, QUERIES, HEADS].map(|extent| extent as u32);
    let packing = FwdPacking::new(heads, tile.rows).expect("two heads");
    let grid = DecodeTile::grid(batch, queries, heads, &packing);
    let shape = LaunchConfig {
        grid: grid.expect("a small attention"),
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    };
    let reciprocal = (1_u32 << 16).div_ceil(heads);
    let fields = Fields::default().u32(&[heads, packing.queries, reciprocal, 1]);
    paged.problem(shape, fields.u64(&[0, 0]).arg())
}

/// Pages in no order, of which sequences share some; one entry names none.
fn table(columns: usize) -> Array2<i32> {
    let mut table = Array2::from_shape_fn((BATCH, columns), |(sequence, column)| {
        ((5 * column + 3 * sequence + 1) % PAGES) as i32
    });
    table[[1, 1]] = PAGES as i32;
    table
}

fn expected(operands: [&Operand; 3], table: &Array2<i32>, options: &AttentionOptions) -> Expected {
    let [q, k, v] = operands.map(|x| &x.exact);
    let q = q.view().into_dimensionality::<Ix3>().expect("three");
    let [k, v] = [k, v].map(|pool: &ArrayD<f64>| {
        let pool = pool.view().into_dimensionality::<Ix4>().expect("four");
        gathered(&pool, &table.view(), &[KEYS; BATCH]).expect("the table has all keys")
    });
    let sequences: Vec<SequencePositions> = (0..BATCH)
        .map(|idx| SequencePositions {
            q: idx * QUERIES..(idx + 1) * QUERIES,
            k: idx * KEYS..(idx + 1) * KEYS,
        })
        .collect();
    let expected = packed(&q, &k.view(), &v.view(), &sequences, options);
    expected.expect("the shapes fit").o
}

fn params(dtype: DType, page_size: usize) -> Arg {
    let of_q = [QUERIES * HEADS * HEAD_DIM, HEADS * HEAD_DIM, HEAD_DIM];
    let of_keys = [page_size * HEAD_DIM, HEAD_DIM, HEAD_DIM];
    let extents = [BATCH, QUERIES, KEYS, 0, 0, HEADS, 1, HEAD_DIM, HEAD_DIM];
    let unlimited = i32::MAX as u32;
    let scale = LOG2_E / (HEAD_DIM as f64).sqrt();
    Fields::default()
        .u64(&[of_q, of_keys, of_keys, of_q].concat())
        .u32(&extents.map(|extent| extent as u32))
        .u32(&[unlimited, unlimited, 0])
        .f32(&[scale as f32, 0.0])
        .u32(&[code(dtype), 1])
        .arg()
}

fn code(dtype: DType) -> u32 {
    OutputDType::new(dtype).expect("a float").code()
}
