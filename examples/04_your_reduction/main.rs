//! A kernel with shared memory and barriers beside the library's operations, on the same data.
//!
//! The kernel is in `examples/kernels/src/row_norms.rs`.
//!
//! ```text
//! cargo run --release --example 04_your_reduction
//! ```

use anyhow::{Result, ensure};
use ndarray::Array2;
use warpsmith::{Device, LaunchConfig, Reduce, ReduceOp, Tensor, Unary, UnaryOp};
use warpsmith_examples::kernels;

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;
    let (rows, columns) = (40, 1000);
    let x = Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 7 + j) % 11) as f32 - 5.0);
    let x = Tensor::from_ndarray(&device, &x)?;

    // With one kernel of our own.
    let mut norms = Tensor::<f32>::empty(&stream, &[rows])?;
    let config = LaunchConfig::linear(rows as u32, 128);
    // SAFETY: one block of 128 threads per row; the tensors are contiguous and have these extents.
    unsafe { kernels::load(&device)?.row_norms(&stream, config, &x, &mut norms, columns)? };

    // With three operations of the library.
    let squares = Unary::new(UnaryOp::Square, &x).run(&stream)?;
    let sums = Reduce::new(ReduceOp::Sum, &squares).axis(1).run(&stream)?;
    let same = Unary::new(UnaryOp::Sqrt, &sums).run(&stream)?;

    let (norms, same) = (norms.to_vec()?, same.to_vec()?);
    ensure!(norms == same, "integers add exactly in any order");
    println!(
        "lengths of {rows} rows on {}: {:?} ..",
        device.name(),
        &norms[..4]
    );
    Ok(())
}
