//! Cases of the elementwise kernels: programs, casts, copies, transpositions.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::elementwise::{
    BRIEF_LEN, BinaryOp, BriefEntry, BriefParams, CHAIN_DTYPES, CastEntry, CastParams, ChainEntry,
    ChainParams, CopyEntry, Division, GROUP, GradOp, MAX_RANK, MAX_STEPS, Operand, Step, THREADS,
    TRANSPOSE_THREADS, TransposeEntry, TransposeParams, UnaryOp, WalkParams, code, grid_blocks,
};
use warpsmith::{DType, LaunchConfig};

use crate::trial::{Arg, Trial};

/// One of several.
fn any<T: Copy>(of: &[T], rng: &mut ChaCha8Rng) -> T {
    of[rng.random_range(0..of.len())]
}

/// A walk over two dimensions, or one without gaps in chunks of up to `chunk`; lengths of the tensors.
fn walk(inputs: usize, chunk: u32, rng: &mut ChaCha8Rng) -> (WalkParams, [u64; 5]) {
    let [rows, columns] = [60, 90].map(|largest| rng.random_range(1..=largest));
    let len = rows * columns;
    let mut params = WalkParams {
        len,
        rank: 1,
        chunk,
        splat: 0,
        extents: [Division::ONE; MAX_RANK],
        strides: [[0; MAX_RANK]; 5],
    };
    if rng.random_bool(0.6) {
        params.extents[0] = Division::new(len);
        for strides in &mut params.strides[..1 + inputs] {
            strides[0] = 1;
        }
        return (params, [len.into(); 5]);
    }
    (params.rank, params.chunk) = (2, 1);
    params.extents[..2].copy_from_slice(&[Division::new(columns), Division::new(rows)]);
    let [rows, columns] = [rows, columns].map(i64::from);
    let mut lens = [0; 5];
    for (tensor, strides) in params.strides.iter_mut().enumerate().take(1 + inputs) {
        let (row, column) = match rng.random_range(0..3) {
            0 => (1, rows),
            1 if tensor > 0 => (0, 1),
            _ => (2 * columns + 1, 2),
        };
        strides[..2].copy_from_slice(&[column, row]);
        lens[tensor] = ((rows - 1) * row + (columns - 1) * column + 1) as u64;
    }
    (params, lens)
}

/// Elements of a dtype: floats with special values among them, or any bytes.
fn elements(trial: &mut Trial, dtype: DType, len: u64, rng: &mut ChaCha8Rng) -> Arg {
    match dtype {
        DType::F32 | DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2 => {
            trial.floats(dtype, len, rng)
        }
        _ => trial.noise(len * dtype.size_bytes() as u64, rng),
    }
}

/// A program over inputs of these dtypes: it loads one, then does anything, f16's NaN payloads
/// excepted.
fn program(inputs: &[DType], rng: &mut ChaCha8Rng) -> ([Step; MAX_STEPS], u32) {
    let mut steps = [Step::default(); MAX_STEPS];
    let used = rng.random_range(1..=MAX_STEPS);
    let operand = |rng: &mut ChaCha8Rng| match rng.random_range(0..3) {
        0 => Operand::Scalar(rng.random_range(-2.0..2.0)),
        _ => {
            let input = rng.random_range(0..inputs.len());
            Operand::Input(input as u8, inputs[input])
        }
    };
    for (at, step) in steps.iter_mut().enumerate().take(used) {
        *step = match rng.random_range(0..10) {
            _ if at == 0 => Step::load(Operand::Input(0, inputs[0])),
            1 if at == 1 => Step::keep(1),
            0..=3 => Step::unary(any(&UnaryOp::ALL, rng), 0.5),
            4 => Step::gradient(any(&GradOp::ALL, rng), operand(rng)),
            5 => Step::mask(operand(rng)),
            6 => Step::select(operand(rng)),
            _ => Step::binary(any(&BinaryOp::ALL, rng), operand(rng), rng.random_bool(0.3)),
        };
    }
    (steps, used as u32)
}

pub(crate) fn chain(entry: ChainEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let inputs: Vec<DType> = (0..rng.random_range(1..=4))
        .map(|_| any(&CHAIN_DTYPES, rng))
        .collect();
    let output = any(&CHAIN_DTYPES, rng);
    let is_short = |dtype: &DType| dtype.size_bytes() <= 2;
    let chunk = if inputs.iter().chain([&output]).all(is_short) {
        8
    } else {
        4
    };
    let (walk, lens) = walk(inputs.len(), chunk, rng);
    let (program, steps) = program(&inputs, rng);
    let dtype = |input: usize| inputs.get(input).map_or(0, |&dtype| code::dtype(dtype));
    let params = ChainParams {
        walk,
        steps,
        output: code::dtype(output),
        inputs: inputs.len() as u32,
        dtypes: dtype(0) | dtype(1) << 8,
        program,
    };
    let mut args = vec![trial.noise(lens[0] * output.size_bytes() as u64, rng)];
    for (input, &len) in lens[1..].iter().enumerate() {
        args.push(match inputs.get(input) {
            Some(&dtype) => elements(&mut trial, dtype, len, rng),
            None => Arg::Null,
        });
    }
    args.push(Arg::params(params));
    let per_thread = if walk.chunk == 8 { 2 * GROUP } else { GROUP };
    let kept_bytes = 2 * THREADS * GROUP * 4;
    let config = LaunchConfig::linear(grid_blocks(walk.len.into(), per_thread), THREADS);
    trial.launch(entry, config.shared_bytes(kept_bytes), args);
    trial
}

pub(crate) fn brief(entry: BriefEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let dtypes = [0; 3].map(|_| any(&CHAIN_DTYPES, rng));
    let is_short = dtypes.iter().all(|dtype| dtype.size_bytes() <= 2);
    let len = rng.random_range(1..=7000);
    let mut program = [Step::default(); MAX_STEPS];
    let steps = rng.random_range(0..10);
    for step in &mut program[..steps] {
        step.word = rng.random_range(0..=25);
        step.scalar = rng.random_range(-2.0..2.0);
    }
    let params = BriefParams {
        len,
        chunk: if is_short { 8 } else { 4 },
        steps: steps as u32,
        inputs: 2,
        dtypes: dtypes.map(code::dtype),
        quarters: 4,
        program,
    };
    let y = trial.noise(u64::from(len) * dtypes[2].size_bytes() as u64, rng);
    let [a, b] = [0, 1].map(|input| elements(&mut trial, dtypes[input], len.into(), rng));
    let config = LaunchConfig::linear(grid_blocks(len.into(), BRIEF_LEN), THREADS);
    trial.launch(entry, config, [y, a, b, Arg::params(params)]);
    trial
}

pub(crate) fn cast(entry: CastEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (walk, lens) = walk(1, 1, rng);
    let dtypes: Vec<DType> = DType::ALL
        .into_iter()
        .filter(|&x| x != DType::U64)
        .collect();
    let (from, to) = (any(&dtypes, rng), any(&dtypes, rng));
    let x = elements(&mut trial, from, lens[1], rng);
    let y = trial.noise(lens[0] * to.size_bytes() as u64, rng);
    let params = CastParams {
        walk,
        from: code::dtype(from),
        to: code::dtype(to),
    };
    let config = LaunchConfig::linear(grid_blocks(walk.len.into(), GROUP), THREADS);
    trial.launch(entry, config, [x, y, Arg::params(params)]);
    trial
}

pub(crate) fn copy(entry: CopyEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (walk, lens) = walk(1, 1, rng);
    let x = trial.noise(lens[1] * entry.size_bytes as u64, rng);
    let y = trial.noise(lens[0] * entry.size_bytes as u64, rng);
    let config = LaunchConfig::linear(grid_blocks(walk.len.into(), GROUP), THREADS);
    trial.launch(entry, config, [x, y, Arg::params(walk)]);
    trial
}

pub(crate) fn transpose(entry: TransposeEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let mut extent = || {
        let extent: u32 = rng.random_range(1..=200);
        if rng.random_bool(0.5) {
            extent.next_multiple_of(16)
        } else {
            extent
        }
    };
    let (rows, columns) = (extent(), extent());
    let batch = rng.random_range(1..=2_u32);
    let is_aligned = |row: u32| (row as usize * entry.size_bytes).is_multiple_of(16);
    let [tiles_j, tiles_i] = [columns, rows].map(|extent| extent.div_ceil(entry.tile()));
    let group_shift = rng.random_range(0..=2);
    let tiles = [tiles_j, tiles_i.div_ceil(1 << group_shift)].map(Division::new);
    let mut params = TransposeParams {
        rows,
        columns,
        batch_rank: 1,
        aligned: u32::from(is_aligned(columns)) | u32::from(is_aligned(rows)) << 1,
        group_shift,
        reserved: 0,
        x_stride: columns.into(),
        y_stride: rows.into(),
        tiles,
        batch: [Division::ONE; MAX_RANK - 2],
        x_batch: [0; MAX_RANK - 2],
        y_batch: [0; MAX_RANK - 2],
    };
    params.batch[0] = Division::new(batch);
    params.x_batch[0] = i64::from(rows) * i64::from(columns);
    params.y_batch[0] = params.x_batch[0];
    let bytes = u64::from(batch * rows * columns) * entry.size_bytes as u64;
    let (x, y) = (trial.noise(bytes, rng), trial.noise(bytes, rng));
    let blocks = (tiles[0].divisor * tiles[1].divisor * batch) << group_shift;
    let config = LaunchConfig::linear(blocks, TRANSPOSE_THREADS);
    trial.launch(entry, config, [x, y, Arg::params(params)]);
    trial
}
