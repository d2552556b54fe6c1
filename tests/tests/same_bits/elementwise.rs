//! Cases of the elementwise kernels: skeletons, copies, transpositions, and composed kernels.

use half::bf16;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spec::division::Division;
use spec::elementwise::{
    CopyEntry, DenseParams, FusedEntry, MAX_RANK, MAX_STEPS, StridedParams, THREADS,
    TransposeEntry, TransposeParams, WalkParams, grid_blocks,
};
use warpsmith::fuse::{Body, Filling, FuseError, Skeleton};
use warpsmith::testing::devices;
use warpsmith::{Arithmetic, BinaryOp, Chain, Device, E4m3, LaunchConfig, Tensor, UnaryOp};

use crate::trial::{Arg, Trial};

/// A walk over two dimensions, or over one without gaps in chunks of up to `chunk`; and the lengths
/// of the tensors.
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

/// A skeleton whose holes are filled by hand: the output is the first input with the words of each
/// chunk reversed.
pub(crate) fn fused(entry: FusedEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let name = entry.to_string();
    let text = include_str!("../../../ptx/sm_75/elementwise.ptx");
    let skeleton = Skeleton::from_ptx(text, &name).expect("the skeleton is there");
    let text = skeleton.compose(|hole| {
        let kind = hole.trim_end_matches(|c: char| c.is_ascii_digit());
        Ok::<_, FuseError>(Some(match kind {
            "elements" => Filling::Constant(4),
            "bytes" => Filling::Constant(16),
            "size" => Filling::Constant(4),
            "load" => Filling::LoadOnce(16),
            "store" => Filling::Store(16),
            "take" => Filling::Load(4),
            "put" => Filling::Store(4),
            _ => Filling::Body(turned(if kind == "chunk" { 4 } else { 2 })?),
        }))
    });
    let text = text.expect("all holes are filled");
    let len = rng.random_range(1..=7000_u32);
    let (chunks, rest, scalars) = (len / 4, len % 4, [0; MAX_STEPS]);
    let bytes = u64::from(len) * 4;
    let mut args: Vec<Arg> = (0..5).map(|_| trial.noise(bytes, rng)).collect();
    if entry.dense {
        args.push(Arg::params(DenseParams {
            chunks,
            rest,
            ahead: [0, 512][rng.random_range(0..2)],
            padding: 0,
            scalars,
        }));
    } else {
        let mut walk = walk(4, 4, rng).0;
        (walk.len, walk.rank) = (len, 1);
        walk.extents[0] = Division::new(len);
        for strides in &mut walk.strides {
            *strides = [1, 0, 0, 0, 0, 0, 0, 0];
        }
        args.push(Arg::params(StridedParams {
            walk,
            chunks,
            rest,
            scalars,
        }));
    }
    let blocks = chunks.div_ceil(THREADS * entry.chunks).max(1);
    let config = LaunchConfig::linear(blocks, THREADS);
    trial.launch_text(&text, &name, config, args);
    trial
}

/// The first words of the first input, in reverse order.
fn turned(words: usize) -> Result<Body, FuseError> {
    let mut body = Body::default();
    for word in 0..words {
        let from = body.input(words - 1 - word);
        body.output(word, from)?;
    }
    Ok(body)
}

pub(crate) fn copy(entry: CopyEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (walk, lens) = walk(1, 1, rng);
    let x = trial.noise(lens[1] * entry.size_bytes as u64, rng);
    let y = trial.noise(lens[0] * entry.size_bytes as u64, rng);
    let config = LaunchConfig::linear(grid_blocks(walk.len.into(), entry.per_thread()), THREADS);
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
    let tiles = [tiles_j, tiles_i].map(Division::new);
    let mut params = TransposeParams {
        rows,
        columns,
        batch_rank: 1,
        aligned: u32::from(is_aligned(columns)) | u32::from(is_aligned(rows)) << 1,
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
    let blocks = tiles_j * tiles_i * batch;
    let config = LaunchConfig::linear(blocks, entry.threads());
    trial.launch(entry, config, [x, y, Arg::params(params)]);
    trial
}

/// Random chains with random dtypes, each launched on every device.
#[test]
fn composed_kernels_give_the_same_bits_on_every_device() {
    let devices = devices();
    for seed in 0..12 {
        let mut first: Option<Vec<u32>> = None;
        for device in &devices {
            let got = composed(device, seed).unwrap_or_else(|error| panic!("{device}: {error}"));
            match &first {
                None => first = Some(got),
                Some(first) => assert_eq!(*first, got, "seed {seed} on {device}"),
            }
        }
    }
}

/// A chain of functions of three tensors; returns the bits of its result.
fn composed(device: &Device, seed: u64) -> warpsmith::Result<Vec<u32>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let stream = device.stream()?;
    let (rows, columns) = (rng.random_range(1..90_usize), rng.random_range(1..90_usize));
    let mut draw = |len: usize| -> Vec<f32> {
        let value = |_| match rng.random_range(0..40) {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            2 => -0.0,
            _ => rng.random_range(-4.0..4.0),
        };
        (0..len).map(value).collect()
    };
    let x = Tensor::from_slice(device, &[rows, columns], &draw(rows * columns))?;
    let half: Vec<bf16> = draw(columns).into_iter().map(bf16::from_f32).collect();
    let half = Tensor::from_slice(device, &[columns], &half)?;
    let byte: Vec<E4m3> = draw(rows * columns)
        .into_iter()
        .map(E4m3::from_f32)
        .collect();
    let byte = Tensor::from_slice(device, &[columns, rows], &byte)?.t();
    let unary = UnaryOp::all_in(Arithmetic::F32).filter(|op| !op.takes_scalar());
    let unary: Vec<UnaryOp> = unary.collect();
    let binary: Vec<BinaryOp> = BinaryOp::all_in(Arithmetic::F32).collect();
    let mut chain = Chain::new(&x).keep(0);
    for _ in 0..rng.random_range(1..10) {
        let op = binary[rng.random_range(0..binary.len())];
        chain = match rng.random_range(0..5) {
            0 => chain.with(op, &half),
            1 => chain.with_first(op, &byte),
            2 => chain.kept(op, 0),
            3 => chain.scalar(op, rng.random_range(-2.0..2.0_f32)),
            _ => chain.unary(unary[rng.random_range(0..unary.len())]),
        };
    }
    // As f32 and as a byte, but not as a 16-bit float: for those, functions have short forms whose
    // bits differ between devices.
    let (wide, narrow) = (chain.run::<f32>(&stream)?, chain.run::<u8>(&stream)?);
    let wide = wide.to_vec()?.into_iter().map(f32::to_bits);
    let narrow = narrow.to_vec()?.into_iter().map(u32::from);
    Ok(wide.chain(narrow).collect())
}
