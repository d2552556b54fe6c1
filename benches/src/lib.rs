//! What benches and comparisons share: the device, random operands, timing by events, and how
//! results are written.
//!
//! `cargo bench -p warpsmith-benches` measures on the device that `WARPSMITH_BENCH_DEVICE` names
//! (`auto` where it is not set). `cargo run --release -p warpsmith-benches --example compare_gemm`
//! puts GEMM beside the vendor's; [`results`] says what it writes.
#![forbid(unsafe_code)]

pub mod results;
pub mod timing;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use warpsmith::{Device, Float, Result, Tensor};

/// The device that `WARPSMITH_BENCH_DEVICE` names: `gpu`, `gpu:1`, `emulator` or `auto`.
///
/// # Errors
/// As [`Device::from_name`]: an unknown name, no such device.
pub fn bench_device() -> Result<Device> {
    let name = std::env::var("WARPSMITH_BENCH_DEVICE").unwrap_or_else(|_| "auto".to_owned());
    Device::from_name(&name)
}

/// A contiguous tensor of normally distributed values, the same for the same seed.
///
/// # Errors
/// As [`Tensor::from_slice`].
pub fn normal_tensor<T: Float>(device: &Device, shape: &[usize], seed: u64) -> Result<Tensor<T>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<f32> = StandardNormal
        .sample_iter(&mut rng)
        .take(shape.iter().product())
        .collect();
    let stream = device.default_stream();
    let tensor = Tensor::from_slice(device, shape, &values)?.cast(&stream)?;
    stream.synchronize()?;
    Ok(tensor)
}
