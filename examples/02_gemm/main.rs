//! A GEMM of the library, checked against its f64 reference.
//!
//! ```text
//! cargo run --release --example 02_gemm
//! ```

use anyhow::Result;
use half::bf16;
use ndarray::Array2;
use warpsmith::{Device, Gemm, Tensor};

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.stream()?;

    // d = a @ b^T in bf16 with f32 accumulation. The transpose is a view: nothing is copied.
    let (m, n, k) = (200, 120, 75);
    let a = Array2::from_shape_fn((m, k), |(i, j)| {
        bf16::from_f32(((i + 2 * j) % 7) as f32 - 3.0)
    });
    let b = Array2::from_shape_fn((n, k), |(i, j)| {
        bf16::from_f32(((3 * i + j) % 5) as f32 - 2.0)
    });
    let a_device = Tensor::from_ndarray(&device, &a)?;
    let b_device = Tensor::from_ndarray(&device, &b)?;
    let d = Gemm::new(&a_device, &b_device.t())
        .output::<f32>()
        .run(&stream)?
        .to_ndarray()?;

    // Small integers: every product and sum is exact, so the result is too.
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from).t());
    let wrong = d
        .iter()
        .zip(&exact)
        .filter(|&(&d, &exact)| f64::from(d) != exact)
        .count();
    println!(
        "{m}x{n}x{k} on {}: {wrong} of {} elements differ",
        device.name(),
        d.len()
    );
    anyhow::ensure!(wrong == 0, "the product of small integers is exact");
    Ok(())
}
