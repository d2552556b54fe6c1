//! Cases of the products in f64.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::gemm::{DoubleEntry, DoubleParams};
use warpsmith::LaunchConfig;

use super::products::epilogue;
use super::trial::{Arg, Trial};

/// Numbers with all bits of f64, zeros of both signs and subnormals. There is no NaN nor infinity
/// among them: which of two NaN an f64 operation passes on is up to ptxas.
fn numbers(trial: &mut Trial, len: u64, rng: &mut ChaCha8Rng) -> Arg {
    let mut bytes = Vec::with_capacity(8 * len as usize);
    for _ in 0..len {
        let x: f64 = match rng.random_range(0..30) {
            0 => -0.0,
            1 => rng.random_range(-1.0..1.0) * 2f64.powi(-540),
            _ => rng.random_range(-1.0..1.0) * 2f64.powi(rng.random_range(-3..=3)),
        };
        bytes.extend(x.to_le_bytes());
    }
    trial.buffer(bytes)
}

/// Adds a matrix with gaps: its buffer, and the elements between rows and between matrices. Half of
/// them have rows that are aligned to 16 bytes.
fn matrix(
    trial: &mut Trial,
    [batch, rows, columns]: [u32; 3],
    rng: &mut ChaCha8Rng,
) -> (Arg, i64, i64) {
    let step = rng.random_range(1..=2);
    let gap = step * rng.random_range(0..4);
    let ld = u64::from(columns).next_multiple_of(step) + gap;
    let stride = ld * u64::from(rows) + gap;
    let buffer = numbers(trial, stride * u64::from(batch), rng);
    (buffer, ld as i64, stride as i64)
}

pub(crate) fn product(entry: DoubleEntry, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let [m, n, k] = [150, 150, 70].map(|largest| rng.random_range(1..=largest));
    let batch = rng.random_range(1..=2);
    let [a_is_k_major, b_is_k_major] = [(); 2].map(|()| rng.random_range(0..=1));
    let of_a = if a_is_k_major == 1 { [m, k] } else { [k, m] };
    let of_b = if b_is_k_major == 1 { [n, k] } else { [k, n] };
    let mut add = |[rows, columns]: [u32; 2]| matrix(&mut trial, [batch, rows, columns], rng);
    let (a, lda, batch_stride_a) = add(of_a);
    let (b, ldb, batch_stride_b) = add(of_b);
    let (c, ldc, batch_stride_c) = add([m, n]);
    let (d, ldd, batch_stride_d) = add([m, n]);
    let (residual, ld_residual, batch_stride_residual) = add([m, n]);
    let params = DoubleParams {
        m,
        n,
        k,
        batch,
        lda,
        ldb,
        ldc,
        ldd,
        batch_stride_a,
        batch_stride_b,
        batch_stride_c,
        batch_stride_d,
        alpha: [1.0, -0.1][rng.random_range(0..2)],
        beta: [0.0, 1.0, 0.3][rng.random_range(0..3)],
        a_is_k_major,
        b_is_k_major,
    };
    let epilogue = epilogue([m, n], (ld_residual, batch_stride_residual), 0, rng);
    let bias = epilogue.batch_stride_bias as u32 * batch;
    let vectors = [bias, m, n, 1, 1].map(|len| numbers(&mut trial, len.into(), rng));
    let [bias, row_scale, column_scale, alpha, beta] = vectors;
    let optional = [bias, residual, row_scale, column_scale, alpha, beta];
    let optional = optional.map(|arg| if rng.random_bool(0.5) { arg } else { Arg::Null });
    let mut args = vec![a, b, c, d];
    args.extend(optional);
    args.extend([Arg::params(params), Arg::params(epilogue)]);
    let config = LaunchConfig {
        grid: entry.tile.grid(m, n, batch).expect("a small product"),
        block: [entry.tile.threads, 1, 1],
        shared_bytes: entry.smem_bytes(),
        cluster: None,
    };
    trial.launch(entry, config, args);
    trial
}
