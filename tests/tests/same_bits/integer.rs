//! Cases of the products of i8 without tensor cores.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use spec::gemm::integer::{INTEGER_TILE, IntegerEntry};
use spec::gemm::{FINISH_THREADS, GemmParams, finish_blocks};
use warpsmith::{DType, LaunchConfig};

use super::products::{extents, matrix, tail};
use super::trial::{Arg, Trial};

/// What results may be.
pub(crate) const INTEGER_OUTPUTS: [DType; 4] = [DType::I32, DType::F32, DType::F16, DType::Bf16];

pub(crate) fn trial(entry: IntegerEntry, rng: &mut ChaCha8Rng) -> Trial {
    let output = INTEGER_OUTPUTS[rng.random_range(0..4)];
    match entry {
        IntegerEntry::Product => product(output, rng),
        IntegerEntry::Finish => finish(output, rng),
    }
}

fn product(output: DType, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let mut params = extents(rng);
    let GemmParams { m, n, k, batch, .. } = params;
    let k_major = rng.random_range(0..4_u32);
    let of_a = if k_major & 1 != 0 { [m, k] } else { [k, m] };
    let of_b = if k_major & 2 != 0 { [n, k] } else { [k, n] };
    let mut operand =
        |[rows, columns]: [u32; 2]| matrix(&mut trial, DType::I8, [batch, rows, columns], rng);
    let (a, lda, batch_stride_a) = operand(of_a);
    let (b, ldb, batch_stride_b) = operand(of_b);
    (params.lda, params.batch_stride_a) = (lda, batch_stride_a);
    (params.ldb, params.batch_stride_b) = (ldb, batch_stride_b);
    let mut args = vec![a, b, Arg::params(k_major)];
    args.extend(tail(&mut trial, output, params, rng));
    let config = LaunchConfig {
        grid: INTEGER_TILE.grid(m, n, batch).expect("a small product"),
        block: [INTEGER_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    trial.launch(IntegerEntry::Product, config, args);
    trial
}

fn finish(output: DType, rng: &mut ChaCha8Rng) -> Trial {
    let mut trial = Trial::default();
    let params = extents(rng);
    let results = [params.m, params.n, params.batch].map(u64::from);
    let results = results.iter().product::<u64>();
    let parts = rng.random_range(1..=4_u32);
    let partials = trial.floats(DType::I32, results * u64::from(parts), rng);
    let mut args = vec![partials, Arg::params(parts)];
    args.extend(tail(&mut trial, output, params, rng));
    // Sometimes fewer blocks than needed, so that each block loops.
    let blocks = finish_blocks(results).min([3, u32::MAX][rng.random_range(0..2)]);
    let config = LaunchConfig::linear(blocks, FINISH_THREADS);
    trial.launch(IntegerEntry::Finish, config, args);
    trial
}
