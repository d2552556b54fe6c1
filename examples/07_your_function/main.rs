//! A function of your own over tensors, as a kernel and as a step of a fused chain, with
//! broadcasting, strides and bf16.
//!
//! The kernel is in `examples/kernels/src/swish_gate.rs`, the step in `soft_clip.rs` beside it.
//!
//! ```text
//! cargo run --release --example 07_your_function
//! ```

use anyhow::{Result, ensure};
use half::bf16;
use ndarray::{Array1, Array2};
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::{BinaryOp, Chain, Device, Map, Tensor};

/// The kernel's PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_75/swish_gate.ptx");
/// The fragment's PTX, built in the same way.
const FRAGMENTS: &str = include_str!("../kernels/ptx/sm_75/soft_clip.ptx");

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;
    let (rows, columns) = (300, 512);
    let value = |i: usize| bf16::from_f32((i * 37 % 101) as f32 * 0.06 - 3.0);
    let x = Array2::from_shape_fn((rows, columns), |(i, j)| value(i * columns + j));
    let gate = Array2::from_shape_fn((columns, rows), |(j, i)| value(j * 7 + i));
    let beta = Array1::from_shape_fn(columns, |j| bf16::from_f32(0.5 + (j % 4) as f32 * 0.25));
    let x_tensor = Tensor::from_ndarray(&device, &x)?;
    let gate_tensor = Tensor::from_ndarray(&device, &gate)?.t(); // a view, no copy
    let beta_tensor = Tensor::from_ndarray(&device, &beta)?; // one for each column

    let kernel = device.load_ptx(PTX)?.kernel("swish_gate")?;
    let map = Map::new(&kernel)
        .input(&x_tensor)
        .input(&beta_tensor)
        .input(&gate_tensor)
        .output::<bf16>();
    // SAFETY: the kernel maps three inputs of bf16 to one output of bf16.
    let y = unsafe { map.run(&stream) }?;

    let y = y.to_ndarray()?;
    for ((i, j), x) in x.indexed_iter() {
        let (x, beta) = (f64::from(*x), f64::from(beta[j]));
        let want = x / (1.0 + (-beta * x).exp()) * f64::from(gate[(j, i)]);
        let got = f64::from(y[[i, j]]);
        // One rounding to bf16, with 8 significant bits; the error of the f32 function is much
        // smaller.
        let bound = want.abs() / 250.0 + 1e-30;
        ensure!(
            (got - want).abs() <= bound,
            "({i}, {j}) is {got}, want {want}"
        );
    }
    in_a_chain(&device, &x_tensor, &beta_tensor)?;
    println!(
        "{} elements of x · sigmoid(beta x) · gate on {device}",
        y.len()
    );
    Ok(())
}

/// `clip(2 x, beta) + 1` with one kernel, which is composed of three functions, one of them ours.
fn in_a_chain(device: &Device, x: &Tensor<bf16>, beta: &Tensor<bf16>) -> Result<()> {
    let (takes, returns) = ([Scalar::F32, Scalar::F32], Scalar::F32);
    // SAFETY: cuda_builder made the text.
    let soft_clip = unsafe { Fragment::from_ptx(FRAGMENTS, "f32_soft_clip", &takes, returns) }?;
    let y = Chain::new(x)
        .scalar(BinaryOp::Mul, 2.0)
        .apply_with(&soft_clip, beta)
        .scalar(BinaryOp::Add, 1.0)
        .output::<f32>()
        .run(&device.stream()?)?;
    let (y, x, beta) = (y.to_ndarray()?, x.to_ndarray()?, beta.to_ndarray()?);
    for (index, got) in y.indexed_iter() {
        let (x, beta) = (f64::from(x[&index]), f64::from(beta[index[1]]));
        let want = beta * (2.0 * x / beta).tanh() + 1.0;
        ensure!(
            (f64::from(*got) - want).abs() <= 1e-6 * (1.0 + beta),
            "{index:?} is {got}, want {want}"
        );
    }
    Ok(())
}
