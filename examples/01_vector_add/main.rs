//! Your own kernel, from Rust to the GPU.
//!
//! The kernel is in `examples/kernels/src/vector_add.rs`. This program needs only its PTX, so it
//! builds with stable Rust and runs on any machine:
//!
//! ```text
//! cargo run --release --example 01_vector_add
//! ```

use anyhow::{Result, ensure};
use warpsmith::{Device, DeviceBuffer, LaunchConfig};

/// The kernel's PTX, built by `warpsmith build examples/kernels`.
const PTX: &str = include_str!("../kernels/ptx/sm_75/vector_add.ptx");

fn main() -> Result<()> {
    let device = Device::auto()?; // a GPU where there is one, else the emulator
    let stream = device.stream()?;

    let len = 10_000;
    let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..len).map(|i| 0.5 * i as f32).collect();
    let a_device = DeviceBuffer::from_slice(&device, &a)?;
    let b_device = DeviceBuffer::from_slice(&device, &b)?;
    let mut c_device = DeviceBuffer::<f32>::uninit(&stream, len)?;

    let kernel = device.load_ptx(PTX)?.kernel("vector_add")?;
    let config = LaunchConfig::for_elements(len as u64, 256);
    // The number and sizes of the arguments are checked against the PTX; a mismatch is an error.
    // SAFETY: all three buffers have `len` elements, as the kernel requires.
    unsafe { kernel.launch(&stream, config, (&a_device, &b_device, &mut c_device, len))? };

    let c = c_device.to_vec()?; // waits for the kernel
    for i in 0..len {
        ensure!(
            c[i] == a[i] + b[i],
            "c[{i}] is {}, not {}",
            c[i],
            a[i] + b[i]
        );
    }
    println!("{len} sums are right on {}", device.name());
    Ok(())
}
