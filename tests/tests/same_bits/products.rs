//! Cases of the kernels of matrix products.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::gemm::{
    EpilogueParams, FINISH_THREADS, FinishEntry, GemmParams, MmaEntry, SimtEntry, Transpose,
    finish_blocks,
};
use warpsmith::{DType, LaunchConfig};

use crate::trial::{Arg, Trial};

/// A matrix of the trial, with gaps: its buffer, elements between rows and between matrices.
fn matrix(
    trial: &mut Trial,
    dtype: DType,
    [batch, rows, columns]: [u32; 3],
    rng: &mut ChaCha8Rng,
) -> (Arg, i64, i64) {
    let ld = u64::from(columns) + rng.random_range(0..4);
    let stride = ld * u64::from(rows) + rng.random_range(0..4);
    let buffer = trial.floats(dtype, stride * u64::from(batch), rng);
    (buffer, ld as i64, stride as i64)
}

/// The arguments that every fused epilogue ends with. Activations stay out: they are made of
/// approximations that only one device gives to the bit.
fn tail(trial: &mut Trial, dtype: DType, mut params: GemmParams, rng: &mut ChaCha8Rng) -> Vec<Arg> {
    let GemmParams { m, n, batch, .. } = params;
    let (c, ldc, batch_stride_c) = matrix(trial, dtype, [batch, m, n], rng);
    let (d, ldd, batch_stride_d) = matrix(trial, dtype, [batch, m, n], rng);
    let (residual, ld_residual, batch_stride_residual) = matrix(trial, dtype, [batch, m, n], rng);
    params.alpha = [1.0, -0.75][rng.random_range(0..2)];
    params.beta = [0.0, 1.0, 0.3][rng.random_range(0..3)];
    (params.ldc, params.batch_stride_c) = (ldc, batch_stride_c);
    (params.ldd, params.batch_stride_d) = (ldd, batch_stride_d);
    let is_by_rows = rng.random_bool(0.5);
    let len = if is_by_rows { m } else { n };
    let epilogue = EpilogueParams {
        ld_residual,
        batch_stride_residual,
        bias_stride_m: i64::from(is_by_rows),
        bias_stride_n: i64::from(!is_by_rows),
        batch_stride_bias: i64::from(len),
        row_scale_stride: rng.random_range(0..=1),
        column_scale_stride: rng.random_range(0..=1),
        activation: rng.random_range(0..=1), // identity or relu
        reserved: 0,
    };
    let bias = trial.floats(dtype, u64::from(len * batch), rng);
    let factors = [m, n, 1, 1].map(|len| trial.floats(DType::F32, len.into(), rng));
    let optional = [bias, residual].into_iter().chain(factors);
    let optional = optional.map(|arg| if rng.random_bool(0.5) { arg } else { Arg::Null });
    let mut tail = vec![c, d];
    tail.extend(optional);
    tail.extend([Arg::params(params), Arg::params(epilogue)]);
    tail
}

fn extents(rng: &mut ChaCha8Rng) -> GemmParams {
    let [m, n, k] = [150, 150, 70].map(|largest| rng.random_range(1..=largest));
    GemmParams {
        m,
        n,
        k,
        batch: rng.random_range(1..=2),
        lda: 0,
        ldb: 0,
        ldc: 0,
        ldd: 0,
        batch_stride_a: 0,
        batch_stride_b: 0,
        batch_stride_c: 0,
        batch_stride_d: 0,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// What a kernel of products is, whatever its family.
struct Kernel<G: Fn(u32, u32, u32) -> LaunchConfig> {
    name: String,
    operands: [DType; 2],
    output: DType,
    transposes: [Transpose; 2],
    /// By m, n and batch.
    config: G,
}

impl<G: Fn(u32, u32, u32) -> LaunchConfig> Kernel<G> {
    fn trial(&self, rng: &mut ChaCha8Rng) -> Trial {
        let mut trial = Trial::default();
        let mut params = extents(rng);
        let GemmParams { m, n, k, batch, .. } = params;
        let mut operand = |idx: usize, rows, columns| {
            let shape = match self.transposes[idx] {
                Transpose::N => [batch, rows, columns],
                Transpose::T => [batch, columns, rows],
            };
            matrix(&mut trial, self.operands[idx], shape, rng)
        };
        let (a, lda, batch_stride_a) = operand(0, m, k);
        let (b, ldb, batch_stride_b) = operand(1, k, n);
        (params.lda, params.batch_stride_a) = (lda, batch_stride_a);
        (params.ldb, params.batch_stride_b) = (ldb, batch_stride_b);
        let mut args = vec![a, b];
        args.extend(tail(&mut trial, self.output, params, rng));
        trial.launch(&self.name, (self.config)(m, n, batch), args);
        trial
    }
}

pub(crate) fn product(entry: SimtEntry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        name: entry.to_string(),
        operands: [entry.input; 2],
        output: entry.output,
        transposes: [entry.trans_a, entry.trans_b],
        config: |m, n, batch| LaunchConfig {
            grid: entry.tile.grid(m, n, batch).expect("a small product"),
            block: [entry.tile.threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        },
    };
    kernel.trial(rng)
}

pub(crate) fn mma(entry: MmaEntry, rng: &mut ChaCha8Rng) -> Trial {
    let kernel = Kernel {
        name: entry.to_string(),
        operands: [entry.a, entry.b],
        output: entry.output,
        transposes: [entry.trans_a, entry.trans_b],
        config: |m, n, batch| LaunchConfig {
            grid: entry.tile.grid(m, n, batch).expect("a small product"),
            block: [entry.tile.threads(), 1, 1],
            shared_bytes: entry.tile.smem_bytes(),
            cluster: None,
        },
    };
    kernel.trial(rng)
}

pub(crate) fn finish(entry: FinishEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let params = extents(rng);
    let results = [params.m, params.n, params.batch].map(u64::from);
    let results = results.iter().product::<u64>();
    let parts = rng.random_range(1..=4_u32);
    let partials = trial.floats(DType::F32, results * u64::from(parts), rng);
    let mut args = vec![partials, Arg::params(parts)];
    args.extend(tail(&mut trial, entry.output, params, rng));
    // Fewer blocks than it would take, sometimes: then each goes round.
    let blocks = finish_blocks(results).min([3, u32::MAX][rng.random_range(0..2)]);
    trial.launch(entry, LaunchConfig::linear(blocks, FINISH_THREADS), args);
    trial
}
