//! The Hopper GEMM with an epilogue of your own, launched by hand: tensor maps, grid, parameters.
//!
//! The kernel is in `examples/kernels/src/lower_triangle.rs`. On a machine without a Hopper GPU,
//! the emulator runs it.
//!
//! ```text
//! cargo run --release --example 06_your_epilogue
//! ```

use abi::gemm::GemmParams;
use abi::gemm::sm90::{STORE_ROWS, Sm90Launch, THREADS, TILE_128X128};
use anyhow::{Context, Result, ensure};
use half::bf16;
use ndarray::Array2;
use warpsmith::{
    ByValue, Device, LaunchConfig, Tensor, TensorMap, TensorMapDesc, TensorMapSwizzle,
    TensorMapType,
};

/// The kernel's PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_90a/lower_triangle.ptx");

fn main() -> Result<()> {
    let device = match Device::auto()? {
        device if device.arch() == (9, 0) => device,
        _ => Device::emulator()?,
    };
    let stream = device.stream()?;
    let (m, n, k) = (200, 264, 136);
    let a = Array2::from_shape_fn((m, k), |(i, j)| {
        bf16::from_f32(((i * 7 + j) % 5) as f32 - 2.0)
    });
    let b = Array2::from_shape_fn((n, k), |(i, j)| {
        bf16::from_f32(((i * 3 + j) % 7) as f32 - 3.0)
    });
    let (a_tensor, b_tensor) = (
        Tensor::from_ndarray(&device, &a)?,
        Tensor::from_ndarray(&device, &b)?,
    );
    let d = Tensor::<bf16>::empty(&stream, &[m, n])?;

    let tile = TILE_128X128;
    let map_a = map(&device, &a_tensor, [k, m], tile.tile_m)?;
    let map_b = map(&device, &b_tensor, [k, n], tile.tile_n)?;
    let map_d = map(&device, &d, [n, m], STORE_ROWS)?;
    let [m32, n32, k32] = [m, n, k].map(|extent| extent as u32);
    let params = GemmParams {
        m: m32,
        n: n32,
        k: k32,
        batch: 1,
        lda: k as i64,
        ldb: k as i64,
        ldc: n as i64,
        ldd: n as i64,
        batch_stride_a: 0,
        batch_stride_b: 0,
        batch_stride_c: 0,
        batch_stride_d: 0,
        alpha: 1.0,
        beta: 0.0,
    };
    let launch = Sm90Launch::whole(tile.order(m32, n32, 1, 8));
    let blocks = tile.grid(m32, n32, 1, device.info().multiprocessors);
    let config = LaunchConfig {
        grid: [blocks.context("there are tiles")?, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    };
    let kernel = device.load_ptx(PTX)?.kernel("lower_triangle")?;
    let (params, launch) = (ByValue::of(&params), ByValue::of(&launch));
    let arguments = (&map_a, &map_b, &map_d, params, launch);
    // SAFETY: the maps describe contiguous tensors with these extents, which stay allocated until
    // the launch has ended; grid, block and shared memory are those of the tile.
    unsafe { kernel.launch(&stream, config, arguments)? };
    stream.synchronize()?;

    let got = d.to_ndarray()?;
    let want = a.mapv(f32::from).dot(&b.mapv(f32::from).t());
    for ((row, column), &product) in want.indexed_iter() {
        let want = if column > row { 0.0 } else { product };
        let got = got[[row, column]];
        ensure!(
            got == bf16::from_f32(want),
            "({row}, {column}) is {got}, want {want}"
        );
    }
    println!(
        "{}: the lower triangle of a {m} x {n} product, exact",
        device.name()
    );
    Ok(())
}

/// A tensor map of `[rows, columns]`, with boxes of one swizzle span by `box_rows`.
fn map(
    device: &Device,
    tensor: &Tensor<bf16>,
    [columns, rows]: [usize; 2],
    box_rows: u32,
) -> Result<TensorMap> {
    let (columns, rows) = (columns as u64, rows as u64);
    let strides_bytes = [2 * columns, 2 * columns * rows];
    let desc = TensorMapDesc::new(
        TensorMapType::Bf16,
        &[columns, rows, 1],
        &strides_bytes,
        &[64, box_rows, 1],
    );
    let desc = desc.swizzle(TensorMapSwizzle::B128);
    Ok(desc.encode_at(device, tensor.device_ptr().as_raw())?)
}
