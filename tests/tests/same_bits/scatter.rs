//! Cases of the addition by indices: a sort, and what adds in its order.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::division::Division;
use spec::elementwise::{MAX_RANK, WalkParams};
use spec::scatter::{self, AddParams, OrderParams, ScatterEntry};
use warpsmith::{DType, LaunchConfig};

use super::trial::{Arg, Trial};

/// A walk over one dimension, with strides in bytes.
fn walk(len: u32, strides: [i64; 3]) -> WalkParams {
    let mut walk = WalkParams {
        len,
        rank: 1,
        chunk: 1,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    walk.extents[0] = Division::new(len);
    for (to, stride) in walk.strides.iter_mut().zip(strides) {
        to[0] = stride;
    }
    walk
}

/// Buffers of a sorted order.
struct Sorted {
    pairs: Arg,
    begins: Arg,
    longs: Arg,
}

/// Rows that are added, all to one or to some; by more than one block, where that is the kernel.
pub(crate) fn scatter(entry: ScatterEntry, rng: &mut ChaCha8Rng) -> Trial {
    if entry == ScatterEntry::Few {
        return few(rng);
    }
    let mut trial = Trial::default();
    let many = matches!(entry, ScatterEntry::Count) || entry == ScatterEntry::Sort && rng.random();
    let len = match many {
        true => rng.random_range(scatter::TILE + 1..2 * scatter::TILE),
        false => rng.random_range(1..=600),
    };
    let dtype = match entry {
        ScatterEntry::Add(dtype) => dtype,
        ScatterEntry::AddAny => scatter::DTYPES[rng.random_range(0..scatter::DTYPES.len())],
        _ => DType::F32,
    };
    let extent = [1, 3, 50, 400][rng.random_range(0..4)];
    let (size, lanes) = match entry {
        ScatterEntry::AddAny => (dtype.size_bytes() as u32, 1),
        _ => (dtype.size_bytes() as u32, 16 / dtype.size_bytes() as u32),
    };
    let columns = rng.random_range(1..=40);
    let row = i64::from(columns * lanes * size);
    let index_bytes = [4, 8][rng.random_range(0..2)];
    let positions = walk(len, [8, row, index_bytes]);
    let sorted = sort(&mut trial, positions, extent, rng);
    if many {
        return trial;
    }
    let elements = |rows: u32| u64::from(rows * columns * lanes);
    let mut draw = |trial: &mut Trial, rows| match dtype {
        DType::I32 | DType::I64 => trial.noise(elements(rows) * u64::from(size), rng),
        _ => trial.floats(dtype, elements(rows), rng),
    };
    let src = draw(&mut trial, len);
    let y = draw(&mut trial, extent);
    let numbers = elements(1);
    let parts = scatter::parts(len) * numbers * scatter::number_bytes(dtype);
    let parts = trial.buffer(vec![0; parts as usize]);
    let params = AddParams {
        columns: walk(columns, [(lanes * size).into(); 3]),
        positions,
        y_stride: row,
        numbers,
        extent,
        lanes_log2: lanes.trailing_zeros(),
        size_log2: size.trailing_zeros(),
        code: scatter::code(dtype),
        chunk: [1, 8, 32][rng.random_range(0..3)],
        warps: Division::new(columns.div_ceil(32)),
        nothing: scatter::nothing(dtype),
    };
    let kernel = match lanes {
        1 => ScatterEntry::AddAny,
        _ => ScatterEntry::Add(dtype),
    };
    let warps = len.div_ceil(params.chunk) * params.warps.divisor;
    let blocks = warps.div_ceil(scatter::ADD_THREADS / 32);
    let config = LaunchConfig::linear(blocks, scatter::ADD_THREADS);
    let (pairs, begins) = (sorted.pairs, sorted.begins);
    let both = [pairs.again(), begins.again()];
    let rest = [src, y.again(), parts.again(), Arg::params(params)];
    trial.launch(
        kernel,
        config,
        both.into_iter().chain(rest).collect::<Vec<_>>(),
    );
    let params = AddParams {
        warps: Division::new((numbers as u32).div_ceil(32)),
        ..params
    };
    let config = LaunchConfig::linear(rng.random_range(1..=5), scatter::FINISH_THREADS);
    let args = [pairs, sorted.longs, y, parts, Arg::params(params)];
    trial.launch(ScatterEntry::Finish, config, args);
    trial
}

/// Indices that may be out of range.
fn indices(trial: &mut Trial, positions: &WalkParams, extent: u32, rng: &mut ChaCha8Rng) -> Arg {
    let index_bytes = positions.strides[2][0] as usize;
    let indices = (0..positions.len).flat_map(|_| {
        let index: i64 = rng.random_range(-1..=i64::from(extent));
        index.to_le_bytes().into_iter().take(index_bytes)
    });
    trial.buffer(indices.collect())
}

/// Rows that are added without a sort.
fn few(rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let len = match rng.random() {
        true => rng.random_range(1..=70),
        false => rng.random_range(1..=scatter::FEW),
    };
    let dtype = scatter::VECTORS[rng.random_range(0..scatter::VECTORS.len())];
    let extent = [1, 3, 50, 400][rng.random_range(0..4)];
    let (size, columns) = (dtype.size_bytes() as u32, rng.random_range(1..=40));
    let (lanes, row) = (16 / size, i64::from(16 * columns));
    let index_bytes = [4, 8][rng.random_range(0..2)];
    let positions = walk(len, [8, row, index_bytes]);
    let indices = indices(&mut trial, &positions, extent, rng);
    let elements = |rows: u32| u64::from(rows * columns * lanes);
    let src = trial.floats(dtype, elements(len), rng);
    let y = trial.floats(dtype, elements(extent), rng);
    let params = AddParams {
        columns: walk(columns, [16; 3]),
        positions,
        y_stride: row,
        numbers: elements(1),
        extent,
        lanes_log2: lanes.trailing_zeros(),
        size_log2: size.trailing_zeros(),
        code: scatter::code(dtype),
        chunk: 1,
        warps: Division::new(columns.div_ceil(32)),
        nothing: scatter::nothing(dtype),
    };
    let warps = scatter::few_warps(len);
    let blocks = len.div_ceil(warps) * params.warps.divisor;
    let config = LaunchConfig::linear(blocks, 32 * warps);
    let index_bytes = Arg::params(index_bytes as u32);
    let args = [indices, src, y, index_bytes, Arg::params(params)];
    trial.launch(ScatterEntry::Few, config, args);
    trial
}

/// Sorts indices that may be out of range.
fn sort(trial: &mut Trial, positions: WalkParams, extent: u32, rng: &mut ChaCha8Rng) -> Sorted {
    let len = positions.len;
    let index_bytes = positions.strides[2][0];
    let indices = indices(trial, &positions, extent, rng);
    let (per_block, blocks) = scatter::blocks(len);
    let mut params = OrderParams {
        positions,
        extent,
        index_bytes: index_bytes as u32,
        bits: scatter::digits(extent) * scatter::DIGIT_BITS,
        shift: 0,
        per_block,
        blocks,
    };
    let bytes = 8 * (len + scatter::PAD) as usize;
    let (mut from, mut to) = (trial.buffer(vec![0; bytes]), trial.buffer(vec![0; bytes]));
    let counts = trial.buffer(vec![0; 4 * (blocks * scatter::DIGITS) as usize]);
    let begins = trial.buffer(vec![0; 4 * len.div_ceil(scatter::CHUNK) as usize]);
    // Blocks list long segments as they find them.
    let longs = 4 * scatter::longs(len) as usize;
    let longs = trial.scratch(vec![0; longs], longs);
    let config = LaunchConfig::linear(blocks, scatter::THREADS);
    let mut launch = |config, pairs: [&Arg; 2], params: OrderParams| {
        let [from, to] = pairs.map(Arg::again);
        let others = [
            counts.again(),
            begins.again(),
            longs.again(),
            Arg::params(params),
        ];
        let args = [indices.again(), from, to].into_iter().chain(others);
        if blocks > 1 && params.shift < params.bits {
            let args = [
                indices.again(),
                pairs[0].again(),
                counts.again(),
                longs.again(),
                Arg::params(params),
            ];
            trial.launch(ScatterEntry::Count, config, args);
        }
        trial.launch(ScatterEntry::Sort, config, args.collect::<Vec<_>>());
    };
    if blocks == 1 {
        launch(config, [&from, &to], params);
        return Sorted {
            pairs: to,
            begins,
            longs,
        };
    }
    while params.shift < params.bits {
        launch(config, [&from, &to], params);
        std::mem::swap(&mut from, &mut to);
        params.shift += scatter::DIGIT_BITS;
    }
    let config = LaunchConfig::linear(len.div_ceil(scatter::THREADS), scatter::THREADS);
    launch(config, [&from, &from], params);
    Sorted {
        pairs: from,
        begins,
        longs,
    }
}
