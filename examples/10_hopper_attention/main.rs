//! Attention of your own on Hopper's tensor cores, from TMA loads to stores.
//!
//! The kernel, in a page, is `examples/kernels/src/hopper_attention.rs`. On a machine without a Hopper
//! GPU, the emulator runs it.
//!
//! ```text
//! cargo run --release --example 10_hopper_attention
//! ```

use anyhow::{Result, ensure};
use half::bf16;
use ndarray::{Array3, ArrayView2, Axis, s};
use warpsmith::{
    Device, LaunchConfig, Tensor, TensorMap, TensorMapDesc, TensorMapSwizzle, TensorMapType,
};

/// The kernel's PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_90a/hopper_attention.ptx");
/// What the PTX does not say: that a launch needs so much dynamic shared memory.
const MANIFEST: &str = include_str!("../kernels/ptx/manifest.json");

const HEAD_DIM: usize = 128;
/// Queries of a CTA, and keys of a block, as the kernel has them.
const TILE: usize = 128;

fn main() -> Result<()> {
    let device = match Device::auto()? {
        device if device.arch() == (9, 0) => device,
        _ => Device::emulator()?,
    };
    let stream = device.default_stream();
    // No multiple of a tile: TMA loads zeros beyond the tensors, and stores stop at the edge.
    let (heads, seqlen) = (2, 200);
    let drawn = |factor: usize| {
        Array3::from_shape_fn((heads, seqlen, HEAD_DIM), |(h, i, j)| {
            let hash = (h * 7 + i * factor + j * 13) % 101;
            bf16::from_f32(hash as f32 * 0.02 - 1.0)
        })
    };
    let (q, k, v) = (drawn(37), drawn(41), drawn(53));
    let tensors = [&q, &k, &v].map(|x| Tensor::from_ndarray(&device, x));
    let [q_tensor, k_tensor, v_tensor] = tensors;
    let (q_tensor, k_tensor, v_tensor) = (q_tensor?, k_tensor?, v_tensor?);
    let o = Tensor::<f32>::empty(&stream, &[heads, seqlen, HEAD_DIM])?;

    let maps = (
        map(&device, &q_tensor)?,
        map(&device, &k_tensor)?,
        map(&device, &v_tensor)?,
    );
    let kernel = device
        .load_built(PTX, MANIFEST)?
        .kernel("hopper_attention")?;
    let config = LaunchConfig {
        grid: [seqlen.div_ceil(TILE) as u32, heads as u32, 1],
        ..LaunchConfig::linear(1, 384)
    };
    // Queries, two stages of keys and of values, their barriers, and room to align them.
    let config = config.shared_bytes(1024 + 5 * 2 * 128 * 128 + 3 * 2 * 16);
    let scale = 1.0 / (HEAD_DIM as f32).sqrt();
    let scale_log2 = scale * std::f32::consts::LOG2_E;
    let arguments = (
        &maps.0,
        &maps.1,
        &maps.2,
        &o,
        seqlen as u32,
        scale_log2,
        1_u32,
    );
    // SAFETY: a CTA of 384 threads for each 128 queries of a head. The maps describe q, k and v, which
    // stay allocated until the launch has ended. o is contiguous, and as large as q.
    unsafe { kernel.launch(&stream, config, arguments)? };

    let got = o.to_ndarray()?; // waits
    let mut apart = 0.0_f32;
    for head in 0..heads {
        let of_head = |x: &Array3<bf16>| x.index_axis(Axis(0), head).mapv(f32::from);
        let (q, k, v) = (of_head(&q), of_head(&k), of_head(&v));
        for query in 0..seqlen {
            let seen = s![..=query, ..];
            let want = attention(q.row(query).dot(&k.slice(seen).t()) * scale, v.slice(seen));
            for (column, want) in want.iter().enumerate() {
                apart = apart.max((got[[head, query, column]] - want).abs());
            }
        }
    }
    ensure!(apart < 0.01, "the result is {apart} off");
    println!(
        "{}: causal attention of {seqlen} queries, {apart:.1e} off",
        device.name()
    );
    Ok(())
}

/// The mean of values, weighted by the exponentials of scores.
fn attention(scores: ndarray::Array1<f32>, values: ArrayView2<'_, f32>) -> ndarray::Array1<f32> {
    let weights = scores.mapv(f32::exp);
    weights.dot(&values) / weights.sum()
}

/// A tensor map of a contiguous `[heads, seqlen, 128]`, whose boxes are 64 columns of a tile.
fn map(device: &Device, tensor: &Tensor<bf16>) -> Result<TensorMap> {
    let (heads, seqlen) = (tensor.shape()[0] as u64, tensor.shape()[1] as u64);
    let row_bytes = 2 * HEAD_DIM as u64;
    let dims = [HEAD_DIM as u64, seqlen, heads];
    let strides_bytes = [row_bytes, seqlen * row_bytes];
    let boxes = [64, TILE as u32, 1];
    let desc = TensorMapDesc::new(TensorMapType::Bf16, &dims, &strides_bytes, &boxes);
    let desc = desc.swizzle(TensorMapSwizzle::B128);
    Ok(desc.encode_at(device, tensor.device_ptr().as_raw())?)
}
