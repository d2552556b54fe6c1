//! A tensor-core GEMM of your own on Hopper, from TMA loads to stores.
//!
//! The kernel, in a page, is `examples/kernels/src/hopper_gemm.rs`. On a machine without a Hopper GPU,
//! the emulator runs it.
//!
//! ```text
//! cargo run --release --example 08_hopper_gemm
//! ```

use anyhow::{Result, ensure};
use half::bf16;
use ndarray::Array2;
use warpsmith::{
    Device, LaunchConfig, Tensor, TensorMap, TensorMapDesc, TensorMapSwizzle, TensorMapType,
};

/// The kernel's PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_90a/hopper_gemm.ptx");
/// What the PTX does not say: that a launch needs so much dynamic shared memory.
const MANIFEST: &str = include_str!("../kernels/ptx/manifest.json");

/// Rows and columns of a tile of D, and elements of k in a stage, as the kernel has them.
const TILE: usize = 128;
const TILE_K: u32 = 64;

fn main() -> Result<()> {
    let device = match Device::auto()? {
        device if device.arch() == (9, 0) => device,
        _ => Device::emulator()?,
    };
    let stream = device.default_stream();
    // No multiples of a tile: TMA loads zeros beyond the tensors, and stores stop at D's edge.
    let (m, n, k) = (200, 264, 328);
    // Small integers, whose sums are exact.
    let a = Array2::from_shape_fn((m, k), |(i, j)| small(i * 7 + j, 5));
    let b = Array2::from_shape_fn((n, k), |(i, j)| small(i * 3 + j, 7));
    let a_tensor = Tensor::from_ndarray(&device, &a)?;
    let b_tensor = Tensor::from_ndarray(&device, &b)?;
    let d = Tensor::<f32>::empty(&stream, &[m, n])?;

    let (map_a, map_b) = (map(&device, &a_tensor)?, map(&device, &b_tensor)?);
    let kernel = device.load_built(PTX, MANIFEST)?.kernel("hopper_gemm")?;
    let config = LaunchConfig {
        grid: [n.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32, 1],
        ..LaunchConfig::linear(1, 384)
    };
    // Four stages of A and B in bf16, 16 bytes of barriers each, and room to align them.
    let config = config.shared_bytes(1024 + 4 * (2 * 128 * 128 + 16));
    let extents = [m, n, k].map(|extent| extent as u32);
    let arguments = (&map_a, &map_b, &d, extents[0], extents[1], extents[2]);
    // SAFETY: a CTA of 384 threads for each tile of D. The maps describe A and B, which stay
    // allocated until the launch has ended. d is contiguous and has m × n elements. K > 0.
    unsafe { kernel.launch(&stream, config, arguments)? };

    let got = d.to_ndarray()?; // waits
    let want = a.mapv(f32::from).dot(&b.mapv(f32::from).t());
    for ((row, column), &want) in want.indexed_iter() {
        let got = got[[row, column]];
        ensure!(got == want, "({row}, {column}) is {got}, want {want}");
    }
    println!("{}: a {m} x {n} x {k} GEMM, exact", device.name());
    Ok(())
}

/// An integer around 0, of `count`.
fn small(i: usize, count: usize) -> bf16 {
    bf16::from_f32((i % count) as f32 - (count / 2) as f32)
}

/// A tensor map of a contiguous `[rows, k]`, whose boxes are a stage's tile.
fn map(device: &Device, tensor: &Tensor<bf16>) -> Result<TensorMap> {
    let (rows, k) = (tensor.shape()[0] as u64, tensor.shape()[1] as u64);
    let boxes = [TILE_K, TILE as u32];
    let desc = TensorMapDesc::new(TensorMapType::Bf16, &[k, rows], &[2 * k], &boxes);
    let desc = desc.swizzle(TensorMapSwizzle::B128);
    Ok(desc.encode_at(device, tensor.device_ptr().as_raw())?)
}
