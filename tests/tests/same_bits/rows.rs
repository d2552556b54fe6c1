//! Cases of the row kernels: softmax, norms, cross-entropy, their gradients, and sums over rows.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::rows::{
    Form, MAX_THREADS, Ringing, RowDevice, RowEntry, RowOp, RowParams, RowPlan, RowShape, Strategy,
    VECTOR_BYTES, column_block, flags,
};
use warpsmith::{DType, LaunchConfig};

use crate::catalogue::{FLOATS, Family};
use crate::trial::{Arg, Trial};

/// A row kernel.
#[derive(Clone, Copy)]
pub(crate) enum RowKernel {
    /// A kernel that processes rows.
    Entry(RowEntry),
    /// Partial sums of columns.
    Columns(DType),
    /// Sums of partial sums.
    Finish,
    /// The reciprocal of the number of targets that count; runs before rows of this form.
    Weight(Form),
    /// The sum of losses; runs after rows of this form.
    Total(Form),
}

/// Inserts all of them, by entry name.
pub(crate) fn insert(all: &mut BTreeMap<String, Family>) {
    for &entry in RowEntry::ALL {
        let kernel = match entry.form {
            Form::Columns => RowKernel::Columns(entry.dtype),
            _ => RowKernel::Entry(entry),
        };
        all.insert(entry.to_string(), Family::Row(kernel));
    }
    let finish = Family::Row(RowKernel::Finish);
    all.insert("norm_grad_finish".to_owned(), finish);
    for form in [Form::Slices, Form::Loose] {
        let totals = [
            (form.weight_entry(), RowKernel::Weight(form)),
            (form.total_entry(), RowKernel::Total(form)),
        ];
        for (name, kernel) in totals {
            all.insert(name.to_owned(), Family::Row(kernel));
        }
    }
}

impl RowKernel {
    /// Whether it uses the hardware's exponential.
    pub(crate) fn approximates(self) -> bool {
        match self {
            Self::Entry(entry) => matches!(
                entry.op,
                RowOp::Softmax | RowOp::SoftmaxGrad | RowOp::CrossEntropy
            ),
            Self::Columns(_) | Self::Finish | Self::Weight(_) | Self::Total(_) => false,
        }
    }

    /// A random case.
    pub(crate) fn trial(self, rng: &mut ChaCha8Rng) -> Trial {
        match self {
            Self::Entry(entry) => by_rows(entry, rng),
            Self::Columns(dtype) => columns(dtype, rng),
            Self::Finish => finish(rng),
            Self::Weight(form) => weight(form, rng),
            Self::Total(form) => total(form, rng),
        }
    }
}

/// A plan with rows in registers, Hopper's slices, rings and clusters, or rows in shared memory;
/// and how many rows are read together.
fn plan(entry: RowEntry, inputs: u32, rng: &mut ChaCha8Rng) -> (RowPlan, RowShape) {
    let vectors = match (entry.form, entry.op, rng.random_range(0..3)) {
        (Form::Held, RowOp::NormGradF32, _) => rng.random_range(1..=32),
        (Form::Held, _, 0) | (Form::Held, RowOp::NormGrad, _) => rng.random_range(1..=64),
        (Form::Held, ..) => rng.random_range(60..=256),
        (Form::HeldMore, ..) => rng.random_range(1..=700),
        (Form::Few, ..) => rng.random_range(1..=256),
        (Form::Short, ..) => rng.random_range(1..=128),
        (Form::Ring, RowOp::NormGrad | RowOp::NormGradF32, 0) => rng.random_range(65..=520),
        (Form::Ring | Form::Wide, _, 0 | 1) => rng.random_range(520..=4096),
        (Form::Ring | Form::Wide, ..) => rng.random_range(4000..=16_000),
        (Form::Ahead | Form::Pairs, _, 0) => rng.random_range(520..=4096),
        (Form::Ahead | Form::Pairs, ..) => rng.random_range(4000..=16_000),
        (Form::Slices, _, 0) => rng.random_range(1030..=2000),
        (Form::Slices, _, 1) => rng.random_range(2000..=4000),
        (Form::Slices, _, _) => rng.random_range(4000..=16_000),
        (Form::Loose, _, 0) => rng.random_range(1..=125),
        (Form::Loose, _, _) => rng.random_range(126..=375),
    };
    let element_bytes = entry.dtype.size_bytes() as u32;
    let is_aligned = entry.form != Form::Loose;
    let shape = RowShape {
        n: match is_aligned {
            true => vectors * u64::from(VECTOR_BYTES / element_bytes),
            false => vectors * 8 - rng.random_range(0..8),
        },
        element_bytes,
        is_aligned,
        inputs,
        is_centered: false,
        has_bias: matches!(entry.form, Form::Pairs | Form::Wide),
    };
    let device = RowDevice {
        arch: (9, 0),
        shared_bytes: match is_aligned || rng.random_bool(0.5) {
            true => 200_000,
            false => 0,
        },
    };
    let mut kernels = entry.op.kernels();
    kernels.short = entry.form == Form::Short;
    match entry.form {
        Form::Held | Form::HeldMore | Form::Few => {
            let is_more = entry.form == Form::HeldMore;
            kernels.held = [kernels.held[usize::from(is_more)], None];
            kernels.holds_all = true;
        }
        Form::Short | Form::Loose => {}
        // Where rows come by several forms, the others are not the choice.
        _ => {
            kernels.held = [None, None];
            match entry.form {
                Form::Ring => (kernels.ahead, kernels.slices) = (false, None),
                Form::Wide => (kernels.ahead, kernels.ring, kernels.slices) = (false, None, None),
                Form::Slices => (kernels.ahead, kernels.ring) = (false, None),
                _ => (kernels.ring, kernels.slices) = (None, None),
            }
            if entry.form != Form::Wide {
                kernels.wide = None;
            }
        }
    }
    kernels.ring = kernels.ring.map(|ring| Ringing {
        joined_cluster: 1,
        ..ring
    });
    let plan = RowPlan::choose(&kernels, &shape, &device);
    let form = match entry.form {
        Form::Few => plan.form_of(entry.op, entry.dtype, 1),
        _ => plan.form(),
    };
    assert_eq!(form, entry.form, "extents of the other form");
    (plan, shape)
}

fn params(rows: u64, n: u64, threads: u32) -> RowParams {
    RowParams {
        rows,
        n,
        strides: [0; 5],
        ignore_index: -100,
        epsilon: 0.0,
        scale: 1.0 / n as f32,
        threads,
        flags: 0,
        vectors: 0,
        stages: 0,
        pace: 0,
    }
}

fn by_rows(entry: RowEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let has_residual = match entry.op {
        RowOp::Norm | RowOp::NormF32 => {
            let reads_alone = matches!(
                entry.form,
                Form::Loose | Form::Ahead | Form::Pairs | Form::Wide
            );
            !reads_alone && rng.random_bool(0.5)
        }
        _ => false,
    };
    let inputs = match entry.op {
        RowOp::NormGrad | RowOp::NormGradF32 => 3,
        RowOp::SoftmaxGrad => 2,
        _ => 1 + u32::from(has_residual),
    };
    let (plan, shape) = plan(entry, inputs, rng);
    let (rows, n) = (rng.random_range(1..=5_u64), shape.n);
    let mut params = params(rows, n, plan.threads);
    params.vectors = shape.slice_vectors(plan.cluster);
    match plan.strategy {
        Strategy::Shared => params.flags |= flags::STAGED,
        Strategy::Ring(ring) | Strategy::Short(ring) => params.stages = ring.stages,
        _ => params.stages = plan.parts(),
    }
    if rng.random_bool(0.5) {
        params.flags |= flags::STREAMS;
    }
    let unit = if entry.form == Form::Loose { 1 } else { 8 };
    let stride = |rng: &mut ChaCha8Rng| (n + unit * rng.random_range(0..3)) as i64;
    let floats = |trial: &mut Trial, stride: i64, rng: &mut ChaCha8Rng| {
        trial.floats(entry.dtype, rows * stride as u64, rng)
    };
    let args = match entry.op {
        RowOp::Softmax | RowOp::SoftmaxGrad => {
            let inputs = if entry.op == RowOp::Softmax { 2 } else { 3 };
            if rng.random_bool(0.5) {
                params.flags |= flags::LOG;
            }
            let mut args = Vec::new();
            for which in 0..inputs {
                params.strides[which] = stride(rng);
                args.push(floats(&mut trial, params.strides[which], rng));
            }
            args
        }
        RowOp::CrossEntropy => {
            params.strides[..2].copy_from_slice(&[stride(rng), stride(rng)]);
            params.epsilon = [0.0, 0.1][rng.random_range(0..2)];
            let x = floats(&mut trial, params.strides[0], rng);
            let targets = targets(&mut trial, rows, n, rng);
            let weights = match rng.random_bool(0.5) {
                true => trial.floats(DType::F32, n, rng),
                false => Arg::Null,
            };
            let losses = trial.noise(4 * rows, rng);
            let dx = floats(&mut trial, params.strides[1], rng);
            vec![x, targets, weights, losses, dx, Arg::Null]
        }
        RowOp::Norm | RowOp::NormF32 => {
            for which in 0..4 {
                params.strides[which] = stride(rng);
            }
            params.epsilon = 1e-5;
            let weights = weights(entry, &mut trial, n, &mut params, rng);
            let x = floats(&mut trial, params.strides[0], rng);
            let [residual, sum] = [1, 2].map(|which| match has_residual {
                true => floats(&mut trial, params.strides[which], rng),
                false => Arg::Null,
            });
            let bias = match entry.form {
                Form::Ahead => Arg::Null,
                _ => trial.floats(weights.1, n, rng),
            };
            let y = floats(&mut trial, params.strides[3], rng);
            let [mean, rstd] = [(); 2].map(|()| trial.noise(4 * rows, rng));
            vec![x, residual, weights.0, bias, sum, y, mean, rstd]
        }
        RowOp::NormGrad | RowOp::NormGradF32 => {
            for which in 0..4 {
                params.strides[which] = stride(rng);
            }
            let weights = weights(entry, &mut trial, n, &mut params, rng);
            let [x, dy, dsum, dx] =
                [0, 1, 2, 3].map(|which| floats(&mut trial, params.strides[which], rng));
            let [mean, rstd] = [(); 2].map(|()| trial.floats(DType::F32, rows, rng));
            let parts = u64::from(plan.persistent_blocks(rows) / plan.cluster);
            let [dweight, dbias] = [(); 2].map(|()| match entry.form {
                Form::Held | Form::Ring => trial.noise(4 * parts * n, rng),
                _ => Arg::Null,
            });
            vec![x, dy, weights.0, mean, rstd, dsum, dx, dweight, dbias]
        }
    };
    let is_persistent = matches!(entry.op, RowOp::NormGrad | RowOp::NormGradF32);
    let blocks = match is_persistent && entry.form != Form::Loose {
        true => plan.persistent_blocks(rows),
        false => plan.blocks(rows).expect("a few rows"),
    };
    let mut config =
        LaunchConfig::linear(blocks, plan.block_threads()).shared_bytes(plan.shared_bytes(&shape));
    if plan.cluster > 1 {
        config = config.cluster([plan.cluster, 1, 1]);
    }
    let mut args = args;
    args.push(Arg::params(params));
    trial.launch(entry, config, args);
    trial
}

/// Weights and their dtype.
fn weights(
    entry: RowEntry,
    trial: &mut Trial,
    n: u64,
    params: &mut RowParams,
    rng: &mut ChaCha8Rng,
) -> (Arg, DType) {
    if rng.random_bool(0.5) {
        params.flags |= flags::CENTER;
    }
    let is_f32 = match entry.form {
        Form::Loose => rng.random_bool(0.5),
        _ => matches!(entry.op, RowOp::NormF32 | RowOp::NormGradF32),
    };
    let dtype = if is_f32 { DType::F32 } else { entry.dtype };
    params.flags |= if is_f32 { flags::F32_WEIGHTS } else { 0 };
    (trial.floats(dtype, n, rng), dtype)
}

fn targets(trial: &mut Trial, rows: u64, n: u64, rng: &mut ChaCha8Rng) -> Arg {
    let target = |rng: &mut ChaCha8Rng| match rng.random_range(0..8) {
        0 => -100,
        1 => n as i64,
        _ => rng.random_range(0..n) as i64,
    };
    let bytes = (0..rows).flat_map(|_| target(rng).to_le_bytes());
    trial.buffer(bytes.collect())
}

fn columns(dtype: DType, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (rows, n) = (rng.random_range(1..=50_u64), rng.random_range(1..=600_u64));
    let parts = rng.random_range(1..=4_u32);
    let mut params = params(rows, n, 0);
    params.strides[..2].copy_from_slice(&[n as i64, n as i64 + 3]);
    let x = trial.floats(dtype, rows * n, rng);
    let dy = trial.floats(dtype, rows * (n + 3), rng);
    let [mean, rstd] = [(); 2].map(|()| trial.floats(DType::F32, rows, rng));
    let [dweight, dbias] = [(); 2].map(|()| trial.noise(4 * u64::from(parts) * n, rng));
    let mut config = LaunchConfig::linear(n.div_ceil(256) as u32, 256);
    config.grid[1] = parts;
    let args = [
        x,
        dy,
        Arg::Null,
        mean,
        rstd,
        Arg::Null,
        Arg::Null,
        dweight,
        dbias,
        Arg::params(params),
    ];
    trial.launch(format!("norm_grad_{dtype}_columns"), config, args);
    trial
}

fn finish(rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let (parts, n) = (
        rng.random_range(1..=300_u64),
        rng.random_range(1..=1100_u64),
    );
    let sums = trial.floats(DType::F32, parts * n, rng);
    let out = trial.noise(4 * n, rng);
    let (columns, threads) = column_block(parts);
    let mut config = LaunchConfig::linear(n.div_ceil(u64::from(columns)) as u32, threads);
    config.grid[1] = 2;
    let params = Arg::params(params(parts, n, columns));
    let args = [sums, Arg::Null, out, Arg::Null, params];
    trial.launch("norm_grad_finish", config, args);
    trial
}

fn weight(form: Form, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let rows = rng.random_range(1..=9000_u64);
    let targets = targets(&mut trial, rows, 50, rng);
    let blocks = rng.random_range(1..=3);
    let factor = trial.noise(4 * u64::from(blocks), rng);
    let weights = trial.floats(DType::F32, 50, rng);
    let args = [
        targets,
        weights,
        factor,
        Arg::params(params(rows, 50, MAX_THREADS)),
    ];
    let config = LaunchConfig::linear(blocks, MAX_THREADS);
    trial.launch(form.weight_entry(), config, args);
    trial
}

fn total(form: Form, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let rows = rng.random_range(1..=9000_u64);
    let losses = trial.floats(DType::F32, rows, rng);
    let factor = trial.floats(DType::F32, 1, rng);
    let blocks = rng.random_range(1..=3);
    let loss = trial.noise(4 * u64::from(blocks), rng);
    let args = [
        losses,
        factor,
        loss,
        Arg::params(params(rows, 50, MAX_THREADS)),
    ];
    let config = LaunchConfig::linear(blocks, MAX_THREADS);
    trial.launch(form.total_entry(), config, args);
    trial
}
